"""Conditions on strings, looked up by their constants, against each predicate's own word."""

from random import Random

import pytest

from octopia.language import STRING_CHARS_MAX, Operator, Predicate
from octopia.matching import patterns
from octopia.matching.patterns import Patterns
from tests.effort import cases

OPERATORS = (
    Operator.PREFIX,
    Operator.POSTFIX,
    Operator.CONTAINS,
    Operator.NOT_PREFIX,
    Operator.NOT_POSTFIX,
    Operator.NOT_CONTAINS,
    Operator.LT,
    Operator.GE,
)


class Marked:
    def __init__(self, number: int) -> None:
        self.number = number


def draw_text(draw: Random, longest: int) -> str:
    return "".join(draw.choice("aab\U0001f419") for _ in range(draw.randint(0, longest)))


@pytest.mark.parametrize("way", ["searched", "pieces", "hashes", "colliding hashes"])
def test_same_as_asking_each_predicate(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "searched":
        monkeypatch.setattr(patterns, "SEARCHED_MAX", 0)
    if "hashes" in way:
        monkeypatch.setattr(patterns, "LONG_CHARS_MIN", 1)
        monkeypatch.setattr(patterns, "SEARCHED_IN_LONG_MAX", 0)
    if way == "colliding hashes":
        # every piece of one length has the same hash, so that only the strings themselves tell
        ones = patterns._powers()[0] * 0
        monkeypatch.setattr(patterns, "_powers", lambda: (ones, ones))
    for seed in range(cases(60)):
        draw = Random(seed)
        known: Patterns[Marked] = Patterns()
        stored: dict[Predicate, int] = {}
        for number in range(80):
            predicate = Predicate("x", draw.choice(OPERATORS), draw_text(draw, 5))
            if predicate not in stored:
                stored[predicate] = number
                known.add(predicate, Marked(number))
            if draw.random() < 0.3:
                gone = draw.choice(list(stored))
                known.remove(gone)
                del stored[gone]
            if draw.random() < 0.3:
                text = draw_text(draw, 12)
                expected = sorted(number for predicate, number in stored.items() if predicate.accepts(text))
                assert sorted(atom.number for atom in known.satisfied_by(text)) == expected, f"seed {seed}"
        assert len(known) == len(stored)


def test_a_string_of_any_length_among_many_substrings() -> None:
    known: Patterns[Marked] = Patterns()
    constants = [f"needle{n:04}" for n in range(200)]
    for number, constant in enumerate(constants):
        known.add(Predicate("x", Operator.CONTAINS, constant), Marked(number))
    for length in (0, 9, 10, 11, patterns.LONG_CHARS_MIN, STRING_CHARS_MAX, STRING_CHARS_MAX + 1):
        text = ("needle0007 needle01 needle0150" + "needle " * length)[-length:] if length else ""
        expected = [number for number, constant in enumerate(constants) if constant in text]
        assert sorted(atom.number for atom in known.satisfied_by(text)) == expected
        text = "needle" * (length // 6) + "needle0199"
        expected = [number for number, constant in enumerate(constants) if constant in text]
        assert sorted(atom.number for atom in known.satisfied_by(text)) == expected
