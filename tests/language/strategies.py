"""Hypothesis strategies for filters, notifications and their parts.

Constants come from small pools, so that random predicates meet, touch and exclude each other
instead of passing by. Runs are derandomized: the same code sees the same examples.
"""

from collections.abc import Callable
from math import inf
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from octopia.language import Conjunction, Filter, Notification, Operator, Predicate, Value
from tests.effort import cases

Test = TypeVar("Test", bound=Callable[..., None])

COMPARISONS = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
PATTERNS = (
    Operator.PREFIX,
    Operator.POSTFIX,
    Operator.CONTAINS,
    Operator.NOT_PREFIX,
    Operator.NOT_POSTFIX,
    Operator.NOT_CONTAINS,
)
NUMBERS: tuple[Value, ...] = (-1, 0, 0.5, 1, 1.5, 2, -0.0, 2**53, 2**53 + 1, 2.0**53, 10**30, 1e30, inf, -inf)
SMALL_NUMBERS: tuple[Value, ...] = (0, 0.5, 1, 1.5, 2)


def fixed(examples: int) -> Callable[[Test], Test]:
    """Settings of a property: the number of examples in a long run, the same ones every time, no clock."""

    def decorate(test: Test) -> Test:
        decorated: Test = settings(
            max_examples=cases(examples), derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
        )(test)
        return decorated

    return decorate


def predicates(
    names: st.SearchStrategy[str], strings: st.SearchStrategy[str], numbers: st.SearchStrategy[Value]
) -> st.SearchStrategy[Predicate]:
    return st.one_of(
        st.builds(Predicate, names, st.sampled_from(COMPARISONS), numbers),
        st.builds(Predicate, names, st.sampled_from(COMPARISONS + PATTERNS), strings),
        st.builds(Predicate, names, st.sampled_from((Operator.EQ, Operator.NE)), st.booleans()),
        st.builds(Predicate, names, st.just(Operator.PRESENT)),
    )


def filters(predicate: st.SearchStrategy[Predicate], conjunctions: int, size: int) -> st.SearchStrategy[Filter]:
    conjunction = st.lists(predicate, max_size=size).map(Conjunction)
    return st.lists(conjunction, min_size=1, max_size=conjunctions).map(Filter)


any_string = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
any_number: st.SearchStrategy[Value] = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.integers(-(2**8192) + 1, 2**8192 - 1)
)
any_value: st.SearchStrategy[Value] = st.one_of(any_string, any_number, st.booleans())
any_name = st.one_of(any_string.filter(bool), st.sampled_from(("class", "price", "date", "openDiff%", "a.b", "select")))
any_filter = filters(predicates(any_name, any_string, any_number), conjunctions=4, size=4)

small_strings = st.text("ab", max_size=2)
few_names = st.sampled_from(("x", "y"))
small_filter = filters(predicates(few_names, small_strings, st.sampled_from(SMALL_NUMBERS)), conjunctions=2, size=3)
number_filter = filters(
    st.one_of(
        st.builds(Predicate, few_names, st.sampled_from(COMPARISONS), st.sampled_from(SMALL_NUMBERS)),
        st.builds(Predicate, few_names, st.just(Operator.PRESENT)),
    ),
    conjunctions=3,
    size=3,
)
notifications = st.dictionaries(any_name, any_value, min_size=1, max_size=6).map(Notification.of)
