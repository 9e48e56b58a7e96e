"""Quote files as people have them: real ones, and hand-made ones that are wrong in every way that came to mind."""

import gzip
import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.workload import (
    QUOTES_SCHEMA,
    REJECTS_SCHEMA,
    clean_file,
    quote_files,
    raw_batches,
    raw_csv,
    read_quotes,
    synthetic_quotes,
)
from tests.workload.places import PADRES, SP500

HEADER = "date,open,high,low,close,volume,Name"
GOOD = "2018-02-07,50.91,51.98,50.89,51.4,4845831,AAL"
AAL = (date(2018, 2, 7), "AAL", 50.91, 51.98, 50.89, 51.4, 4845831)


def written(folder: Path, *lines: str, name: str = "quotes.csv", end: str = "\n") -> Path:
    path = folder / name
    path.write_bytes((end.join(lines) + end).encode() if lines else b"")
    return path


def quotes_in(paths: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in read_quotes(paths, **options).quotes.to_pylist()]


def reasons_in(paths: Any, **options: Any) -> list[tuple[int, str]]:
    return [(row["line"], row["reason"]) for row in read_quotes(paths, **options).rejects.to_pylist()]


@pytest.mark.skipif(not PADRES.exists(), reason="the real quotes are not there")
def test_the_quotes_of_padres() -> None:
    quotes, rejects = read_quotes(PADRES)
    assert quotes.num_rows == 245_189
    assert quotes.schema.equals(QUOTES_SCHEMA)
    # one row opens a thousand times too high
    assert rejects.to_pylist() == [
        {
            "file": str(PADRES),
            "line": 35_100,
            "reason": "open is outside low to high",
            "text": "2000-03-16,31007.00,9.38,9.38,9.38,900,ATCO",
        }
    ]
    with gzip.open(PADRES, "rt") as stream:
        lines = [line.strip().split(",") for line in stream][1:]
    del lines[35_100 - 2]
    expected = sorted((name, date.fromisoformat(day), *map(float, rest), int(vol)) for day, *rest, vol, name in lines)
    columns = [quotes[name].to_pylist() for name in ("symbol", "date", "open", "high", "low", "close", "volume")]
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.skipif(not SP500.exists(), reason="the real quotes are not there")
def test_the_quotes_of_the_sp500() -> None:
    quotes, rejects = read_quotes(SP500, strict=True)
    assert rejects.num_rows == 0
    with gzip.open(SP500, "rt") as stream:
        lines = [line.strip().split(",") for line in stream][1:]
    days = [date(int(day[6:]), int(day[3:5]), int(day[:2])) for day, *_ in lines]
    assert len(set(days)) == 26
    expected = sorted((row[6], day, *map(float, row[1:5]), int(row[5])) for day, row in zip(days, lines, strict=True))
    columns = [quotes[name].to_pylist() for name in ("symbol", "date", "open", "high", "low", "close", "volume")]
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.skipif(not SP500.exists(), reason="the real quotes are not there")
def test_both_at_once_with_an_order_of_dates_each() -> None:
    assert read_quotes([PADRES, SP500]).quotes.num_rows == 245_189 + 13_130


