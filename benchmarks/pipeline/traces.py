"""Rows of a trace per second: simulation, audit, metrics and figures of the paper's burst, with one core and two.

The burst at full size leaves some 24 million rows. DuckDB runs the same texts of metrics over the same files, as a
measure of what one process without Spark does.

The trace of a size is made once, by `simulate` under SNR, and asked by every number of cores; an
audit that does not pass ends the benchmark. Rows are those of all tables of the trace together.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pipeline.measure import rate, timed
from benchmarks.pipeline.stages import cell_of, staged
from octopia import metrics
from octopia.pipeline import SparkSettings, measures, open_session
from octopia.pipeline.simulations import RUNS
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
from octopia.trace import TABLES

# The paper's, of which a scale takes a part.
EACH, BURST = 2_000, 100_000
ASKED = ["audit", "metrics", "figures"]


@contextmanager
def _too_large_for_duckdb() -> Iterator[None]:
    """Every trace is Spark's for as long as this lasts."""
    usual = measures.DUCKDB_ROWS_MAX
    measures.DUCKDB_ROWS_MAX = 0  # type: ignore[misc]
    try:
        yield
    finally:
        measures.DUCKDB_ROWS_MAX = usual  # type: ignore[misc]


def measure_traces(scales: tuple[float, ...], cores: tuple[int, ...]) -> list[dict[str, Any]]:
    """The figures of all cells."""
    return [cell for scale in scales for cell in _measure(scale, cores)]


def _measure(scale: float, cores: tuple[int, ...]) -> list[dict[str, Any]]:
    each = round(EACH * scale)
    spec = PipelineSpec(
        QuotesSpec(days=each),
        pipeline_settings(notifications_per_publisher=each, burst_notifications=round(BURST * scale), systems=("snr",)),
        burst=True,
    )
    found = []
    with tempfile.TemporaryDirectory(prefix="octopia-bench-") as scratch:
        folder = Path(scratch)
        with open_session(SparkSettings(master="local[2]")) as session:
            made = staged(session, folder, spec, ["quotes", "notifications", "workload", "truth", "simulate"])
        event, cpu = made[-1]
        rows = sum(event.rows[name] for name in TABLES)
        found.append(cell_of(event, cpu, "simulate, one run", rows, rows) | {"cores": 1})
        for count in cores:
            with open_session(SparkSettings(master=f"local[{count}]")) as session:
                for event, cpu in staged(session, folder, spec, ASKED, force=True):
                    name = "metrics, gathered" if event.stage == "metrics" else event.stage
                    found.append(cell_of(event, cpu, name, rows, rows) | {"cores": count})
                    if event.rows.get("audit"):
                        raise AssertionError(f"the audit did not pass: {event.notes}")
                with _too_large_for_duckdb():
                    ((event, cpu),) = staged(session, folder, spec, ["metrics"], force=True)
                found.append(cell_of(event, cpu, "metrics by Spark SQL", rows, rows) | {"cores": count})
        run = next((folder / RUNS).glob("snr-*"))
        for count in cores:
            _, took = timed(partial(metrics.run, run, threads=count))
            rates = {"per_s": rate(rows, took.wall_s), "per_cpu_s": rate(rows, took.cpu_s)}
            found.append({"stage": "metrics by DuckDB", "rows": rows, "cores": count, **took._asdict(), **rates})
    return found
