"""Stage 7, metrics: every metric of `octopia.metrics` as Spark SQL over the traces, of any size.

Rules of this file: the texts are those that DuckDB runs, unchanged; here they are asked of one system at a time, in a
session where the tables of the trace have their names. The numbers come back in the rows that the experiments use
(`METRICS_SCHEMA`, `SERIES_SCHEMA`), so what shows them need not know where they come from. Several metrics are asked at
once: a small one leaves most of a machine idle.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from octopia.experiments import METRICS_SCHEMA, SERIES_SCHEMA, Cell, metric_rows, metrics_table, series_table
from octopia.metrics import METRICS, Facts, facts_of, metrics_named
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.manifest import Parameters
from octopia.pipeline.simulations import Done
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stage_run import done_of_runs
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.views import session_with
from octopia.trace import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# A table of its own: one row per system and link.
LINKS: Final = "link_queues"
# Rows of a trace per partition of a shuffle; small traces in many partitions cost more than they save.
_ROWS_PER_PARTITION: Final = 500_000
_AT_ONCE: Final = 4


def make_metrics(work: Work[PipelineSpec]) -> Outputs:
    """The tables `metrics`, `series` and `link_queues`."""
    done = done_of_runs(work.tables["runs"])
    urls = {name: work.store.url(name) for name in TABLES}
    schemas = {name: work.tables[name].schema for name in TABLES}
    rows, series, links = [], [SERIES_SCHEMA.empty_table()], []
    for number, one in enumerate(done):
        cell = one.order.cell

        def tell(count: int, number: int = number, system: str = cell.system) -> None:
            work.tell((number + count / len(METRICS)) / len(done), f"{system}: {count} of {len(METRICS)} metrics")

        tables = spark_metrics(
            work.session.spark, urls, facts_of_done(one), system=cell.system, schemas=schemas, on_done=tell
        )
        rows += metric_rows(cell, tables)
        series.append(series_table(cell, tables))
        links.append(_of_system(cell, tables[LINKS]))
    return {
        "metrics": metrics_table(rows).cast(_plain(METRICS_SCHEMA)),
        "series": pa.concat_tables(series).cast(_plain(SERIES_SCHEMA)),
        LINKS: pa.concat_tables(links),
    }


def spark_metrics(
    spark: "SparkSession",
    urls: Mapping[str, str],
    facts: Facts,
    names: list[str] | None = None,
    *,
    system: str | None = None,
    schemas: "Mapping[str, StructType] | None" = None,
    on_done: Callable[[int], None] = lambda count: None,
) -> dict[str, pa.Table]:
    """What `octopia.metrics.run` gives for a folder, for the tables of a trace at these places."""
    wanted = list(METRICS.values()) if names is None else metrics_named(names)
    own = session_with(spark, urls, system, schemas)
    own.createDataFrame(facts.table()).createOrReplaceTempView("facts")
    _fit(own)

    def ask(sql: str) -> pa.Table:
        with spark_errors("metrics"):
            return own.sql(sql).toArrow()

    found = {}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="octopia-metric") as executor:
        asked = {metric.name: executor.submit(ask, metric.sql) for metric in wanted}
        for name, answer in asked.items():
            found[name] = answer.result()
            on_done(len(found))
    return found


def facts_of_done(done: Done) -> Facts:
    """What metrics must know of a run beside its trace."""
    cell = done.order.cell
    return facts_of(done.run, block_notifications=cell.block_notifications, delay_bound_ns=cell.delay_bound_ns)


def _fit(spark: "SparkSession") -> None:
    """Plans for the size of the trace: compiling a query, or changing it on the way, takes longer than a small one."""
    rows = spark.table("hops").count()
    there = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    spark.conf.set("spark.sql.shuffle.partitions", str(max(1, min(there, -(-rows // _ROWS_PER_PARTITION)))))
    if rows <= _ROWS_PER_PARTITION:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        spark.conf.set("spark.sql.codegen.wholeStage", "false")


def _of_system(cell: Cell, table: pa.Table) -> pa.Table:
    return table.add_column(0, "system", pa.array([cell.system] * table.num_rows, pa.string()))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without promises that Spark's tables do not keep."""
    return pa.schema([field.with_nullable(True) for field in schema])


def metrics_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """Nothing of its own: all is in the runs."""
    return {}


METRICS_STAGE: Final = Stage(
    name="metrics",
    about="every metric, as Spark SQL over the traces",
    inputs=("runs", *TABLES),
    outputs=("metrics", "series", LINKS),
    make=make_metrics,
    parameters=metrics_parameters,
    code=(
        "octopia.metrics",
        "octopia.experiments.run_cell",
        "octopia.pipeline.stage_metrics",
        "octopia.pipeline.views",
    ),
)