# ---- the same row in many forms


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (HEADER, GOOD),
        ("Name,Volume,CLOSE,Low,High,Open,Date", "AAL,4845831,51.4,50.89,51.98,50.91,2018-02-07"),
        (
            "Date,Open,High,Low,Close,Adj Close,Volume,Symbol",
            "2018-02-07,50.91,51.98,50.89,51.4,49.1,4845831,AAL",
        ),
        (
            "symbol;name;date;open;high;low;close;volume",
            "AAL;American; 2018-02-07;50.91;51.98;50.89;51.4;4845831",
        ),
        (
            "<TICKER>\t<DATE>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<VOL>",
            "AAL\t20180207\t50.91\t51.98\t50.89\t51.4\t4845831",
        ),
        ('timestamp,"1. open",2. high,3. low,4. close,5. volume,ticker', f"2018-02-07T16:00:00Z{GOOD[10:]}"),
        (HEADER, '"2018-02-07","50.91","51.98","50.89","51.4","4845831","AAL"'),
        (HEADER, "2018-02-07,$50.91,$51.98,$50.89,$51.4,4845831,AAL"),
        (HEADER, " 2018-02-07 , 50.91,51.98 ,5.089e1,51.40,4845831.0, AAL "),
        (HEADER, f"07-Feb-18{GOOD[10:]}"),
        (HEADER, f"7 February 2018{GOOD[10:]}"),
        (HEADER, f'"Feb 7, 2018"{GOOD[10:]}'),
        (HEADER, f"2018/2/7{GOOD[10:]}"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_row_in_many_forms(tmp_path: Path, header: str, row: str, end: str, mark: str) -> None:
    assert quotes_in(written(tmp_path, mark + header, row, end=end), strict=True) == [AAL]


def test_no_newline_at_the_end_and_blank_lines_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text(f"\n\n{HEADER}\n\n{GOOD}\n   \n2018-02-08{GOOD[10:]}")
    assert [row[0] for row in quotes_in(path, strict=True)] == [date(2018, 2, 7), date(2018, 2, 8)]
    path.write_text(f"\n\n{HEADER}\n\n{GOOD}\n\nbad")
    assert reasons_in(path) == [(7, "wrong number of fields")]


def test_gzip_whatever_the_name_says(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode()))
    assert quotes_in(path) == [AAL]


def test_a_file_of_one_symbol_is_named_after_it(tmp_path: Path) -> None:
    header, row = HEADER.rpartition(",")[0], GOOD.rpartition(",")[0]
    written(tmp_path, header, row, name="AAL.csv")
    written(tmp_path, header, row, name="brk.b.csv")
    assert [row[1] for row in quotes_in(tmp_path)] == ["AAL", "BRK.B"]
    with pytest.raises(InputError, match=r"quotes of may\.csv: no column for symbol"):
        read_quotes(written(tmp_path, header, row, name="quotes of may.csv"))


def test_symbols_that_look_like_missing_values(tmp_path: Path) -> None:
    rows = [f"{GOOD[:-3]}{name}" for name in ("NA", "NAN", "NULL", "TRUE", "-")]
    assert [row[1] for row in quotes_in(written(tmp_path, HEADER, *rows))] == ["-", "NA", "NAN", "NULL", "TRUE"]


# ---- dates


def dated(folder: Path, *days: str) -> Path:
    return written(folder, HEADER, *(f"{day}{GOOD[10:]}" for day in days))


def test_the_order_of_days_and_months_is_proved_by_the_file(tmp_path: Path) -> None:
    assert [row[0] for row in quotes_in(dated(tmp_path, "03-02-2018", "13-02-2018"))] == [
        date(2018, 2, 3),
        date(2018, 2, 13),
    ]
    assert [row[0] for row in quotes_in(dated(tmp_path, "02/03/2018", "2/13/2018"))] == [
        date(2018, 2, 3),
        date(2018, 2, 13),
    ]
    assert [row[0] for row in quotes_in(dated(tmp_path, "03.02.2018", "28.2.2018 00:00"))] == [
        date(2018, 2, 3),
        date(2018, 2, 28),
    ]


def test_a_file_that_proves_nothing_is_not_guessed_at(tmp_path: Path) -> None:
    path = dated(tmp_path, "03-02-2018", "04-02-2018")
    with pytest.raises(InputError, match=r"quotes\.csv: dates such as 03-02-2018 may be .* say date_order='dmy'"):
        read_quotes(path)
    assert [row[0] for row in quotes_in(path, date_order="dmy")] == [date(2018, 2, 3), date(2018, 2, 4)]
    assert [row[0] for row in quotes_in(path, date_order="mdy")] == [date(2018, 3, 2), date(2018, 4, 2)]
    # the same in both orders
    assert [row[0] for row in quotes_in(dated(tmp_path, "02-02-2018"))] == [date(2018, 2, 2)]


