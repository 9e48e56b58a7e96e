"""Clients that move to another broker because theirs is overloaded: nothing lost, nothing repeated, in order.

Fake brokers in virtual time. `Feed` is an overlay in miniature: what it publishes is delivered by every broker at which
the client was told that its subscription is in force, each after a delay of its own.
"""

import asyncio
import random
from typing import Any

import pytest

from octopia.net import Client, Subscription
from octopia.net.client import moving, overlap
from octopia.wire import AdvertiseRequest, Goodbye, JoinedDeliveries, SubscribeRequest, connection, load_kernels
from tests.effort import cases
from tests.net.fake_broker import FakeBroker, FakeNetwork, virtual


class Feed:
    """Publishes {"n": 1}, {"n": 2}, … to a few brokers, at a steady pace."""

    def __init__(self, brokers: list[FakeBroker], way_s: dict[int, float] | None = None) -> None:
        self.last = 0
        self._brokers = brokers
        self._way_s = way_s or {}
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.last += 1
            for broker in self._brokers:
                # Who wants it is decided when it is published; it arrives later.
                targets = [(session, tuple(session.listening)) for session in broker.sessions.values()]
                loop.call_later(self._way_s.get(broker.port, 0.0), self._arrive, targets, self.last)
            await asyncio.sleep(0.02)

    @staticmethod
    def _arrive(targets: list[Any], number: int) -> None:
        for session, ids in targets:
            if not session.over:
                for id in ids:
                    session.deliver(id, number=number)

    def stop(self) -> int:
        self._task.cancel()
        return self.last


async def mover(brokers: list[FakeBroker], **options: Any) -> tuple[Client, Subscription]:
    client = Client([broker.url for broker in brokers], name="me", nearest=True, **options)
    await client.open()
    await client.advertise("m is not null", id="a")
    subscription = client.subscribe("n >= 0", id="s", inbox_max=10**6)
    await client.start_subscription(subscription)
    return client, subscription


def near(network: FakeNetwork, *delays_s: float) -> list[FakeBroker]:
    brokers = [network.add() for _ in delays_s]
    for broker, delay_s in zip(brokers, delays_s, strict=True):
        broker.delay_s = delay_s
    return brokers


async def leaving(
    network: FakeNetwork, *, behind_s: float, after_s: float
) -> tuple[FakeBroker, Client, Subscription, Feed]:
    """A client that has just moved away from its broker, whose deliveries are late, and is still served by it."""
    old, _ = brokers = near(network, 0.001, 0.005)
    client, subscription = await mover(brokers)
    feed = Feed(brokers, {old.port: behind_s})
    await asyncio.sleep(after_s)
    old.crowd()
    await until_so(lambda: client.moves == 1)
    return old, client, subscription, feed


async def until_so(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.003)


def numbers(subscription: Subscription) -> list[int]:
    return [int(seen["n"]) for deliveries in subscription._inbox for seen in deliveries.notifications()]


def newest(subscription: Subscription) -> int:
    return int(subscription._inbox[-1].decoded()[-1].notification["n"]) if subscription._inbox else 0


async def everything_comes(feed: Feed, subscription: Subscription) -> None:
    """Nothing more is sent, and everything sent has arrived once and in order."""
    last = feed.stop()
    await until_so(lambda: newest(subscription) == last)
    assert numbers(subscription) == list(range(1, last + 1))


def published(network: FakeNetwork) -> list[int]:
    return [id for _, id in network.routed]


async def publish_on(client: Client, until: Any) -> int:
    """Publish all the time, until something is so."""
    count = 0
    while not until():
        await client.publish({"m": count})
        count += 1
        await asyncio.sleep(0.01)
    return count


def is_over(client: Client) -> bool:
    """The old broker is left, or nothing came of the move."""
    move = client._session.overlap
    return (move is None and client._connecting._moving._task is None) or (
        isinstance(move, overlap.Move) and move._has_left
    )


@pytest.mark.parametrize("slow_old_s", [0.0, 0.7, 4.0])
@pytest.mark.parametrize("slow_new_s", [0.0, 0.5])
@virtual
async def test_a_move_loses_and_repeats_nothing(network: FakeNetwork, slow_old_s: float, slow_new_s: float) -> None:
    """The old broker may be seconds behind: that is why it is left."""
    old, new = brokers = near(network, 0.001, 0.005)
    client, subscription = await mover(brokers)
    assert client.broker == "(fake,7400)"
    feed = Feed(brokers, {old.port: slow_old_s, new.port: slow_new_s})
    await asyncio.sleep(5)
    assert old.crowd() == 1
    count = await publish_on(client, lambda: client.moves == 1 and is_over(client))
    assert client.broker == "(fake,7401)"
    assert client.reconnects == 0
    await asyncio.sleep(1)
    last = feed.stop()
    await until_so(lambda: newest(subscription) == last)
    assert numbers(subscription) == list(range(numbers(subscription)[0], last + 1))
    assert numbers(subscription)[0] <= 2
    await client.flush()
    assert published(network) == list(range(1, count + 1))
    assert old.sessions == {}
    assert new.session.routed != []
    await client.close()


