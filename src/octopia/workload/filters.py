"""The filters of a workload: advertisements from published data, subscriptions of a given selectivity.

A subscription depends on the seed, its number and the market, so any of them can be made alone. An
advertisement names all ten attributes: class, symbol, and from the least to the greatest of each other attribute among
its publisher's own notifications, so all of these conform. With P published symbols and a selectivity s:

- `symbols`: round(s·P) symbols, at least one. Such a subscription overlaps the share s of the advertisements. Where
  s·P < 1, one symbol and an interval of `close` that cuts the rest.
- `ranges`: an interval of one attribute, or of two, at a random place, such that the share s of the notifications lies
  in it (in both).
- `mixed`: a third of each, and a third of twice as many symbols with an interval that keeps half.

Intervals are cut at order statistics of the data, both ends included, so equal values may let a few more in; callers
measure what a subscription really matches. With a burst, the filter of an interested subscriber has one more disjunct,
the high-rate symbol; one of another subscriber that names no symbol excludes it. A subscriber is interested in one
burst at most.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from octopia.errors import InputError
from octopia.language import DISJUNCTS_MAX, Conjunction, Filter, Operator, Predicate
from octopia.workload.draws import samples, stream, uniform, words
from octopia.workload.market import Market, Symbols
from octopia.workload.notifications import CLASS
from octopia.workload.spec import WorkloadSpec, rounded

# One of a group at a time: the four prices are nearly equal.
_GROUPS: Final = (("open", "high", "low", "close"), ("volume",), ("open_close_pct", "high_low_pct"))
_DRAWS: Final = 8
_PLACES_TRIED: Final = 8
_NEXT_PLACE: Final = 0.6180339887498949  # golden ratio: spreads the places tried evenly
_EXCESS_MAX: Final = 1.1
_STOCK: Final = Predicate("class", Operator.EQ, CLASS)

_Interval = tuple[Predicate, Predicate]


def advertisement_filter(market: Market, symbol: str) -> Filter:
    """The advertisement of a publisher of this symbol."""
    rows = market.rows_of(symbol)
    dates = market.notifications["date"].slice(rows.start, rows.stop - rows.start)
    promised = [_STOCK, Predicate("symbol", Operator.EQ, symbol)]
    # Sorted by date inside a symbol.
    promised += _between("date", dates[0].as_py(), dates[-1].as_py())
    for name, column in market.columns.items():
        own = column[rows]
        promised += _between(name, own.min().item(), own.max().item())
    return Filter.of(*promised)


def subscription_filters(
    spec: WorkloadSpec, symbols: Symbols, market: Market, numbers: range, interested: Mapping[int, str] | None = None
) -> list[Filter]:
    """The subscriptions with these numbers; `interested` has, by number, the high-rate symbol of a subscriber."""
    return _Maker(spec, symbols, market).make(numbers, interested or {})


class _Maker:
    def __init__(self, spec: WorkloadSpec, symbols: Symbols, market: Market) -> None:
        self._spec = spec
        self._market = market
        self._published = symbols.published
        self._named = {symbol: Predicate("symbol", Operator.EQ, symbol) for symbol in symbols.every}
        self._high_rate = symbols.high_rate
        self._share = spec.selectivity * len(symbols.published)
        self._few = max(1, rounded(self._share))
        self._many = min(len(symbols.published), max(1, rounded(2 * self._share)))
        largest = {"symbols": self._few, "ranges": 0, "mixed": self._many}[spec.shape] + bool(self._high_rate)
        if largest > DISJUNCTS_MAX:
            raise InputError(
                f"a selectivity of {spec.selectivity} of {len(symbols.published):,} symbols names {largest:,} of them "
                f"in one subscription, at most {DISJUNCTS_MAX:,} are allowed; use shape 'ranges' or a lower selectivity"
            )

    def make(self, numbers: range, interested: Mapping[int, str]) -> list[Filter]:
        keys = words(stream(self._spec.seed, "subscriptions"), np.arange(numbers.start, numbers.stop))
        draws = uniform(keys[:, None], np.arange(_DRAWS)[None, :])
        order = samples(words(keys, _DRAWS), len(self._published), max(self._few, self._many))
        made = []
        for number, draw, chosen in zip(numbers, draws.tolist(), order.tolist(), strict=True):
            made.append(self._one(draw, chosen, interested.get(number)))
        return made

    def _one(self, draw: list[float], chosen: list[int], interested: str | None) -> Filter:
        kind = self._spec.shape if self._spec.shape != "mixed" else ("symbols", "both", "ranges")[int(draw[0] * 3)]
        if kind == "ranges":
            conjunctions = [self._ranges(draw, interested)]
        else:
            count = self._few if kind == "symbols" else self._many
            names = [self._published[n] for n in chosen[:count]]
            cut: tuple[Predicate, ...] = ()
            if self._share < count and (kind == "both" or self._share < 1):
                attribute = "close" if kind == "symbols" else _picked(draw[1], draw[2])
                cut = self._cut(names, attribute, self._share / count, draw[3])
            conjunctions = [Conjunction((_STOCK, self._named[name], *cut)) for name in names]
        if interested is not None:
            conjunctions.append(Conjunction((_STOCK, self._named[interested])))
        return Filter(conjunctions)

    def _cut(self, names: list[str], attribute: str, share: float, place: float) -> _Interval:
        """The interval that keeps a share of the notifications of these symbols."""
        column = self._market.columns[attribute]
        values = np.sort(np.concatenate([column[self._market.rows_of(name)] for name in names]))
        return _window(attribute, values, share, place)[0]

    def _ranges(self, draw: list[float], interested: str | None) -> Conjunction:
        first = _picked(draw[1], draw[2])
        found = self._two_intervals(first, draw) if draw[3] < 0.5 else None
        if found is None:
            found = _window(first, self._market.sorted_sample[first], self._spec.selectivity, draw[4])[0]
        parts = [_STOCK, *found]
        parts += [Predicate("symbol", Operator.NE, symbol) for symbol in self._high_rate if symbol != interested]
        return Conjunction(parts)

    def _two_intervals(self, first: str, draw: list[float]) -> tuple[Predicate, ...] | None:
        """An interval that keeps about the root of the share in the first attribute, with the rest cut in another.

        None if the other cannot be cut that way: days without trade, for example, have the same price all day.
        """
        share = self._spec.selectivity
        wide = min(1.0, max(share, sqrt(share) * (0.5 + draw[5])))
        (low, high), _ = _window(first, self._market.sorted_sample[first], wide, draw[4])
        column: Any = self._market.sample[first]
        rows = np.flatnonzero((column >= low.value) & (column <= high.value))
        second = _picked(draw[1], draw[6], other=True)
        left = min(1.0, share * len(column) / len(rows))
        interval, held = _window(second, np.sort(self._market.sample[second][rows]), left, draw[7])
        return (low, high, *interval) if held <= max(1.0, left * len(rows)) * _EXCESS_MAX else None


def _picked(group: float, member: float, *, other: bool = False) -> str:
    """An attribute of a group; `other` takes the next group."""
    names = _GROUPS[(int(group * len(_GROUPS)) + other) % len(_GROUPS)]
    return names[int(member * len(names))]


def _window(attribute: str, ascending: npt.NDArray[np.generic], share: float, place: float) -> tuple[_Interval, int]:
    """The interval at a place (from 0 to 1) among these values that holds a share of them, and how many it holds.

    Many equal values at its ends would let more in; then a few other places are tried, and the one with the least
    excess is taken.
    """
    width = min(len(ascending), max(1, rounded(share * len(ascending))))
    least = len(ascending) + 1
    ends = ascending[0], ascending[-1]
    for attempt in range(_PLACES_TRIED):
        first = int((place + attempt * _NEXT_PLACE) % 1.0 * (len(ascending) - width + 1))
        low, high = ascending[first], ascending[first + width - 1]
        held = int(np.searchsorted(ascending, high, "right") - np.searchsorted(ascending, low, "left"))
        if held < least:
            least, ends = held, (low, high)
        if held <= width * _EXCESS_MAX:
            break
    return _between(attribute, ends[0].item(), ends[1].item()), least


def _between(attribute: str, low: Any, high: Any) -> _Interval:
    return Predicate(attribute, Operator.GE, low), Predicate(attribute, Operator.LE, high)
