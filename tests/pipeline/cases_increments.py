"""Quotes that come day by day: the tables are those of one run over all files, and old files are not read again."""

import os
from pathlib import Path

import pytest

from octopia.pipeline import Session, quote_increments
from octopia.workload import read_quotes
from tests.pipeline.cases_quotes import GOOD, OTHER, inputs_of, run, table, tuples

LATER = """date,open,high,low,close,volume,Name
2004-12-22,2.60,2.70,2.53,2.60,458500,AAII
2004-12-21,9,9,9,9,9,AAII
2004-12-22,10,12,9,11,x,ZZ
"""


def spoil(file: Path) -> None:
    """Different content in a file that looks unchanged: reading it again is detected."""
    seen = file.stat()
    file.write_text("?" * seen.st_size, encoding="utf-8")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def test_days_that_are_added_give_the_tables_of_all_days_at_once(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quote_increments, "BATCHES_MAX", 1)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()

    def compare() -> None:
        """With all files read at once, without Spark."""
        quotes, rejects = read_quotes(folder)
        keys = [("symbol", "ascending"), ("date", "ascending")]
        assert tuples(table(out, "quotes")) == tuples(quotes.sort_by(keys))
        assert tuples(table(out, "rejects")) == tuples(rejects)

    for number, text in enumerate((GOOD, LATER)):
        (folder / f"{number}.csv").write_text(text, encoding="utf-8")
        notes = run(session, out, paths=(str(folder),)).notes
        assert [note for note in notes if "read before" in note] == ["1 of 2 files were read before"] * number
    compare()
    assert inputs_of(out) == [("0.csv", "read", None, 5, 3, 2), ("1.csv", "read", None, 3, 1, 2)]
    # two days made two batches, which became one
    assert len([path for path in (out / ".judged").iterdir() if path.is_dir()]) == 1

    # a file that changed is read again, one that looks the same is not; one that is gone is gone
    spoil(folder / "1.csv")
    (folder / "0.csv").unlink()
    (folder / "2.csv").write_text(OTHER, encoding="utf-8")
    assert "1 of 2 files were read before" in run(session, out, paths=(str(folder),)).notes
    (folder / "1.csv").write_text(LATER, encoding="utf-8")
    compare()


def test_a_damaged_batch_is_read_from_its_files_again(session: Session, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(GOOD, encoding="utf-8")
    run(session, tmp_path / "out", paths=(str(tmp_path / "1.csv"),))
    before = tuples(table(tmp_path / "out", "quotes"))
    next((tmp_path / "out" / ".judged").rglob("*.parquet")).write_bytes(b"")
    (tmp_path / "2.csv").write_text(LATER, encoding="utf-8")
    event = run(session, tmp_path / "out", paths=(str(tmp_path / "1.csv"), str(tmp_path / "2.csv")))
    assert not [note for note in event.notes if "read before" in note]
    assert set(before) < set(tuples(table(tmp_path / "out", "quotes")))
