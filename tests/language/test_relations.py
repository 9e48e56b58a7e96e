"""matches, conforms, overlaps and covers: known answers, and the oracle's answers on small universes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import Filter, Notification, Value, conforms, covers, matches, overlaps, parse_filter
from tests.language import oracle
from tests.language.strategies import fixed, number_filter, small_filter


@pytest.mark.parametrize(
    ("subscription", "notification", "expected"),
    [
        ("price > 10", {"price": 10.5}, True),
        ("price > 10", {"price": "20"}, False),
        ("price > 10", {"price": True}, False),
        ("price > 10", {"volume": 20}, False),
        ("price <> 5", {"volume": 20}, False),
        ("price <> 5", {"price": "a"}, False),
        ("not price = 5", {"price": "a"}, False),
        ("x = 1", {"x": 1.0}, True),
        ("x = 1", {"x": True}, False),
        ("x = true", {"x": 1}, False),
        ("flag", {"flag": True}, True),
        ("not flag", {"flag": False}, True),
        ("not flag", {"other": 1}, False),
        ("x = 'a' or y = 2", {"x": "b", "y": 2}, True),
        ("true", {"anything": 0}, True),
        ("x is not null", {"x": ""}, True),
        ("x > 5 and x < 3", {"x": 4}, False),
        ("x = 9007199254740993", {"x": 9007199254740992.0}, False),
        ("x < 9e999", {"x": 10**400}, True),
        ("[class,eq,'STOCK'],[price,>,10]", "[class,'STOCK'],[price,11],[more,1]", True),
        ("[class,eq,'STOCK'],[price,>,10]", "[class,'BOND'],[price,11]", False),
        ("[class,eq,'STOCK'],[a,isPresent,5]", "[class,'STOCK'],[a,'text']", True),
        ("[class,eq,'STOCK'],[a,eq,'q']", "[class,'STOCK'],[a,'$S$X']", False),
    ],
)
def test_matches(subscription: str, notification: dict[str, Value] | str, expected: bool) -> None:
    assert matches(subscription, notification) is expected


@pytest.mark.parametrize(
    ("notification", "advertisement", "expected"),
    [
        ({"x": 5}, "x > 1 and y > 1", True),
        ({"x": 5, "y": 1}, "x > 1 and y > 1", False),
        ({"x": 5, "z": 1}, "x > 1 and y > 1", False),
        ({"x": 5}, "y > 1 or x > 1", True),
        ({"x": 5, "y": 5}, "y > 1 or x > 1", False),
        ({"x": 5}, "true", False),
        ({"x": "a"}, "x is not null", True),
        ({"y": 5}, "x > 5 and x < 3 and y = 5", True),
    ],
)
def test_conforms(notification: dict[str, Value], advertisement: str, expected: bool) -> None:
    assert conforms(notification, advertisement) is expected


@pytest.mark.parametrize(
    ("advertisement", "subscription", "expected"),
    [
        ("x > 1", "x < 5", True),
        ("x > 5", "x < 5", False),
        ("x > 5", "x <= 5", False),
        ("x >= 5", "x <= 5", True),
        ("x > 1", "x < 5 and y = 1", False),
        ("x > 1 and y > 0", "x < 5", True),
        ("x > 1", "x = 'a'", False),
        ("x is not null", "x = 'a'", True),
        ("x > 1 or y > 1", "y = 5", True),
        ("x > 1 or y > 1", "x = 5 and y = 5", False),
        ("x > 1", "true", True),
        ("true", "true", False),
        ("true", "x = 1", False),
        ("x > 5 and x < 3", "true", False),
        ("x > 5 and x < 3 and y = 1", "y = 1", True),
        ("x > 5 and x < 3 and y = 1", "x is not null", False),
        ("name like 'A%'", "name like '%B'", True),
        ("name like 'A%'", "name like 'B%'", False),
        ("name < 'B'", "name like 'B%'", False),
        ("name not like '%x%'", "name like '%axb%'", False),
    ],
)
def test_overlaps(advertisement: str, subscription: str, expected: bool) -> None:
    assert overlaps(advertisement, subscription) is expected


@pytest.mark.parametrize(
    ("wider", "narrower", "expected"),
    [
        ("x > 1", "x > 2", True),
        ("x > 2", "x > 1", False),
        ("x > 1", "x > 1 and y = 2", True),
        ("x > 1 and y = 2", "x > 1", False),
        ("true", "x = 1", True),
        ("x = 1", "true", False),
        ("x is not null", "x = 1", True),
        ("x >= 1 or x < 1", "x is not null", False),
        ("x >= 1 or x < 1", "x <> 7", True),
        ("x < 10 or x > 5", "x <= 9e999", True),
        ("x < 10 or x > 10", "x <= 9e999", False),
        ("x < 10 or x > 10 or x = 10", "x <= 9e999", True),
        ("x <= 9e999 or x like '%' or x or not x", "x is not null", True),
        ("x <= 9e999 or x like '%' or x", "x is not null", False),
        ("flag = true or flag = false", "flag <> true", True),
        ("x > 0 and y > 0 or x > 0 and y <= 0", "x > 5 and y <> 3", True),
        ("x > 0 and y > 0 or x <= 0 and y <= 0", "x > 5 and y <> 3", False),
        ("x < 'm' or x >= 'm'", "x like '%ing'", True),
        ("x = 1", "y > 5 and y < 3", True),
        ("x in (1, 2, 3)", "x in (1, 3)", True),
        ("x in (1, 3)", "x in (1, 2, 3)", False),
        ("name like 'A%'", "name like 'AB%'", True),
        ("name like '%B%'", "name like 'AB%'", True),
        ("name >= 'A'", "name like 'AB%'", True),
        ("name <> 'b'", "name like '%abc'", True),
        ("name not like '%x%'", "name not like '%xy%'", False),
        ("name not like '%xy%'", "name not like '%x%'", True),
        # Every string has these.
        ("name >= ''", "name like '%A'", True),
        ("name like '%'", "name > ''", True),
        ("name like '%'", "name <> ''", True),
        # That a string is not the empty one is not concluded from a postfix, a substring or `<>` alone.
        ("name > ''", "name like '%A'", False),
        ("name > ''", "name like '%A%'", False),
        ("name > ''", "name <> ''", False),
        ("name > ''", "name like 'A%'", True),
        ("name > ''", "name >= 'A'", True),
        ("name > 'A'", "name >= 'A' and name <> 'A'", True),
        ("name > 'A'", "name >= 'A' and name like '%B'", True),
        # What is below the empty string is nothing, and covered as any other upper bound is.
        ("name < 'A'", "name < ''", True),
        ("name <> 'A'", "name < ''", True),
        ("name like 'A%'", "name < ''", False),
        ("name = 'A'", "name < ''", False),
        ("x = 1", "name < '' and x = 2", False),
        ("x = 1", "name < '' and x = 1", True),
        ("x = 1", "name < 'A' and name >= 'A' and x = 2", True),
    ],
)
def test_covers(wider: str, narrower: str, expected: bool) -> None:
    assert covers(wider, narrower) is expected


def test_relations_take_values_and_text() -> None:
    made, seen = parse_filter("x > 1"), Notification.of({"x": 2})
    assert matches(made, seen)
    assert conforms(seen, made)
    assert overlaps(made, "x = 2")
    assert covers("x > 0", made)


def judged(first: Filter, second: Filter) -> tuple[bool, bool]:
    """Whether the two overlap, and whether the first does not cover the second, in a small universe."""
    wanted = [n for n in oracle.universe([first, second]) if oracle.matches(second, n)]
    return any(oracle.conforms(n, first) for n in wanted), any(not oracle.matches(first, n) for n in wanted)


@fixed(600)
@given(small_filter, small_filter)
def test_overlaps_and_covers_are_sound(first: Filter, second: Filter) -> None:
    overlapping, counterexample = judged(first, second)
    assert overlaps(first, second) or not overlapping
    assert not (covers(first, second) and counterexample)
    assert covers(first, first)


@fixed(600)
@given(number_filter, number_filter)
def test_overlaps_and_covers_are_exact_on_numbers(first: Filter, second: Filter) -> None:
    overlapping, counterexample = judged(first, second)
    assert overlaps(first, second) is overlapping
    # `true` is matched by notifications with other attributes than those of the universe.
    if all(conjunction.predicates for conjunction in second):
        assert covers(first, second) is not counterexample


@fixed(300)
@given(small_filter, st.data())
def test_matches_and_conforms_follow_the_definition(made: Filter, data: st.DataObject) -> None:
    universe = oracle.universe([made])
    if universe:
        attributes = data.draw(st.sampled_from(universe))
        assert matches(made, attributes) is oracle.matches(made, attributes)
        assert conforms(attributes, made) is oracle.conforms(attributes, made)


@fixed(300)
@given(small_filter, small_filter, small_filter)
def test_covering_keeps_overlaps(wider: Filter, narrower: Filter, advertisement: Filter) -> None:
    # What a broker relies on when it forwards only the wider subscription.
    if covers(wider, narrower) and wider.attributes:
        named = all(set(c.by_attribute) >= set(wider.attributes) for c in advertisement)
        assert not (named and overlaps(advertisement, narrower)) or overlaps(advertisement, wider)
