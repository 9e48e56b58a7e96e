"""Stage quotes: the table and its rejects, against rows written by hand and against the reader without Spark."""

import gzip
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.pipeline import Session, quote_parts, quote_remote, stage_quotes
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.pipeline.whole import STAGES
from octopia.workload import QUOTES_SCHEMA, REJECTS_SCHEMA, read_quotes, synthetic_quotes

DATA = Path(__file__).parents[3] / "shared" / "data"

GOOD = """date,open,high,low,close,volume,Name
2004-12-21,2.60,2.70,2.53,2.60,458500,AAII
2004-12-20,2.75,2.78,2.60,2.66,419100,AAII

2004-12-20,10,12,9,11,100,ZZ
2004-12-20,10,8,9,11,100,BAD
2004-12-20,1,2,1,1
"""
# Another order of columns, another form of dates, another delimiter, a quoted field.
OTHER = """Symbol;Close;Date;Volume;Open;Low;High
IBM;5;21-12-2004;7;4;3;6
IBM;6;07-12-2004;7;"5";3;6
IBM;6;32-12-2004;7;5;3;6
AAII;1;20-12-2004;1;1;1;1
"""
QUOTES = [
    (date(2004, 12, 20), "AAII", 2.75, 2.78, 2.6, 2.66, 419100),
    (date(2004, 12, 21), "AAII", 2.6, 2.7, 2.53, 2.6, 458500),
    (date(2004, 12, 7), "IBM", 5.0, 6.0, 3.0, 6.0, 7),
    (date(2004, 12, 21), "IBM", 4.0, 6.0, 3.0, 5.0, 7),
    (date(2004, 12, 20), "ZZ", 10.0, 12.0, 9.0, 11.0, 100),
]


def run(session: Session, out: Path, **quotes: Any) -> Event:
    spec = PipelineSpec(quotes=QuotesSpec(**quotes))
    return Runner(LocalStore(out), spec, lambda: session, STAGES).run(["quotes"])[-1]


def table(out: Path, name: str) -> pa.Table:
    return pq.read_table(out / name)


def tuples(found: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.to_pylist()]


def rejects_of(out: Path) -> list[tuple[str, int, str]]:
    return [(Path(file).name, line, reason) for file, line, reason, _ in tuples(table(out, "rejects"))]


def inputs_of(out: Path) -> list[tuple[Any, ...]]:
    return [(Path(row[0]).name, *row[2:]) for row in tuples(table(out, "inputs"))]


def write(folder: Path) -> Path:
    """Files as users have them: plain, gzip, and in a folder of their own."""
    (folder / "inner").mkdir(parents=True)
    (folder / "a.csv").write_text(GOOD)
    (folder / "inner" / "b.csv.gz").write_bytes(gzip.compress(OTHER.encode()))
    return folder


def test_files_of_users_become_typed_quotes_and_rejects_with_their_place(session: Session, tmp_path: Path) -> None:
    done = run(session, tmp_path / "out", paths=(str(write(tmp_path / "in")),))
    assert tuples(table(tmp_path / "out", "quotes")) == QUOTES
    assert table(tmp_path / "out", "quotes").schema.types == QUOTES_SCHEMA.types
    assert rejects_of(tmp_path / "out") == [
        ("a.csv", 6, "high is below low"),
        ("a.csv", 7, "wrong number of fields"),
        ("b.csv.gz", 4, "date cannot be read in the order dmy"),
        ("b.csv.gz", 5, "another row has the same symbol and date"),
    ]
    assert done.rows == {"quotes": 5, "rejects": 4, "inputs": 2}
    assert inputs_of(tmp_path / "out") == [
        ("a.csv", "read", None, 5, 3, 2),
        ("b.csv.gz", "read", None, 4, 2, 2),
    ]
    assert table(tmp_path / "out", "inputs")["bytes"].to_pylist() == [
        len(GOOD),
        (tmp_path / "in" / "inner" / "b.csv.gz").stat().st_size,
    ]
    (note,) = done.notes
    assert note == (
        f"4 of 9 rows are not valid quotes; the first is {tmp_path}/in/a.csv, line 6: high is below low (most often: "
        "another row has the same symbol and date 1, date cannot be read in the order dmy 1, high is below low 1); "
        "see the table rejects"
    )


