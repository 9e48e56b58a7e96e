"""Rows per second of the stages before a simulation, at growing sizes and with one core and two.

Every cell runs in a folder of its own, in a session that has run something before; what a stage
takes is what the runner says on the wall, and the CPU of all processes meanwhile. Truth is counted in pairs tested.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv as pc

from benchmarks.pipeline.measure import cpu_s, rate
from octopia.pipeline import Session, SparkSettings, open_session
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.pipeline.whole import STAGES
from octopia.workload import synthetic_quotes

DAYS = 2000


def measure_stages(sizes: tuple[int, ...], cores: tuple[int, ...], subscribers: int) -> list[dict[str, Any]]:
    """The figures of all cells."""
    found = []
    for count in cores:
        with open_session(SparkSettings(master=f"local[{count}]")) as session:
            for source in ("seed", "csv"):
                # once unmeasured, and small: the first run pays for loading everything
                _measure(session, min(sizes), 100, source)
                for rows in sizes:
                    found += [cell | {"cores": count} for cell in _measure(session, rows, subscribers, source)]
    return found


def staged(
    session: Session, folder: Path, spec: PipelineSpec, names: list[str], *, force: bool = False
) -> list[tuple[Event, float]]:
    """Run these stages; returns each with its final report and its CPU seconds."""
    begin = 0.0
    found: list[tuple[Event, float]] = []

    def note(event: Event) -> None:
        nonlocal begin
        if event.state == "started":
            begin = cpu_s()
        elif event.state == "finished":
            found.append((event, cpu_s() - begin))

    Runner(LocalStore(folder), spec, lambda: session, STAGES, note).run(names, force=force)
    return found


def cell_of(event: Event, cpu: float, name: str, rows: int, work: int) -> dict[str, Any]:
    """The figures of one stage, for `work` rows, or pairs, of work."""
    return {
        "stage": name,
        "rows": rows,
        "made": dict(event.rows),
        "wall_s": event.took_s,
        "cpu_s": cpu,
        "per_s": rate(work, event.took_s),
        "per_cpu_s": rate(work, cpu),
    }


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
            pipeline_settings(
                publishers=symbols, subscribers=subscribers, notifications_per_publisher=DAYS, shape="mixed"
            ),
        )
        names = ["quotes"] if source == "csv" else ["quotes", "notifications", "workload", "truth"]
        events = staged(session, Path(folder) / "out", spec, names)
    cells = []
    for event, cpu in events:
        name = f"{event.stage} from {source}" if event.stage == "quotes" else event.stage
        work = rows * subscribers if event.stage == "truth" else rows
        cells.append(cell_of(event, cpu, name, rows, work) | {"subscribers": subscribers})
    return cells
