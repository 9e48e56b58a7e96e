"""Slow subscribers: each policy does what it says, drops are counted and told, and others are not held up.

What is held, lost and delivered is counted; nothing is timed. With `block_s` of an hour a subscriber may hold up its
publishers as long as it likes.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from octopia.net import Client, NetLimits, Subscription, UnreachableError
from octopia.topology import BrokerId
from tests.net.live import Live, box_of, channel_of, client_of, overlay, take, until

PAYLOAD = "x" * 1000
SMALL = NetLimits(
    window_frames=1024,
    client_queue_frames_max=2000,
    client_queue_bytes_max=1 << 30,
    link_queue_frames_max=2000,
    block_s=3600.0,
    # A client that does not read hears nothing, and must not take the broker for gone.
    link_heartbeat_s=1000.0,
)
# Quick to lose patience, and to have it again.
STRICT = replace(SMALL, block_s=0.05, block_frames_per_s_min=1_000_000_000, block_again_s=0.05)
# More than all windows and queues on the way hold together.
COUNT = 10_000
A0, B0 = BrokerId("a", 0), BrokerId("b", 0)


async def stop_reading(live: Live, broker: str, name: str) -> None:
    """The subscriber's socket takes no more, as that of a process that hangs."""
    session = live.host(broker).sessions[name]
    client = next(c for c in live.clients if c.name == name)
    channel_of(client).transport.pause_reading()
    assert session.channel is not None


def start_reading(live: Live, name: str) -> None:
    client = next(c for c in live.clients if c.name == name)
    channel_of(client).transport.resume_reading()


def publish(client: Client, count: int = COUNT, **more: Any) -> "asyncio.Task[int]":
    """Publish numbers, in the background."""
    return asyncio.create_task(client.publish_many({"n": n, "s": PAYLOAD, **more} for n in range(count)))


def is_held(live: Live, broker: str, client: Client) -> Callable[[], bool]:
    """Whether the client's broker does not read from it, when asked."""
    return lambda: bool(live.host(broker).sessions[client.name].channel.is_held)


def numbers(deliveries: list[Any]) -> list[Any]:
    return [delivery.notification["n"] for delivery in deliveries]


async def taken_by(subscription: Subscription) -> list[Any]:
    """The numbers that it gets, until all are here or were dropped."""
    got: list[Any] = []

    async def collect() -> None:
        while batch := await subscription.next_batch(COUNT):
            got.extend(numbers(batch))

    collecting = asyncio.create_task(collect())
    try:
        await until(lambda: len(got) + subscription.dropped == COUNT)
    finally:
        collecting.cancel()
    return got


def nobody_is_held(live: Live) -> bool:
    hosts = [server.hosts[id] for id, server in live.servers.items()]
    return not any(host.intake.held or any(channel.is_held for channel in host.channels) for host in hosts)


