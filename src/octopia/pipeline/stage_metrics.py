"""Stage 7, metrics: every metric of `octopia.metrics` over the traces, of any size.

Both engines run the same queries and give the same numbers, except for the last digit of a float. DuckDB measured small
traces in the task that simulated them (`measures.py`); this stage gathers those results, or measures again if the
definitions have changed. Large traces, and those of which only the tables are left, are queried in Spark SQL, each
metric once for all systems (`grouped`), and a few metrics at a time, since a small query leaves most of
a machine idle.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from octopia.experiments import METRICS_SCHEMA, SERIES_SCHEMA, Result, facts_of_cell
from octopia.metrics import METRICS
from octopia.pipeline.arrow import plain_schema
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.grouped import SYSTEM, grouped
from octopia.pipeline.measures import (
    CODE,
    LINKS,
    LINKS_SCHEMA,
    MeasureOrder,
    Measures,
    files_of,
    has_duckdb,
    is_small,
    measure_order,
    measures_key,
    measures_of,
    read_measures,
)
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stage_run import folder_of, results_of_runs
from octopia.pipeline.stages import Outputs, Stage, Work
from octopia.pipeline.tasks import Task, run_tasks
from octopia.pipeline.views import session_with
from octopia.trace import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows of a trace per partition of a shuffle; small traces in many partitions cost more than they save.
_ROWS_PER_PARTITION: Final = 500_000
_AT_ONCE: Final = 4
# Rows of one system come in any order.
_ORDERS: Final = {"series": ("part", "at_s"), "parts": ("part",), "table": ("sender", "receiver")}


def make_metrics(work: Work[PipelineSpec]) -> Outputs:
    """The tables `metrics`, `series` and `link_queues`."""
    done = results_of_runs(work.here("runs"))
    _measure_kept(work, [one for one in done if not _is_measured(work, one)])
    here = [one for one in done if _is_measured(work, one)]
    found = {one.cell.system: _read(work, one) for one in here}
    found |= _by_spark(work, [one for one in done if one not in here])
    every = [found[one.cell.system] for one in done]
    return {
        "metrics": _together(METRICS_SCHEMA, [one.metrics for one in every]),
        "series": _together(SERIES_SCHEMA, [one.series for one in every]),
        LINKS: _together(LINKS_SCHEMA, [one.links for one in every]),
    }


def _together(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables]).cast(plain_schema(schema))


# -- by DuckDB


def _is_measured(work: Work[PipelineSpec], one: Result) -> bool:
    files = files_of(measures_key()).values()
    return is_small(one.run) and all(work.store.exists(f"{folder_of(one.cell)}/{file}") for file in files)


def _read(work: Work[PipelineSpec], one: Result) -> Measures:
    return read_measures(work.place, folder_of(one.cell), measures_key())


def _measure_kept(work: Work[PipelineSpec], runs: Sequence[Result]) -> None:
    """Measure small runs whose traces still exist. The rest is left to Spark."""
    orders = {
        one.cell.name: MeasureOrder(work.place, folder_of(one.cell), one, measures_key())
        for one in runs
        if has_duckdb() and is_small(one.run) and work.store.exists(f"{folder_of(one.cell)}/hops.parquet")
    }
    if orders:
        tasks = [Task(name, msgspec.json.encode(order)) for name, order in orders.items()]
        run_tasks(work.session, measure_order, tasks, retries=0)


# -- by Spark


def _by_spark(work: Work[PipelineSpec], runs: Sequence[Result]) -> dict[str, Measures]:
    """One query per metric for all systems, a few at a time."""
    if not runs:
        return {}
    own = _session(work, runs)
    asked: dict[str, Future[pa.Table]] = {}
    found: dict[str, pa.Table] = {}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="octopia-metric") as executor:
        for name, metric in METRICS.items():
            asked[name] = executor.submit(_ask, own, grouped(metric.sql))
        for name, answer in asked.items():
            found[name] = answer.result()
            work.tell(len(found) / len(METRICS), f"{len(found)} of {len(METRICS)} metrics")
    return {one.cell.system: measures_of(one.cell, _of_system(found, one.cell.system)) for one in runs}


def _ask(own: "SparkSession", sql: str) -> pa.Table:
    with spark_errors("metrics"):
        return own.sql(sql).toArrow()


def _of_system(found: Mapping[str, pa.Table], system: str) -> dict[str, pa.Table]:
    """The answers of one system, in order."""
    mine = {}
    for name, table in found.items():
        rows = table.filter(pc.equal(table[SYSTEM], system)).drop_columns([SYSTEM])
        keys = _ORDERS.get(METRICS[name].shape, ())
        mine[name] = rows.sort_by([(key, "ascending") for key in keys]) if keys else rows
    return mine


def _session(work: Work[PipelineSpec], runs: Sequence[Result]) -> "SparkSession":
    """The tables of these systems, with plans for their size: a small query takes longer to compile than to run."""
    urls = {name: work.store.url(name) for name in TABLES}
    schemas = {name: work.tables[name].schema for name in TABLES}
    own = session_with(work.session.spark, urls, schemas=schemas, systems=[one.cell.system for one in runs])
    own.createDataFrame(_facts(runs)).createOrReplaceTempView("facts")
    hops = sum(one.run.rows["hops"] for one in runs)
    there = int(str(own.conf.get("spark.sql.shuffle.partitions")))
    own.conf.set("spark.sql.shuffle.partitions", str(max(1, min(there, -(-hops // _ROWS_PER_PARTITION)))))
    if hops <= _ROWS_PER_PARTITION:
        own.conf.set("spark.sql.adaptive.enabled", "false")
        own.conf.set("spark.sql.codegen.wholeStage", "false")
    return own


def _facts(runs: Sequence[Result]) -> pa.Table:
    """The table `facts`: a row for each system."""
    rows = [facts_of_cell(one).table().add_column(0, SYSTEM, pa.array([one.cell.system])) for one in runs]
    return pa.concat_tables(rows)


METRICS_STAGE: Final = Stage(
    name="metrics",
    about="every metric, as SQL over the traces",
    inputs=("runs", *TABLES),
    outputs=("metrics", "series", LINKS),
    make=make_metrics,
    code=(*CODE, "octopia.pipeline.stage_metrics", "octopia.pipeline.views"),
)
