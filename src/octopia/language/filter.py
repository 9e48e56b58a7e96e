"""Subscriptions and advertisements as values: a filter is a disjunction of conjunctions of predicates.

Rules of this file: both are frozen, hashable, and in canonical order (sorted, without duplicates), so that text which
differs only in the order of its parts gives equal filters. Nothing is simplified beyond that: `x > 5 and x > 10`
keeps both, and a conjunction that nothing can satisfy is kept and matches nothing. A filter always has at least one
conjunction; the empty conjunction (SQL's `true`) matches everything.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeAlias

from octopia.errors import LanguageError
from octopia.language.limits import DISJUNCTS_MAX, PREDICATES_MAX
from octopia.language.predicate import Operator, Predicate, SortKey

Grouped: TypeAlias = Mapping[str, tuple[Predicate, ...]]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Predicates that must all hold. Iterates over them."""

    predicates: tuple[Predicate, ...]
    # The same predicates by attribute, in order of attribute: the form that overlap and covering work on.
    by_attribute: Grouped = field(init=False, repr=False, compare=False)
    # Those that look at a value: whether an attribute is there at all is known before any value is looked at.
    testing: tuple[Predicate, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, predicates: Iterable[Predicate] = ()) -> None:
        ordered = _canonical(predicates)
        object.__setattr__(self, "predicates", ordered)
        groups = {name: tuple(group) for name, group in groupby(ordered, key=lambda p: p.attribute)}
        object.__setattr__(self, "by_attribute", MappingProxyType(groups))
        testing = tuple(predicate for predicate in ordered if predicate.operator is not Operator.PRESENT)
        object.__setattr__(self, "testing", testing)

    def __iter__(self) -> Iterator[Predicate]:
        return iter(self.predicates)

    def __len__(self) -> int:
        return len(self.predicates)

    def __str__(self) -> str:
        return " and ".join(map(str, self.predicates)) or "true"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Conjunction, (self.predicates,))


@dataclass(frozen=True, slots=True)
class Filter:
    """Conjunctions of which one must hold. Iterates over them; `str` gives SQL that parses back to an equal filter."""

    conjunctions: tuple[Conjunction, ...]

    def __init__(self, conjunctions: Iterable[Conjunction]) -> None:
        distinct = dict.fromkeys(conjunctions)
        for conjunction in distinct:
            if not isinstance(conjunction, Conjunction):
                raise TypeError(f"a filter is made of Conjunction, not {type(conjunction).__name__}")
        if not distinct:
            raise LanguageError("a filter of no conjunctions matches nothing", expected="at least one conjunction")
        check_size(len(distinct), sum(map(len, distinct)))
        object.__setattr__(self, "conjunctions", tuple(sorted(distinct, key=_sort_key)))

    @classmethod
    def of(cls, *predicates: Predicate) -> "Filter":
        """The filter of one conjunction."""
        return cls((Conjunction(predicates),))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names that the filter mentions, sorted."""
        return tuple(sorted({name for conjunction in self.conjunctions for name in conjunction.by_attribute}))

    def __iter__(self) -> Iterator[Conjunction]:
        return iter(self.conjunctions)

    def __len__(self) -> int:
        return len(self.conjunctions)

    def __str__(self) -> str:
        # `and` binds tighter than `or`, so a disjunction of conjunctions needs no parentheses.
        return " or ".join(map(str, self.conjunctions))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Filter, (self.conjunctions,))


def check_size(conjunctions: int, predicates: int) -> None:
    """Refuse a filter of so many parts; callers that build one ask first, and build after."""
    for count, what, limit in (
        (conjunctions, "conjunctions", DISJUNCTS_MAX),
        (predicates, "predicates", PREDICATES_MAX),
    ):
        if count > limit:
            raise LanguageError(
                f"the filter becomes {count} {what}",
                expected=f"at most {limit}",
                hint="each 'or' and 'in' under an 'and' multiplies; split it into several subscriptions",
            )


def _canonical(predicates: Iterable[Predicate]) -> tuple[Predicate, ...]:
    listed = list(predicates)
    for predicate in listed:
        if not isinstance(predicate, Predicate):
            raise TypeError(f"a conjunction is made of Predicate, not {type(predicate).__name__}")
    return tuple(dict.fromkeys(sorted(listed, key=lambda p: p.sort_key)))


def _sort_key(conjunction: Conjunction) -> tuple[SortKey, ...]:
    return tuple(p.sort_key for p in conjunction.predicates)
