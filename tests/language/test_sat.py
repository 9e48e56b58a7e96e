"""Satisfiability: never wrong, and never unknown for constants of ordinary size."""

from itertools import product
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.language import Operator, Predicate, Value, parse_filter
from octopia.language.sat import Answer, Verdict, solve, successor
from tests.language import oracle
from tests.language.strategies import COMPARISONS, NUMBERS, PATTERNS, any_number, any_string, fixed, predicates

STRING_OPERATORS = st.sampled_from((*COMPARISONS, *PATTERNS))
TINY_STRINGS = ["".join(s) for n in range(5) for s in product("\0abz", repeat=n)]
FIRST, LAST = "\0", "\U0010ffff"


def _check(given_predicates: list[Predicate], universe: list[Value]) -> None:
    answer = solve(given_predicates)
    if answer.verdict is Verdict.SATISFIABLE:
        assert answer.witness is not None
        assert all(oracle.holds(p, answer.witness) for p in given_predicates)
    else:
        assert answer == Answer(Verdict.UNSATISFIABLE)
        assert not any(all(oracle.holds(p, value) for p in given_predicates) for value in universe)


@fixed(1500)
@given(st.lists(st.builds(Predicate, st.just("x"), STRING_OPERATORS, st.text("ab", max_size=2)), max_size=5))
def test_strings_of_two_letters(found: list[Predicate]) -> None:
    _check(found, list(TINY_STRINGS))


@fixed(1500)
@given(
    st.lists(
        st.builds(
            Predicate, st.just("x"), STRING_OPERATORS, st.text([FIRST, "a", "\ud7ff", "\ue000", LAST], max_size=3)
        ),
        max_size=5,
    )
)
def test_strings_at_the_ends_of_the_alphabet(found: list[Predicate]) -> None:
    near = [value for p in found for value in oracle.neighbours(p.value)]
    longer = [a + str(b) for a in (FIRST, "a", "\ud7ff", "\ue000", LAST) for b in near]
    _check(found, [*near, *longer, *TINY_STRINGS[:85]])


@fixed(1500)
@given(st.lists(st.builds(Predicate, st.just("x"), st.sampled_from(COMPARISONS), st.sampled_from(NUMBERS)), max_size=6))
def test_numbers(found: list[Predicate]) -> None:
    _check(found, [value for p in found for value in oracle.neighbours(p.value)])


@fixed(500)
@given(st.lists(predicates(st.just("x"), any_string, any_number), max_size=5))
def test_anything(found: list[Predicate]) -> None:
    near = [value for p in found if p.value is not None for value in oracle.neighbours(p.value)]
    _check(found, [*near, True, False, 0, ""])


@fixed(500)
@given(any_number)
def test_nothing_lies_between_a_number_and_its_successor(number: Value) -> None:
    assert isinstance(number, int | float)
    after = successor(number)
    if after is None:
        assert number == inf
        return
    assert after > number
    closer = [value for value in (*oracle.neighbours(number), *oracle.neighbours(after)) if number < value < after]  # type: ignore[operator]
    assert closer == [] or number == -inf or after == inf


@pytest.mark.parametrize(
    ("condition", "satisfiable"),
    [
        ("x > 1 and x < 1.0000000000000002", False),
        ("x > 1 and x < 1.0000000000000004", True),
        ("x > 9007199254740992 and x < 9007199254740993", False),
        ("x > 9007199254740992 and x < 9007199254740994", True),
        ("x > 9007199254740992 and x < 9007199254740994 and x <> 9007199254740993", False),
        ("x > 9e999", False),
        ("x >= 9e999", True),
        ("x < -9e999", False),
        (f"x > {2**8192 - 1} and x < 9e999", False),
        (f"x > {2**8192 - 2} and x < 9e999", True),
        ("x >= 1 and x <= 1 and x <> 1", False),
        ("x < 5 and x > 3 and x <> 4", True),
        ("x = 1 and x = '1'", False),
        ("x = 1 and x = true", False),
        ("x <> true and x <> false", False),
        ("x <> true", True),
        ("x < ''", False),
        ("x <= '' and x like '%a%'", False),
        ("x > 'a' and x < 'a\0'", False),
        ("x > 'a' and x < 'a\0\0'", True),
        ("x > 'a' and x < 'a\0\0' and x <> 'a\0'", False),
        ("x like 'ab%' and x like 'b%'", False),
        ("x like 'ab%' and x like 'abc%'", True),
        ("x like '%ab' and x like '%b' and x like '%bb'", False),
        ("x like 'ab%' and x >= 'b'", False),
        ("x like 'ab%' and x < 'ab'", False),
        ("x like 'ab%' and x <= 'ab'", True),
        ("x like 'ab%' and x <= 'ab' and x like '%b' and x like '%ab%'", True),
        ("x like 'ab%' and x not like 'a%'", False),
        ("x like 'a%' and x not like 'ab%'", True),
        ("x like '%ab%' and x not like '%b%'", False),
        ("x like 'a%' and x not like '%a%'", False),
        ("x > 'a' and x < 'c' and x not like '%b%' and x not like 'a%'", False),
        ("x > 'a' and x < 'd' and x not like '%b%' and x not like 'a%'", True),
        ("x >= 'a' and x < 'b' and x not like 'a%'", False),
        ("x not like '%'", False),
        ("x like '%a' and x not like '%ba' and x not like '%a'", False),
        ("x like '%a' and x not like '%ba'", True),
        ("x is not null and x > 5", True),
    ],
)
def test_known_answers(condition: str, satisfiable: bool) -> None:
    (conjunction,) = parse_filter(condition)
    assert solve(conjunction.predicates).verdict is (Verdict.SATISFIABLE if satisfiable else Verdict.UNSATISFIABLE)


def test_too_many_candidates_are_unknown() -> None:
    # Every character between the bounds is used and leads into a forbidden substring, for a thousand places.
    low = "a" * 1500
    found = [Predicate("x", Operator.GE, low), Predicate("x", Operator.LE, low + "\0" * 3)]
    found += [Predicate("x", Operator.NE, low + "\0" * n) for n in range(4)]
    assert solve(found).verdict is Verdict.UNSATISFIABLE
    wide = [
        Predicate("x", Operator.GE, ""),
        Predicate("x", Operator.LT, "\0" * 3000),
        Predicate("x", Operator.CONTAINS, "b"),
    ]
    assert solve(wide).verdict is Verdict.UNKNOWN