def test_a_file_that_proves_both_is_refused_but_for_a_slip(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 dates can only be day-month-year and 1 only month-day-year"):
        read_quotes(dated(tmp_path, "13-02-2018", "02-13-2018"))
    days = [f"{day:02}-03-2018" for day in range(1, 32)]
    many = [f"{GOOD.replace('2018-02-07', day)}{n}" for n in range(3) for day in days]
    path = written(tmp_path, HEADER, *many, f"03-31-2018{GOOD[10:]}")
    assert len(quotes_in(path)) == 93
    assert reasons_in(path) == [(95, "date cannot be read in the order dmy")]


@pytest.mark.parametrize(
    "day",
    ["2018-02-30", "2018-13-01", "31-02-2018", "07/02-2018", "07-02-18", "18-02-07", "2018-2", "201827", "yesterday",
     "07-Foo-18", "0000-01-01", "9" * 60, "12:00", "2018-02-07x", "20180207 x", "٢٠١٨-٠٢-٠٧"],
)  # fmt: skip
def test_what_is_no_date(tmp_path: Path, day: str) -> None:
    assert [reason[:19] for _, reason in reasons_in(dated(tmp_path, day, "2018-02-07"))] == ["date cannot be read"]


def test_years_of_two_digits_beside_letters(tmp_path: Path) -> None:
    assert [row[0].year for row in quotes_in(dated(tmp_path, "07-Feb-69", "07-Feb-99", "07-Feb-00", "07-Feb-68"))] == [
        1969, 1999, 2000, 2068,
    ]  # fmt: skip


# ---- bad rows


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2018-02-07,50.91,51.98,50.89,51.4,4845831", "wrong number of fields"),
        (GOOD + ",1", "wrong number of fields"),
        ("garbage", "wrong number of fields"),
        (",,,,,,", "date is missing"),
        (GOOD.replace("2018-02-07", "N/A"), "date is missing"),
        (GOOD.replace("AAL", " "), "symbol is missing"),
        (GOOD.replace("AAL", "A\tL"), "symbol has characters that cannot be printed"),
        (GOOD.replace("AAL", "A" * 33), "symbol is too long"),
        (GOOD.replace("50.91", ""), "open is missing"),
        (GOOD.replace("51.98", "NaN"), "high is missing"),
        (GOOD.replace("50.89", "null"), "low is missing"),
        (GOOD.replace("51.4", "abc"), "close is not a number"),
        (GOOD.replace("51.4", "1.2.3"), "close is not a number"),
        (GOOD.replace("51.4", "0x10"), "close is not a number"),
        (GOOD.replace("51.4", "5 1"), "close is not a number"),
        (GOOD.replace("51.4", '"51,4"'), "close is not a number"),
        (GOOD.replace("51.4", "1_0"), "close is not a number"),
        (GOOD.replace("51.4", "٥"), "close is not a number"),
        (GOOD.replace("51.98", "inf"), "high is not finite"),
        (GOOD.replace("51.98", "-Infinity"), "high is not finite"),
        (GOOD.replace("51.98", "1e999"), "high is not finite"),
        (GOOD.replace("50.91", "0"), "open is not positive"),
        (GOOD.replace("50.89", "-50.89"), "low is not positive"),
        (GOOD.replace("50.89", "1e-999"), "low is not positive"),
        (GOOD.replace("4845831", ""), "volume is missing"),
        (GOOD.replace("4845831", "-1"), "volume is negative"),
        (GOOD.replace("4845831", "1.5"), "volume is not whole"),
        (GOOD.replace("4845831", "1e300"), "volume is too large"),
        (GOOD.replace("4845831", "9" * 40), "volume is too large"),
        (GOOD.replace("4845831", "1.2M"), "volume is not a number"),
        (GOOD.replace("51.98", "50.0"), "high is below low"),
        (GOOD.replace("50.91", "52"), "open is outside low to high"),
        (GOOD.replace("51.4,", "50.1,"), "close is outside low to high"),
        (f'"{GOOD}', "the quotes around a field are not closed or not doubled"),
        (GOOD.replace("AAL", '"A"L'), "the quotes around a field are not closed or not doubled"),
        (GOOD.replace("AAL", "x" * 70_000), "the line is too long"),
    ],
)
def test_a_bad_row_is_a_reject_with_its_reason_and_the_others_stay(tmp_path: Path, row: str, reason: str) -> None:
    path = written(tmp_path, HEADER, f"2018-02-06{GOOD[10:]}", row, f"2018-02-08{GOOD[10:]}")
    quotes, rejects = read_quotes(path)
    assert [row["date"].day for row in quotes.to_pylist()] == [6, 8]
    assert rejects.to_pylist() == [{"file": str(path), "line": 3, "reason": reason, "text": row[:1000]}]
    assert rejects.schema.equals(REJECTS_SCHEMA)
    with pytest.raises(InputError, match=rf"1 of 3 rows are not valid quotes; the first is .*line 3: {reason}"):
        read_quotes(path, strict=True)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    rows = [GOOD.encode().replace(b"AAL", b"\xff"), b"2018-02-08" + GOOD[10:].encode()]
    path.write_bytes(b"\n".join([HEADER.encode(), *rows]))
    assert reasons_in(path) == [(2, "the text is not UTF-8")]
    assert len(quotes_in(path)) == 1
    # where nobody looks, it does no harm
    path.write_bytes(b"\n".join([HEADER.encode() + b",note", GOOD.encode() + b",\xe9"]))
    assert quotes_in(path, strict=True) == [AAL]
    path.write_bytes("\ufeff".encode("utf-16-le") + f"{HEADER}\n{GOOD}".encode("utf-16-le"))
    with pytest.raises(InputError, match="UTF-16; save it as UTF-8"):
        read_quotes(path)


