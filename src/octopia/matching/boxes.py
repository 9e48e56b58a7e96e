"""A conjunction, taken apart: intervals on axes of attributes, what is left out of them, and tests of strings.

Most of a filter is intervals in disguise. `price > 10` is one already. `symbol = 'AAPL'` is the interval [c, c] on the
number c that stands for that string; `flag = true` is [1, 1], and so is "is present". `name like 'A%'` is the strings
from 'A' up to the next that does not begin so. `<>` leaves a value out, and `not like 'A%'` a range of them. `name like
'%inc%'` is [c, c] again, on the number of that piece: a string may have many pieces, and is searched for once for each
that some filter names. Only `not like '%inc%'`, and pieces beyond the first, are tests that remain when a box is found.

Parts are exact: a notification satisfies a conjunction if and only if it lies in the parts and passes the tests. Bounds
are values here, not yet coordinates (`space.py`): floats on NUMBER, BOOL and PRESENT; strings on STRING and PIECE;
numbers of any size on EXACT, whose bounds belong to the interval; UTF-8 bytes on ORDER and, last byte first, on ENDING,
whose upper bounds do not. None is an open end.
"""

from enum import IntEnum
from math import inf, nextafter
from typing import Any, NamedTuple

from octopia.language import Conjunction, Operator, Predicate, Value, ValueKind, predecessor, successor

# Up to here every integer is a float, so no integer lies between a float and its successor.
EXACT_MAX = 2.0**53


class Axis(IntEnum):
    """What a dimension of an attribute measures."""

    NUMBER = 0  # the float of a number, or the two around it
    STRING = 1  # the code of a string
    BOOL = 2
    PRESENT = 3
    EXACT = 4  # the place of a number among bounds that are not finite floats, or not closed
    ORDER = 5  # the place of a string among bounds and prefixes
    ENDING = 6  # the same from its end: among suffixes
    PIECE = 7  # the code of a piece of a string


Dimension = tuple[str, Axis]
# An attribute, an axis, and the lower and the upper bound.
Span = tuple[str, Axis, Any, Any]


class Parts(NamedTuple):
    """A conjunction that can be satisfied, as far as its intervals say.

    `piece` is the attribute of the only interval on PIECE, if there is one; `pattern` is its predicate.
    """

    spans: list[Span]
    without: list[Span]
    piece: str | None
    pattern: Predicate | None
    tests: tuple[Predicate, ...]


# Looked up once: reaching a member through its enumeration costs more than the comparison it is used in.
_NUMBER, _STRING, _BOOL, _PRESENT, _EXACT, _ORDER, _ENDING, _PIECE = Axis
_KIND_NUMBER, _KIND_STRING, _KIND_BOOL = ValueKind.NUMBER, ValueKind.STRING, ValueKind.BOOL
_EQ, _NE, _LT, _LE, _GT, _GE = tuple(Operator)[:6]
_PREFIX, _POSTFIX, _CONTAINS, _NOT_PREFIX, _NOT_POSTFIX = tuple(Operator)[6:11]


def parts_of(conjunction: Conjunction) -> Parts | None:
    """The parts of a conjunction; None if its intervals show that nothing satisfies it."""
    spans: list[Span] = []
    without: list[Span] = []
    patterns: list[Predicate] = []
    tests: list[Predicate] = []
    for attribute, predicates in conjunction.by_attribute.items():
        # by operator, so that equality comes first and presence last
        first = predicates[0]
        kind, operator = first.kind, first.operator
        if kind is None:
            spans.append((attribute, _PRESENT, 1.0, 1.0))
        elif operator is _EQ:
            if len(predicates) > 1 and not _all_accept(predicates, first.value):
                return None
            spans.append(_equal(attribute, kind, first.value))
        elif len(predicates) > 1 and any(p.kind is not kind for p in predicates if p.kind is not None):
            return None
        elif kind is _KIND_NUMBER:
            if not _take_numbers(attribute, predicates, spans, without):
                return None
        elif kind is _KIND_STRING:
            if not _take_strings(attribute, predicates, spans, without, patterns, tests):
                return None
        else:
            left = {True, False} - {p.value for p in predicates}
            if not left:
                return None
            spans.append(_equal(attribute, kind, left.pop()))
    if not patterns:
        return Parts(spans, without, None, None, tuple(tests))
    # the longest is found in the fewest strings
    longest = max(patterns, key=lambda p: len(str(p.value)))
    spans.append((longest.attribute, _PIECE, longest.value, longest.value))
    tests += (pattern for pattern in patterns if pattern is not longest)
    return Parts(spans, without, longest.attribute, longest, tuple(tests))


def _all_accept(predicates: tuple[Predicate, ...], value: Value | None) -> bool:
    return value is not None and all(p.accepts(value) for p in predicates)


def _equal(attribute: str, kind: ValueKind, value: Any) -> Span:
    """The span of a single value."""
    if kind is _KIND_STRING:
        return attribute, _STRING, value, value
    if kind is _KIND_BOOL:
        return attribute, _BOOL, float(value), float(value)
    number = _as_float(value)
    return (attribute, _EXACT, value, value) if number is None else (attribute, _NUMBER, number, number)


def _as_float(number: Any) -> float | None:
    """A number as a float; None if it is not one."""
    try:
        near = float(number)
    except OverflowError:
        return None
    return near if near == number else None


