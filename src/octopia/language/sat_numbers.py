"""Numbers that could satisfy a set of comparisons.

Rules of this file: exact, over all ints and floats of the language as one ordered set. Between two of them there are
finitely many, so "the next number after v" exists: the next float where floats are denser than integers, the next
integer where integers are. `<>` takes out single points, so the first number from the lower end on that is none of
them is the only one to try.
"""

from collections.abc import Sequence
from math import inf, nextafter
from typing import Final

from octopia.language.limits import INTEGER_MAX
from octopia.language.predicate import Operator, Predicate
from octopia.language.values import Number

# From here on floats are at least 1 apart, and all of them are integers.
_FLOATS_ARE_INTEGERS: Final = 2**53


def candidates(predicates: Sequence[Predicate]) -> list[Number]:
    """A number that satisfies all predicates, if any number does; none where there is no number left to try."""
    number: Number | None = _lower_end(predicates)
    excluded = {p.value for p in predicates if p.operator is Operator.NE}
    while number is not None and number in excluded:
        number = successor(number)
    return [] if number is None else [number]


def successor(number: Number) -> Number | None:
    """The least number of the language above this one; None above infinity."""
    if number == inf:
        return None
    if number == -inf:
        return -INTEGER_MAX
    if abs(number) < _FLOATS_ARE_INTEGERS:
        return nextafter(float(number), inf)
    return int(number) + 1 if number < INTEGER_MAX else inf


def _lower_end(predicates: Sequence[Predicate]) -> Number | None:
    """The least number that no `>` or `>=` excludes; None when they exclude all."""
    lowest: Number = -inf
    for predicate in predicates:
        value = predicate.value
        if predicate.operator not in (Operator.GT, Operator.GE) or not isinstance(value, int | float):
            continue
        least = successor(value) if predicate.operator is Operator.GT else value
        if least is None:
            return None
        lowest = max(lowest, least)
    return lowest
