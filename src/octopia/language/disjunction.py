"""Conditions under construction: disjunctions of conjunctions, kept within the limits while they grow.

Rules of this file: the size of a result is computed before the result is. Twenty two-way `or`s under one `and` are a
million terms; the fourteenth step would pass the limit, so it is refused and never built.
"""

from collections.abc import Iterable
from typing import TypeAlias

from octopia.language.filter import Conjunction, Filter, check_size
from octopia.language.predicate import Predicate

Terms: TypeAlias = tuple[tuple[Predicate, ...], ...]

EVERYTHING: Terms = ((),)


def any_of(parts: Iterable[Terms]) -> Terms:
    """`or` of all parts."""
    result: Terms = ()
    for part in parts:
        check_size(len(result) + len(part), _size(result) + _size(part))
        result += part
    return result


def all_of(parts: Iterable[Terms]) -> Terms:
    """`and` of all parts, multiplied out.

    Parts of one term are gathered first: they multiply nothing, and a long `and` of plain predicates stays linear.
    """
    common: list[Predicate] = []
    unions: list[Terms] = []
    for part in parts:
        if len(part) == 1:
            common.extend(part[0])
            check_size(1, len(common))
        else:
            unions.append(part)
    result: Terms = (tuple(common),)
    for union in unions:
        check_size(len(result) * len(union), _size(result) * len(union) + len(result) * _size(union))
        result = tuple(left + right for left in result for right in union)
    return result


def one(predicate: Predicate) -> Terms:
    """A single predicate."""
    return ((predicate,),)


def as_filter(terms: Terms) -> Filter:
    """The finished filter."""
    return Filter(Conjunction(term) for term in terms)


def _size(terms: Terms) -> int:
    return sum(map(len, terms))
