"""What is published: which symbols, by whom, and the notifications that come of it.

Rules of this file: publishers take the symbols in a random order, each its own; where there are more publishers than
symbols, they go round and share. The high-rate publisher of a burst has the last symbol of that order, which no other
publisher takes. The notifications are those that are published at least once: of each symbol the first in time, as many
as its publisher sends, or all there are, in which case the publisher starts again from the first. They are sorted by
symbol, then date, and each stands once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InputError
from octopia.workload.draws import permutation, stream
from octopia.workload.notifications import NUMBERS, notifications_of
from octopia.workload.quotes import QUOTES_SCHEMA
from octopia.workload.spec import BurstSpec, WorkloadSpec

# Quantiles are taken over so many rows at most, evenly spaced; what they give is measured on all rows.
SAMPLE_ROWS_MAX: Final = 50_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Symbols:
    """Who publishes what: a symbol per publisher, and that of the high-rate one."""

    of_publishers: tuple[str, ...]
    high_rate: str | None

    @cached_property
    def published(self) -> tuple[str, ...]:
        """The symbols of the ordinary publishers, each once, in their order."""
        return tuple(dict.fromkeys(self.of_publishers))

    @property
    def every(self) -> tuple[str, ...]:
        """The same with that of the high-rate publisher."""
        return self.published if self.high_rate is None else (*self.published, self.high_rate)


def draw_symbols(spec: WorkloadSpec, symbols: Sequence[str], burst: BurstSpec | None = None) -> Symbols:
    """The symbols of the publishers, out of all symbols of the data, in whatever order these are given."""
    known = sorted(set(symbols))
    needed = 1 if burst is None else 2
    if len(known) < needed:
        raise InputError(f"the quotes have {len(known)} symbols, at least {needed} are needed")
    shuffled = [known[n] for n in permutation(stream(spec.seed, "symbols"), len(known)).tolist()]
    free = shuffled if burst is None else shuffled[:-1]
    of_publishers = tuple(free[n % len(free)] for n in range(spec.publishers))
    return Symbols(of_publishers, None if burst is None else shuffled[-1])


@dataclass(frozen=True, eq=False)
class Market:
    """The notifications, where each symbol's stand among them, and the columns that ranges are cut from."""

    notifications: pa.Table
    first_row: dict[str, int]
    row_count: dict[str, int]
    high_rate: str | None

    def rows_of(self, symbol: str) -> slice:
        """The rows of a symbol."""
        first = self.first_row[symbol]
        return slice(first, first + self.row_count[symbol])

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """The numeric attributes of all rows."""
        return {name: self.notifications[name].to_numpy() for name in NUMBERS}

    @cached_property
    def sample(self) -> dict[str, npt.NDArray[np.generic]]:
        """The numeric attributes of rows evenly spaced over all but those of the high-rate publisher."""
        usual = np.ones(self.notifications.num_rows, dtype=np.bool_)
        if self.high_rate is not None:
            usual[self.rows_of(self.high_rate)] = False
        rows = np.flatnonzero(usual)
        chosen = rows[:: -(-len(rows) // SAMPLE_ROWS_MAX)]
        return {name: column[chosen] for name, column in self.columns.items()}

    @cached_property
    def sorted_sample(self) -> dict[str, npt.NDArray[np.generic]]:
        """The same columns, each in ascending order."""
        return {name: np.sort(column) for name, column in self.sample.items()}


def make_market(spec: WorkloadSpec, symbols: Symbols, quotes: pa.Table, burst: BurstSpec | None = None) -> Market:
    """The notifications of these publishers. `quotes` may hold other symbols too, and be in any order."""
    needed = dict.fromkeys(symbols.published, spec.notifications_per_publisher)
    if burst is not None and symbols.high_rate is not None:
        needed[symbols.high_rate] = burst.notifications
    table = checked_quotes(quotes)
    wanted = table.filter(pc.is_in(table["symbol"], pa.array(list(needed), pa.string())))
    wanted = wanted.take(pc.sort_indices(wanted, sort_keys=[("symbol", "ascending"), ("date", "ascending")]))
    runs = wanted["symbol"].combine_chunks().value_counts()
    there = dict(zip(runs.field("values").to_pylist(), runs.field("counts").to_pylist(), strict=True))
    for symbol in needed:
        if symbol not in there:
            raise InputError(f"there are no quotes of symbol {symbol!r}, which a publisher is to publish")
    counts = {symbol: min(needed[symbol], count) for symbol, count in there.items()}
    sizes = np.fromiter(there.values(), dtype=np.int64)
    ranks = np.arange(wanted.num_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = ranks < np.repeat(np.fromiter(counts.values(), dtype=np.int64), sizes)
    notifications = notifications_of(wanted.filter(pa.array(kept)).combine_chunks())
    starts = np.cumsum([0, *counts.values()])[:-1].tolist()
    return Market(notifications, dict(zip(counts, starts, strict=True)), counts, symbols.high_rate)


def checked_quotes(quotes: pa.Table) -> pa.Table:
    """The quotes in their schema, or an `InputError`."""
    missing = [name for name in QUOTES_SCHEMA.names if name not in quotes.schema.names]
    if missing:
        raise InputError(f"the quotes have no column {missing[0]!r}; read them with read_quotes or synthetic_quotes")
    try:
        table = quotes.select(QUOTES_SCHEMA.names).cast(QUOTES_SCHEMA)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InputError(f"the quotes are not of the types of QUOTES_SCHEMA: {str(error).splitlines()[0]}") from None
    for name in QUOTES_SCHEMA.names:
        if table[name].null_count:
            raise InputError(f"column {name!r} of the quotes has nulls; read them with read_quotes, which rejects them")
    for name in ("open", "high", "low", "close"):
        if not pc.all(pc.and_(pc.greater(table[name], 0.0), pc.is_finite(table[name])), min_count=0).as_py():
            raise InputError(
                f"column {name!r} of the quotes has prices that are not positive and finite; use read_quotes"
            )
    return table
