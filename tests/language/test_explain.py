"""Explanations: one line each, and None exactly when the relation holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import (
    Filter,
    Notification,
    Value,
    conforms,
    matches,
    overlaps,
    why_not_conforms,
    why_not_matches,
    why_not_overlaps,
)
from tests.language import oracle
from tests.language.strategies import any_filter, fixed, notifications, small_filter


@pytest.mark.parametrize(
    ("subscription", "notification", "reason"),
    [
        ("price > 10", {"price": 95}, None),
        ("price > 100", {"price": 95}, "price > 100 failed: price is 95"),
        ("price > 100", {"price": "95"}, "price > 100 failed: price is '95'"),
        ("price > 100", {"price": True}, "price > 100 failed: price is true"),
        ("volume > 1 and volume < 5", {"price": 95}, "volume is absent"),
        ("pirce > 1", {"price": 95}, "pirce is absent (did you mean price?)"),
        ("a = 1 and b = 2", {"a": 2, "b": 3}, "a = 1 failed: a is 2 (and 1 more)"),
        ("a = 1 and b = 2 or c = 3", {"a": 2, "b": 3, "c": 4}, "c = 3 failed: c is 4"),
        ("\"a b\" like 'x%'", {"a b": "y"}, "\"a b\" like 'x%' failed: \"a b\" is 'y'"),
    ],
)
def test_why_not_matches(subscription: str, notification: dict[str, Value], reason: str | None) -> None:
    assert why_not_matches(subscription, notification) == reason


@pytest.mark.parametrize(
    ("notification", "advertisement", "reason"),
    [
        ({"x": 5}, "x > 1 and y > 1", None),
        ({"x": 0}, "x > 1", "x > 1 failed: x is 0"),
        ({"x": 5, "volume": 0}, "x > 1", "the advertisement does not name 'volume'"),
        ({"x": 5, "pirce": 0}, "x > 1 and price > 0", "the advertisement does not name 'pirce' (did you mean price?)"),
        ({"x": 0, "y": 0}, "x > 1 and y > 1 or x = 0", "the advertisement does not name 'y'"),
    ],
)
def test_why_not_conforms(notification: dict[str, Value], advertisement: str, reason: str | None) -> None:
    assert why_not_conforms(notification, advertisement) == reason


@pytest.mark.parametrize(
    ("advertisement", "subscription", "reason"),
    [
        ("x > 1", "x < 5", None),
        ("price > 100", "price < 50", "price: > 100 and < 50 exclude each other"),
        ("price > 100", "volume < 50", "the advertisement does not name 'volume'"),
        ("x > 100 and x <> 7", "x = 'a'", "x: <> 7 and = 'a' exclude each other"),
        ("x >= 1 and x <= 1", "x <> 1", "x: <= 1 and >= 1 and <> 1 exclude each other"),
        ("x is not null", "x < ''", "x: < '' is never true"),
        ("x > 5 and x < 3", "true", "no notification conforms to the advertisement"),
        ("true", "true", "no notification conforms to the advertisement"),
    ],
)
def test_why_not_overlaps(advertisement: str, subscription: str, reason: str | None) -> None:
    assert why_not_overlaps(advertisement, subscription) == reason


@fixed(200)
@given(small_filter, small_filter, st.data())
def test_a_reason_is_given_exactly_when_the_relation_fails(first: Filter, second: Filter, data: st.DataObject) -> None:
    assert (why_not_overlaps(first, second) is None) is overlaps(first, second)
    universe = oracle.universe([first, second])
    if universe:
        seen = data.draw(st.sampled_from(universe))
        assert (why_not_matches(first, seen) is None) is matches(first, seen)
        assert (why_not_conforms(seen, first) is None) is conforms(seen, first)


@fixed(200)
@given(any_filter, any_filter, notifications)
def test_a_reason_is_one_line(first: Filter, second: Filter, seen: Notification) -> None:
    for reason in (why_not_overlaps(first, second), why_not_matches(first, seen), why_not_conforms(seen, first)):
        assert reason is None or len(reason.splitlines()) == 1
