"""Brokers over real sockets: notifications arrive exactly where `octopia.matches` says, once, and in order."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from octopia.errors import InputError, LanguageError, OctopiaError, RefusedError
from octopia.language import matches
from octopia.net import Client, Subscription, UnreachableError
from octopia.topology import BrokerId
from tests.net.live import Live, client_of, overlay, take, until, waiting

EVERYTHING = "symbol is not null and price is not null and volume is not null"
FILTERS = [
    "price > 50",
    "symbol = 'A'",
    "symbol in ('B', 'C') and volume < 30",
    "price between 20 and 60 or symbol = 'D'",
    "symbol like 'A%' and price <= 10",
    "true",
]


def quote(draw: random.Random) -> dict[str, Any]:
    return {"symbol": draw.choice("ABCD"), "price": draw.randrange(100), "volume": draw.randrange(100)}


def key(notification: Any) -> tuple[Any, ...]:
    return tuple(sorted(notification.items()))


@pytest.mark.parametrize(
    ("routing", "covering", "seed"),
    [*((routing, "none", seed) for routing in ("snr", "idr") for seed in range(3))]
    + [("snr", "link", 0), ("idr", "link", 1), ("idr", "host", 2), ("fdr", "host", 0)],
)
@overlay("routing", "covering")
async def test_random_histories_deliver_what_brute_force_says(
    live: Live, routing: str, covering: str, seed: int
) -> None:
    draw = random.Random(seed)
    brokers = [f"{b.region},{b.cluster}" for b in live.scot.brokers]
    publishers = [await live.publisher(draw.choice(brokers), EVERYTHING) for _ in range(4)]
    live_subscriptions: list[Subscription] = []
    expected: dict[Subscription, list[tuple[Any, ...]]] = {}
    number = 0
    for _ in range(12):
        if not live_subscriptions or draw.random() < 0.6:
            made = await live.subscriber(draw.choice(brokers), draw.choice(FILTERS))
            live_subscriptions.append(made)
            expected[made] = []
        else:
            gone = live_subscriptions.pop(draw.randrange(len(live_subscriptions)))
            assert Counter(key(d.notification) for d in await take(gone, len(expected[gone]))) == Counter(
                expected[gone]
            )
            assert waiting(gone) == []
            await gone.close()
        for _ in range(40):
            number += 1
            sent = quote(draw) | {"volume": number}
            await draw.choice(publishers).publish(sent)
            for subscription in live_subscriptions:
                if matches(subscription.filter, sent):
                    expected[subscription].append(key(sent))
        for publisher in publishers:
            await publisher.flush()
    for subscription in live_subscriptions:
        wanted = expected[subscription]
        assert Counter(key(d.notification) for d in await take(subscription, len(wanted))) == Counter(wanted)
        assert waiting(subscription) == []


@pytest.mark.parametrize("routing", ["snr", "idr", "tid", "tid-dynamic"])
@overlay("routing")
async def test_every_routing_delivers_once_and_in_order(live: Live, routing: str) -> None:
    publisher = await live.publisher("b,2", "number is not null")
    # TID routing acknowledges before the overlay knows: wait until every broker does.
    await until(lambda: routing in ("snr", "idr") or all(len(h.broker.state.srt) for h in hosts(live)))
    subscriptions = [await live.subscriber(at, "number >= 0") for at in ("c,0", "a,1", "b,2", "a,2")]
    if routing not in ("snr", "idr"):
        await until(lambda: len(live.host("b,2").broker.state.prt) == 4)
    assert await publisher.publish_many({"number": i} for i in range(2000)) == 2000
    for subscription in subscriptions:
        got = await take(subscription, 2000)
        assert [d.notification["number"] for d in got] == list(range(2000))
        assert {(d.publisher, d.subscriptions) for d in got} == {(publisher.name, ("s1",))}
        assert [d.id for d in got] == [str(i + 1) for i in range(2000)]


def hosts(live: Live) -> list[Any]:
    return [live.host(f"{b.region},{b.cluster}") for b in live.scot.brokers]


@overlay()
async def test_one_delivery_names_all_subscriptions_and_each_gets_it(live: Live) -> None:
    publisher = await live.publisher("a,0", "x > 0")
    client = await live.client("c,1")
    async with client.subscribe("x > 1") as first, client.subscribe("x > 2", id="second") as second:
        await publisher.publish({"x": 3})
        await publisher.publish({"x": 2})
        got = await take(first, 2)
        assert [(d.notification.to_dict(), d.subscriptions) for d in got] == [
            ({"x": 3}, ("s1", "second")),
            ({"x": 2}, ("s1",)),
        ]
        assert [d.notification["x"] for d in await take(second, 1)] == [3]


@overlay()
async def test_an_acknowledged_subscription_misses_nothing(live: Live) -> None:
    """Subscribe, publish at once from elsewhere: no waiting in between but for the acknowledgement."""
    publishers = [await live.publisher(at, "x is not null") for at in ("a,0", "c,1", "b,2")]
    for turn in range(30):
        subscriptions = [await live.subscriber(at, f"x = {turn}") for at in ("c,2", "a,1")]
        for publisher in publishers:
            await publisher.publish({"x": turn})
        for subscription in subscriptions:
            got = await take(subscription, 3)
            assert {d.publisher for d in got} == {p.name for p in publishers}
            await subscription.close()


@overlay()
async def test_an_acknowledged_advertisement_is_in_force(live: Live) -> None:
    subscription = await live.subscriber("c,2", "x > 0")
    for number in range(1, 30):
        publisher = await live.publisher("a,0", "x > 0")
        await publisher.publish({"x": number})
        assert [d.notification["x"] for d in await take(subscription, 1)] == [number]
        await publisher.close()


@overlay()
async def test_a_client_that_leaves_leaves_nothing_behind(live: Live) -> None:
    for at in ("a,0", "b,1"):
        publisher = await live.publisher(at, "x > 0")
        subscription = await live.subscriber(at, "x > 1")
        assert any(len(h.broker.state.prt) for h in hosts(live))
        await client_of(subscription).close()
        await publisher.close()
    await until(lambda: not any(len(h.broker.state.prt) + len(h.broker.state.srt) for h in hosts(live)))
    assert not any(h.sessions for h in hosts(live))


@overlay()
async def test_what_cannot_be_published_is_said_before_it_is_sent(live: Live) -> None:
    client = await live.client("a,0", name="p")
    with pytest.raises(RefusedError, match="p has no advertisement"):
        await client.publish({"x": 1})
    await client.advertise("x > 0")
    with pytest.raises(RefusedError, match="did not advertise this: advertisement 'a1'"):
        await client.publish({"x": -1})
    await client.advertise(" and ".join(f"s{n} is not null" for n in range(16)))
    with pytest.raises(InputError, match="at most 1,048,560 travel"):
        await client.publish({f"s{n}": "x" * 2**16 for n in range(16)})
    with pytest.raises(LanguageError, match="NaN"):
        await client.publish({"x": float("nan")})
    with pytest.raises(TypeError, match="must be str, int, float or bool"):
        await client.publish({"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(LanguageError):
        await client.advertise("x >")
    await client.publish({"x": 1})
    await client.flush()
    assert live.host("a,0").sessions["p"].publisher.published == 1


@overlay()
async def test_refusals_of_the_broker_reach_the_caller(live: Live) -> None:
    client = await live.client("a,0", name="p")
    await client.advertise("x > 0", id="a")
    with pytest.raises(RefusedError, match="in use by p for another filter"):
        await client.advertise("x > 1", id="a")
    await client.advertise("x > 0", id="a")
    await client.unadvertise("a")
    await client.unadvertise("a")
    with pytest.raises(OctopiaError, match="named 'p' is connected already"):
        await Client(live.url("a,0"), name="p").open()


def test_nobody_at_home() -> None:
    async def main() -> None:
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await Client("octopia://127.0.0.1:1").open()

    asyncio.run(main())


@overlay()
async def test_long_integers_and_every_kind_of_value_arrive_as_they_were(live: Live) -> None:
    sent: dict[str, Any] = {"i": 2**200, "f": 1e300, "inf": float("inf"), "s": "ü🐙", "b": False, "z": 0, "g": 1.0}
    publisher = await live.publisher("a,0", " and ".join(f"{name} is not null" for name in sent))
    subscription = await live.subscriber("c,2", f"i = {2**200} and b = false")
    await publisher.publish(sent)
    (got,) = await take(subscription, 1)
    assert got.notification.to_dict() == sent
    assert [type(v) for v in got.notification.values()] == [type(v) for v in sent.values()]


@pytest.mark.parametrize(
    ("clogged", "answered"),
    [
        (("c,2", "b,2"), False),  # the subscription cannot reach its cluster
        (("b,2", "a,2"), False),  # nor its far end
        (("a,2", "a,0"), False),  # nor can its CIB_SET reach the publisher's broker
        (("a,2", "a,1"), True),  # where nobody advertised: nothing to wait for
    ],
)
@overlay()
async def test_a_subscription_is_acknowledged_only_when_it_is_in_force(
    live: Live, clogged: tuple[str, str], answered: bool
) -> None:
    publisher = await live.publisher("a,0", "x > 0")
    client = await live.client("c,2")
    # After the start every link has something to be asked about, once.
    async with client.subscribe("x = 99"):
        pass
    sender, receiver = clogged
    box = live.host(sender).links[BrokerId.parse(receiver)].queue
    box.writable = False
    subscription = client.subscribe("x > 0")
    subscribing = asyncio.create_task(client.start_subscription(subscription))
    if not answered:
        await until(lambda: box.waits > 0)
        # Everything else that could be under way has its time.
        for broker in ("a,0", "b,1", "c,0", "c,2"):
            await (await live.client(broker)).flush()
        assert not subscribing.done()
        box.resume_writing()
    await subscribing
    await publisher.publish({"x": 1})
    assert [d.notification["x"] for d in await take(subscription, 1)] == [1]
    box.resume_writing()


@overlay()
async def test_an_advertisement_is_acknowledged_only_when_it_is_in_force(live: Live) -> None:
    subscription = await live.subscriber("c,2", "x > 0")
    client = await live.client("a,0")
    # The answer of the region, which says that cluster 2 wants it, cannot come back.
    box = live.host("a,2").links[BrokerId("a", 0)].queue
    box.writable = False
    advertising = asyncio.create_task(client.advertise("x > 0"))
    await until(lambda: box.waits >= 2)
    assert not advertising.done()
    box.resume_writing()
    await advertising
    await client.publish({"x": 1})
    assert [d.notification["x"] for d in await take(subscription, 1)] == [1]