@virtual
async def test_a_subscriber_that_takes_columns_moves_too(network: FakeNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deliveries come as bytes, from the broker that it leaves as well."""
    pytest.importorskip("numba")
    load_kernels()
    monkeypatch.setattr(connection, "BYTES_MIN", 0)
    old, new = brokers = near(network, 0.001, 0.005)
    client, subscription = await mover(brokers)
    subscription.joins = True
    feed = Feed(brokers, {old.port: 0.7, new.port: 0.0})
    await asyncio.sleep(5)
    assert isinstance(subscription._inbox[-1], JoinedDeliveries)
    assert old.crowd() == 1
    await until_so(lambda: client.moves == 1 and is_over(client))
    assert client.reconnects == 0
    await everything_comes(feed, subscription)
    await client.close()


@virtual
async def test_a_client_moves_seldom_and_only_to_a_broker_that_is_not_overloaded(network: FakeNetwork) -> None:
    first, second, third = brokers = near(network, 0.001, 0.005, 0.020)
    client, _ = await mover(brokers)
    second.overloaded = third.overloaded = True
    first.crowd()
    await asyncio.sleep(10)
    assert (client.moves, client.broker) == (0, "(fake,7400)")
    assert first.probes + second.probes + third.probes == 3 + 2
    third.overloaded = False
    # It has just looked, and does not look again for a while, however often it is asked.
    for _ in range(4):
        first.crowd()
        await asyncio.sleep(10)
    assert client.moves == 0
    await asyncio.sleep(moving.MOVE_EVERY_S)
    first.crowd()
    await until_so(lambda: client.moves == 1 and is_over(client))
    assert client.broker == "(fake,7402)"
    # Nor does it go back at once.
    third.crowd()
    await asyncio.sleep(10)
    assert client.moves == 1
    await client.close()


@virtual
async def test_clients_do_not_all_go_at_the_same_moment(network: FakeNetwork) -> None:
    old, _ = brokers = near(network, 0.001, 0.005)
    clients = []
    for number in range(8):
        client = Client([broker.url for broker in brokers], name=f"c{number}", nearest=True)
        await client.open()
        clients.append(client)
    begun = asyncio.get_running_loop().time()
    assert old.crowd() == 8
    moved_s: dict[int, float] = {}
    while len(moved_s) < 8:
        await asyncio.sleep(0.001)
        for number, client in enumerate(clients):
            if client.moves:
                moved_s.setdefault(number, asyncio.get_running_loop().time() - begun)
    times = sorted(moved_s.values())
    # Virtual time: all within the jitter, and no two together.
    assert times[-1] < moving.JITTER_S + 0.5
    assert len({round(time, 2) for time in times}) > 4
    for client in clients:
        await client.close()


def refuse_hello(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    new.goodbye = lambda hello: Goodbye("refused", "not here")


def refuse_subscription(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    new.refuses = lambda request: "not here" if isinstance(request, SubscribeRequest) else ""


def refuse_advertisement(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    new.refuses = lambda request: "not here" if isinstance(request, AdvertiseRequest) else ""


def never_answer(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    new.answer_s = lambda: 1e6


def old_never_confirms(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    old.confirms = False


def new_dies_while_registering(old: FakeBroker, new: FakeBroker, network: FakeNetwork) -> None:
    new.answer_s = lambda: 0.5

    def die() -> None:
        new.up = False
        new.cut()

    def watch() -> None:
        if new.sessions:
            asyncio.get_running_loop().call_later(0.2, die)
        else:
            asyncio.get_running_loop().call_later(0.01, watch)

    watch()


@pytest.mark.parametrize(
    "trouble",
    [
        refuse_hello,
        refuse_subscription,
        refuse_advertisement,
        never_answer,
        old_never_confirms,
        new_dies_while_registering,
    ],
)
@virtual
async def test_a_move_that_fails_leaves_everything_as_it_was(network: FakeNetwork, trouble: Any) -> None:
    old, new = brokers = near(network, 0.001, 0.005)
    client, subscription = await mover(brokers)
    feed = Feed(brokers)
    trouble(old, new, network)
    old.crowd()
    begun = asyncio.get_running_loop().time()
    count = await publish_on(client, lambda: is_over(client) and asyncio.get_running_loop().time() > begun + 3)
    assert (client.moves, client.reconnects, client.broker) == (0, 0, "(fake,7400)")
    assert client.failure is None
    old.confirms = True
    await asyncio.sleep(1)
    await everything_comes(feed, subscription)
    await client.flush()
    assert published(network) == list(range(1, count + 1))
    await client.close()


@virtual
async def test_other_brokers_are_tried_where_the_nearest_refuses(network: FakeNetwork) -> None:
    old, second, _third = brokers = near(network, 0.001, 0.005, 0.020)
    client, subscription = await mover(brokers)
    feed = Feed(brokers)
    refuse_subscription(old, second, network)
    old.crowd()
    await until_so(lambda: client.moves == 1 and is_over(client))
    assert client.broker == "(fake,7402)"
    await everything_comes(feed, subscription)
    assert second.sessions == {}
    await client.close()


@virtual
async def test_the_connection_to_the_old_broker_breaks_while_it_is_being_left(network: FakeNetwork) -> None:
    """The session is taken up there, and what waited comes."""
    old, client, subscription, feed = await leaving(network, behind_s=1.0, after_s=3)
    for _ in range(3):
        old.cut()
        await asyncio.sleep(0.3)
    await until_so(lambda: is_over(client))
    await everything_comes(feed, subscription)
    assert old.sessions == {}
    await client.close()


@virtual
async def test_the_old_broker_dies_while_it_is_being_left(network: FakeNetwork) -> None:
    """What was on its way to it is lost with it, as with any broker that dies; nothing comes twice or out of order."""
    old, client, subscription, feed = await leaving(network, behind_s=1.0, after_s=3)
    old.kill()
    count = await publish_on(client, lambda: is_over(client))
    last = feed.stop()
    await until_so(lambda: newest(subscription) == last)
    found = numbers(subscription)
    assert found == sorted(set(found))
    lost = sorted(set(range(1, last + 1)) - set(found))
    # In one piece: what was under way for the second that the old broker was behind.
    assert lost == list(range(lost[0], lost[-1] + 1)) if lost else True
    assert len(lost) <= 51
    await client.flush()
    assert published(network) == list(range(1, count + 1))
    assert client.broker == "(fake,7401)"
    await client.close()


@virtual
async def test_the_new_broker_dies_right_after_the_move(network: FakeNetwork) -> None:
    """The client goes back, with everything that was not confirmed."""
    old, new = brokers = near(network, 0.001, 0.005)
    client, subscription = await mover(brokers)
    old.crowd()
    await until_so(lambda: client.moves == 1)
    new.kill()
    count = await publish_on(client, lambda: client.broker == "(fake,7400)" and client.reconnects == 1)
    await until_so(lambda: is_over(client))
    await client.flush()
    assert list(dict.fromkeys(published(network))) == list(range(1, count + 1))
    feed = Feed(brokers)
    await asyncio.sleep(1)
    await everything_comes(feed, subscription)
    await client.close()


@virtual
async def test_registrations_during_a_move(network: FakeNetwork) -> None:
    """A subscription made while the old broker is being left is the new one's alone, and delivers at once."""
    _, client, subscription, feed = await leaving(network, behind_s=1.0, after_s=2)
    other = client.subscribe("n > 0", id="t")
    await client.start_subscription(other)
    first = feed.last + 1
    await until_so(lambda: len(numbers(other)) >= 5)
    assert not is_over(client)
    await until_so(lambda: is_over(client))
    last = feed.stop()
    await until_so(lambda: newest(subscription) == last and newest(other) == last)
    assert numbers(subscription) == list(range(1, last + 1))
    assert numbers(other) == list(range(numbers(other)[0], last + 1))
    assert numbers(other)[0] <= first
    await client.close()


@virtual
async def test_a_registration_that_changes_while_the_new_broker_registers_puts_the_move_off(
    network: FakeNetwork,
) -> None:
    old, new = brokers = near(network, 0.001, 0.005)
    client, _ = await mover(brokers)
    new.answer_s = lambda: 1.0
    old.crowd()
    await until_so(lambda: bool(new.sessions))
    await client.advertise("k > 0", id="b")
    await until_so(lambda: is_over(client))
    assert (client.moves, client.broker) == (0, "(fake,7400)")
    assert set(old.session.advertised) == {"a", "b"}
    await client.close()


@pytest.mark.parametrize("when_s", [0.0, 1.0, 2.5, 4.0])
@virtual
async def test_closing_during_a_move(network: FakeNetwork, when_s: float) -> None:
    old, new = brokers = near(network, 0.001, 0.005)
    client, _ = await mover(brokers)
    new.answer_s = lambda: 0.5
    old.crowd()
    await asyncio.sleep(when_s)
    await client.publish({"m": 1})
    await client.close()
    await asyncio.sleep(1)
    assert published(network) == [1]
    assert old.sessions == {} == new.sessions


@virtual
async def test_only_so_much_is_held_back(network: FakeNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the new broker is not read from until the old one is left; nothing is lost by that."""
    monkeypatch.setattr(overlap, "HELD_MAX", 20)
    _, client, subscription, feed = await leaving(network, behind_s=3.0, after_s=5)
    move = client._session.overlap
    assert isinstance(move, overlap.Move)
    await until_so(lambda: client._connecting.channel.is_held)  # type: ignore[union-attr]
    assert len(move._held) <= 20 + 10
    await until_so(lambda: is_over(client))
    await everything_comes(feed, subscription)
    await client.close()


@pytest.mark.parametrize("seed", range(cases(12)))
@virtual
async def test_cuts_and_crowds_at_random(network: FakeNetwork, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Connections are cut while the client moves to and fro between three brokers that stay alive."""
    # Not so seldom as in life, so that there is something to see.
    monkeypatch.setattr(moving, "MOVE_EVERY_S", 5.0)
    brokers = near(network, 0.001, 0.004, 0.016)
    client, subscription = await mover(brokers)
    feed = Feed(brokers, {broker.port: network.draw.choice((0.0, 0.1, 0.8)) for broker in brokers})
    draw = random.Random(seed)
    stop = asyncio.Event()

    async def trouble() -> None:
        for _ in range(10):
            await asyncio.sleep(draw.uniform(0, 8))
            for broker in brokers:
                broker.overloaded = draw.random() < 0.4
            draw.choice(brokers).crowd()
            if draw.random() < 0.5:
                await asyncio.sleep(draw.uniform(0, 4))
                for line in list(network.lines):
                    if draw.random() < 0.3 and line.talk.session is not None:
                        line.cut()
        await asyncio.sleep(30)
        stop.set()

    task = asyncio.get_running_loop().create_task(trouble())
    count = await publish_on(client, stop.is_set)
    await task
    last = feed.stop()
    await client.flush()
    assert published(network) == list(range(1, count + 1))
    await until_so(lambda: newest(subscription) == last)
    assert numbers(subscription) == list(range(numbers(subscription)[0], last + 1))
    await client.close()


@pytest.mark.parametrize("when_s", [0.05, 0.2, 0.5])
@virtual
async def test_the_old_broker_dies_while_the_new_one_is_about_to_refuse(network: FakeNetwork, when_s: float) -> None:
    """Both at once: the client goes to the third, and everything that was not confirmed with it."""
    old, second, _third = brokers = near(network, 0.001, 0.005, 0.020)
    client, subscription = await mover(brokers)
    second.answer_s = lambda: 0.5
    refuse_subscription(old, second, network)
    second.goodbye = lambda hello: Goodbye("refused", "not here") if not old.up else None
    old.crowd()
    await until_so(lambda: bool(second.sessions))
    asyncio.get_running_loop().call_later(when_s, old.kill)
    count = await publish_on(client, lambda: client.broker == "(fake,7402)")
    await client.flush()
    assert list(dict.fromkeys(published(network))) == list(range(1, count + 1))
    feed = Feed(brokers)
    await asyncio.sleep(1)
    await everything_comes(feed, subscription)
    assert client.failure is None
    await client.close()


@pytest.mark.parametrize("seed", range(cases(9)))
@virtual
async def test_deaths_and_crowds_at_random(network: FakeNetwork, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Brokers die and come back while the client moves: nothing comes twice or out of order, all is published."""
    monkeypatch.setattr(moving, "MOVE_EVERY_S", 5.0)
    brokers = near(network, 0.001, 0.004, 0.016)
    client, subscription = await mover(brokers)
    feed = Feed(brokers, {broker.port: network.draw.choice((0.0, 0.1, 0.8)) for broker in brokers})
    draw = random.Random(seed)
    stop = asyncio.Event()
    calm = 0

    async def trouble() -> None:
        nonlocal calm
        for _ in range(10):
            await asyncio.sleep(draw.uniform(0, 6))
            draw.choice(brokers).crowd()
            await asyncio.sleep(draw.uniform(0, 4))
            victim = draw.choice(brokers)
            victim.kill()
            await asyncio.sleep(draw.uniform(0, 6))
            victim.up = True
        await asyncio.sleep(60)
        calm = feed.last
        await asyncio.sleep(2)
        stop.set()

    task = asyncio.get_running_loop().create_task(trouble())
    count = await publish_on(client, stop.is_set)
    await task
    last = feed.stop()
    await client.flush()
    assert list(dict.fromkeys(published(network))) == list(range(1, count + 1))
    await until_so(lambda: newest(subscription) == last)
    found = numbers(subscription)
    assert found == sorted(set(found))
    assert found[-(last - calm) :] == list(range(calm + 1, last + 1))
    assert client.failure is None
    await client.close()
