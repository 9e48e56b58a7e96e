"""Stage 2, notifications: the quotes that the publishers will publish, with the ten attributes of the paper.

`octopia.workload` decides which symbols are published, how many quotes of each (`draw_symbols`, `published_counts`),
and every attribute (`notifications_of`). The rest is arithmetic that needs no order among tasks: the first quotes of
each symbol by date are kept, and the row of a notification is the number of notifications of all symbols before its
own, plus its place among its own. So rows are numbered from 0 by symbol and date, whatever the number of tasks, and no
task holds more than a batch at a time in Python.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from octopia.pipeline.arrow import map_arrow, spark_schema
from octopia.pipeline.manifest import Parameters
from octopia.pipeline.spec import PUBLISHED_SETTINGS, PipelineSpec, parameters_of
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.workload import (
    NOTIFICATIONS_SCHEMA,
    QUOTES_SCHEMA,
    draw_symbols,
    high_rate_counts,
    notifications_of,
    published_counts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERED: Final = pa.schema([pa.field("row", pa.int32()), *NOTIFICATIONS_SCHEMA])

_Batches = Iterator[pa.RecordBatch]


def make_notifications(work: Work[PipelineSpec]) -> Outputs:
    """The table `notifications`."""
    spec, bursts = work.spec.cell.workload, work.spec.cell.bursts
    quotes = work.tables["quotes"]
    there = {row.symbol: row["count"] for row in quotes.groupBy("symbol").count().collect()}
    symbols = draw_symbols(spec, list(there), bursts)
    counts = published_counts(spec, symbols, there, high_rate_counts(symbols, bursts))
    return {"notifications": map_arrow(_numbered(quotes, counts), _made, spark_schema(_NUMBERED))}


def symbols_of(quotes: "DataFrame") -> list[str]:
    """All symbols of the data, ascending."""
    return sorted(row.symbol for row in quotes.select("symbol").distinct().collect())


def _numbered(quotes: "DataFrame", counts: Mapping[str, int]) -> "DataFrame":
    """The published quotes, each with its row; `counts` has the published symbols in ascending order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    firsts, total = [], 0
    for count in counts.values():
        firsts.append(total)
        total += count
    published = pa.table(
        {"symbol": list(counts), "first": pa.array(firsts, pa.int64()), "wanted": pa.array(counts.values(), pa.int64())}
    )
    small = fn.broadcast(quotes.sparkSession.createDataFrame(published))
    place = fn.row_number().over(Window.partitionBy("symbol").orderBy("date")) - 1
    kept = quotes.join(small, "symbol").withColumn("place", place).where("place < wanted")
    row = (fn.col("first") + fn.col("place")).cast("int").alias("row")
    return kept.select(row, *QUOTES_SCHEMA.names)


def _made(batches: _Batches) -> _Batches:
    """In a worker: the attributes of each quote."""
    for batch in batches:
        made = notifications_of(batch.drop_columns(["row"]))
        yield pa.RecordBatch.from_arrays([batch.column("row"), *made.columns], schema=_NUMBERED)


def notifications_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """The settings that decide which quotes are published; subscribers do not matter."""
    burst = ("bursts", "burst_notifications") if spec.burst else ()
    return parameters_of(spec, (*PUBLISHED_SETTINGS, *burst))


NOTIFICATIONS: Final = Stage(
    name="notifications",
    about="quotes to the notifications that will be published",
    inputs=("quotes",),
    outputs=("notifications",),
    make=make_notifications,
    parameters=notifications_parameters,
    code=("octopia.workload", "octopia.pipeline.stage_notifications"),
)
