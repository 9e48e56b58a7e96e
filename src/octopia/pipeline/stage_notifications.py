"""Stage 2, notifications: the quotes that the publishers will publish, with the ten attributes of the paper.

Rules of this file: which symbols are published, how many quotes of each, their order and every attribute are decided by
`octopia.workload` (`draw_symbols`, `make_market`); here the symbols are shared out among tasks. Symbols are taken in
ascending order, a stretch of them per task, so that the stretches put together are what one call for all would give.
Column `row` numbers the notifications from 0 in that order, whatever the number of tasks.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from octopia.pipeline.arrow import spark_schema
from octopia.pipeline.manifest import Parameters
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.workload import (
    NOTIFICATIONS_SCHEMA,
    QUOTES_SCHEMA,
    BurstSpec,
    Symbols,
    WorkloadSpec,
    draw_symbols,
    make_market,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Rows that a task holds at once, about: all quotes of its stretch of symbols.
STRETCH_ROWS: Final = 500_000

_NUMBERED: Final = pa.schema([pa.field("stretch", pa.int32()), pa.field("row", pa.int64()), *NOTIFICATIONS_SCHEMA])


def make_notifications(work: Work[PipelineSpec]) -> Outputs:
    """The table `notifications`."""
    spec, burst = work.spec.workload, work.spec.burst
    quotes = work.tables["quotes"]
    counts = {row.symbol: row["count"] for row in quotes.groupBy("symbol").count().collect()}
    symbols = draw_symbols(spec, list(counts), burst)
    stretches = _stretches(counts, symbols)
    numbered = _numbered(quotes, stretches, _maker(spec, burst, symbols)).persist()
    work.cleanup.callback(numbered.unpersist)
    return {"notifications": _counted_on(numbered)}


def symbols_of(quotes: "DataFrame") -> list[str]:
    """All symbols of the data, ascending."""
    return sorted(row.symbol for row in quotes.select("symbol").distinct().collect())


def _stretches(counts: Mapping[str, int], symbols: Symbols) -> dict[str, int]:
    """For every published symbol the number of its stretch; a stretch ends where it holds enough quotes."""
    of_symbol: dict[str, int] = {}
    number = held = 0
    for symbol in sorted(symbols.every):
        if held and held + counts[symbol] > STRETCH_ROWS:
            number, held = number + 1, 0
        of_symbol[symbol] = number
        held += counts[symbol]
    return of_symbol


def _maker(spec: WorkloadSpec, burst: BurstSpec | None, symbols: Symbols) -> "Callable[[Any, pa.Table], pa.Table]":
    """The function for one stretch: its notifications, numbered from 0."""

    def make(key: Any, table: pa.Table) -> pa.Table:
        own = set(table["symbol"].unique().to_pylist())
        here = Symbols(
            tuple(symbol for symbol in symbols.published if symbol in own),
            symbols.high_rate if symbols.high_rate in own else None,
        )
        market = make_market(spec, here, table.select(QUOTES_SCHEMA.names), burst)
        rows = np.arange(market.notifications.num_rows)
        stretch = pa.repeat(pa.scalar(key[0].as_py(), pa.int32()), len(rows))
        return pa.Table.from_arrays([stretch, pa.array(rows), *market.notifications.columns], schema=_NUMBERED)

    return make


def _numbered(
    quotes: "DataFrame", stretches: dict[str, int], make: "Callable[[Any, pa.Table], pa.Table]"
) -> "DataFrame":
    from pyspark.sql import functions as fn

    spark = quotes.sparkSession
    small = spark.createDataFrame(
        pa.table({"symbol": list(stretches), "stretch": pa.array(stretches.values(), pa.int32())})
    )
    return quotes.join(fn.broadcast(small), "symbol").groupBy("stretch").applyInArrow(make, spark_schema(_NUMBERED))


def _counted_on(numbered: "DataFrame") -> "DataFrame":
    """The rows of all stretches in one count."""
    from pyspark.sql import functions as fn

    sizes = {row.stretch: row["count"] for row in numbered.groupBy("stretch").count().collect()}
    firsts, total = {}, 0
    for stretch in sorted(sizes):
        firsts[stretch] = total
        total += sizes[stretch]
    small = pa.table({"stretch": pa.array(firsts, pa.int32()), "first": pa.array(firsts.values(), pa.int64())})
    joined = numbered.join(fn.broadcast(numbered.sparkSession.createDataFrame(small)), "stretch")
    row = (fn.col("row") + fn.col("first")).cast("int").alias("row")
    columns = [fn.col(f"`{name}`") for name in NOTIFICATIONS_SCHEMA.names]
    return joined.select(row, *columns)


def notifications_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """What decides which quotes are published, and nothing of who subscribes."""
    workload, burst = spec.workload, spec.burst
    return {
        "seed": workload.seed,
        "publishers": workload.publishers,
        "notifications_per_publisher": workload.notifications_per_publisher,
        "burst_notifications": None if burst is None else burst.notifications,
    }


NOTIFICATIONS: Final = Stage(
    name="notifications",
    about="quotes to the notifications that will be published",
    inputs=("quotes",),
    outputs=("notifications",),
    make=make_notifications,
    parameters=notifications_parameters,
    code=("octopia.workload", "octopia.pipeline.stage_notifications"),
)
