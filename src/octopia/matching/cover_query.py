"""`CoverQuery`: a filter, and the stored filters that cover it or are covered by it; and `Shelf`, which stores them.

The index is searched once per query, and each proof is made once. Answers stay right after filters come and go:
later filters have higher numbers and are tested one by one, and removed filters are not on the shelf any more. So a
query gets more expensive with time and should be dropped after a while (`covers`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice, takewhile
from typing import Generic, NamedTuple, TypeVar

from octopia.language import Filter, Notification, contradictory, covers, extremes, matches
from octopia.matching.narrower import Inside, Narrower, example_of
from octopia.matching.wider import Numbers, Wider, both

Key = TypeVar("Key", bound=Hashable)

# Numbers processed together: the first often covers, and listing all would take longer than finding them.
_PORTION = 64


class StoredFilter(NamedTuple, Generic[Key]):
    """A filter, and the keys that it is stored under, with their position in the order of all keys."""

    filter: Filter
    keys: dict[Key, int]


class Shelf(Generic[Key]):
    """Distinct filters by number, in order of arrival. Numbers are never reused."""

    __slots__ = ("contradictory", "narrower", "next_number", "numbers", "stored", "wider")

    def __init__(self) -> None:
        self.numbers: dict[Filter, int] = {}
        self.stored: dict[int, StoredFilter[Key]] = {}
        self.next_number = 0
        self.wider = Wider()
        self.narrower = Narrower()
        # nothing matches these, so every filter covers them
        self.contradictory: dict[int, None] = {}

    def number_of(self, filter: Filter) -> int:
        """The number of a filter, which is stored if it is new."""
        known = self.numbers.get(filter)
        if known is not None:
            return known
        number = self.numbers[filter] = self.next_number
        self.next_number += 1
        self.stored[number] = StoredFilter(filter, {})
        self.wider.add(number, filter)
        example = example_of(filter)
        if example is not None:
            self.narrower.enter(number, filter, example)
        elif contradictory(filter):
            self.contradictory[number] = None
        return number

    def forget(self, number: int) -> None:
        filter = self.stored.pop(number).filter
        del self.numbers[filter]
        self.wider.remove(number, filter)
        self.contradictory.pop(number, None)
        if number in self.narrower:
            self.narrower.leave(number)


def _anyone(_: object) -> bool:
    return True


class CoverQuery(Generic[Key]):
    """A filter, and the stored filters that cover it or are covered by it, for callers that accept different keys.

    `ask` returns the query for another filter, perhaps a cached one.
    """

    __slots__ = ("_around", "_ask", "_covered", "_covering", "_filter", "_inside", "_parts", "_shelf", "asked_at")

    def __init__(self, shelf: Shelf[Key], filter: Filter, ask: "Callable[[Filter], CoverQuery[Key]]") -> None:
        self._shelf = shelf
        self._ask = ask
        self._filter = filter
        self.asked_at = shelf.next_number
        self._parts: list[CoverQuery[Key]] = []
        # search results
        self._around: Numbers | None = None
        self._inside: Inside | None = None
        # proofs, by number
        self._covering: dict[int, bool] = {}
        self._covered: dict[int, bool] = {}

    def covering(self, accept: Callable[[Key], bool] = _anyone) -> Key | None:
        """One of the accepted keys whose filter covers this one, or None."""
        stored_at, proved = self._shelf.stored, self._covering
        for number in self._may_cover():
            stored = stored_at.get(number)
            if stored is None:
                continue
            for key in stored.keys:
                if accept(key):
                    if number not in proved:
                        proved[number] = covers(stored.filter, self._filter)
                    if proved[number]:
                        return key
                    break
        return None

    def covering_each(self, accept: Callable[[Key], bool] = _anyone) -> tuple[Key, ...]:
        """One accepted key whose filter covers all of this one, or else one for each conjunction, in their order.

        Empty if some conjunction is not covered.
        """
        parts = self.parts()
        # a cover of all also covers the first conjunction, and often nothing does
        found = [parts[0].covering(accept)] if parts else []
        if None in found:
            return ()
        alone = self.covering(accept)
        if alone is not None or not parts:
            return () if alone is None else (alone,)
        for part in parts[1:]:
            found.append(part.covering(accept))
            if found[-1] is None:
                return ()
        return tuple(key for key in found if key is not None)

    def parts(self) -> "list[CoverQuery[Key]]":
        """The conjunctions of a union as separate questions."""
        if not self._parts and len(self._filter) > 1:
            self._parts = [self._ask(Filter([conjunction])) for conjunction in self._filter.conjunctions]
        return self._parts

    def covered(self, accept: Callable[[Key], bool] = _anyone, most: int | None = None) -> list[Key]:
        """The accepted keys whose filter this one covers, see `CoverIndex.covered_by`."""
        if self._inside is None:
            self._inside = self._shelf.narrower.inside(self._filter)
            self._covered.update(dict.fromkeys(self._inside.certain, True))
        equal = self._shelf.numbers.get(self._filter)
        sure = chain(self._shelf.contradictory, () if equal is None else (equal,))
        numbers = dict.fromkeys(chain(self._inside.certain, sure, self._inside.doubtful, self._newer()))
        found = dict(islice(self._proved(numbers, accept), most))
        return sorted(found, key=found.__getitem__)

    def _proved(self, numbers: Iterable[int], accept: Callable[[Key], bool]) -> Iterator[tuple[Key, int]]:
        for number in numbers:
            stored = self._shelf.stored.get(number)
            if stored is None:
                continue
            accepted = [(key, order) for key, order in stored.keys.items() if accept(key)]
            if accepted:
                if number not in self._covered:
                    self._covered[number] = _matches_last(self._filter, stored.filter) and covers(
                        self._filter, stored.filter
                    )
                if self._covered[number]:
                    yield from accepted

    def _may_cover(self) -> Iterator[int]:
        """A superset of the numbers of all covers; some may be repeated or already removed."""
        equal = self._shelf.numbers.get(self._filter)
        if equal is not None:
            yield equal
        if self.has_examples():
            found = self.search()
            for at in range(0, len(found), _PORTION):
                yield from found[at : at + _PORTION].tolist()
            yield from self._newer()
        elif contradictory(self._filter):
            yield from self._shelf.stored

    def search(self) -> Numbers:
        """Candidates from a search for covers of a filter that has examples."""
        if self._around is None:
            parts = [part for part in self.parts() if part.has_examples()]
            if parts:
                # the first and last conjunction of a union tell most; each may have been searched for before
                first, last = parts[0], parts[-1]
                found = first.search()
                self._around = both(found, last.search()) if last is not first and len(found) else found
                self.asked_at = min(self.asked_at, first.asked_at, last.asked_at)
            else:
                self._around = self._shelf.wider.around(self._filter)
        return self._around

    def has_examples(self) -> bool:
        return any(extremes(conjunction) is not None for conjunction in self._filter.conjunctions)

    def _newer(self) -> list[int]:
        """The filters added since the question was first asked, oldest first."""
        if self._shelf.next_number == self.asked_at:
            return []
        numbers = reversed(self._shelf.stored)
        return list(takewhile(lambda number: number >= self.asked_at, numbers))[::-1]


def _matches_last(asked: Filter, stored: Filter) -> bool:
    """Whether a filter matches an example of another's last conjunction; if not, it does not cover the other.

    The other was found by its first conjunction, which says nothing about the last.
    """
    examples = extremes(stored.conjunctions[-1])
    return examples is None or matches(asked, Notification.trusted(examples.least))