@overlay(tree="path:2", clusters=2, net_limits=SMALL, routing="snr")
async def test_block_stops_the_publisher_and_loses_nothing(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("b,1", "n >= 0", policy="block")
    name = client_of(subscription).name
    box = box_of(publisher)
    box.frames_max = box.mark_frames = 500
    await stop_reading(live, "b,1", name)
    publishing = publish(publisher)
    session = live.host("b,1").sessions[name]
    # The subscriber's broker reads on from the link, and the publisher's broker no longer from the publisher.
    await until(is_held(live, "a,0", publisher))
    # Its own queue was full, and has not been half empty since. It need not be full now: the broker may have read
    # some of it before it was told to stop.
    await until(lambda: not publisher._journal.has_room)
    assert not any(channel.is_held for channel in live.host("b,1").channels)
    assert not publishing.done()
    start_reading(live, name)
    assert numbers(await take(subscription, COUNT)) == list(range(COUNT))
    await publishing
    assert session.queue.dropped_total == 0
    await until(lambda: nobody_is_held(live))


@pytest.mark.parametrize("routing", ["snr", "idr"])
@overlay("routing", tree="path:3", clusters=1, net_limits=SMALL)
async def test_a_full_queue_stops_its_own_publishers_and_nobody_elses(live: Live, routing: str) -> None:
    """One that blocks and takes nothing, one who floods it, and two streams that share every link with them."""
    flood = await live.publisher("a,0", "junk = 1 and n is not null and s is not null")
    stream = await live.publisher("a,0", "junk = 0 and n is not null and s is not null")
    far = await live.publisher("c,0", "junk = 0 and n is not null and s is not null")
    slow = await live.subscriber("b,0", "junk = 1", policy="block")
    quick = [await live.subscriber(at, "junk = 0", policy="block") for at in ("b,0", "a,0")]
    await stop_reading(live, "b,0", client_of(slow).name)
    flooding = publish(flood, 2 * COUNT, junk=1)
    await until(is_held(live, "a,0", flood))
    for publisher in (stream, far):
        publishing = publish(publisher, junk=0)
        for subscription in quick:
            assert numbers(await take(subscription, COUNT)) == list(range(COUNT))
        await publishing
    # All that time, and still, the flood is held, and the slow one has lost nothing.
    assert is_held(live, "a,0", flood)()
    assert live.host("a,0").sessions[flood.name].publisher.published < COUNT
    assert live.host("b,0").sessions[client_of(slow).name].queue.dropped_total == 0
    start_reading(live, client_of(slow).name)
    assert numbers(await take(slow, 2 * COUNT)) == list(range(2 * COUNT))
    await flooding
    await until(lambda: nobody_is_held(live))


@overlay(tree="path:2", clusters=1, net_limits=SMALL)
async def test_a_slow_link_stops_those_who_use_it_and_nobody_else(live: Live) -> None:
    flood = await live.publisher("a,0", "junk = 1 and n is not null and s is not null")
    stream = await live.publisher("a,0", "junk = 0 and n is not null and s is not null")
    beyond = await live.subscriber("b,0", "junk = 1", policy="block")
    here = await live.subscriber("a,0", "junk = 0", policy="block")
    link = live.host("b,0").links[A0].channel
    link.transport.pause_reading()
    flooding = publish(flood, junk=1)
    await until(is_held(live, "a,0", flood))
    publishing = publish(stream, junk=0)
    assert numbers(await take(here, COUNT)) == list(range(COUNT))
    await publishing
    box = live.host("a,0").links[B0].queue
    # At the mark, half of the bound, one read more came: the bound itself was not needed.
    assert box.waits < SMALL.link_queue_frames_max
    assert is_held(live, "a,0", flood)()
    link.transport.resume_reading()
    assert numbers(await take(beyond, COUNT)) == list(range(COUNT))
    await flooding
    await until(lambda: nobody_is_held(live))


@overlay(
    tree="path:3",
    clusters=1,
    net_limits=replace(SMALL, link_grace_s=100.0, client_queue_frames_max=COUNT, link_queue_frames_max=COUNT),
    routing="snr",
)
async def test_holds_end_with_the_connection_and_are_asked_for_again(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("c,0", "n >= 0", policy="block")
    name = client_of(subscription).name
    await stop_reading(live, "c,0", name)
    # Published for as long as the links break: any fixed number could fit into the queues before the last hold.
    published: list[int] = []
    is_over = False

    def endless() -> Iterator[dict[str, Any]]:
        while not is_over:
            published.append(len(published))
            yield {"n": published[-1], "s": PAYLOAD}

    publishing = asyncio.create_task(publisher.publish_many(endless()))
    for region, other in (("b", "c"), ("a", "b"), ("b", "c")):
        await until(is_held(live, "a,0", publisher))
        link = live.host(f"{region},0").links[BrokerId(other, 0)]
        channel = link.channel
        channel.abort()
        await until(lambda link=link, channel=channel: link.channel not in (None, channel))  # type: ignore[misc]
    # Whoever goes on publishing into the full queue is held again.
    await until(is_held(live, "a,0", publisher))
    is_over = True
    start_reading(live, name)
    assert numbers(await take(subscription, len(published))) == published
    assert await publishing == len(published)
    await until(lambda: nobody_is_held(live))
    # Room for what comes between one hold and the next.


@overlay(tree="path:2", clusters=1, net_limits=replace(SMALL, link_grace_s=100.0))
async def test_a_broken_link_stops_its_publishers_before_it_loses_anything(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("b,0", "n >= 0", policy="block")
    host = live.host("a,0")
    link, dialler = host.links[B0], host.diallers[B0]
    address, dialler.address = dialler.address, None
    link.channel.abort()
    await until(lambda: link.channel is None)
    publishing = publish(publisher)
    await until(is_held(live, "a,0", publisher))
    assert link.queue.waits < SMALL.link_queue_frames_max
    dialler.address = address
    dialler.dial()
    assert numbers(await take(subscription, COUNT)) == list(range(COUNT))
    await publishing
    assert link.outgoing.dropped == 0
    await until(lambda: nobody_is_held(live))


@overlay(tree="path:2", clusters=1, net_limits=SMALL)
async def test_a_subscriber_that_is_gone_holds_nobody(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("b,0", "n >= 0", policy="block")
    await stop_reading(live, "b,0", client_of(subscription).name)
    publishing = publish(publisher)
    await until(is_held(live, "a,0", publisher))
    live.host("b,0").sessions[client_of(subscription).name].channel.abort()
    await publishing
    await publisher.flush()
    await until(lambda: nobody_is_held(live))


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
@overlay(tree="path:2", clusters=2, net_limits=SMALL, routing="snr")
async def test_dropping_keeps_order_counts_and_tells_and_nobody_waits(live: Live, policy: str) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    slow = await live.subscriber("b,1", "n >= 0", policy=policy)
    quick = await live.subscriber("b,1", "n >= 0", policy="block")
    name = client_of(slow).name
    await stop_reading(live, "b,1", name)
    publishing = publish(publisher)
    assert [d.notification["n"] for d in await take(quick, COUNT)] == list(range(COUNT))
    await publishing
    session = live.host("b,1").sessions[name]
    dropped = session.queue.dropped_total
    assert dropped > 0
    start_reading(live, name)
    got = numbers(await take(slow, COUNT - dropped))
    assert got == sorted(set(got))
    if policy == "drop_oldest":
        assert got[-1] == COUNT - 1
    else:
        assert got[-1] < COUNT - 1
    await until(lambda: slow.dropped == dropped)
    assert session.queue.sent < COUNT
    assert session.queue.waits <= SMALL.client_queue_frames_max


@overlay(tree="path:2", clusters=2, net_limits=SMALL, routing="snr")
async def test_disconnect_ends_the_slow_one_alone(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    slow = await live.subscriber("b,1", "n >= 0", policy="disconnect")
    quick = await live.subscriber("b,1", "n >= 0", policy="block")
    await stop_reading(live, "b,1", client_of(slow).name)
    publishing = publish(publisher)
    assert [d.notification["n"] for d in await take(quick, COUNT)] == list(range(COUNT))
    await publishing
    await until(lambda: client_of(slow).name not in live.host("b,1").sessions)
    start_reading(live, client_of(slow).name)
    with pytest.raises(UnreachableError, match="slow"):
        await take(slow, COUNT)


@overlay(tree="path:2", clusters=1, net_limits=STRICT)
async def test_a_blocking_subscriber_that_takes_nothing_loses_the_privilege(live: Live) -> None:
    """It gets what it can take, is told about drops, and holds up no publisher any more."""
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    slow = await live.subscriber("b,0", "n >= 0", policy="block")
    quick = await live.subscriber("b,0", "n >= 0", policy="drop_newest")
    name, host = client_of(slow).name, live.host("b,0")
    await stop_reading(live, "b,0", name)
    publishing = publish(publisher)
    got = await taken_by(quick)
    # On a busy machine even this one may be too slow for what comes all at once.
    assert got == sorted(set(got))
    await publishing
    assert host.counters.blocks_lost == 1
    assert nobody_is_held(live)
    dropped = host.sessions[name].queue.dropped_total
    assert dropped > 0
    start_reading(live, name)
    got = numbers(await take(slow, COUNT - dropped))
    assert got == sorted(set(got))
    assert got[-1] == COUNT - 1, "the oldest are dropped"
    await until(lambda: slow.dropped == dropped)
    # When it has taken everything it may block again, after a while.
    await until(lambda: not host.sessions[name].deliveries.privilege.lost)
    assert host.counters.blocks_lost == 1


@overlay(tree="path:2", clusters=1, net_limits=replace(SMALL, block_frames_per_s_min=1, block_s=5.0))
async def test_a_subscriber_that_takes_enough_may_block_as_long_as_it_likes(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("b,0", "n >= 0", policy="block", inbox_max=100)
    publishing = publish(publisher)
    got: list[Any] = []
    while len(got) < COUNT:
        got += numbers(await take(subscription, 50))
        await asyncio.sleep(0)
    assert got == list(range(COUNT))
    await publishing
    assert live.host("a,0").counters.sources_held > 0
    assert live.host("b,0").counters.blocks_lost == 0
    # One frame a second is little enough for any machine.


@overlay(tree="path:1", clusters=1, net_limits=replace(STRICT, block_again_s=3600.0))
async def test_a_client_that_was_too_slow_cannot_mend_it_by_coming_back_as_new(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    client = await live.client("a,0", name="slow", session_s=0.0)
    await client.start_subscription(client.subscribe("n >= 0", policy="block"))
    await stop_reading(live, "a,0", "slow")
    await publish(publisher)
    host = live.host("a,0")
    await until(lambda: host.counters.blocks_lost == 1)
    await client.close()
    await until(lambda: "slow" not in host.sessions)
    await live.client("a,0", name="slow")
    assert host.sessions["slow"].deliveries.privilege.lost


@overlay(tree="path:1", clusters=1, net_limits=replace(SMALL, client_queue_frames_max=6000))
async def test_two_that_publish_to_each_other_and_block_do_not_wait_in_a_circle(live: Live) -> None:
    """A held client is not read from, including its confirmations, and so asks for no pauses."""
    names = ("one", "other")
    pairs = (names, names[::-1])
    clients = [await live.publisher("a,0", f"to = '{to}' and n >= 0 and s like 'x%'", name=of) for of, to in pairs]
    inboxes = [client.subscribe(f"to = '{client.name}'", policy="block", inbox_max=50) for client in clients]
    for client, inbox in zip(clients, inboxes, strict=True):
        await client.start_subscription(inbox)
    publishing = [publish(client, to=to) for client, to in zip(clients, names[::-1], strict=True)]
    got = await asyncio.gather(*(take(inbox, COUNT) for inbox in inboxes))
    assert [numbers(deliveries) for deliveries in got] == [list(range(COUNT))] * 2
    await asyncio.gather(*publishing)
    await until(lambda: nobody_is_held(live))


# Twice the bound has room for what each of them may have under way.


@overlay(tree="path:1", clusters=1, net_limits=replace(SMALL, stall_s=0.3))
async def test_a_stalled_subscriber_is_given_up_in_the_end(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    slow = await live.subscriber("a,0", "n >= 0", policy="block")
    await stop_reading(live, "a,0", client_of(slow).name)
    await publish(publisher)
    await publisher.flush()
    await until(lambda: client_of(slow).name not in live.host("a,0").sessions)
    start_reading(live, client_of(slow).name)


@overlay(tree="path:1", clusters=1, net_limits=SMALL)
async def test_a_slow_reader_of_a_quick_client_stops_its_client_only(live: Live) -> None:
    """The inbox is bounded: notifications that the program does not take stay at the broker."""
    publisher = await live.publisher("a,0", "n is not null and s is not null")
    subscription = await live.subscriber("a,0", "n >= 0", policy="block", inbox_max=100)
    publishing = publish(publisher)
    await until(is_held(live, "a,0", publisher))
    assert subscription.waiting < 100 + 1000
    assert [d.notification["n"] for d in await take(subscription, COUNT)] == list(range(COUNT))
    await publishing
