"""Predicates: accepted values, equality, and invalid ones."""

import copy
import pickle
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia import LanguageError
from octopia.language import Conjunction, Filter, Operator, Predicate, Value, parse_filter
from tests.language import oracle
from tests.language.strategies import any_filter, any_number, any_string, any_value, fixed, predicates

any_predicate = predicates(st.just("x"), any_string, any_number)


@fixed(300)
@given(any_predicate, any_value)
def test_accepts_what_the_definition_says(predicate: Predicate, value: Value) -> None:
    assert predicate.accepts(value) is oracle.holds(predicate, value)


@fixed(300)
@given(any_predicate.filter(lambda p: p.operator is not Operator.PRESENT), any_value)
def test_a_predicate_and_its_negation_split_the_values_of_its_kind(predicate: Predicate, value: Value) -> None:
    same_kind = oracle.kind(predicate.value) == oracle.kind(value)
    assert predicate.accepts(value) + predicate.negated().accepts(value) == same_kind


@pytest.mark.parametrize(
    ("predicate", "accepted", "refused"),
    [
        (("=", 1), [1, 1.0], [True, "1", 2]),
        (("=", True), [True], [1, 1.0, "true", False]),
        (("<>", 5), [4, 5.5, inf], [5, 5.0, "five", True]),
        (("<>", "a"), ["", "A", "b"], ["a", 1, False]),
        (("<", 2**53 + 1), [2**53, 2.0**53], [2**53 + 1, 2.0**53 + 2]),
        ((">", 1e308), [10**309, inf], [10**307, -inf]),
        (("<", "b"), ["", "a", "az", "B"], ["b", "ba", 0]),
        (("prefix", "ab"), ["ab", "abc"], ["a", "xab", 1]),
        (("postfix", "ab"), ["ab", "cab"], ["abx", ""]),
        (("contains", "ab"), ["ab", "xabx"], ["ba", ""]),
        (("not prefix", "ab"), ["", "xab"], ["ab", "abc", 5]),
        (("not postfix", "ab"), ["", "abx"], ["ab", "cab", 5]),
        (("not contains", "ab"), ["", "ba"], ["xabx", 5]),
        (("present",), ["", 0, 0.0, False], []),
    ],
)
def test_accepts(predicate: tuple[Any, ...], accepted: list[Value], refused: list[Value]) -> None:
    made = Predicate("x", *predicate)
    assert [made.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [made.accepts(value) for value in refused] == [False] * len(refused)


def test_one_and_true_are_different_constants_and_one_and_one_point_zero_are_not() -> None:
    one, true, float_one = (Predicate("x", Operator.EQ, value) for value in (1, True, 1.0))
    assert one != true
    assert len({one, true, float_one}) == 2
    assert one == float_one
    assert hash(one) == hash(float_one)
    assert str(one) == str(float_one) == "x = 1"
    assert Predicate("x", Operator.EQ, -0.0) == Predicate("x", Operator.EQ, 0)
    assert Conjunction([one, true]) != Conjunction([one])
    assert parse_filter("x = 1 or x = true") == parse_filter("x = true or x = 1.0")


def test_every_string_contains_the_empty_one_in_one_spelling() -> None:
    any_text = Predicate("x", Operator.PREFIX, "")
    assert Predicate("x", Operator.CONTAINS, "") == Predicate("x", Operator.POSTFIX, "") == any_text
    assert str(any_text) == "x like '%'"
    assert Predicate("x", Operator.NOT_CONTAINS, "") == any_text.negated()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", "=", 1), "attribute name is empty"),
        (("x", "=", nan), "the value that 'x' is compared with is NaN; expected a number that can be compared"),
        (("x", "<", True), "'x' < true: booleans have no order; expected = or <>"),
        (("x", "prefx", "a"), "unknown operator 'prefx' (did you mean prefix?)"),
        (("x", "prefix", 5), "'prefix' on 'x' needs a string, not 5"),
        (("x", "=", "\ud800"), "the value that 'x' is compared with has a lone surrogate at offset 0"),
        (
            ("x", "=", 2**8192),
            "the value that 'x' is compared with is an integer of 8193 bits; expected at most 8192",
        ),
    ],
)
def test_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        Predicate(*arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "arguments", [(1, "=", 1), ("x", "=", None), ("x", "=", b"a"), ("x", "present", 1), ("x", 5, 1)]
)
def test_wrong_types_are_type_errors(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        Predicate(*arguments)


def test_absence_cannot_be_asked_for() -> None:
    with pytest.raises(LanguageError) as caught:
        Predicate("x", Operator.PRESENT).negated()
    assert str(caught.value) == (
        "not (x is not null) asks for the absence of 'x'; expected a condition on what is there"
    )


def test_subclasses_become_plain_values() -> None:
    class Loud(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    assert type(Predicate("x", Operator.EQ, Loud("a")).value) is str
    assert Predicate("x", Operator.EQ, Loud("a")) == Predicate("x", Operator.EQ, "a")


def test_filters_are_frozen_and_canonical() -> None:
    a, b = Predicate("a", Operator.GT, 1), Predicate("b", Operator.LT, 2)
    assert Filter.of(a, b, a) == Filter.of(b, a) == Filter([Conjunction([b, a]), Conjunction([a, b])])
    assert Filter.of(b, a).attributes == ("a", "b")
    assert list(Filter.of(a)) == [Conjunction([a])]
    assert str(Conjunction()) == "true"
    for value, name in ((a, "attribute"), (Conjunction([a]), "predicates"), (Filter.of(a), "conjunctions")):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
    with pytest.raises(LanguageError, match="a filter of no conjunctions"):
        Filter([])
    with pytest.raises(TypeError):
        Filter([a])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        Conjunction(["a"])  # type: ignore[list-item]


@fixed(50)
@given(any_filter)
def test_filters_survive_pickling_and_copying(made: Filter) -> None:
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301
    assert copy.deepcopy(made) == made
    assert hash(pickle.loads(pickle.dumps(made))) == hash(made)  # noqa: S301
