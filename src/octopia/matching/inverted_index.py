"""An inverted index of filters: by the terms they ask for, such as `symbol = 'AAPL'`.

A search among boxes costs the same hundred microseconds whether there are ten filters or a million. Most conditions
name some string, and few filters name the same one, so most questions about covers need no such search:

- A filter that covers another matches its examples. `ByString` files each filter under one string of each conjunction,
  the least common one, and looks up the strings of an example.
- A filter that is covered has examples that the other matches. `ByExample` files each filter under every string of
  its example, and looks up the strings that the other asks for.

Both are bounded: if too many filters name a string, it is not selective, and the boxes are searched instead. Only
strings are indexed: as keys of a dictionary, 1 and True would be the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from octopia.language import Conjunction, Filter, Notification, Operator, Value, ValueKind, matches

# An attribute and a string that it equals.
Term = tuple[str, str]

# Filters that are tested one by one for a string, about a microsecond each.
PER_TERM_MAX: Final = 24
# With more filters than this, a string is not looked up any more until all of them are gone.
EXAMPLES_MAX: Final = 64


def terms_of(conjunction: Conjunction) -> Iterator[Term]:
    """The strings that a conjunction asks for."""
    for predicate in conjunction.predicates:
        if predicate.operator is Operator.EQ and predicate.kind is ValueKind.STRING:
            yield predicate.attribute, str(predicate.value)


def _strings(example: Mapping[str, Value]) -> Iterator[Term]:
    return ((attribute, value) for attribute, value in example.items() if type(value) is str)


class _Filed(NamedTuple):
    """A filter under a string, and the attributes an example needs to match the conjunctions filed there."""

    filter: Filter
    attributes: frozenset[str]


class ByString:
    """Filters in which each conjunction has a string that few others have, filed under those strings."""

    __slots__ = ("_terms", "_under")

    def __init__(self) -> None:
        self._under: dict[Term, dict[int, _Filed]] = {}
        self._terms: dict[int, tuple[Term, ...]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._terms

    def take(self, number: int, filter: Filter) -> bool:
        """Store a filter, if each of its conjunctions has such a string."""
        terms: dict[Term, frozenset[str]] = {}
        for conjunction in filter.conjunctions:
            rarest = min(terms_of(conjunction), key=self._count, default=None)
            if rarest is None or self._count(rarest) >= PER_TERM_MAX:
                return False
            named = frozenset(conjunction.by_attribute)
            terms[rarest] = terms.get(rarest, named) & named
        self._terms[number] = tuple(terms)
        for term, attributes in terms.items():
            self._under.setdefault(term, {})[number] = _Filed(filter, attributes)
        return True

    def remove(self, number: int) -> None:
        for term in self._terms.pop(number):
            under = self._under[term]
            del under[number]
            if not under:
                del self._under[term]

    def matching(self, examples: list[Notification]) -> list[int]:
        """The filters that match all these examples, each once."""
        named = examples[0].keys()
        found: dict[int, Filter] = {}
        for term in _strings(examples[0]):
            for number, (filter, attributes) in self._under.get(term, _NOBODY).items():
                if attributes <= named:
                    found[number] = filter
        return [number for number, filter in found.items() if all(matches(filter, one) for one in examples)]

    def _count(self, term: Term) -> int:
        under = self._under.get(term)
        return 0 if under is None else len(under)


_NOBODY: Final[dict[int, _Filed]] = {}


class ByExample:
    """Filters under each string of an example of theirs."""

    __slots__ = ("_counts", "_under")

    def __init__(self) -> None:
        self._under: dict[Term, dict[int, Notification]] = {}
        # for strings with too many filters, only their number
        self._counts: dict[Term, int] = {}

    def add(self, number: int, example: Mapping[str, Value]) -> None:
        """Store a filter by its example."""
        seen = Notification.trusted(dict(example))
        for term in _strings(example):
            if term in self._counts:
                self._counts[term] += 1
                continue
            under = self._under.setdefault(term, {})
            under[number] = seen
            if len(under) > EXAMPLES_MAX:
                self._counts[term] = len(under)
                del self._under[term]

    def remove(self, number: int, example: Mapping[str, Value]) -> None:
        """Remove a filter stored by this example."""
        for term in _strings(example):
            if term in self._counts:
                self._counts[term] -= 1
                if not self._counts[term]:
                    del self._counts[term]
                continue
            del self._under[term][number]
            if not self._under[term]:
                del self._under[term]

    def inside(self, filter: Filter, asked: Iterable[Conjunction]) -> list[int] | None:
        """The filters whose example a filter matches, given its conjunctions; None if boxes must be searched."""
        found: dict[int, Notification] = {}
        for conjunction in asked:
            under = self._least_common(conjunction)
            if under is None:
                return None
            found.update(under)
        return [number for number, example in found.items() if matches(filter, example)]

    def _least_common(self, conjunction: Conjunction) -> dict[int, Notification] | None:
        known = (self._under.get(term, {}) for term in terms_of(conjunction) if term not in self._counts)
        return min(known, key=len, default=None)