def test_strict_makes_bad_rows_an_error_and_leaves_no_table(session: Session, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"4 of 9 rows are not valid quotes; the first is .*a.csv, line 6"):
        run(session, tmp_path / "out", paths=(str(write(tmp_path / "in")),), strict=True)
    assert not (tmp_path / "out" / "quotes").exists()
    (tmp_path / "good.csv").write_text(GOOD.rsplit("\n", 3)[0])
    assert run(session, tmp_path / "out", paths=(str(tmp_path / "good.csv"),), strict=True).rows == {
        "quotes": 3,
        "rejects": 0,
        "inputs": 1,
    }


def same_as_without_spark(session: Session, tmp_path: Path, paths: tuple[str, ...]) -> None:
    run(session, tmp_path / "out", paths=paths)
    quotes, rejects = read_quotes(paths)
    assert table(tmp_path / "out", "quotes").cast(QUOTES_SCHEMA).equals(quotes)
    assert table(tmp_path / "out", "rejects").cast(REJECTS_SCHEMA).equals(rejects)


def large(days: int, symbols: int) -> str:
    """Some bad rows, some blank lines, days and months in doubt until the very last line."""
    lines = ["Date,Open,High,Low,Close,Volume,Ticker"]
    for day in range(1, days + 1):
        for number in range(symbols):
            low, bad = 5 + number, number == day
            lines.append(f"{day:02}-05-2010,{low},{low + 2},{low},{low + 1},{'x' if bad else day},S{number:02}")
            lines += [""] * (number == 7)
    return "\n".join([*lines, "31-05-2010,1,1,1,1,1,SLAST"])


