"""Publications are held to their publisher's right, one by one and in batches."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.errors import RefusedError
from octopia.language import Filter, Notification, Value, matches, parse_filter
from octopia.net import Authority, ClientEntry, Rights
from octopia.net.broker.permits import COMBINATIONS_MAX, COMBINED_NAMES_MAX, Permit
from tests.language.strategies import SMALL_NUMBERS, fixed, small_filter, small_strings
from tests.net.live import Live, in_overlay, overlay, take

TOKEN = "a token of the tests"  # noqa: S105
EITHER = "class = 'STOCK' and price > 0 or class = 'BOND' and rate > 0"
values = st.sampled_from(SMALL_NUMBERS) | small_strings | st.booleans()
notifications = st.dictionaries(st.sampled_from(("x", "y", "z")), values, min_size=1).map(Notification.of)


@fixed(400)
@given(st.lists(small_filter, min_size=1, max_size=4), st.lists(notifications, min_size=1, max_size=8))
def test_the_same_as_matches(parts: Sequence[Filter], seen: Sequence[Notification]) -> None:
    right = Filter(conjunction for part in parts for conjunction in part)
    permit = Permit("x", right)
    expected = [matches(right, one) for one in seen]
    for _ in range(2):
        assert [permit.allows(one) for one in seen] == expected
        batch = [one.to_dict() for one in seen]
        assert permit.allows_first(batch) == [*expected, False].index(False)
        for one in seen:
            # All with the same names.
            assert permit.allows_first([one.to_dict()] * 3) == (3 if matches(right, one) else 0)


def test_many_alternatives_are_told_apart_by_value() -> None:
    right = parse_filter("x in (1, 2, 3, 4, 5) and y > 0 or x = true and y < 0 or x = 'a' or z > 0 and x is not null")
    permit = Permit("x", right)
    for x in (1, 1.0, True, False, 2, 6, "a", "b"):
        for rest in ({"y": 1}, {"y": -1}, {"y": -1, "z": 1}, {}):
            one = Notification.of({"x": x, **rest})
            assert permit.allows(one) == matches(right, one), one


def test_what_is_remembered_is_bounded() -> None:
    permit = Permit("x", parse_filter("a0 > 0"))
    for n in range(3 * COMBINATIONS_MAX):
        assert not permit.allows({f"b{n}": 1})
        assert permit.allows({"a0": 1, f"b{n}": 1})
    assert len(permit._by_names) <= COMBINATIONS_MAX
    known = len(permit._by_names)
    assert permit.allows({f"a{n}": 1 for n in range(COMBINED_NAMES_MAX + 1)})
    assert len(permit._by_names) == known


def test_who_may_do_everything_or_nothing_is_not_asked() -> None:
    assert Rights().permit() is None
    assert Rights("x", parse_filter("true")).permit() is None
    assert Rights("x", None).permit() is None
    assert Rights("x", parse_filter("x > 0")).permit() is not None


def within(right: str) -> Authority:
    """Anyone may subscribe with the token, and publish within the right."""
    return Authority(
        (ClientEntry(Rights("desk", parse_filter(right), parse_filter("true")), token=TOKEN),), link_token=TOKEN
    )


# A right, an advertisement that it covers, and notifications that conform to it: within the right, and outside.
CASES = [
    (
        EITHER,
        "class = 'STOCK' and price > 0 and rate is not null",
        [{"class": "STOCK", "price": 1}, {"class": "STOCK", "price": 2, "rate": -100}],
        [{"rate": -100}, {"price": 5}, {"class": "STOCK"}, {"class": "STOCK", "rate": 3}],
    ),
    (
        EITHER,
        EITHER,
        [{"class": "STOCK", "price": 1}, {"class": "BOND", "rate": 0.5}],
        [{"class": "BOND"}, {"rate": 1}, {"class": "STOCK"}],
    ),
    (
        "class = 'STOCK' and symbol is not null",
        "class = 'STOCK' and symbol is not null and price is not null",
        [{"class": "STOCK", "symbol": "A", "price": -1}, {"class": "STOCK", "symbol": ""}],
        [{"price": 1}, {"class": "STOCK", "price": 1}, {"symbol": "A", "price": 1}],
    ),
]


@pytest.mark.parametrize(("right", "advertisement", "inside", "outside"), CASES)
@pytest.mark.parametrize("batch", [False, True])
def test_a_notification_that_does_not_match_the_right_is_refused(
    batch: bool,
    right: str,
    advertisement: str,
    inside: list[dict[str, Value]],
    outside: list[dict[str, Value]],
) -> None:
    async def scene(live: Live) -> None:
        publisher = await live.client("a,0", token=TOKEN, name="desk/p")
        reader = await live.client("b,0", token=TOKEN)
        await publisher.advertise(advertisement)
        async with reader.subscribe("true") as seen:
            mixed = [one for pair in zip(outside, [*inside, *inside], strict=False) for one in pair] + outside
            for chunk in [mixed] if batch else [[one] for one in mixed]:
                await publisher.publish_many(chunk)
                if any(one in outside for one in chunk):
                    with pytest.raises(RefusedError, match=r"desk may not publish this: .*must match its right: class"):
                        await publisher.flush()
            await publisher.publish(inside[0])
            await publisher.flush()
            expected = [*(one for one in mixed if one in inside), inside[0]]
            assert [dict(d.notification) for d in await take(seen, len(expected))] == expected
        assert live.host("a,0").counters.refusals == sum(one in outside for one in mixed)

    in_overlay(scene, tree="path:2", clusters=1, authority=within(right))


def test_the_reason_names_the_attribute() -> None:
    permit = Permit("desk", parse_filter("class = 'STOCK' and price > 0"))
    assert permit.reason(Notification.of({"class": "STOCK", "price": -1})) == (
        "desk may not publish this: price > 0 failed: price is -1; "
        "each notification must match its right: class = 'STOCK' and price > 0"
    )


@overlay(tree="path:1", clusters=1, authority=within("class = 'STOCK' and price > 0"))
async def test_a_traced_publication_is_held_to_the_right_too(live: Live) -> None:
    publisher = await live.client("a,0", token=TOKEN)
    await publisher.advertise("class = 'STOCK' and price > 0")
    await publisher.publish({"price": 1}, traced=True)
    with pytest.raises(RefusedError, match="class is absent"):
        await publisher.flush()
    assert not live.host("a,0").traces


def test_a_reason_of_any_length_can_be_told() -> None:
    many = " or ".join(f"class = 'C{n}' and price > {n}" for n in range(250))

    async def scene(live: Live) -> None:
        publisher = await live.client("a,0", token=TOKEN)
        await publisher.advertise(many)
        await publisher.publish({"class": "C3"})
        with pytest.raises(RefusedError, match="price is absent"):
            await publisher.flush()
        with pytest.raises(RefusedError, match="desk may not advertise"):
            await publisher.advertise(many.replace("price", "rate"))

    in_overlay(scene, tree="path:1", clusters=1, authority=within(many))


@pytest.mark.parametrize(
    "wanted",
    [
        "class = 'STOCK'",
        "price > 0 or rate > 0",
        "class = 'STOCK' and rate > 0 or class = 'BOND' and price > 0",
        "true",
    ],
)
@overlay(
    tree="path:1",
    clusters=1,
    authority=Authority(
        (ClientEntry(Rights("desk", parse_filter("true"), parse_filter(EITHER)), token=TOKEN),), link_token=TOKEN
    ),
)
async def test_a_subscription_outside_the_right_is_refused_also_with_or(live: Live, wanted: str) -> None:
    client = await live.client("a,0", token=TOKEN)
    with pytest.raises(RefusedError, match="desk may not subscribe"):
        async with client.subscribe(wanted):
            pass
    await client.advertise("true or class is not null and price is not null and rate is not null")
    async with client.subscribe("class = 'STOCK' and price > 5 or class = 'BOND' and rate > 1") as seen:
        some: list[dict[str, Value]] = [
            {"class": c, "price": p, "rate": r} for c in ("STOCK", "BOND", "X") for p in (0, 9) for r in (0, 9)
        ]
        await client.publish_many(some)
        await client.flush()
        expected = [one for one in some if one["class"] == "STOCK" and one["price"] == 9]
        expected += [one for one in some if one["class"] == "BOND" and one["rate"] == 9]
        assert [dict(d.notification) for d in await take(seen, len(expected))] == expected
