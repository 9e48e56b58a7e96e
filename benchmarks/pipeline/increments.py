"""One day more: the stage `quotes` with a file added to those it has read, beside one run over all files."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.pipeline.measure import Took, timed
from octopia.pipeline import SparkSettings, open_session, run_pipeline
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.workload import synthetic_quotes

DAYS: Final = 20


def measure_increments(rows: int) -> dict[str, Any]:
    """Seconds of both, in one session that has run the stage before."""
    with TemporaryDirectory(prefix="octopia-bench-") as name, open_session(SparkSettings(master="local[2]")):
        folder = Path(name)
        days = folder / "days"
        files = _files(days, rows)
        last = files[-1].rename(folder / "last.csv")
        _quotes(days, folder / "out")
        last.rename(files[-1])
        added = _quotes(days, folder / "out")
        whole = _quotes(days, folder / "whole")
    return {"rows": rows, "files": DAYS, "added": added._asdict(), "whole": whole._asdict()}


def _files(folder: Path, rows: int) -> list[Path]:
    folder.mkdir()
    quotes = synthetic_quotes(1, rows // DAYS, DAYS)
    files = []
    for number, day in enumerate(sorted(quotes["date"].unique().to_pylist())):
        files.append(folder / f"{number:02d}.csv")
        pyarrow.csv.write_csv(quotes.filter(pc.equal(quotes["date"], day)), files[-1])
    return files


def _quotes(days: Path, out: Path) -> Took:
    spec = PipelineSpec(QuotesSpec(paths=(str(days),)))
    return timed(lambda: run_pipeline(out, spec, stages=["quotes"]))[1]
