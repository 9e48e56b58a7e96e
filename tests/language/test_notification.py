"""Notifications: checked once, frozen, equal by content."""

import pickle
from collections.abc import Mapping
from math import inf, nan
from typing import Any

import pytest

from octopia import LanguageError
from octopia.language import NOTIFICATION_ATTRIBUTES_MAX, Notification, parse_notification, to_padres


def test_is_a_mapping_that_keeps_order_and_types() -> None:
    made = Notification.of({"b": 10.0, "a": "x", "class": "STOCK", "t": True})
    assert isinstance(made, Mapping)
    assert list(made) == ["b", "a", "class", "t"]
    assert made.to_dict() == {"b": 10.0, "a": "x", "class": "STOCK", "t": True}
    assert type(made["b"]) is float
    assert (made.get("b"), made.get("z"), made.get("z", 5), "a" in made, len(made)) == (10.0, None, 5, True, 4)
    assert list(made.items()) == list(zip(made.keys(), made.values(), strict=True))
    assert str(made) == "[class,'STOCK'],[b,10.0],[a,'x'],[t,true]"
    assert repr(made) == "Notification.of({'b': 10.0, 'a': 'x', 'class': 'STOCK', 't': True})"


def test_equality_goes_by_content_and_kind() -> None:
    one = Notification.of({"a": 1, "b": "x"})
    assert one == Notification.of({"b": "x", "a": 1.0})
    assert hash(one) == hash(Notification.of({"b": "x", "a": 1.0}))
    assert one != Notification.of({"a": True, "b": "x"})
    assert one != Notification.of({"a": 1, "c": "x"})
    assert one != Notification.of({"a": 1})
    assert one != {"a": 1, "b": "x"}
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
    assert Notification.of(one) is one


def test_is_frozen_and_apart_from_its_source() -> None:
    source: dict[str, Any] = {"a": 1}
    made = Notification.of(source)
    source["a"] = 2
    made.to_dict()["a"] = 3
    assert made["a"] == 1
    with pytest.raises(AttributeError):
        made.extra = 1
    with pytest.raises(AttributeError):
        del made._values
    with pytest.raises(TypeError):
        Notification()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "the notification is empty; expected at least one attribute"),
        ({"": 1}, "attribute name is empty"),
        ({"x": nan}, "the value of 'x' is NaN; expected a number that can be compared"),
        ({"x": "a\udfff"}, "the value of 'x' has a lone surrogate at offset 1"),
        ({"x\ud800": 1}, "attribute name has a lone surrogate at offset 1"),
        ({"x": -(2**8192)}, "the value of 'x' is an integer of 8193 bits; expected at most 8192"),
        (dict.fromkeys(map(str, range(10_001)), 0), "the notification has 10001 attributes; expected at most 10000"),
    ],
)
def test_refuses(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_notification(attributes)
    assert str(caught.value) == message


@pytest.mark.parametrize("attributes", [{"x": None}, {"x": b"a"}, {"x": [1]}, {1: 1}, 5, [("x", 1)]])
def test_wrong_types_are_type_errors(attributes: Any) -> None:
    with pytest.raises(TypeError):
        parse_notification(attributes)
    with pytest.raises(TypeError):
        Notification.of(attributes)


def test_infinity_and_ten_thousand_attributes_are_fine() -> None:
    assert Notification.of({"x": inf, "y": -inf})["x"] == inf
    assert len(Notification.of(dict.fromkeys(map(str, range(NOTIFICATION_ATTRIBUTES_MAX)), 0))) == 10_000
    wide = Notification.of({"class": "A", **{f"x{i}": i for i in range(NOTIFICATION_ATTRIBUTES_MAX - 1)}})
    assert parse_notification(to_padres(wide)) == wide
