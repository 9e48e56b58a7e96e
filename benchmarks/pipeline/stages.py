"""Rows per second of every stage, at growing sizes and with one core and two.

Rules of this file: every cell runs in a folder of its own, in a session that has run something before; what a stage
takes is what the runner says on the wall, and the CPU of all processes meanwhile. Truth is counted in pairs tested.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv as pc

from benchmarks.pipeline.measure import cpu_s, rate
from octopia.pipeline import Session, SparkSettings, open_session
from octopia.pipeline.run import STAGES
from octopia.pipeline.spec import PipelineSpec, QuotesSpec
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.workload import WorkloadSpec, synthetic_quotes

DAYS = 2000


def measure_stages(sizes: tuple[int, ...], cores: tuple[int, ...], subscribers: int) -> list[dict[str, Any]]:
    """The figures of all cells."""
    found = []
    for count in cores:
        with open_session(SparkSettings(master=f"local[{count}]")) as session:
            for source in ("seed", "csv"):
                # once unmeasured: the first run pays for loading everything
                for number, rows in enumerate((min(sizes), *sizes)):
                    cells = _measure(session, rows, subscribers, source)
                    found += [cell | {"cores": count} for cell in cells if number]
    return found


def _measure(session: Session, rows: int, subscribers: int, source: str) -> list[dict[str, Any]]:
    symbols = max(1, rows // DAYS)
    with tempfile.TemporaryDirectory(prefix="octopia-bench-") as folder:
        paths: tuple[str, ...] = ()
        if source == "csv":
            file = Path(folder) / "quotes.csv"
            pc.write_csv(synthetic_quotes(1, symbols, DAYS), file)
            paths = (str(file),)
        spec = PipelineSpec(
            QuotesSpec(paths=paths, symbols=symbols, days=DAYS),
            WorkloadSpec(publishers=symbols, subscribers=subscribers, notifications_per_publisher=DAYS, shape="mixed"),
        )
        names = ["quotes"] if source == "csv" else ["quotes", "notifications", "workload", "truth"]
        marks: list[float] = []
        told: list[Event] = []

        def note(event: Event) -> None:
            marks.append(cpu_s())
            told.append(event)

        Runner(LocalStore(Path(folder) / "out"), spec, lambda: session, STAGES, note).run(names)
    cells = []
    for number, event in enumerate(told):
        if event.state == "finished":
            cells.append(_cell(event, source, rows, subscribers, marks[number] - marks[number - 1]))
    return cells


def _cell(event: Event, source: str, rows: int, subscribers: int, cpu: float) -> dict[str, Any]:
    work = rows * subscribers if event.stage == "truth" else rows
    return {
        "stage": f"{event.stage} from {source}" if event.stage == "quotes" else event.stage,
        "rows": rows,
        "subscribers": subscribers,
        "made": dict(event.rows),
        "wall_s": event.took_s,
        "cpu_s": cpu,
        "per_s": rate(work, event.took_s),
        "per_cpu_s": rate(work, cpu),
    }
