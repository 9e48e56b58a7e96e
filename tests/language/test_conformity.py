"""`Conformity` and its parts against `conforms`, on the filters and notifications that the other tests draw."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from octopia.language import (
    ALWAYS,
    Conformity,
    Filter,
    Notification,
    all_hold,
    conforms,
    left_to_test,
    one_holds,
    parse_filter,
    parse_notification,
)
from octopia.language.conformity import COMBINATIONS_MAX, COMBINED_NAMES_MAX
from tests.language.strategies import SMALL_NUMBERS, fixed, small_filter, small_strings

small_notifications = st.dictionaries(
    st.sampled_from(("x", "y", "z")), st.sampled_from(SMALL_NUMBERS) | small_strings | st.booleans(), min_size=1
).map(Notification.of)


@fixed(400)
@given(small_filter, st.lists(small_notifications, min_size=1, max_size=8))
def test_the_same_as_conforms(advertisement: Filter, seen: Sequence[Notification]) -> None:
    asked = Conformity(advertisement)
    for one in [*seen, *seen]:
        assert asked.holds(one.to_dict()) == conforms(one, advertisement)
        left = left_to_test(tuple(one), advertisement)
        assert one_holds(left, one.to_dict()) == conforms(one, advertisement)


@fixed(400)
@given(small_filter, small_notifications, st.lists(small_notifications, min_size=1, max_size=8))
def test_all_hold_is_each_of_them(advertisement: Filter, first: Notification, others: list[Notification]) -> None:
    """For notifications with the same names; if some have not, the values of the first stand in."""
    batch = [first.to_dict() | {name: one[name] for name in first if name in one} for one in (first, *others)]
    for tests in left_to_test(tuple(first), advertisement):
        assert all_hold(tests, batch) == all(p.accepts(of[p.attribute]) for of in batch for p in tests)


def test_what_the_names_decide() -> None:
    advertisement = parse_filter("class = 'STOCK' and price > 0 and name is not null or x is not null")
    assert left_to_test(("x",), advertisement) is ALWAYS
    assert left_to_test(("name",), advertisement) is ALWAYS
    assert left_to_test(("y",), advertisement) == ()
    assert left_to_test(("x", "name"), advertisement) == ()
    ((test,),) = left_to_test(("price", "name"), advertisement)
    assert str(test) == "price > 0"


def test_what_is_remembered_is_bounded() -> None:
    asked = Conformity(parse_filter("a0 > 0"))
    for n in range(3 * COMBINATIONS_MAX):
        assert not asked.holds({f"b{n}": 1})
    assert len(asked._by_names) <= COMBINATIONS_MAX
    assert not asked.holds({f"b{n}": 1 for n in range(COMBINED_NAMES_MAX + 1)})
    assert asked.holds(parse_notification({"a0": 1}))
    assert all(len(names) <= COMBINED_NAMES_MAX for names in asked._by_names)