def test_nul_bytes_and_a_line_of_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "quotes.csv"
    huge = b"x" * 300_000
    path.write_bytes(b"\n".join([HEADER.encode(), GOOD.encode().replace(b"51.4", b"5\0"), huge, GOOD.encode()]))
    monkeypatch.setattr(raw_csv, "BLOCK_BYTES", 100_000)
    quotes, rejects = read_quotes(path)
    assert quotes.num_rows == 1
    assert [(row["line"], row["reason"], len(row["text"])) for row in rejects.to_pylist()] == [
        (2, "close is not a number", len(GOOD) - 2),
        (3, "the line is too long", 1000),
    ]


def test_of_rows_of_one_symbol_and_date_the_first_is_kept(tmp_path: Path) -> None:
    written(tmp_path, HEADER, GOOD, GOOD.replace("4845831", "7"), name="b.csv")
    written(tmp_path, HEADER, f"2018-02-06{GOOD[10:]}", GOOD.replace("4845831", "5"), name="a.csv")
    for paths in (tmp_path, [tmp_path / "b.csv", tmp_path / "a.csv"]):
        quotes, rejects = read_quotes(paths)
        assert [row["volume"] for row in quotes.to_pylist()] == [4845831, 5]
        assert [(Path(r["file"]).name, r["line"], r["reason"], r["text"]) for r in rejects.to_pylist()] == [
            ("b.csv", 2, "another row has the same symbol and date", "2018-02-07,AAL,50.91,51.98,50.89,51.4,4845831"),
            ("b.csv", 3, "another row has the same symbol and date", "2018-02-07,AAL,50.91,51.98,50.89,51.4,7"),
        ]


# ---- files


def test_an_empty_file_a_blank_one_and_a_header_alone(tmp_path: Path) -> None:
    assert reasons_in(written(tmp_path)) == [(1, "the file is empty")]
    assert reasons_in(written(tmp_path, "", " ", "")) == [(1, "the file is empty")]
    assert reasons_in(written(tmp_path, "\ufeff")) == [(1, "the file is empty")]
    quotes, rejects = read_quotes(written(tmp_path, HEADER))
    assert (quotes.num_rows, rejects.num_rows) == (0, 0)
    assert quotes.schema.equals(QUOTES_SCHEMA)


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_quotes(tmp_path / "none.csv")
    with pytest.raises(InputError, match="holds no quote files"):
        read_quotes(tmp_path)
    with pytest.raises(InputError, match="no quote files are named"):
        read_quotes([])
    with pytest.raises(InputError, match=r"no column for open, volume among: date, opne, .*; rename 'opne' to open;"):
        read_quotes(written(tmp_path, "date,opne,high,low,close,Name", GOOD))
    with pytest.raises(InputError, match="the first line must name the columns"):
        read_quotes(written(tmp_path, GOOD, GOOD))
    broken = tmp_path / "cut.csv.gz"
    broken.write_bytes(gzip.compress(f"{HEADER}\n{GOOD}\n".encode() * 100)[:-20])
    with pytest.raises(InputError, match="damaged or cut short"):
        read_quotes(broken)
    broken.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="the Parquet file cannot be read"):
        read_quotes(broken)


