"""Random histories of a matcher: filters of all operators and types, adds and removes, and settling at any time."""

from random import Random

import pytest

from octopia.language import Conjunction, Filter, Notification, Operator, Predicate, Value
from octopia.matching import matcher
from tests.language.strategies import COMPARISONS, PATTERNS

NAMES = ("x", "y", "z")
NUMBERS: tuple[Value, ...] = (0, 1, 2, 0.5, -1, 2**53, 2**53 + 1, 10**30, 10**400, float("inf"), float("-inf"), -0.0)
STRINGS: tuple[Value, ...] = ("", "a", "b", "ab", "ba", "é", "\U0001f419", "a\0")
VALUES: tuple[Value, ...] = (*NUMBERS, 1.5, 2**62 + 1, -(10**400), *STRINGS, "abc", True, False)


def draw_predicate(draw: Random) -> Predicate:
    name, kind = draw.choice(NAMES), draw.random()
    if kind < 0.45:
        return Predicate(name, draw.choice(COMPARISONS), draw.choice(NUMBERS))
    if kind < 0.75:
        return Predicate(name, draw.choice((*COMPARISONS, *PATTERNS, Operator.EQ, Operator.EQ)), draw.choice(STRINGS))
    if kind < 0.85:
        return Predicate(name, draw.choice((Operator.EQ, Operator.NE)), draw.choice((True, False)))
    return Predicate(name, Operator.PRESENT)


def draw_filter(draw: Random) -> Filter:
    conjunctions = draw.choice((1, 1, 1, 1, 2, 3))
    return Filter([Conjunction(draw_predicate(draw) for _ in range(draw.randint(0, 3))) for _ in range(conjunctions)])


def between(name: str, low: int, high: int) -> tuple[Predicate, Predicate]:
    """Made rather than parsed: that would take longer than all else where there are thousands."""
    return Predicate(name, Operator.GE, low), Predicate(name, Operator.LE, high)


def draw_notification(draw: Random) -> Notification:
    names = [name for name in NAMES if draw.random() < 0.8] or ["x"]
    return Notification.of({name: draw.choice(VALUES) for name in names})


def build_in_small_steps(monkeypatch: pytest.MonkeyPatch, at_once: int, run: int) -> None:
    """Merges begin with few boxes and take many steps, as they do with many boxes."""
    monkeypatch.setattr(matcher, "AT_ONCE_BOXES_MAX", at_once)
    monkeypatch.setattr(matcher, "WAITING_BOXES_MAX", at_once)
    monkeypatch.setattr(matcher, "RUN_BOXES_MAX", run)
    monkeypatch.setattr(matcher, "WORK_STEP", 256)
