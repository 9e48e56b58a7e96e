"""Stage 4, truth: which subscriber must receive which notification, by brute force on columns.

The answers are those of `octopia.workload.truth_batches`, which shares no code with the index. The work is a rectangle
of rows × filters, cut both ways until there are enough pieces for all cores (`cut_grid`), one piece per task. Rows are
cut first: a condition that many filters share is tested once per chunk of rows, so chunks should be long. A pair means
that the notification in this row of `notifications` satisfies the filter of this subscriber; how often it is published,
by whom and when, is in `publications`. Subscriptions that a change makes later are numbered after the subscribers: the
number of subscribers plus that of the change.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from octopia.language import Filter, parse_filter
from octopia.pipeline.arrow import map_arrow, spark_schema
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.spread import spread_keys
from octopia.pipeline.stages import Outputs, Stage, Work
from octopia.workload import match_counts, truth_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Maximum rows of a chunk, and minimum as long as cutting filters helps as well.
CHUNK_ROWS_MAX: Final = 1 << 16
CHUNK_ROWS_MIN: Final = 1 << 14
# A task with fewer filters is mostly overhead.
SHARE_FILTERS_MIN: Final = 200
TRUTH_SCHEMA: Final = pa.schema([pa.field("row", pa.int32()), pa.field("subscriber", pa.int32())])
COUNTS_SCHEMA: Final = pa.schema([pa.field("filter", pa.int32()), pa.field("rows", pa.int64())])
_TASKS_PER_CORE: Final = 4
# Beyond this many pieces, some share a partition: that evens out, and planning more keys would be slow.
_KEYS_MAX: Final = 4096

_Batches = Iterator[pa.RecordBatch]


class Grid(NamedTuple):
    """Rows in chunks of `chunk_rows`, filters in `shares` of equal size: a task for each pair of the two."""

    chunk_rows: int
    chunks: int
    shares: int

    @property
    def tasks(self) -> int:
        return self.chunks * self.shares


def cut_grid(rows: int, filters: int, cores: int) -> Grid:
    """Several pieces for each core, if there is enough work."""
    wanted = _TASKS_PER_CORE * cores
    chunk_rows = min(CHUNK_ROWS_MAX, max(CHUNK_ROWS_MIN, -(-rows // wanted)))
    chunks = max(1, -(-rows // chunk_rows))
    shares = max(1, min(-(-wanted // chunks), filters // SHARE_FILTERS_MIN))
    return Grid(chunk_rows, chunks, shares)


def make_truth(work: Work[PipelineSpec]) -> Outputs:
    """The table `truth`."""
    subscribers = work.tables["subscribers"].select("subscriber", "filter").orderBy("subscriber").toArrow()
    changes = work.tables["changes"].where("kind = 'subscribe'").select("change", "filter").orderBy("change").toArrow()
    if changes.num_rows:
        later = pc.add(changes["change"], subscribers.num_rows).cast(pa.int32())
        subscribers = pa.concat_tables([subscribers, pa.table({"subscriber": later, "filter": changes["filter"]})])
    return {"truth": truth(work.tables["notifications"], subscribers, work.rows("notifications"))}


def truth(notifications: "DataFrame", subscribers: pa.Table, rows: int) -> "DataFrame":
    """All pairs of a row and a subscriber whose filter it matches; `subscribers` has columns `subscriber`, `filter`."""
    filters = _parsed(subscribers["filter"].to_pylist())
    numbers = subscribers["subscriber"].cast(pa.int32()).combine_chunks()

    def pairs(filters: list[Filter], first: int, chunk: pa.Table) -> _Batches:
        return truth_of(filters, numbers.slice(first, len(filters)), chunk)

    return over_grid(notifications, filters, rows, pairs, TRUTH_SCHEMA)


def counts_of_filters(notifications: "DataFrame", filters: list[Filter], rows: int) -> "DataFrame":
    """The number of notifications that each filter matches, by its number, in parts to be added up."""

    def counts(filters: list[Filter], first: int, chunk: pa.Table) -> _Batches:
        found = match_counts(filters, chunk.drop_columns(["row"]))
        numbers = pa.array(range(first, first + len(filters)), pa.int32())
        yield pa.RecordBatch.from_arrays([numbers, pa.array(found, pa.int64())], schema=COUNTS_SCHEMA)

    return over_grid(notifications, filters, rows, counts, COUNTS_SCHEMA)


def over_grid(
    notifications: "DataFrame",
    filters: list[Filter],
    rows: int,
    ask: Callable[[list[Filter], int, pa.Table], _Batches],
    schema: pa.Schema,
) -> "DataFrame":
    """Call `ask` with some filters, the first of which has this number, and some notifications: once per piece."""
    from pyspark.sql import functions as fn

    context = notifications.sparkSession.sparkContext
    grid = cut_grid(rows, len(filters), context.defaultParallelism)
    sent = context.broadcast(filters)
    per_share = -(-len(filters) // grid.shares)

    def answers(batches: _Batches) -> _Batches:
        for share, chunk in _chunks(batches):
            first = share * per_share
            yield from ask(sent.value[first : first + per_share], first, chunk)

    asked = sorted({name for filter in filters for name in filter.attributes})
    there = [fn.col(f"`{name}`") for name in asked if name in notifications.columns]
    spread = notifications.select("row", *there, _share_column(grid))
    return map_arrow(_in_pieces(spread, grid), answers, spark_schema(schema))


def _chunks(batches: _Batches) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a partition by their share of the filters; about `CHUNK_ROWS_MAX` at once."""
    held: dict[int, list[pa.RecordBatch]] = {}
    rows: dict[int, int] = {}
    for batch in batches:
        shares = batch.column("share").unique().to_pylist()
        for share in shares:
            part = batch if len(shares) == 1 else batch.filter(pc.equal(batch.column("share"), share))
            held.setdefault(share, []).append(part.drop_columns(["share"]))
            rows[share] = rows.get(share, 0) + part.num_rows
            if rows[share] >= CHUNK_ROWS_MAX:
                yield share, pa.Table.from_batches(held.pop(share))
                rows[share] = 0
    for share, parts in held.items():
        yield share, pa.Table.from_batches(parts)


