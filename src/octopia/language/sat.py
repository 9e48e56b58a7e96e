"""Can one value satisfy these predicates of one attribute? The question behind overlap and covering.

"unsatisfiable" is always proved, "satisfiable" always comes with a witness that every predicate accepts, and "unknown"
means that neither was found within the limits.

Numbers are exact, over all ints and floats of the language as one ordered set. Between two of them there are finitely
many, so "the next number after v" exists: the next float where floats are denser than integers, the next integer where
integers are. `<>` removes single numbers. Strings are in `sat_strings`.

`extremes` gives examples of what a conjunction accepts: its least and greatest values. A filter that covers it accepts
all its examples, so examples quickly rule out filters that cannot. An example always satisfies its predicates. For
strings, booleans and attributes that only need to be present, one example serves as both.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import lru_cache
from math import inf, nextafter
from typing import Final, NamedTuple

from octopia.language import sat_strings
from octopia.language.filter import Conjunction
from octopia.language.limits import INTEGER_MAX, STRING_TESTS_MAX
from octopia.language.predicate import Operator, Predicate
from octopia.language.values import Number, Value, ValueKind

# From here on floats are at least 1 apart, and all of them are integers.
_FLOATS_ARE_INTEGERS: Final = 2**53


def number_candidates(predicates: Sequence[Predicate]) -> list[Number]:
    """A number that satisfies all predicates, if any number does; empty if no number is left to try."""
    least = _end(predicates, _LOWER, -inf, successor, max)
    return [] if least is None else [least]


def greatest_number(predicates: Sequence[Predicate]) -> Number | None:
    """The greatest number that no `<`, `<=` or `<>` excludes: it satisfies all predicates, if any number does."""
    return _end(predicates, _UPPER, inf, predecessor, min)


def predecessor(number: Number) -> Number | None:
    """The greatest number of the language below this one; None below minus infinity."""
    below = successor(-number)
    return None if below is None else -below


def successor(number: Number) -> Number | None:
    """The least number of the language above this one; None above infinity."""
    if number == inf:
        return None
    if number == -inf:
        return -INTEGER_MAX
    if abs(number) < _FLOATS_ARE_INTEGERS:
        return nextafter(float(number), inf)
    return int(number) + 1 if number < INTEGER_MAX else inf


# The bounds on one side: that which excludes its constant, and that which does not.
_LOWER: Final = (Operator.GT, Operator.GE)
_UPPER: Final = (Operator.LT, Operator.LE)


def _end(
    predicates: Sequence[Predicate],
    bounds: tuple[Operator, Operator],
    open_end: Number,
    next_inside: Callable[[Number], Number | None],
    narrower: Callable[[Number, Number], Number],
) -> Number | None:
    """The first number from one side that neither these bounds nor a `<>` exclude; None when they exclude all."""
    end: Number | None = open_end
    for predicate in predicates:
        value = predicate.value
        if predicate.operator in bounds and isinstance(value, int | float):
            bound = next_inside(value) if predicate.operator is bounds[0] else value
            if bound is None or end is None:
                return None
            end = narrower(end, bound)
    excluded = {p.value for p in predicates if p.operator is Operator.NE}
    while end is not None and end in excluded:
        end = next_inside(end)
    return end


class Verdict(Enum):
    """The verdicts."""

    SATISFIABLE = auto()
    UNSATISFIABLE = auto()
    UNKNOWN = auto()


class Answer(NamedTuple):
    """A verdict, with a value that proves it if it is `SATISFIABLE`."""

    verdict: Verdict
    witness: Value | None = None


UNSATISFIABLE = Answer(Verdict.UNSATISFIABLE)
UNKNOWN = Answer(Verdict.UNKNOWN)


def solve(predicates: Sequence[Predicate]) -> Answer:
    """The answer for predicates on one attribute."""
    typed = [p for p in predicates if p.kind is not None]
    if not typed:
        return Answer(Verdict.SATISFIABLE, 0)
    kind = typed[0].kind
    if any(p.kind is not kind for p in typed):
        return UNSATISFIABLE
    for predicate in typed:
        if predicate.operator is Operator.EQ:
            return _first_accepted(typed, (predicate.value,))
    if kind is ValueKind.BOOL:
        return _first_accepted(typed, (True, False))
    if kind is ValueKind.NUMBER:
        return _first_accepted(typed, number_candidates(typed))
    return _of_strings(typed)


def impossible(predicates: Sequence[Predicate]) -> bool:
    """Whether it is proved that no value satisfies all of them."""
    typed = [predicate for predicate in predicates if predicate.kind is not None]
    if not typed:
        return False
    if len(typed) == 1 and (typed[0].operator is Operator.EQ or _is_plain_number(typed[0].value)):
        # By far the most frequent question: the advertisement asks for presence alone.
        return False
    return not sat_strings.plainly_possible(predicates) and solve(predicates).verdict is Verdict.UNSATISFIABLE


def _is_plain_number(value: Value | None) -> bool:
    """Whether it is a number with others on both sides."""
    return type(value) in (int, float) and -_FLOATS_ARE_INTEGERS < value < _FLOATS_ARE_INTEGERS  # type: ignore[operator]


def _first_accepted(predicates: Sequence[Predicate], complete: Sequence[Value | None]) -> Answer:
    """The first candidate that passes; `complete` holds one that does if there is any."""
    for value in complete:
        if value is not None and all(p.accepts(value) for p in predicates):
            return Answer(Verdict.SATISFIABLE, value)
    return UNSATISFIABLE


def _of_strings(predicates: Sequence[Predicate]) -> Answer:
    tests_left = STRING_TESTS_MAX
    try:
        for value in sat_strings.candidates(predicates):
            tests_left -= len(predicates)
            if tests_left < 0:
                return UNKNOWN
            if all(p.accepts(value) for p in predicates):
                return Answer(Verdict.SATISFIABLE, value)
    except sat_strings.GaveUp:
        return UNKNOWN
    return UNSATISFIABLE


# Cached examples, about 1 KiB each; the least recently used are evicted.
REMEMBERED_MAX: Final = 16_384


class Extremes(NamedTuple):
    """Two notifications that match a conjunction and have only attributes that it names."""

    least: dict[str, Value]
    greatest: dict[str, Value]


@lru_cache(REMEMBERED_MAX)
def extremes(conjunction: Conjunction) -> Extremes | None:
    """The examples of a conjunction; None if nothing matches it or none was found within the limits.

    Cached and shared, so do not modify them. A broker asks for a subscription's examples once per link.
    """
    found = Extremes({}, {})
    for attribute, predicates in conjunction.by_attribute.items():
        ends = _ends(predicates)
        if ends is None:
            return None
        found.least[attribute], found.greatest[attribute] = ends
    return found


def _ends(predicates: tuple[Predicate, ...]) -> tuple[Value, Value] | None:
    typed = [p for p in predicates if p.kind is not None]
    if not typed:
        return True, True
    if len(typed) == 1 and typed[0].operator is Operator.EQ:
        value = typed[0].value
        return None if value is None else (value, value)
    if all(p.kind is ValueKind.NUMBER and p.operator is not Operator.EQ for p in typed):
        return _numbers(typed)
    witness = solve(typed).witness
    return None if witness is None else (witness, witness)


def _numbers(predicates: Sequence[Predicate]) -> tuple[Value, Value] | None:
    least = next(iter(number_candidates(predicates)), None)
    if least is None or not all(p.accepts(least) for p in predicates):
        return None
    greatest = greatest_number(predicates)
    return None if greatest is None else (least, greatest)
