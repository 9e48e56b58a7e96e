"""Subscriptions and advertisements as values: a filter is a disjunction of conjunctions of predicates.

Both are frozen, hashable, and in canonical order (sorted, without duplicates), so texts that differ only in the order
of their parts give equal filters. Nothing is simplified beyond that: `x > 5 and x > 10` keeps both, and an
unsatisfiable conjunction is kept and matches nothing. A filter always has at least one conjunction; the empty
conjunction (SQL's `true`) matches everything.

Parsers build a filter from terms (`any_of`, `all_of`, `as_filter`). The size of a result is computed before the result
itself. Twenty two-way `or`s under one `and` make a million terms; the fourteenth step would exceed the limit, so it is
refused and never built.

`pattern_count` and `unequal_count` give the cost of holding a filter, before a broker accepts it. It depends on the
filter alone, not on a clock, so every broker gives the same answer. Intervals and equal strings are cheap: thousands of
them are searched together. The cost counts *patterns*: conditions that are tested one by one, against values and
against other filters.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain, groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from octopia.errors import LanguageError
from octopia.language.limits import DISJUNCTS_MAX, PREDICATES_MAX
from octopia.language.predicate import Operator, Predicate, SortKey
from octopia.language.values import ValueKind

Grouped: TypeAlias = Mapping[str, tuple[Predicate, ...]]


_ATTRIBUTE: Final = attrgetter("attribute")
_PREDICATE_ORDER: Final = attrgetter("sort_key")
# The cached hash of a predicate, without a call of a function in Python.
_HASH: Final = attrgetter("_hash")


@dataclass(frozen=True, slots=True, init=False)
class Conjunction:
    """Predicates that must all hold. Iterates over them."""

    predicates: tuple[Predicate, ...]
    # Cached: filters and their parts are keys of many tables and caches.
    _hash: int = field(repr=False, compare=False)
    _by_attribute: Grouped | None = field(repr=False, compare=False)

    def __init__(self, predicates: Iterable[Predicate] = ()) -> None:
        listed = list(predicates)
        for predicate in listed:
            if not isinstance(predicate, Predicate):
                raise TypeError(f"a conjunction is made of Predicate, not {type(predicate).__name__}")
        listed.sort(key=_PREDICATE_ORDER)
        hashes = tuple(map(_HASH, listed))
        if len(set(hashes)) < len(hashes):
            # Probably the same predicate twice.
            listed = list(dict.fromkeys(listed))
            hashes = tuple(map(_HASH, listed))
        _set_predicates(self, tuple(listed))
        _set_hash(self, hash(hashes))
        _set_by_attribute(self, None)

    @property
    def by_attribute(self) -> Grouped:
        """The predicates of each attribute, in order of attribute: the form that overlap and covering work on.

        Made when first asked for, since neither a client nor the index of a broker asks.
        """
        known = self._by_attribute
        if known is None:
            groups = {name: tuple(group) for name, group in groupby(self.predicates, key=_ATTRIBUTE)}
            known = MappingProxyType(groups)
            _set_by_attribute(self, known)
        return known

    @property
    def testing(self) -> tuple[Predicate, ...]:
        """The predicates that look at a value; the others ask for presence alone."""
        return tuple(predicate for predicate in self.predicates if predicate.kind is not None)

    def __hash__(self) -> int:
        return self._hash

    def __iter__(self) -> Iterator[Predicate]:
        return iter(self.predicates)

    def __len__(self) -> int:
        return len(self.predicates)

    def __str__(self) -> str:
        return " and ".join(map(str, self.predicates)) or "true"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Conjunction, (self.predicates,))


# Conjunctions are frozen; these setters fill a new one, faster than `object.__setattr__`.
_set_predicates, _set_hash, _set_by_attribute = (
    Conjunction.__dict__[slot.name].__set__ for slot in fields(Conjunction)
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Conjunctions of which one must hold. Iterates over them; `str` gives SQL that parses back to an equal filter."""

    conjunctions: tuple[Conjunction, ...]

    def __init__(self, conjunctions: Iterable[Conjunction]) -> None:
        listed = tuple(conjunctions)
        for conjunction in listed:
            if not isinstance(conjunction, Conjunction):
                raise TypeError(f"a filter is made of Conjunction, not {type(conjunction).__name__}")
        if not listed:
            raise LanguageError("a filter of no conjunctions matches nothing", expected="at least one conjunction")
        ordered = tuple(sorted(dict.fromkeys(listed), key=_sort_key)) if len(listed) > 1 else listed
        check_size(len(ordered), sum([len(conjunction.predicates) for conjunction in ordered]))
        object.__setattr__(self, "conjunctions", ordered)

    @classmethod
    def of(cls, *predicates: Predicate) -> "Filter":
        """The filter of one conjunction."""
        return cls((Conjunction(predicates),))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute names in the filter, sorted."""
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
    """Refuse a filter with too many parts; callers check before they build one."""
    if conjunctions > DISJUNCTS_MAX:
        raise _too_many(conjunctions, "conjunctions", DISJUNCTS_MAX)
    if predicates > PREDICATES_MAX:
        raise _too_many(predicates, "predicates", PREDICATES_MAX)


def _too_many(count: int, what: str, limit: int) -> LanguageError:
    return LanguageError(
        f"the filter becomes {count} {what}",
        expected=f"at most {limit}",
        hint="each 'or' and 'in' under an 'and' multiplies; split it into several subscriptions",
    )


def _sort_key(conjunction: Conjunction) -> tuple[SortKey, ...]:
    return tuple(map(_PREDICATE_ORDER, conjunction.predicates))


Terms: TypeAlias = tuple[tuple[Predicate, ...], ...]

EVERYTHING: Terms = ((),)
# The empty disjunction: never true. `or` drops it; `and` with it is empty again.
NOTHING: Terms = ()


def any_of(parts: Iterable[Terms]) -> Terms:
    """`or` of all parts."""
    filled: list[Terms] = []
    conjunctions = 0
    for part in parts:
        if part:
            filled.append(part)
            conjunctions += len(part)
            if conjunctions > DISJUNCTS_MAX:
                raise _too_many(conjunctions, "conjunctions", DISJUNCTS_MAX)
    if len(filled) == 1:
        return filled[0]
    result = tuple(chain.from_iterable(filled))
    check_size(conjunctions, _size(result))
    return result


def all_of(parts: Iterable[Terms]) -> Terms:
    """`and` of all parts, multiplied out.

    Parts with a single term are gathered first: they multiply nothing, so a long `and` of plain predicates stays
    linear.
    """
    common: list[Predicate] = []
    unions: list[Terms] = []
    for part in parts:
        if len(part) == 1:
            common += part[0]
        else:
            unions.append(part)
    if NOTHING in unions:
        return NOTHING
    check_size(1, len(common))
    result: Terms = (tuple(common),) if common or not unions else unions.pop()
    for union in unions:
        check_size(len(result) * len(union), _size(result) * len(union) + len(result) * _size(union))
        result = tuple([left + right for left in result for right in union])
    return result


def one(predicate: Predicate) -> Terms:
    """A single predicate."""
    return ((predicate,),)


def as_filter(terms: Terms) -> Filter:
    """The finished filter."""
    return Filter([Conjunction(term) for term in terms])


def _size(terms: Terms) -> int:
    return sum(map(len, terms))


# A pattern of up to this many characters counts as one, of twice as many as two, and so on.
PATTERN_CHARS: Final = 64
# Up to here every integer is a float, and comparing with it is an interval.
_EXACT_MAX: Final = 2**53


def pattern_count(filter: Filter) -> int:
    """The patterns of a filter: `like`, the order of strings, and numbers past 2^53; a long string counts several."""
    return sum(_patterns(predicate) for conjunction in filter.conjunctions for predicate in conjunction.predicates)


def unequal_count(filter: Filter) -> int:
    """The conjunctions of a filter that leave values out (`<>`, `not in`)."""
    return sum(any(p.operator is Operator.NE for p in conjunction) for conjunction in filter.conjunctions)


def _patterns(predicate: Predicate) -> int:
    value = predicate.value
    if predicate.kind is ValueKind.STRING:
        if predicate.operator is Operator.EQ or predicate.operator is Operator.NE:
            return 0
        return -(-len(str(value)) // PATTERN_CHARS) or 1
    if predicate.kind is ValueKind.NUMBER:
        return int(not -_EXACT_MAX < value < _EXACT_MAX)  # type: ignore[operator]
    return 0