def test_folders_are_read_through_and_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "_temporary").mkdir(parents=True)
    for name in ("deep/b.CSV", "a.txt", "deep/_temporary/c.csv", ".hidden.csv", "_SUCCESS.csv", "notes.md"):
        written(tmp_path, HEADER, GOOD, name=name)
    found = [Path(file).relative_to(tmp_path).as_posix() for file in quote_files([tmp_path, tmp_path / "a.txt"])]
    assert found == ["a.txt", "deep/b.CSV"]


def test_parquet_of_any_types(tmp_path: Path) -> None:
    table = synthetic_quotes(1, symbols=3, days=40)
    pq.write_table(table, tmp_path / "typed.parquet")
    assert read_quotes(tmp_path / "typed.parquet", strict=True).quotes.equals(
        table.sort_by([("symbol", "ascending"), ("date", "ascending")])
    )
    odd = pa.table(
        {
            "Ticker": pa.array(["A", "A", None]).dictionary_encode(),
            "Timestamp": pa.array([1_517_961_600, 1_518_048_000, 0], pa.timestamp("s", "UTC")),
            **{name: pa.array([10.25, float("nan"), 1.0], pa.float32()) for name in ("Open", "High", "Low")},
            "Close": pa.array(["10.25", "10.25", "1"]).cast(pa.decimal128(20, 2)),
            "Vol": [5.0, 1.0, 2.0],
        }
    )
    pq.write_table(odd, tmp_path / "odd.parquet")
    quotes, rejects = read_quotes(tmp_path / "odd.parquet")
    assert [tuple(row.values()) for row in quotes.to_pylist()] == [(date(2018, 2, 7), "A", *[10.25] * 4, 5)]
    assert [(row["line"], row["reason"]) for row in rejects.to_pylist()] == [
        (2, "open is missing"),
        (3, "symbol is missing"),
    ]


# ---- two ways to the same result


def test_splitting_by_arrow_and_line_by_line_agree_on_random_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole results: every line of the file is a quote, a reject or blank, whatever the size of the blocks."""
    for seed in range(60):
        draw = random.Random(seed)
        odd = draw.choice((0.0, 0.02, 0.3))
        rows = [draw_row(draw, n, odd) for n in range(draw.randint(0, 40))]
        path = written(tmp_path, HEADER, *rows, end=draw.choice(("\n", "\r\n")))
        monkeypatch.setattr(raw_csv, "BLOCK_BYTES", draw.choice((1 << 22, 70, 200, 1000)))
        fast = read_quotes(path)
        with monkeypatch.context() as patch:
            patch.setattr(raw_csv, "_fast", lambda *_: None)
            slow = read_quotes(path)
        assert fast.quotes.equals(slow.quotes), f"seed {seed}"
        assert fast.rejects.equals(slow.rejects), f"seed {seed}"
        good = {2 + n for n, row in enumerate(rows) if row.strip() and row.count(",") == 6 and "x" not in row}
        rejected = {2 + n for n, row in enumerate(rows) if row.strip()} - good
        assert fast.quotes.num_rows == len(good), f"seed {seed}"
        assert {row["line"] for row in fast.rejects.to_pylist()} == rejected, f"seed {seed}"


def draw_row(draw: random.Random, number: int, odd: float) -> str:
    row = f"{date.fromordinal(730_000 + number)}{GOOD[10:]}"
    if draw.random() >= odd:
        return row
    return draw.choice(
        ("", "  ", "x", row + ",", row.replace("51.4", "x"), row.replace("AAL", '"AAL"'), "é" + row[1:] + "x")
    )


def test_a_file_in_small_blocks_is_judged_in_batches_with_running_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{date.fromordinal(730_000 + n)}{GOOD[10:]}" for n in range(50)]
    path = str(written(tmp_path, HEADER, *rows))
    monkeypatch.setattr(raw_csv, "BLOCK_BYTES", 128)
    parts = list(clean_file(path))
    assert len(parts) > 10
    assert [line for part in parts for line in part.quotes.column("line").to_pylist()] == list(range(2, 52))
    assert [text.strip() for raw in raw_batches(path) for text in raw.column("text").to_pylist()] == rows
