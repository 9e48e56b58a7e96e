"""Can one value satisfy these predicates of one attribute? The question behind overlap and covering.

Rules of this file: "unsatisfiable" is said only when it is proved, "satisfiable" only with a witness that every
predicate has accepted, and "unknown" when neither was found within the limits. It dispatches by kind; the arithmetic
lives in `sat_numbers` and `sat_strings`.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from octopia.language import sat_numbers, sat_strings
from octopia.language.limits import STRING_TESTS_MAX
from octopia.language.predicate import Operator, Predicate
from octopia.language.values import Kind, Value


class Verdict(Enum):
    """What is known."""

    SATISFIABLE = auto()
    UNSATISFIABLE = auto()
    UNKNOWN = auto()


class Answer(NamedTuple):
    """A verdict, with the value that shows it where it is `SATISFIABLE`."""

    verdict: Verdict
    witness: Value | None = None


UNSATISFIABLE = Answer(Verdict.UNSATISFIABLE)
UNKNOWN = Answer(Verdict.UNKNOWN)


def solve(predicates: Sequence[Predicate]) -> Answer:
    """The answer for predicates that are all about the same attribute."""
    typed = [p for p in predicates if p.kind is not None]
    if not typed:
        return Answer(Verdict.SATISFIABLE, 0)
    kind = typed[0].kind
    if any(p.kind is not kind for p in typed):
        return UNSATISFIABLE
    for predicate in typed:
        if predicate.operator is Operator.EQ:
            return _first_accepted(typed, (predicate.value,))
    if kind is Kind.BOOL:
        return _first_accepted(typed, (True, False))
    if kind is Kind.NUMBER:
        return _first_accepted(typed, sat_numbers.candidates(typed))
    return _of_strings(typed)


def impossible(predicates: Sequence[Predicate]) -> bool:
    """Whether it is proved that no value satisfies them all."""
    return not sat_strings.plainly_possible(predicates) and solve(predicates).verdict is Verdict.UNSATISFIABLE


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
