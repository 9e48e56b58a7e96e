"""Slow subscribers: each policy does what it says, drops are counted and told, and others are not held up."""

import asyncio

import pytest

from octopia.net import NetLimits, UnreachableError
from tests.net.live import Live, in_overlay, take, until

PAYLOAD = "x" * 1000
SMALL = NetLimits(
    window_frames=1024, client_queue_frames_max=200, client_queue_bytes_max=1 << 30, link_queue_frames_max=200
)
# More than all windows and queues on the way hold together.
COUNT = 10_000


async def stop_reading(live: Live, broker: str, name: str) -> None:
    """The subscriber's socket takes no more, as that of a process that hangs."""
    session = live.host(broker).sessions[name]
    client = next(c for c in live.clients if c.name == name)
    assert client._protocol is not None
    client._protocol.transport.pause_reading()
    assert session.channel is not None


def start_reading(live: Live, name: str) -> None:
    client = next(c for c in live.clients if c.name == name)
    assert client._protocol is not None
    client._protocol.transport.resume_reading()


def test_block_stops_the_publisher_and_loses_nothing() -> None:
    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        subscription = await live.subscriber("b,1", "n >= 0")
        name = subscription._client.name
        publisher.box.frames_max = 500
        await stop_reading(live, "b,1", name)
        publishing = asyncio.create_task(publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT)))
        session = live.host("b,1").sessions[name]
        # The subscriber's broker no longer reads from the link, nor the publisher's broker from the publisher.
        await until(lambda: any(peer.is_held for peer in live.host("b,1").channels))
        await until(lambda: live.host("a,0").sessions[publisher.name].channel.is_held)
        await until(lambda: publisher.box.is_full)
        assert not publishing.done()
        assert session.box.dropped_total == 0
        start_reading(live, name)
        got = await take(subscription, COUNT)
        assert [d.notification["n"] for d in got] == list(range(COUNT))
        await publishing
        assert not any(peer.is_held for peer in live.host("b,1").channels)

    in_overlay(scene, tree="path:2", clusters=2, net_limits=SMALL, routing="snr")


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
def test_dropping_keeps_order_counts_and_tells_and_nobody_waits(policy: str) -> None:
    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        slow = await live.subscriber("b,1", "n >= 0", policy=policy)
        quick = await live.subscriber("b,1", "n >= 0")
        name = slow._client.name
        await stop_reading(live, "b,1", name)
        publishing = asyncio.create_task(publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT)))
        assert [d.notification["n"] for d in await take(quick, COUNT)] == list(range(COUNT))
        await publishing
        session = live.host("b,1").sessions[name]
        dropped = session.box.dropped_total
        assert dropped > 0
        start_reading(live, name)
        numbers = [d.notification["n"] for d in await take(slow, COUNT - dropped)]
        assert numbers == sorted(set(numbers))
        if policy == "drop_oldest":
            assert numbers[-1] == COUNT - 1
        else:
            assert numbers[-1] < COUNT - 1  # type: ignore[operator]
        await until(lambda: slow.dropped == dropped)
        assert session.box.sent < COUNT
        assert len(session.box.waiting) <= SMALL.client_queue_frames_max

    in_overlay(scene, tree="path:2", clusters=2, net_limits=SMALL, routing="snr")


def test_disconnect_ends_the_slow_one_alone() -> None:
    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        slow = await live.subscriber("b,1", "n >= 0", policy="disconnect")
        quick = await live.subscriber("b,1", "n >= 0")
        await stop_reading(live, "b,1", slow._client.name)
        publishing = asyncio.create_task(publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT)))
        assert [d.notification["n"] for d in await take(quick, COUNT)] == list(range(COUNT))
        await publishing
        await until(lambda: slow._client.name not in live.host("b,1").sessions)
        start_reading(live, slow._client.name)
        with pytest.raises(UnreachableError, match="slow"):
            await take(slow, COUNT)

    in_overlay(scene, tree="path:2", clusters=2, net_limits=SMALL, routing="snr")


def test_a_stalled_blocking_subscriber_is_given_up_in_the_end() -> None:
    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        slow = await live.subscriber("a,0", "n >= 0")
        await stop_reading(live, "a,0", slow._client.name)
        await publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT))
        await publisher.flush()
        assert slow._client.name not in live.host("a,0").sessions
        start_reading(live, slow._client.name)

    limits = NetLimits(window_frames=1024, client_queue_frames_max=200, client_queue_bytes_max=1 << 30, stall_s=0.3)
    in_overlay(scene, tree="path:1", clusters=1, net_limits=limits)


def test_a_stalled_subscriber_is_given_up_though_its_queue_is_not_full_any_more() -> None:
    """A publisher that was held waits until half is empty: who stops in between holds it as well as at the bound."""

    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        slow = await live.subscriber("a,0", "n >= 0")
        await stop_reading(live, "a,0", slow._client.name)
        host = live.host("a,0")
        publishing = asyncio.create_task(publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT)))
        await until(lambda: host.sessions[publisher.name].channel.is_held)
        box = host.sessions[slow._client.name].box
        while box.is_full:
            box.drop_oldest(lambda frame: True)
        assert box.holds_up
        await until(lambda: slow._client.name not in host.sessions)
        await publishing
        await publisher.flush()
        start_reading(live, slow._client.name)

    limits = NetLimits(window_frames=1024, client_queue_frames_max=200, client_queue_bytes_max=1 << 30, stall_s=0.3)
    in_overlay(scene, tree="path:1", clusters=1, net_limits=limits)


def test_a_slow_reader_of_a_quick_client_stops_its_client_only() -> None:
    """The inbox is bounded: what the program does not take stays at the broker."""

    async def scene(live: Live) -> None:
        publisher = await live.publisher("a,0", "n is not null and s is not null")
        subscription = await live.subscriber("a,0", "n >= 0", inbox_max=100)
        publishing = asyncio.create_task(publisher.publish_many({"n": n, "s": PAYLOAD} for n in range(COUNT)))
        await until(lambda: live.host("a,0").sessions[publisher.name].channel.is_held)
        assert len(subscription._inbox) < 100 + 1000
        assert [d.notification["n"] for d in await take(subscription, COUNT)] == list(range(COUNT))
        await publishing

    in_overlay(scene, tree="path:1", clusters=1, net_limits=SMALL)
