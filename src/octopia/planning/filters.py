"""Redundant subscriptions: equal filters, covered ones, and similar pairs worth merging.

Equality and covering are proved (`CoverIndex`): a cover matches everything that the covered filter matches, whatever is
published. Similarity is measured: of the notifications matched by either filter, the share matched by both. A merge
gives both clients the union of their filters, so each gets what it asked for plus a few notifications to drop.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from octopia.language import Filter
from octopia.matching import CoverIndex
from octopia.workload import Registration

# Proofs of covering between this many different filters take seconds.
FILTERS_MAX: Final = 5_000
COVERED_SHOWN_MAX: Final = 50


class Covered(Struct, frozen=True):
    """A filter, and filters that it covers: the first few by number, and how many there are."""

    wide: int
    narrow: tuple[int, ...]
    count: int


class Pair(Struct, frozen=True):
    """Two filters by number, how many notifications either matched, and how many both did."""

    one: int
    other: int
    either: int
    both: int

    @property
    def likeness(self) -> float:
        return self.both / self.either if self.either else 1.0


class Relations(Struct, frozen=True):
    """The distinct filters of some subscriptions, and how they relate. `holders[n]` are the ids with filter n."""

    filters: tuple[str, ...]
    holders: tuple[tuple[str, ...], ...]
    covered: tuple[Covered, ...]
    # number of distinct filters that were compared
    compared: int

    @property
    def repeated(self) -> int:
        """Subscriptions with the same filter as another."""
        return sum(len(ids) - 1 for ids in self.holders)

    @property
    def below(self) -> int:
        """Distinct filters that another one covers."""
        return len({narrow for each in self.covered for narrow in each.narrow})


def relations_of(subscriptions: Sequence[Registration]) -> Relations:
    """Group equal filters, and find covers among distinct ones."""
    held: dict[Filter, list[str]] = {}
    for each in subscriptions:
        held.setdefault(each.filter, []).append(each.id)
    # most holders first, so that the bound leaves out what matters least
    filters = sorted(held, key=lambda filter: -len(held[filter]))
    index: CoverIndex[int] = CoverIndex()
    for number, filter in enumerate(filters[:FILTERS_MAX]):
        index.add(number, filter)
    index.settle()
    covered = []
    for number, filter in enumerate(filters[:FILTERS_MAX]):
        narrow = [key for key in index.covered_by(filter) if key != number]
        if narrow:
            covered.append(Covered(number, tuple(narrow[:COVERED_SHOWN_MAX]), len(narrow)))
    return Relations(
        tuple(map(str, filters)),
        tuple(tuple(held[filter]) for filter in filters),
        tuple(covered),
        min(len(filters), FILTERS_MAX),
    )


def merged(relations: Relations, pairs: Iterable[Pair], likeness_min: float) -> dict[str, str]:
    """The new filters of merged subscriptions, by id: the most similar pairs first, each filter in one pair."""
    taken: set[int] = set()
    changed: dict[str, str] = {}
    for pair in sorted(pairs, key=lambda pair: (-pair.likeness, -pair.either, pair.one, pair.other)):
        if pair.likeness >= likeness_min and not {pair.one, pair.other} & taken:
            taken |= {pair.one, pair.other}
            union = f"({relations.filters[pair.one]}) or ({relations.filters[pair.other]})"
            for number in (pair.one, pair.other):
                changed |= dict.fromkeys(relations.holders[number], union)
    return changed


def numbers_by_client(relations: Relations, subscriptions: Sequence[Registration]) -> Mapping[str, int]:
    """The filter of each client with just one subscription; for others, a delivery does not say which one matched."""
    number_of = {id: number for number, ids in enumerate(relations.holders) for id in ids}
    counts: dict[str, int] = {}
    for each in subscriptions:
        counts[each.client] = counts.get(each.client, 0) + 1
    return {each.client: number_of[each.id] for each in subscriptions if counts[each.client] == 1}