# ---- numbers


def _take_numbers(attribute: str, predicates: tuple[Predicate, ...], spans: list[Span], without: list[Span]) -> bool:
    """The parts of conditions on a number, without equality; False if they exclude each other."""
    excluded: list[Any] = [p.value for p in predicates if p.operator is _NE]
    ends = _ends(predicates)
    if ends is None:
        return False
    low, high = ends
    if low is not None and low == high:
        spans.append(_equal(attribute, _KIND_NUMBER, low))
        return low not in excluded
    if low is not None or high is not None:
        spans.append(_interval(attribute, low, high))
    for value in excluded:
        if (low is None or value >= low) and (high is None or value <= high):
            axis = _NUMBER if -EXACT_MAX < value < EXACT_MAX else _EXACT
            without.append((attribute, axis, value, value))
    return True


def _ends(predicates: tuple[Predicate, ...]) -> tuple[Any, Any] | None:
    """The least and the greatest number that comparisons allow, None for an open end; None if they allow nothing."""
    low: Any = None
    high: Any = None
    for predicate in predicates:
        operator, bound = predicate.operator, predicate.value
        if operator is _GE or operator is _GT:
            above: Any = bound if operator is _GE else _above(bound)
            if above is None:
                return None
            low = above if low is None or above > low else low
        elif operator is _LE or operator is _LT:
            below: Any = bound if operator is _LE else _below(bound)
            if below is None:
                return None
            high = below if high is None or below < high else high
    return None if low is not None and high is not None and low > high else (low, high)


def _above(number: Any) -> Any:
    """The least number above this one, or None."""
    return nextafter(number, inf) if -EXACT_MAX < number < EXACT_MAX else successor(number)


def _below(number: Any) -> Any:
    """The greatest number below this one, or None."""
    return nextafter(number, -inf) if -EXACT_MAX < number < EXACT_MAX else predecessor(number)


def _interval(attribute: str, low: Any, high: Any) -> Span:
    """An interval on NUMBER, if its bounds are finite floats; otherwise on EXACT."""
    least = -inf if low is None else _as_float(low)
    most = inf if high is None else _as_float(high)
    if least is None or most is None or low == -inf or low == inf or high == inf or high == -inf:
        return attribute, _EXACT, low, high
    return attribute, _NUMBER, least, most


# ---- strings


def _take_strings(
    attribute: str,
    predicates: tuple[Predicate, ...],
    spans: list[Span],
    without: list[Span],
    patterns: list[Predicate],
    tests: list[Predicate],
) -> bool:
    """The parts of conditions on a string, without equality; False if they exclude each other."""
    ordered: _Range = None
    ending: _Range = None
    parts = len(spans) + len(without) + len(patterns)
    for predicate in predicates:
        operator = predicate.operator
        if operator in _LEFT_OUT:
            if not predicate.value and operator is not _NE:
                return False
            without.append(_left_out(predicate))
        elif operator is _CONTAINS:
            patterns.append(predicate)
        elif operator is _POSTFIX:
            ending = _both(ending, _beginning(_key(predicate, _ENDING)))
        elif operator in _RANGES:
            ordered = _both(ordered, _RANGES[operator](_key(predicate, _ORDER)))
        elif predicate.kind is not None:
            tests.append(predicate)
    for axis, reach in ((_ORDER, ordered), (_ENDING, ending)):
        if reach is not None:
            low, high = reach
            if high is not None and low >= high:
                return False
            spans.append((attribute, axis, low, high))
    if len(spans) + len(without) + len(patterns) == parts:
        spans.append((attribute, _PRESENT, 1.0, 1.0))
    return True


_LEFT_OUT = {_NE: _STRING, _NOT_PREFIX: _ORDER, _NOT_POSTFIX: _ENDING}


def _left_out(predicate: Predicate) -> Span:
    """What a condition on a string leaves out."""
    axis = _LEFT_OUT[predicate.operator]
    if axis is _STRING:
        return predicate.attribute, axis, predicate.value, predicate.value
    return predicate.attribute, axis, *_beginning(_key(predicate, axis))


# From a string up to, but not including, another, or without an end; None for all strings.
_Range = tuple[bytes, bytes | None] | None


def _key(predicate: Predicate, axis: Axis) -> bytes:
    return string_key(str(predicate.value), axis)


def string_key(text: str, axis: Axis) -> bytes:
    """A string as it is compared on ORDER, or on ENDING."""
    return text.encode() if axis is _ORDER else text.encode()[::-1]


def _beginning(key: bytes) -> tuple[bytes, bytes | None]:
    """The keys that begin with this one. No byte of UTF-8 is 255, so its last byte can be raised by one."""
    return (key, key[:-1] + bytes([key[-1] + 1])) if key else (key, None)


def _both(one: _Range, other: tuple[bytes, bytes | None]) -> tuple[bytes, bytes | None]:
    if one is None:
        return other
    ends = [end for _, end in (one, other) if end is not None]
    return max(one[0], other[0]), min(ends, default=None)


# The least string above another is the other with a byte 0 after it.
_RANGES: Any = {
    _LT: lambda key: (b"", key),
    _LE: lambda key: (b"", key + b"\0"),
    _GT: lambda key: (key + b"\0", None),
    _GE: lambda key: (key, None),
    _PREFIX: _beginning,
}
