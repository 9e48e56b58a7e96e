"""The page on data quality, against rows written by hand."""

import re
from pathlib import Path

from octopia.pipeline import Session
from octopia.pipeline.quality import gaps_of, quality_page
from octopia.pipeline.stages import read_table
from tests.pipeline.cases_quotes import run

TEXT = """date,open,high,low,close,volume,Name
2004-12-20,1,3,1,2,100,A
2004-12-21,1,3,1,2,100,B
2004-12-22,1,3,1,2,100,B
2004-12-23,1,4,0.5,2,700,A
2004-12-23,1,4,0.5,2,700,A
2004-12-23,1,4,0.5,2,x,B
"""


def test_gaps_rejects_and_ranges_are_on_the_page(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text(TEXT, encoding="utf-8")
    (tmp_path / "in" / "picture.zip").write_bytes(b"PK")
    out = tmp_path / "out"
    run(session, out, paths=(str(tmp_path / "in"),))
    tables = [read_table(session, str(out / name)) for name in ("quotes", "rejects", "inputs")]
    assert [(row.symbol, row.missing, row.quotes) for row in gaps_of(tables[0]).collect()] == [("A", 2, 2), ("B", 0, 2)]
    page = quality_page(*tables)
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    assert "4 quotes of 2 symbols." in page
    assert ["A", "2", "2", "2004-12-20", "2004-12-23"] in cells
    assert not [row for row in cells if row[:1] == ["B"]]
    assert [row[1] for row in cells if len(row) == 4 and row[2].endswith(("line 6", "line 7"))] == ["1", "1"]
    assert [row[:2] for row in cells if row[:1] == [str(tmp_path / "in" / "picture.zip")]] == [
        [str(tmp_path / "in" / "picture.zip"), "skipped"]
    ]
    assert ["high", "3.0", "3.0", "4.0"] in cells
    assert ["date", "2004-12-20", "", "2004-12-23"] in cells