def test_a_large_file_cut_into_parts_gives_the_same_rows_and_lines(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.csv").write_bytes(("\ufeff\n" + large(12, 40)).replace("\n", "\r\n").encode())
    monkeypatch.setattr(stage_quotes, "cut_file", lambda file: quote_parts.cut_file(file, 1000))
    monkeypatch.setattr(stage_quotes, "in_tasks", lambda parts: quote_parts.in_tasks(parts, 1500))
    assert len(quote_parts.cut_file(str(tmp_path / "large.csv"), 1000)) == 15
    same_as_without_spark(session, tmp_path, (str(tmp_path / "large.csv"),))
    found = table(tmp_path / "out", "quotes")
    assert (found.num_rows, table(tmp_path / "out", "rejects").num_rows) == (12 * 40 + 1 - 12, 12)
    assert found["date"].to_pylist()[-1] == date(2010, 5, 31)


def test_parquet_and_repeats_over_several_files(session: Session, tmp_path: Path) -> None:
    """The same rows four times over, in Parquet and CSV: each once in quotes, three times in rejects."""
    made = synthetic_quotes(3, 5, 40)
    (tmp_path / "in").mkdir()
    pq.write_table(made, tmp_path / "in" / "one.parquet")
    pq.write_table(
        made.select(["symbol", "close", "open", "date", "volume", "low", "high"]), tmp_path / "in" / "two.parquet"
    )
    made.to_pandas().to_csv(tmp_path / "in" / "three.csv", index=False)
    made.to_pandas().to_csv(tmp_path / "in" / "four.csv.gz", index=False)
    session.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    session.spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        same_as_without_spark(session, tmp_path, (str(tmp_path / "in"),))
    finally:
        session.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    assert table(tmp_path / "out", "quotes").num_rows == 200
    assert {Path(file).name for file, *_ in tuples(table(tmp_path / "out", "rejects"))} == {
        "one.parquet",
        "three.csv",
        "two.parquet",
    }


def test_many_small_files_are_few_tasks(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"S{number}.csv").write_text("date,open,high,low,close,volume\n2004-12-20,1,1,1,1,1\n")
    parts = [part for file in sorted(tmp_path.iterdir()) for part in quote_parts.cut_file(str(file))]
    tasks = quote_parts.in_tasks(parts)
    assert [len(task) for task in tasks] == [256, 256, 88]
    assert [part for task in tasks for part in task] == parts


def by_address(patch: pytest.MonkeyPatch, part_bytes: int | None = None) -> None:
    """Hadoop's own name for the local file system is an address, not a path."""
    patch.setattr(stage_quotes, "_sorted_paths", lambda paths: ([], [f"file:{path}" for path in paths]))
    if part_bytes is not None:
        patch.setattr(stage_quotes, "read_remote", partial(quote_remote.read_remote, part_bytes=part_bytes))


def test_files_at_an_address_are_fetched_by_spark(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in")
    (tmp_path / "in" / "old.zip").write_bytes(b"PK")
    (tmp_path / "in" / "odd [1] %20.csv").write_text("a,b\n1,2\n")
    by_address(monkeypatch)
    done = run(session, tmp_path / "out", paths=(str(tmp_path / "in"),))
    assert tuples(table(tmp_path / "out", "quotes")) == QUOTES
    assert [(line, reason) for _, line, reason in rejects_of(tmp_path / "out")] == [
        (6, "high is below low"),
        (7, "wrong number of fields"),
        (4, "date cannot be read in the order dmy"),
        (5, "another row has the same symbol and date"),
    ]
    assert [row[:2] for row in inputs_of(tmp_path / "out")] == [
        ("a.csv", "read"),
        ("b.csv.gz", "read"),
        ("odd [1] %20.csv", "rejected"),
        ("old.zip", "skipped"),
    ]
    assert [note.partition(":")[0] for note in done.notes[:2]] == [
        "1 of 4 files were skipped",
        "1 of 4 files could not be read",
    ]
    monkeypatch.setattr(stage_quotes, "_sorted_paths", lambda paths: ([], [f"file:{path}/a.csv" for path in paths]))
    assert run(session, tmp_path / "one", paths=(str(tmp_path / "in"),)).rows["quotes"] == 3


def test_large_files_at_an_address_are_read_in_splits(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain text in many splits, gzip in one, blank lines and odd line ends: rows and line numbers of one reading."""
    folder = tmp_path / "in"
    folder.mkdir()
    body = large(12, 40)
    (folder / "large one.csv").write_bytes(b"\xef\xbb\xbf\n\n" + body.encode())
    (folder / "dos.csv").write_bytes(body.replace(",S", ",D").replace("\n", "\r\n").encode())
    (folder / "packed.csv.gz").write_bytes(gzip.compress(body.replace(",S", ",P").encode()))
    quotes, rejects = read_quotes(folder)
    by_address(monkeypatch, 100)
    monkeypatch.setattr(quote_remote, "BLOCK_BYTES", 300)
    for name, value in (("maxPartitionBytes", "1500"), ("openCostInBytes", "1")):
        session.spark.conf.set(f"spark.sql.files.{name}", value)
    try:
        splits = quote_remote._lines(session.spark, [f"file:{folder}/dos.csv"]).select("start").distinct().count()
        run(session, tmp_path / "out", paths=(str(folder),))
    finally:
        for name in ("maxPartitionBytes", "openCostInBytes"):
            session.spark.conf.unset(f"spark.sql.files.{name}")
    assert splits > 5
    assert table(tmp_path / "out", "quotes").cast(QUOTES_SCHEMA).equals(quotes)
    found = [(file.removeprefix("file:"), *rest) for file, *rest in tuples(table(tmp_path / "out", "rejects"))]
    assert found == tuples(rejects)
    assert len(found) == 3 * 12


def test_a_file_that_is_not_quotes_stops_nothing_unless_strict(session: Session, tmp_path: Path) -> None:
    """Everything that a user's folder may hold beside quotes: each named once, with the fix."""
    folder = tmp_path / "in"
    (folder / "_temporary").mkdir(parents=True)
    header = "date,open,high,low,close,volume,symbol\n"
    packed = gzip.compress((header + "2004-12-20,1,1,1,1,1,A\n").encode() * 100)
    contents: dict[str, bytes | str] = {
        "a.csv": GOOD,
        "empty.csv": "",
        "header.csv": header,
        "twice.csv": header.replace("symbol", "symbol,Close") + "2004-12-20,1,1,1,1,1,A,2\n",
        "names.csv": "a,b\n1,2\n",
        "dates.csv": header + "01-02-2018,1,1,1,1,1,A\n",
        "cut.csv.gz": packed[:-20],
        "wide.csv": (header + "2004-12-20,1,1,1,1,1,A\n").encode("utf-16"),
        "no.parquet": b"PAR1 and nothing else",
        "readme.txt": "These are quotes of the exchange.\n",
        "old.zip": b"PK\x03\x04",
        "old.csv.bz2": b"BZh9",
        "ticks.jsonl": "{}\n",
        "notes.md": "#",
        ".hidden.csv": GOOD,
        "_temporary/part.csv": GOOD,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(session, tmp_path / "out", paths=(str(folder),))
    hidden = "hidden: its name, or a folder's, begins with . or _"
    found = inputs_of(tmp_path / "out")
    assert [(name, state, reason) for name, state, reason, *_ in found] == [
        (".hidden.csv", "skipped", hidden),
        ("part.csv", "skipped", hidden),
        ("a.csv", "read", None),
        ("cut.csv.gz", "rejected", ("the gzip file is damaged or cut short (Compressed file ended before the "
         "end-of-stream marker was reached)")),
        ("dates.csv", "rejected", ("dates such as 01-02-2018 may be day-month-year or month-day-year, and no date of "
         "the file tells which; say date_order='dmy' or date_order='mdy'")),
        ("empty.csv", "empty", "the file is empty"),
        ("header.csv", "empty", "no rows below the line that names the columns"),
        ("names.csv", "rejected", ("no column for date, open, high, low, close, volume among: a, b; the first line "
         "must name the columns")),
        ("no.parquet", "rejected", found[8][2]),
        ("notes.md", "skipped", "not CSV or Parquet by its name (.md)"),
        ("old.csv.bz2", "skipped", ".bz2 files are not read: unpack it"),
        ("old.zip", "skipped", ".zip files are not read: unpack it"),
        ("readme.txt", "skipped", "its first line names no columns of quotes"),
        ("ticks.jsonl", "skipped", "JSON is not read: convert it to CSV or Parquet"),
        ("twice.csv", "rejected", ("2 columns are named close (columns 5, 8): rename or remove all but the one "
         "that holds the close")),
        ("wide.csv", "rejected", "the file is UTF-16; save it as UTF-8"),
    ]  # fmt: skip
    assert found[8][2].startswith("the Parquet file cannot be read")
    # of a file that breaks off, no row is used
    assert {row[1] for row in tuples(table(tmp_path / "out", "quotes"))} == {"AAII", "ZZ"}
    assert rejects_of(tmp_path / "out") == [
        ("a.csv", 6, "high is below low"),
        ("a.csv", 7, "wrong number of fields"),
        ("empty.csv", 1, "the file is empty"),
    ]
    assert [note.partition(":")[0] for note in done.notes] == [
        "7 of 16 files were skipped",
        "6 of 16 files could not be read",
        "2 of 16 files hold no rows",
        f"3 of 6 rows are not valid quotes; the first is {folder}/a.csv, line 6",
    ]
    with pytest.raises(
        InputError, match=r"cut.csv.gz: the gzip file is damaged .* \(and 5 more files cannot be read\)"
    ):
        run(session, tmp_path / "strict", paths=(str(folder),), strict=True)


def test_a_large_file_that_cannot_be_used_does_not_stop_the_others(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the first pass, over its parts, here and at an address."""
    header = "date,open,high,low,close,volume,symbol\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(GOOD)
    (tmp_path / "in" / "dates.csv").write_text(header + "01-02-2018,1,1,1,1,1,A\n" * 100)
    (tmp_path / "in" / "names.csv").write_text("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr(stage_quotes, "cut_file", lambda file: quote_parts.cut_file(file, 500))
    for place in ("here", "address"):
        if place == "address":
            by_address(monkeypatch, 500)
        run(session, tmp_path / place, paths=(str(tmp_path / "in"),))
        assert [(name, state, (reason or "")[:14]) for name, state, reason, *_ in inputs_of(tmp_path / place)] == [
            ("a.csv", "read", ""),
            ("dates.csv", "rejected", "dates such as "),
            ("names.csv", "rejected", "no column for "),
        ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b\n1,2\n", "no column for date, open, high, low, close, volume among: a, b"),
        ("date,open,high,low,close,volume,symbol\n01-02-2018,1,1,1,1,1,A\n", "may be day-month-year or month-day-year"),
        ("", "the file is empty; there are no quotes to work with"),
        ("date,open,high,low,close,volume,symbol\n", "no rows below the line that names the columns"),
        ("PK\x03\x04", "zip archives are not read; unpack it"),
        ("BZh9", "bzip2 files are not read; unpack it"),
        ('{"date": 1}\n', "JSON is not read; convert it to CSV or Parquet"),
    ],
)
def test_files_that_cannot_be_used_are_told_with_their_name(
    session: Session, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "odd.csv").write_text(content)
    with pytest.raises(InputError, match=f"^{tmp_path}/odd.csv: .*{problem}"):
        run(session, tmp_path / "out", paths=(str(tmp_path / "odd.csv"),))


def test_an_order_of_days_and_months_can_be_given(session: Session, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("date,open,high,low,close,volume,symbol\n01-02-2018,1,1,1,1,1,A\n")
    run(session, tmp_path / "out", paths=(str(tmp_path / "odd.csv"),), date_order="mdy")
    assert table(tmp_path / "out", "quotes")["date"].to_pylist() == [date(2018, 1, 2)]
    with pytest.raises(InputError, match=r"date_order is 'dym': give dmy or mdy \(did you mean mdy"):
        QuotesSpec(date_order="dym")  # type: ignore[arg-type]


def test_missing_files_are_told_before_a_session_is_needed(tmp_path: Path) -> None:
    def no_session() -> Session:
        raise AssertionError("no session is needed to see that a file is not there")

    spec = PipelineSpec(quotes=QuotesSpec(paths=(str(tmp_path / "no.csv"),)))
    with pytest.raises(InputError, match=r"no.csv: there is no such file or folder"):
        Runner(LocalStore(tmp_path / "out"), spec, no_session, STAGES).run(["quotes"])


@pytest.mark.parametrize("at_once", [50, 170, 10**6])
def test_made_quotes_do_not_depend_on_how_the_work_is_divided(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(stage_quotes, "MADE_ROWS", at_once)
    assert run(session, tmp_path, seed=5, symbols=7, days=50).rows == {
        "quotes": 350,
        "rejects": 0,
        "inputs": 0,
    }
    assert table(tmp_path, "quotes").cast(QUOTES_SCHEMA).equals(synthetic_quotes(5, 7, 50))
    assert table(tmp_path, "rejects").schema.names == REJECTS_SCHEMA.names


@pytest.mark.parametrize("wrong", [{"symbols": 0}, {"symbols": 10**9}, {"days": 0}, {"days": 10**7}])
def test_impossible_numbers_of_made_quotes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        QuotesSpec(**wrong)  # type: ignore[arg-type]


def test_changed_files_run_the_stage_again(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(GOOD)
    paths = (str(file),)
    assert run(session, tmp_path / "out", paths=paths).state == "finished"
    assert run(session, tmp_path / "out", paths=paths).state == "skipped"
    file.write_text(GOOD + "2004-12-20,10,12,9,11,100,NEW\n")
    assert run(session, tmp_path / "out", paths=paths).because == "parameters changed: bytes, fingerprint"
    assert table(tmp_path / "out", "quotes").num_rows == 4


@pytest.mark.skipif(not DATA.is_dir(), reason="the real quotes are not here")
def test_the_real_quotes(session: Session, tmp_path: Path) -> None:
    files = tuple(sorted(str(file) for file in DATA.glob("*.csv.gz")))
    same_as_without_spark(session, tmp_path, files)
    assert table(tmp_path / "out", "quotes").num_rows + table(tmp_path / "out", "rejects").num_rows == 245_190 + 13_130
