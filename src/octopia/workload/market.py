"""The published data: each publisher's symbol, and the notifications.

Publishers take the symbols in a random order, one each; if there are more publishers than symbols, they share them in
turn. The high-rate publishers of bursts have the last symbols of that order, that of the first burst the very last, and
no other publisher takes these. The notifications are those that are published at least once: of each symbol the first
in time, as many as its publisher sends, or all there are, in which case the publisher starts again from the first. They
are sorted by symbol, then date, and each stands once.
"""

from collections.abc import Mapping, Sequence
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

# Quantiles are taken over at most this many rows, evenly spaced; their effect is measured on all rows.
SAMPLE_ROWS_MAX: Final = 50_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Symbols:
    """The symbol of each publisher, and those of the high-rate ones."""

    of_publishers: tuple[str, ...]
    high_rate: tuple[str, ...] = ()

    @cached_property
    def published(self) -> tuple[str, ...]:
        """The symbols of the ordinary publishers, each once, in their order."""
        return tuple(dict.fromkeys(self.of_publishers))

    @property
    def every(self) -> tuple[str, ...]:
        """The same with those of the high-rate publishers."""
        return (*self.published, *self.high_rate)


def draw_symbols(spec: WorkloadSpec, symbols: Sequence[str], bursts: Sequence[BurstSpec] = ()) -> Symbols:
    """The symbols of the publishers, drawn from all symbols of the data regardless of their order."""
    known = sorted(set(symbols))
    needed = 1 + len(bursts)
    if len(known) < needed:
        raise InputError(f"the quotes have {len(known)} symbols, at least {needed} are needed")
    shuffled = [known[n] for n in permutation(stream(spec.seed, "symbols"), len(known)).tolist()]
    free = shuffled[: len(shuffled) - len(bursts)]
    of_publishers = tuple(free[n % len(free)] for n in range(spec.publishers))
    return Symbols(of_publishers, tuple(reversed(shuffled[len(free) :])))


def high_rate_counts(symbols: Symbols, bursts: Sequence[BurstSpec]) -> dict[str, int]:
    """The number of published notifications by high-rate symbol."""
    return {symbol: burst.notifications for symbol, burst in zip(symbols.high_rate, bursts, strict=True)}


@dataclass(frozen=True, eq=False)
class Market:
    """The notifications, the position of each symbol among them, and the columns that ranges are cut from."""

    notifications: pa.Table
    first_row: dict[str, int]
    row_count: dict[str, int]
    high_rate: tuple[str, ...]

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
        """The numeric attributes of rows evenly spaced over all but those of high-rate publishers."""
        usual = np.ones(self.notifications.num_rows, dtype=np.bool_)
        for symbol in self.high_rate:
            usual[self.rows_of(symbol)] = False
        rows = np.flatnonzero(usual)
        chosen = rows[:: -(-len(rows) // SAMPLE_ROWS_MAX)]
        return {name: column[chosen] for name, column in self.columns.items()}

    @cached_property
    def sorted_sample(self) -> dict[str, npt.NDArray[np.generic]]:
        """The same columns, each in ascending order."""
        return {name: np.sort(column) for name, column in self.sample.items()}


def make_market(
    spec: WorkloadSpec, symbols: Symbols, quotes: pa.Table, sent_by_symbol: Mapping[str, int] | None = None
) -> Market:
    """The notifications of these publishers. `quotes` may hold other symbols too, and be in any order.

    `sent_by_symbol` says how many notifications are published of a high-rate symbol, see `high_rate_counts`.
    """
    table = checked_quotes(quotes)
    wanted = table.filter(pc.is_in(table["symbol"], pa.array(symbols.every, pa.string())))
    wanted = wanted.take(pc.sort_indices(wanted, sort_keys=[("symbol", "ascending"), ("date", "ascending")]))
    runs = wanted["symbol"].combine_chunks().value_counts()
    there = dict(zip(runs.field("values").to_pylist(), runs.field("counts").to_pylist(), strict=True))
    counts = published_counts(spec, symbols, there, sent_by_symbol)
    sizes = np.fromiter(there.values(), dtype=np.int64)
    ranks = np.arange(wanted.num_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = ranks < np.repeat(np.fromiter(counts.values(), dtype=np.int64), sizes)
    notifications = notifications_of(wanted.filter(pa.array(kept)).combine_chunks())
    starts = np.cumsum([0, *counts.values()])[:-1].tolist()
    return Market(notifications, dict(zip(counts, starts, strict=True)), counts, symbols.high_rate)


def published_counts(
    spec: WorkloadSpec, symbols: Symbols, there: Mapping[str, int], sent_by_symbol: Mapping[str, int] | None = None
) -> dict[str, int]:
    """By published symbol, ascending, how many of the quotes that are `there` are published; `there` may hold more."""
    needed = dict.fromkeys(symbols.published, spec.notifications_per_publisher)
    needed |= {symbol: (sent_by_symbol or {})[symbol] for symbol in symbols.high_rate}
    for symbol in needed:
        if symbol not in there:
            raise InputError(f"there are no quotes of symbol {symbol!r}, which a publisher is to publish")
    return {symbol: min(needed[symbol], there[symbol]) for symbol in sorted(needed)}


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