def _share_column(grid: Grid) -> Any:
    """Every row once for each share of the filters."""
    from pyspark.sql import functions as fn

    shares = [fn.lit(share) for share in range(grid.shares)]
    return (fn.explode(fn.array(*shares)) if grid.shares > 1 else shares[0]).alias("share")


def _in_pieces(spread: "DataFrame", grid: Grid) -> "DataFrame":
    """Each piece in its own partition."""
    from pyspark.sql import functions as fn

    piece = fn.floor(fn.col("row") / grid.chunk_rows) * grid.shares + fn.col("share")
    key = piece.cast("int")
    if grid.tasks <= _KEYS_MAX:
        keys = fn.array(*[fn.lit(key) for key in spread_keys(grid.tasks)])
        key = fn.element_at(keys, (piece + 1).cast("int"))
    return spread.withColumn("piece", key).repartition(grid.tasks, "piece").drop("piece")


def truth_of(filters: list[Filter], subscribers: pa.Array, chunk: pa.Table) -> _Batches:
    """The pairs of these notifications."""
    rows = chunk["row"].combine_chunks().cast(pa.int32())
    for found in truth_batches(filters, [chunk.drop_columns(["row"])]):
        if found.num_rows:
            columns = [rows.take(found.column("row")), subscribers.take(found.column("filter"))]
            yield pa.RecordBatch.from_arrays(columns, schema=TRUTH_SCHEMA)


def _parsed(texts: list[str]) -> list[Filter]:
    """Parse texts; each distinct text once."""
    parsed = {text: parse_filter(text) for text in dict.fromkeys(texts)}
    return [parsed[text] for text in texts]


TRUTH: Final = Stage(
    name="truth",
    about="expected deliveries, by brute force",
    inputs=("notifications", "subscribers", "changes"),
    outputs=("truth",),
    make=make_truth,
    code=(
        "octopia.workload.truth",
        "octopia.workload.truth_columns",
        "octopia.language",
        "octopia.pipeline.spread",
        "octopia.pipeline.stage_truth",
    ),
)
