"""`CoverIndex`: stored filters by key, and which of them cover a filter or are covered by it.

Everything reported is a cover according to `octopia.language.covers`, and every cover that `covers` finds between two
filters is found here. There is one exception, which costs traffic but loses nothing: a filter without an example that
`covers` does not consider contradictory (`x < ''`, or strings bounded by constants of a thousand characters) is related
only to equal filters. A conjunction is never covered by several stored filters; a union may be (`covering_together`).
The same calls in the same order give the same answers. The cost of a question depends on the filters that its examples
match, not on the number stored.

Equal filters share one number and are searched as one. Recent questions (`question`) are cached, since the same filter,
or the same part of several filters, is often asked about again before much has changed.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from octopia.language import Filter, FilterLike, parse_filter
from octopia.matching.cover_query import CoverQuery, Shelf

Key = TypeVar("Key", bound=Hashable)

# Cached questions, and the number of new filters after which they are dropped: a question tests each new one.
_QUESTIONS_MAX = 256
_NEWER_MAX = 16


class CoverIndex(Generic[Key]):
    """An index of filters by key, any hashable. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._number_of: dict[Key, int] = {}
        self._shelf: Shelf[Key] = Shelf()
        self._next_order = 0
        self._questions: dict[Filter, CoverQuery[Key]] = {}
        self._questions_since = 0

    def __len__(self) -> int:
        return len(self._number_of)

    def __contains__(self, key: object) -> bool:
        return key in self._number_of

    def __iter__(self) -> Iterator[Key]:
        """The keys, in the order they were added."""
        return iter(self._number_of)

    def filter_of(self, key: Key) -> Filter:
        """The filter stored under a key; KeyError if there is none."""
        return self._shelf.stored[self._number_of[key]].filter

    def add(self, key: Key, filter: FilterLike) -> None:
        """Store a filter; ValueError if the key is taken."""
        wanted = parse_filter(filter)
        if key in self._number_of:
            raise ValueError(f"key {key!r} is in the index already; remove it first")
        number = self._number_of[key] = self._shelf.number_of(wanted)
        self._shelf.stored[number].keys[key] = self._next_order
        self._next_order += 1

    def remove(self, key: Key) -> None:
        """Remove a filter; KeyError if there is none."""
        number = self._number_of.pop(key)
        keys = self._shelf.stored[number].keys
        del keys[key]
        if not keys:
            self._shelf.forget(number)

    def settle(self) -> None:
        """Optimise the index for searching; worthwhile after loading many filters."""
        self._shelf.wider.settle()
        self._shelf.narrower.settle()

    def ask(self, filter: FilterLike) -> "CoverQuery[Key]":
        """A filter to ask several questions about; they share the search."""
        asked = parse_filter(filter)
        if self._shelf.next_number - self._questions_since > _NEWER_MAX or len(self._questions) >= _QUESTIONS_MAX:
            self._questions.clear()
            self._questions_since = self._shelf.next_number
        question = self._questions.get(asked)
        if question is None:
            question = self._questions[asked] = CoverQuery(self._shelf, asked, self.ask)
        return question

    def covering(self, filter: FilterLike) -> Key | None:
        """One stored filter that covers this one, or None. Equal filters cover each other."""
        return self.ask(filter).covering()

    def covering_together(self, filter: FilterLike) -> tuple[Key, ...]:
        """Stored filters that cover this one together: one for all, or else one for each of its conjunctions.

        Each key once; empty if some conjunction is not covered. `symbol in ('A', 'B')` is seldom covered by one filter,
        and often by two.
        """
        return tuple(dict.fromkeys(self.ask(filter).covering_each()))

    def covered_by(self, filter: FilterLike, most: int | None = None) -> list[Key]:
        """All stored filters that this one covers, in the order they were added; equal ones among them.

        With `most`, at most that many, and no more proofs than that takes.
        """
        return self.ask(filter).covered(most=most)
