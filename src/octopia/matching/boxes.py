"""A conjunction as a box: closed intervals on dimensions, excluded values, and conditions that neither can express.

Most of a filter is intervals in disguise. `price > 10` is one already; `symbol = 'AAPL'` is the interval [c, c] on the
number c that stands for that string; `flag = true` is [1, 1], and so is "is present". `<>` excludes a value: a number
or the code of a string. The remaining conditions on strings (prefix, contains, order, …) are the atoms, whose truth
depends on one string alone.

A box never misses a notification that the conjunction accepts. Where floats cannot express the predicate exactly (an
integer past 2^53), the box is wider and marked inexact, and its matches are tested again with the filter itself.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from math import inf, nextafter
from typing import NamedTuple

from octopia.language import Conjunction, Kind, Operator, Predicate

# Up to here every integer is a float, so no integer lies between a float and its successor.
EXACT_MAX = 2.0**53


class Axis(IntEnum):
    """What a dimension of an attribute measures."""

    NUMBER = 0
    STRING = 1
    BOOL = 2
    PRESENT = 3


Dimension = tuple[str, Axis]
Span = tuple[float, float]


class Box(NamedTuple):
    """A conjunction, taken apart. `lows` and `highs` are the closed bounds on `dimensions`, in that order; after them,
    the values left out on the dimensions `without`, as lows and highs alike."""

    dimensions: tuple[Dimension, ...]
    without: tuple[Dimension, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    atoms: tuple[Predicate, ...]
    inexact: bool


# Looked up once: reaching a member through its enumeration costs more than the comparison it is used in.
_NUMBER, _STRING, _BOOL, _PRESENT = Axis
_KIND_NUMBER, _KIND_STRING, _KIND_BOOL = Kind.NUMBER, Kind.STRING, Kind.BOOL
_EQ, _NE, _GE, _LE, _GT = Operator.EQ, Operator.NE, Operator.GE, Operator.LE, Operator.GT
_THERE = (1.0, 1.0)


def coded_strings(conjunction: Conjunction) -> list[tuple[str, str]]:
    """The strings, with their attributes, whose codes `take_apart` asks for, with the same repeats."""
    return [
        (p.attribute, p.value)  # type: ignore[misc]
        for p in conjunction.predicates
        if p.kind is _KIND_STRING and (p.operator is _EQ or p.operator is _NE)
    ]


def take_apart(conjunction: Conjunction, code_of: Callable[[str, str], float]) -> Box:
    """The box of a conjunction; `code_of(attribute, string)` gives the number that stands for a string."""
    spans: dict[Dimension, Span] = {}
    without: list[Dimension] = []
    values: list[float] = []
    atoms: list[Predicate] = []
    inexact = False
    for predicate in conjunction.predicates:
        attribute, kind, operator = predicate.attribute, predicate.kind, predicate.operator
        span, axis = _THERE, _PRESENT
        if kind is _KIND_NUMBER:
            interval = _interval(predicate)
            if interval is None:
                inexact = True
            else:
                span, axis = interval, _NUMBER
        elif kind is _KIND_STRING:
            if operator is not _EQ and operator is not _NE:
                atoms.append(predicate)
                continue
            code = code_of(attribute, predicate.value)  # type: ignore[arg-type]
            span, axis = (code, code), _STRING
        elif kind is _KIND_BOOL:
            wanted = float(bool(predicate.value) is (operator is _EQ))
            span, axis = (wanted, wanted), _BOOL
        dimension = (attribute, axis)
        if operator is _NE and (axis is _NUMBER or axis is _STRING):
            without.append(dimension)
            values.append(span[0])
            continue
        known = spans.get(dimension)
        if known is not None:
            (low, high), (low_before, high_before) = span, known
            # `max` and `min` would take twice as long
            span = (low if low > low_before else low_before, high if high < high_before else high_before)
        spans[dimension] = span
    lows, highs = zip(*spans.values(), strict=True) if spans else ((), ())
    return Box(
        tuple(spans),
        tuple(without),
        (*lows, *values),
        (*highs, *values),
        tuple(atoms),
        inexact or _is_empty(spans),
    )


def _is_empty(spans: Mapping[Dimension, Span]) -> bool:
    """Whether the intervals are unsatisfiable: another box may still seem to meet them, so the filter must decide."""
    typed_before = None
    for (attribute, axis), (low, high) in spans.items():
        if low > high:
            return True
        if axis is not _PRESENT:
            # intervals of one attribute are adjacent, and no value has two types
            if attribute == typed_before:
                return True
            typed_before = attribute
    return False


def _interval(predicate: Predicate) -> Span | None:
    """The floats that satisfy a condition on a number, as a closed interval; None if there is none.

    For `<>` it is the excluded interval.
    """
    constant, operator = predicate.value, predicate.operator
    try:
        bound = float(constant)  # type: ignore[arg-type]
    except OverflowError:
        return None
    if bound != constant:
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
    if operator is _NE:
        return bound, bound
    return (nextafter(bound, inf), inf) if operator is _GT else (-inf, nextafter(bound, -inf))


def floats_around(number: int) -> tuple[float, float]:
    """The greatest float not above and the least not below an integer; equal if the integer is a float itself."""
    try:
        near = float(number)
    except OverflowError:
        return (nextafter(inf, 0.0), inf) if number > 0 else (-inf, nextafter(-inf, 0.0))
    if near == number:
        return near, near
    return (nextafter(near, -inf), near) if near > number else (near, nextafter(near, inf))
