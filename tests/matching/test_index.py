"""The index gives what `octopia.matches` gives on every stored filter, under any history of adds and removes."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import Filter, Notification, Value, matches, parse_filter
from octopia.matching import Matcher
from tests.language.strategies import SMALL_NUMBERS, few_names, fixed, small_filter, small_strings

VALUES: st.SearchStrategy[Value] = st.one_of(small_strings, st.sampled_from(SMALL_NUMBERS), st.booleans())
NOTIFICATIONS = st.dictionaries(few_names, VALUES, min_size=1).map(Notification.of)
OPERATIONS = st.tuples(st.sampled_from(["add", "add", "remove", "match"]), st.integers(0, 9), small_filter)


@fixed(400)
@given(st.lists(OPERATIONS, max_size=30), st.lists(NOTIFICATIONS, min_size=1, max_size=8))
def test_same_as_testing_every_filter(history: list[tuple[str, int, Filter]], seen: list[Notification]) -> None:
    index: Matcher[int] = Matcher()
    stored: dict[int, Filter] = {}
    for do, id, filter in [*history, ("match", 0, parse_filter("true"))]:
        if do == "add" and id not in stored:
            index.add(id, filter)
            stored[id] = filter
        elif do == "remove" and id in stored:
            index.remove(id)
            del stored[id]
        elif do == "match":
            for notification in seen:
                found = index.match(notification)
                assert sorted(found) == sorted(i for i, f in stored.items() if matches(f, notification))
    assert len(index) == len(stored)


@pytest.mark.parametrize(
    ("text", "values", "matched"),
    [
        ("x = 1", {"x": 1.0}, True),
        ("x = 1", {"x": True}, False),
        ("x = true", {"x": 1}, False),
        ("x = true", {"x": True}, True),
        ("x = 1 or x = 1 and y = 2", {"x": 1, "y": 2}, True),
        ("x = '1'", {"x": 1}, False),
        ("true", {"x": 1}, True),
    ],
)
def test_types_are_told_apart_and_an_id_comes_once(text: str, values: Mapping[str, Value], matched: bool) -> None:
    index: Matcher[str] = Matcher()
    index.add("s", parse_filter(text))
    assert index.match(Notification.of(values)) == (["s"] if matched else [])


def test_an_id_is_added_once_and_removed_once() -> None:
    index: Matcher[str] = Matcher()
    index.add("s", parse_filter("x = 1"))
    with pytest.raises(ValueError, match="'s' is in the index already"):
        index.add("s", parse_filter("x = 2"))
    index.remove("s")
    with pytest.raises(KeyError):
        index.remove("s")
    assert index.match(Notification.of({"x": 1})) == []
