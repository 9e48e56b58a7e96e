"""Dicts of a known shape become the same frames as with the encoder, and invalid ones never do."""

import datetime as dt
import enum
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from octopia.errors import LanguageError
from octopia.language import conforms, parse_filter, parse_notification
from octopia.wire import DictFrames, encode_parcel, publish_frame
from tests.effort import cases

ADVERTISED = [parse_filter("text is not null and n > 3 and f is not null"), parse_filter("b = true and text like 'a%'")]
VALUES: dict[str, list[Any]] = {
    "text": ["", "a", "ab", "é" * 50, "x" * 70_000, "\ud800", Decimal("1.5"), dt.date(2020, 1, 1)],
    "n": [0, 3, 4, 2**63, 2**64, -(2**70), True, 4.0, 1.5],
    "f": [0.5, math.inf, -math.inf, math.nan, 1e308, 7, None],
    "b": [True, False, 1, "true", enum.Enum("E", "one").one],  # type: ignore[attr-defined]
}


def expected(attributes: dict[str, Any], number: int) -> bytes | None:
    """According to the language, value by value; None if it is refused."""
    try:
        seen = parse_notification(attributes)
    except (LanguageError, TypeError):
        return None
    if not any(conforms(seen, one) for one in ADVERTISED):
        return None
    return publish_frame(encode_parcel(seen, "p", number))


@pytest.mark.parametrize("seed", range(cases(20)))
def test_frames_are_right_or_left_to_the_ordinary_way(seed: int) -> None:
    draw = random.Random(seed)
    quick = DictFrames(ADVERTISED, 2**20)
    made = 0
    for number in range(1, 400):
        names = draw.choice([["text", "n", "f"], ["b", "text"], ["n", "f", "text"], ["text", "b"]])
        usual = draw.random() < 0.7
        attributes = {
            name: VALUES[name][-4 if name == "b" else 1] if usual else draw.choice(VALUES[name]) for name in names
        }
        if usual and "n" in attributes:
            attributes["n"] = draw.randrange(10)
        want = expected(attributes, number)
        got = quick.frame(attributes, "p", number) or quick.frame_of_another(attributes, "p", number)
        if got is None:
            if want is not None:
                quick.learn(attributes)
        else:
            made += 1
            assert got == want
    assert made > 50


def test_a_frame_longer_than_the_broker_takes_is_left_to_the_ordinary_way() -> None:
    quick = DictFrames([parse_filter("x is not null")], 1024)
    quick.learn({"x": "a"})
    assert quick.frame({"x": "b"}, "p", 7) == publish_frame(encode_parcel(parse_notification({"x": "b"}), "p", 7))
    assert quick.frame({"x": "b" * 1100}, "p", 8) is None
