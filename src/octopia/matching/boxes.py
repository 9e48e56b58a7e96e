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


def take_apart(conjunction: Conjunction, code_of: Callable[[str, str], float]) -> Box:
    """The box of a conjunction; `code_of(attribute, string)` gives the number that stands for a string."""
    spans: dict[Dimension, tuple[float, float]] = {}
    types: dict[str, Axis] = {}
    atoms: list[Predicate] = []
    inexact = False
    for predicate in conjunction.predicates:
        attribute, kind = predicate.attribute, predicate.kind
        if kind is Kind.NUMBER:
            span = _interval(predicate)
            axis = Axis.NUMBER
            if span is None:
                span, axis, inexact = (1.0, 1.0), Axis.PRESENT, True
        elif kind is Kind.STRING:
            if predicate.operator is not Operator.EQ:
                atoms.append(predicate)
                continue
            code = code_of(attribute, str(predicate.value))
            span, axis = (code, code), Axis.STRING
        elif kind is Kind.BOOL:
            wanted = float(bool(predicate.value) is (predicate.operator is Operator.EQ))
            span, axis = (wanted, wanted), Axis.BOOL
        else:
            span, axis = (1.0, 1.0), Axis.PRESENT
        dimension = (attribute, axis)
        # no value is of two types: nothing satisfies such a box, but another box may seem to meet it
        if axis is not Axis.PRESENT and types.setdefault(attribute, axis) is not axis:
            inexact = True
        known = spans.get(dimension)
        if known is not None:
            span = (max(known[0], span[0]), min(known[1], span[1]))
            # nothing satisfies an empty interval, but two of them may seem to meet: let the filter itself decide
            inexact = inexact or span[0] > span[1]
        spans[dimension] = span
    return Box(
        tuple(spans),
        tuple(low for low, _ in spans.values()),
        tuple(high for _, high in spans.values()),
        tuple(atoms),
        inexact,
    )


def _interval(predicate: Predicate) -> tuple[float, float] | None:
    """The floats that satisfy a condition on a number, as a closed interval; None where there is no such interval."""
    constant, operator = predicate.value, predicate.operator
    try:
        bound = float(constant)  # type: ignore[arg-type]
    except OverflowError:
        return None
    if bound != constant or operator is Operator.NE:
        return None
    if operator is Operator.EQ:
        return bound, bound
    if bound in (inf, -inf):
        return None
    if operator is Operator.GE:
        return bound, inf
    if operator is Operator.LE:
        return -inf, bound
    if abs(bound) >= EXACT_MAX:
        return None
    return (nextafter(bound, inf), inf) if operator is Operator.GT else (-inf, nextafter(bound, -inf))


def floats_around(number: int) -> tuple[float, float]:
    """The greatest float not above and the least not below an integer: equal where it is a float itself."""
    try:
        near = float(number)
    except OverflowError:
        return (nextafter(inf, 0.0), inf) if number > 0 else (-inf, nextafter(-inf, 0.0))
    if near == number:
        return near, near
    return (nextafter(near, -inf), near) if near > number else (near, nextafter(near, inf))
