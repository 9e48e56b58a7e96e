"""Stage 7, metrics: every metric of `octopia.metrics` over the traces, of any size.

Both engines run the same queries and give the same numbers, except for the last digit of a float. DuckDB measured small
traces in the task that simulated them (`measures.py`); this stage gathers those results, or measures again if the
definitions have changed. Large traces, and those of which only the tables are left, are queried in Spark SQL: one
session per system, in which the tables of its trace have their names, and several queries of all systems at a time,
since a small one leaves most of a machine idle.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from octopia.experiments import METRICS_SCHEMA, SERIES_SCHEMA, Result, facts_of_cell
from octopia.metrics import METRICS, Facts
from octopia.pipeline.arrow import plain_schema
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.manifest import Parameters
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
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.tasks import Task, run_tasks
from octopia.pipeline.views import session_with
from octopia.trace import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# Rows of a trace per partition of a shuffle; small traces in many partitions cost more than they save.
_ROWS_PER_PARTITION: Final = 500_000
_AT_ONCE: Final = 4


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
    """Run the queries of all systems, a few at a time; a system's answers are combined when all are there."""
    urls = {name: work.store.url(name) for name in TABLES}
    schemas = {name: work.tables[name].schema for name in TABLES}
    found: dict[str, Measures] = {}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="octopia-metric") as executor:
        asked = {}
        for one in runs:
            system, facts = one.cell.system, facts_of_cell(one)
            own = _session(work.session.spark, urls, facts, one.run.rows["hops"], system=system, schemas=schemas)
            asked[system] = _asked(executor, own, list(METRICS))
        for number, one in enumerate(runs):
            system = one.cell.system

            def tell(count: int, number: int = number, system: str = system) -> None:
                work.tell((number + count / len(METRICS)) / len(runs), f"{system}: {count} of {len(METRICS)} metrics")

            found[system] = measures_of(one.cell, _answers(asked[system], tell))
    return found


def _asked(executor: ThreadPoolExecutor, own: "SparkSession", names: Sequence[str]) -> "dict[str, Future[pa.Table]]":
    def ask(sql: str) -> pa.Table:
        with spark_errors("metrics"):
            return own.sql(sql).toArrow()

    return {name: executor.submit(ask, METRICS[name].sql) for name in names}


def _answers(
    asked: "Mapping[str, Future[pa.Table]]", on_done: Callable[[int], None] = lambda count: None
) -> dict[str, pa.Table]:
    found = {}
    for name, answer in asked.items():
        found[name] = answer.result()
        on_done(len(found))
    return found


def _session(
    spark: "SparkSession",
    urls: Mapping[str, str],
    facts: Facts,
    hops: int,
    *,
    system: str | None = None,
    schemas: "Mapping[str, StructType] | None" = None,
) -> "SparkSession":
    """The tables of one trace, with plans for its size: compiling a query takes longer than running a small one."""
    own = session_with(spark, urls, system, schemas)
    own.createDataFrame(facts.table()).createOrReplaceTempView("facts")
    there = int(str(own.conf.get("spark.sql.shuffle.partitions")))
    own.conf.set("spark.sql.shuffle.partitions", str(max(1, min(there, -(-hops // _ROWS_PER_PARTITION)))))
    if hops <= _ROWS_PER_PARTITION:
        own.conf.set("spark.sql.adaptive.enabled", "false")
        own.conf.set("spark.sql.codegen.wholeStage", "false")
    return own


def metrics_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """No parameters of its own: everything is in the runs."""
    return {}


METRICS_STAGE: Final = Stage(
    name="metrics",
    about="every metric, as SQL over the traces",
    inputs=("runs", *TABLES),
    outputs=("metrics", "series", LINKS),
    make=make_metrics,
    parameters=metrics_parameters,
    code=(*CODE, "octopia.pipeline.stage_metrics", "octopia.pipeline.views"),
)
