"""A conjunction as a box: closed intervals on dimensions, and the string conditions that no interval can hold.

Most of a filter is intervals in disguise. `price > 10` is one already; `symbol = 'AAPL'` is the interval [c, c] on the
number c that stands for that string; `flag = true` is [1, 1], and so is "is present". What is left are the other
conditions on strings (prefix, contains, order, …), the atoms, whose truth depends on nothing but one string.

Rules of this file: a box never misses a notification that the conjunction accepts. Where an interval of floats cannot
say exactly what the predicate says (an integer past 2^53, `<>` on numbers), the box is wider and marked inexact, and
its matches are tested again with the filter itself.
"""

from collections.abc import Callable
from enum import IntEnum
from math import inf, nextafter
from typing import NamedTuple

from octopia.language import Conjunction, Kind, Operator, Predicate

# Up to here every integer is a float, so that there is nothing between a float and its successor.
EXACT_MAX = 2.0**53


class Axis(IntEnum):
    """What a dimension of an attribute measures."""

    NUMBER = 0
    STRING = 1
    BOOL = 2
    PRESENT = 3


Dimension = tuple[str, Axis]


class Box(NamedTuple):
    """A conjunction, taken apart. `lows` and `highs` are the closed bounds on `dimensions`, in that order."""

    dimensions: tuple[Dimension, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    atoms: tuple[Predicate, ...]
    inexact: bool


# Looked up once: reaching a member through its enumeration costs more than the comparison it is wanted for.
_NUMBER, _STRING, _BOOL, _PRESENT = Axis
_KIND_NUMBER, _KIND_STRING, _KIND_BOOL = Kind.NUMBER, Kind.STRING, Kind.BOOL
_EQ, _NE, _GE, _LE, _GT = Operator.EQ, Operator.NE, Operator.GE, Operator.LE, Operator.GT
_THERE = (1.0, 1.0)


def take_apart(conjunction: Conjunction, code_of: Callable[[str, str], float]) -> Box:
    """The box of a conjunction; `code_of(attribute, string)` gives the number that stands for a string."""
    spans: dict[Dimension, tuple[float, float]] = {}
    atoms: list[Predicate] = []
    inexact = False
    last_typed: Dimension | None = None
    for predicate in conjunction.predicates:
        attribute, kind = predicate.attribute, predicate.kind
        span, axis = _THERE, _PRESENT
        if kind is _KIND_NUMBER:
            interval = _interval(predicate)
            if interval is None:
                inexact = True
            else:
                span, axis = interval, _NUMBER
        elif kind is _KIND_STRING:
            if predicate.operator is not _EQ:
                atoms.append(predicate)
                continue
            code = code_of(attribute, predicate.value)  # type: ignore[arg-type]
            span, axis = (code, code), _STRING
        elif kind is _KIND_BOOL:
            wanted = float(bool(predicate.value) is (predicate.operator is _EQ))
            span, axis = (wanted, wanted), _BOOL
        dimension = (attribute, axis)
        if axis is not _PRESENT:
            # no value is of two types: nothing satisfies such a box, but another box may seem to meet it
            if last_typed is not None and last_typed[0] == attribute and last_typed[1] is not axis:
                inexact = True
            last_typed = dimension
        known = spans.get(dimension)
        if known is not None:
            span = (max(known[0], span[0]), min(known[1], span[1]))
            # nothing satisfies an empty interval, but two of them may seem to meet: let the filter itself decide
            if span[0] > span[1]:
                inexact = True
        spans[dimension] = span
    if not spans:
        return Box((), (), (), tuple(atoms), inexact)
    lows, highs = zip(*spans.values(), strict=True)
    return Box(tuple(spans), lows, highs, tuple(atoms), inexact)


def _interval(predicate: Predicate) -> tuple[float, float] | None:
    """The floats that satisfy a condition on a number, as a closed interval; None where there is no such interval."""
    constant, operator = predicate.value, predicate.operator
    try:
        bound = float(constant)  # type: ignore[arg-type]
    except OverflowError:
        return None
    if bound != constant or operator is _NE:
        return None
    if operator is _EQ:
        return bound, bound
    if not -inf < bound < inf:
        return None
    if operator is _GE:
        return bound, inf
    if operator is _LE:
        return -inf, bound
    if not -EXACT_MAX < bound < EXACT_MAX:
        return None
    return (nextafter(bound, inf), inf) if operator is _GT else (-inf, nextafter(bound, -inf))


def floats_around(number: int) -> tuple[float, float]:
    """The greatest float not above and the least not below an integer: equal where it is a float itself."""
    try:
        near = float(number)
    except OverflowError:
        return (nextafter(inf, 0.0), inf) if number > 0 else (-inf, nextafter(-inf, 0.0))
    if near == number:
        return near, near
    return (nextafter(near, -inf), near) if near > number else (near, nextafter(near, inf))
