"""Stage 4, truth: which subscriber must receive which notification, by brute force on columns.

Rules of this file: the answers are those of `octopia.workload.truth_batches`, which shares no code with the index. A
task takes whole chunks of `BATCH_ROWS` notifications, because a condition that many filters share is tested once per
chunk. A pair says that the notification in this row of `notifications` satisfies the filter of this subscriber; how
often it is published, by whom and when, is in `publications`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from octopia.language import Filter, parse_filter
from octopia.pipeline.arrow import spark_schema
from octopia.pipeline.manifest import Parameters
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.workload import truth_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_ROWS: Final = 1 << 16
TRUTH_SCHEMA: Final = pa.schema([pa.field("row", pa.int32()), pa.field("subscriber", pa.int32())])
_TASKS_PER_CORE: Final = 4

_Batches = Iterator[pa.RecordBatch]


def make_truth(work: Work[PipelineSpec]) -> Outputs:
    """The table `truth`."""
    subscribers = work.tables["subscribers"].select("subscriber", "filter").orderBy("subscriber").toArrow()
    return {"truth": truth(work.tables["notifications"], subscribers)}


def truth(notifications: "DataFrame", subscribers: pa.Table) -> "DataFrame":
    """All pairs of a row and a subscriber whose filter it matches; `subscribers` has columns `subscriber`, `filter`."""
    from pyspark.sql import functions as fn

    filters = _parsed(subscribers["filter"].to_pylist())
    asked = sorted({name for filter in filters for name in filter.attributes})
    context = notifications.sparkSession.sparkContext
    sent = context.broadcast((filters, subscribers["subscriber"].cast(pa.int32()).combine_chunks()))

    def pairs(batches: _Batches) -> _Batches:
        return truth_of(*sent.value, batches)

    there = [fn.col(f"`{name}`") for name in asked if name in notifications.columns]
    chunk = fn.floor(fn.col("row") / BATCH_ROWS)
    spread = notifications.select("row", *there).repartition(_TASKS_PER_CORE * context.defaultParallelism, chunk)
    return spread.mapInArrow(pairs, spark_schema(TRUTH_SCHEMA))


def truth_of(filters: list[Filter], subscribers: pa.Array, batches: _Batches) -> _Batches:
    """The pairs of these notifications, chunk by chunk."""
    for chunk in _chunks(batches):
        rows = chunk["row"].combine_chunks().cast(pa.int32())
        for found in truth_batches(filters, [chunk.drop_columns(["row"])]):
            if found.num_rows:
                columns = [rows.take(found.column("row")), subscribers.take(found.column("filter"))]
                yield pa.RecordBatch.from_arrays(columns, schema=TRUTH_SCHEMA)


def _chunks(batches: _Batches) -> Iterator[pa.Table]:
    """Batches put together until there are enough rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _parsed(texts: list[str]) -> list[Filter]:
    """Texts that repeat are parsed once."""
    parsed = {text: parse_filter(text) for text in dict.fromkeys(texts)}
    return [parsed[text] for text in texts]


def truth_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """Nothing of its own: all is in the tables."""
    return {}


TRUTH: Final = Stage(
    name="truth",
    about="who must receive what, by brute force",
    inputs=("notifications", "subscribers"),
    outputs=("truth",),
    make=make_truth,
    parameters=truth_parameters,
    code=(
        "octopia.workload.truth",
        "octopia.workload.truth_columns",
        "octopia.language",
        "octopia.pipeline.stage_truth",
    ),
)
