"""Seeded stock quotes and three workloads of subscriptions, as columns and as filters.

A: one symbol of 100, a range of prices, a least volume. B: ranges of two of the eight numeric attributes, nothing else.
C: a mixture of prefix, contains, presence and `<>` on strings, with ranges. Subscriptions are drawn as columns first
(`Table`), which is what the peers join with; the filters that the matcher stores are made from the same columns, so
that all systems are asked the same question.

The same seed gives the same workload, and a smaller one is the beginning of a larger one's filters.
Ranges are cut at quantiles of the quotes, so that each holds a stated share of them however its attribute is
distributed; what share of events a subscription really matches is measured by the benchmark, not assumed.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Filter, Notification, Operator, Predicate

SYMBOLS = 100
NUMBERS = ("open", "high", "low", "close", "volume", "change_percent", "range_percent", "day")
WHOLE = frozenset({"volume", "day"})
# In workload C, this attribute is missing from a tenth of the events: else presence would always hold.
SOMETIMES_ABSENT = "change_percent"
ABSENT_SHARE = 0.1

Floats = npt.NDArray[np.float64]
Strings = npt.NDArray[np.object_]
# The conditions on strings, in the order of the columns of `Table`.
TEXTS = ("symbol", "prefix", "part", "other")


@dataclass(frozen=True)
class Table:
    """Subscriptions as columns. No text is None, no bound is ±inf; `present` asks for SOMETIMES_ABSENT."""

    texts: dict[str, Strings]
    present: npt.NDArray[np.bool_]
    lows: dict[str, Floats]
    highs: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.present)

    def head(self, count: int) -> "Table":
        return self.pick(np.arange(count))

    def pick(self, rows: npt.NDArray[np.int64]) -> "Table":
        return Table(
            {name: column[rows] for name, column in self.texts.items()},
            self.present[rows],
            {name: column[rows] for name, column in self.lows.items()},
            {name: column[rows] for name, column in self.highs.items()},
        )


@dataclass(frozen=True)
class Events:
    """The same events as a record batch and as notifications."""

    batch: pa.RecordBatch
    notifications: list[Notification]

    def __len__(self) -> int:
        return len(self.notifications)

    def head(self, count: int) -> "Events":
        return Events(self.batch.slice(0, count), self.notifications[:count])


@dataclass(frozen=True)
class Workload:
    """Stored filters and published events. `ids` are ints, made once, so that the matcher only refers to them."""

    name: str
    table: Table
    filters: list[Filter]
    ids: list[int]
    events: Events

    def head(self, count: int) -> "Workload":
        return replace(self, table=self.table.head(count), filters=self.filters[:count], ids=self.ids[:count])


@dataclass(frozen=True)
class Recipe:
    """How a workload is drawn, and what share of the events a subscription should match."""

    about: str
    selectivity: float
    draw: Callable[[np.random.Generator, int], Table]
    with_absent: bool = False


def make(name: str, subscriptions: int, events: int, seed: int = 7, recipe: Recipe | None = None) -> Workload:
    """Workload A, B or C, or one drawn after another recipe."""
    recipe = recipe or RECIPES[name]
    table = recipe.draw(np.random.default_rng([seed, ord(name[0])]), subscriptions)
    quotes = quote_columns(np.random.default_rng([seed, 0]), events)
    absent = np.random.default_rng([seed, 1]).random(events) < (ABSENT_SHARE if recipe.with_absent else 0.0)
    return Workload(name, table, filters_of(table), list(range(subscriptions)), _events(quotes, absent))


# -- events


@cache
def symbols() -> tuple[str, ...]:
    """100 different tickers of four letters."""
    draw = np.random.default_rng(100)
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    found = dict.fromkeys("".join(letters[draw.integers(0, 26, 4)]) for _ in range(2 * SYMBOLS))
    return tuple(found)[:SYMBOLS]


def quote_columns(draw: np.random.Generator, count: int) -> dict[str, npt.NDArray[np.generic]]:
    """Quotes of stocks: prices of a day hang together, as they do."""
    opening = draw.uniform(10, 100, count)
    close = opening * draw.uniform(0.97, 1.03, count)
    high = np.maximum(opening, close) * draw.uniform(1.0, 1.02, count)
    low = np.minimum(opening, close) * draw.uniform(0.98, 1.0, count)
    return {
        "symbol": np.array(symbols(), dtype=object)[draw.integers(0, SYMBOLS, count)],
        "open": opening.round(2),
        "high": high.round(2),
        "low": low.round(2),
        "close": close.round(2),
        "volume": draw.integers(1, 1_000_000, count),
        "change_percent": (100 * (close / opening - 1)).round(3),
        "range_percent": (100 * (high / low - 1)).round(3),
        "day": draw.integers(1, 366, count),
    }


def _events(quotes: dict[str, npt.NDArray[np.generic]], absent: npt.NDArray[np.bool_]) -> Events:
    arrays = {"class": pa.array(["STOCK"] * len(absent), type=pa.string())}
    for name, column in quotes.items():
        arrays[name] = pa.array(column, mask=absent if name == SOMETIMES_ABSENT else None)
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    lines = batch.to_pylist()
    notifications = [Notification.of({k: v for k, v in line.items() if v is not None}) for line in lines]
    return Events(batch, notifications)


# -- subscriptions as columns


@cache
def _quantiles() -> dict[str, Floats]:
    quotes = quote_columns(np.random.default_rng(200), 100_000)
    return {name: np.sort(quotes[name].astype(np.float64)) for name in NUMBERS}


def _empty(count: int) -> Table:
    return Table(
        {name: np.full(count, None, dtype=object) for name in TEXTS},
        np.zeros(count, dtype=np.bool_),
        {name: np.full(count, -np.inf) for name in NUMBERS},
        {name: np.full(count, np.inf) for name in NUMBERS},
    )


def _restrict(draw: np.random.Generator, table: Table, name: str, rows: npt.NDArray[np.bool_], share: float) -> None:
    """Give these rows a range of an attribute that holds about this share of the quotes."""
    values = _quantiles()[name]
    start = draw.uniform(0, 1 - share, len(table))[rows]
    table.lows[name][rows] = values[(start * (len(values) - 1)).astype(np.int64)]
    table.highs[name][rows] = values[((start + share) * (len(values) - 1)).astype(np.int64)]


def _choose(draw: np.random.Generator, options: Sequence[str], count: int) -> Strings:
    chosen: Strings = np.array(options, dtype=object)[draw.integers(0, len(options), count)]
    return chosen


def _draw_a(draw: np.random.Generator, count: int) -> Table:
    table = _empty(count)
    table.texts["symbol"][:] = _choose(draw, symbols(), count)
    _restrict(draw, table, "close", np.ones(count, dtype=np.bool_), 0.44)
    least = _quantiles()["volume"]
    table.lows["volume"][:] = least[(draw.random(count) * (len(least) - 1)).astype(np.int64)]
    return table


def _draw_b(draw: np.random.Generator, count: int, share: float = 0.145) -> Table:
    table = _empty(count)
    first = draw.integers(0, len(NUMBERS), count)
    second = (first + draw.integers(1, len(NUMBERS), count)) % len(NUMBERS)
    for i, name in enumerate(NUMBERS):
        _restrict(draw, table, name, (first == i) | (second == i), share)
    return table


def _draw_c(draw: np.random.Generator, count: int) -> Table:
    """Four templates, each of about the same selectivity; shares are of the templates, then of their ranges."""
    table = _empty(count)
    template = draw.choice(4, count, p=(0.4, 0.3, 0.15, 0.15))
    some = _choose(draw, symbols(), count)
    prefixed, containing, differing, present = (template == i for i in range(4))
    table.texts["prefix"][prefixed] = [text[:1] for text in some[prefixed]]
    table.texts["part"][containing] = [text[2] for text in some[containing]]
    table.texts["other"][differing] = some[differing]
    table.present[present] = True
    attribute = draw.integers(0, len(NUMBERS), count)
    for i, name in enumerate(NUMBERS):
        _restrict(draw, table, name, prefixed & (attribute == i), 0.09)
        _restrict(draw, table, name, containing & (attribute == i), 0.028)
    _restrict(draw, table, "close", differing, 0.07)
    _restrict(draw, table, "volume", differing, 0.07)
    _restrict(draw, table, "day", present, 0.07)
    _restrict(draw, table, "range_percent", present, 0.07)
    return table


RECIPES = {
    "A": Recipe("class and symbol equal, a range of close, a least volume", 0.0022, _draw_a),
    "B": Recipe("ranges of two of the eight numeric attributes", 0.0210, _draw_b),
    "C": Recipe(
        "prefix, contains, inequality of the symbol or presence, each with ranges", 0.0047, _draw_c, with_absent=True
    ),
}


def ranges_of(selectivity: float) -> Recipe:
    """Workload B with ranges of another width: how the cost grows with the matches alone."""
    return Recipe(RECIPES["B"].about, selectivity, lambda draw, count: _draw_b(draw, count, selectivity**0.5))


# -- subscriptions as filters


def filters_of(table: Table) -> list[Filter]:
    """The filters that correspond to the columns. The collector is off: nothing here is garbage."""
    texts, presents = _string_predicates(table), table.present.tolist()
    ranges = _ranges(table)
    gc.disable()
    try:
        return [Filter.of(*texts[row], *(_PRESENT if presents[row] else ()), *ranges[row]) for row in range(len(table))]
    finally:
        gc.enable()


_PRESENT = (Predicate(SOMETIMES_ABSENT, Operator.PRESENT),)
_STOCK = Predicate("class", Operator.EQ, "STOCK")
_OPERATORS = {
    "symbol": Operator.EQ,
    "prefix": Operator.PREFIX,
    "part": Operator.CONTAINS,
    "other": Operator.NE,
}


def _string_predicates(table: Table) -> list[tuple[Predicate, ...]]:
    """Per row its conditions on strings; equal ones are one object, there are few."""
    known: dict[tuple[str, str], tuple[Predicate, ...]] = {}
    found: list[tuple[Predicate, ...]] = [()] * len(table)
    for name in TEXTS:
        for row in np.flatnonzero(table.texts[name] != None).tolist():  # noqa: E711
            text = table.texts[name][row]
            if (name, text) not in known:
                asked = Predicate("symbol", _OPERATORS[name], text)
                # who asks for a symbol or a prefix asks for stocks
                known[name, text] = (_STOCK, asked) if name in ("symbol", "prefix") else (asked,)
            found[row] += known[name, text]
    return found


def _ranges(table: Table) -> list[list[Predicate]]:
    found: list[list[Predicate]] = [[] for _ in range(len(table))]
    for name in NUMBERS:
        for operator, bounds in ((Operator.GE, table.lows[name]), (Operator.LE, table.highs[name])):
            rows = np.flatnonzero(np.isfinite(bounds))
            for row, bound in zip(rows.tolist(), bounds[rows].tolist(), strict=True):
                found[row].append(Predicate(name, operator, bound))
    return found
