"""One broker that restarts among others that go on, step by step: each in a server of its own, all in this process."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from unittest.mock import patch

import pytest

from octopia.errors import UndeliveredError, UnreachableError
from octopia.language import parse_filter
from octopia.net import Authority, Client, ClientEntry, NetLimits, OverlayIdentity, Rights, Subscription
from octopia.net.broker.saved import Place, take
from octopia.net.frame_queue import Bundle
from octopia.routing.fdr.streams import DestStreams
from octopia.routing.fdr.streams.sending import StreamLog
from octopia.topology import BrokerId
from octopia.wire import Kind, advertise_frame, subscribe_frame
from tests.net.live import Coroutines, Live, Test, client_of, provided, run, until, waiting
from tests.net.live import take as take_deliveries

HANG_S = 1000.0
# Nothing here may depend on time: whatever is waited for comes, or the test hangs.
PATIENT = NetLimits(
    link_grace_s=HANG_S, restart_grace_s=HANG_S, link_give_up_s=HANG_S, link_heartbeat_s=HANG_S, drain_s=HANG_S
)


class Apart(Live):
    """Brokers of an overlay that stop and start one by one, with a place to save what a restart needs."""

    def __init__(self, folder: Path, tree: str = "path:3", clusters: int = 1, **options: Any) -> None:
        super().__init__(tree, clusters, **{"net_limits": PATIENT, **options})
        self.folder = folder

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        # Only now their ports are known.
        await self.servers[self.scot.brokers[0]].stop()
        self.options["state"] = self.folder
        for broker in self.scot.brokers:
            await self.start(str(broker))
        await self.all_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            with suppress(UndeliveredError):
                await client.close(0)
        await asyncio.gather(*(server.stop(for_good=True) for server in self.servers.values()))

    async def stop(self, broker: str, **how: Any) -> None:
        await self.servers.pop(BrokerId.parse(broker)).stop(**how)

    async def all_up(self) -> None:
        await until(self.all_links_up)

    def place(self, broker: str) -> Place:
        id = BrokerId.parse(broker)
        overlay = OverlayIdentity("", self.scot, self.options.get("routing", "idr"))
        return Place(self.folder, overlay, id, self.addresses[id])

    async def subscriber(self, broker: str, filter: str = "n >= 0", **options: Any) -> Subscription:
        return await super().subscriber(broker, filter, **options)


def apart(scene: Callable[[Apart], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def main() -> None:
        async with Apart(folder, **options) as overlay:
            await scene(overlay)

    run(main)


def restarting(**options: Any) -> Callable[[Coroutines], Test]:
    """For a test among such brokers, which are its first argument."""

    def decorated(test: Coroutines) -> Test:
        def play(given: dict[str, Any]) -> None:
            with TemporaryDirectory() as folder:
                apart(lambda brokers: test(brokers, **given), Path(folder), **options)

        return provided(test, play)

    return decorated


async def numbers(subscription: Subscription, count: int) -> list[Any]:
    return [delivery.notification["n"] for delivery in await take_deliveries(subscription, count)]


@restarting()
async def test_what_is_published_while_the_broker_in_the_middle_is_away_arrives_when_it_is_back(overlay: Apart) -> None:
    publisher = await overlay.client("a,0")
    await publisher.advertise("n is not null")
    near, middle, far = [await overlay.subscriber(broker) for broker in ("a,0", "b,0", "c,0")]
    await overlay.stop("b,0")
    await publisher.publish_many({"n": n} for n in range(1000))
    await publisher.flush()
    assert await numbers(near, 1000) == list(range(1000))
    assert waiting(far) == waiting(middle) == []
    # Clients wait for it as long as its neighbours do.
    assert client_of(middle)._session.restart_s == PATIENT.restart_grace_s
    # The core of the neighbour goes on as if nothing had happened.
    link = overlay.host("a,0").links[BrokerId("b", 0)]
    assert (link.is_up, link.channel, link.queue.waits) == (True, None, 1000)
    await overlay.start("b,0")
    for subscription in (far, middle):
        assert await numbers(subscription, 1000) == list(range(1000))
    await publisher.publish({"n": 1000})
    for subscription in (near, middle, far):
        assert await numbers(subscription, 1) == [1000]
        assert client_of(subscription).reconnects == (subscription is middle)


@restarting(tree="path:1", clusters=2)
async def test_a_neighbour_that_leaves_gets_no_more_and_is_taken_for_overloaded(overlay: Apart) -> None:
    host = overlay.host("a,0")
    link = host.links[BrokerId("a", 1)]
    peer = overlay.host("a,1")
    peer.drain(saves=True)
    await until(lambda: peer.links[BrokerId("a", 0)].is_drained)
    assert link.leaves
    assert host.broker.state.lst.overloaded(BrokerId("a", 1))
    link.outgoing.put(Bundle(b"later"), 0, None)
    link.queue.flush()
    assert link.queue.in_order() == [b"later"]
    assert peer.is_drained


@restarting()
async def test_a_subscriber_that_is_away_finds_what_came_before_and_after_the_restart(overlay: Apart) -> None:
    publisher = await overlay.client("a,0")
    await publisher.advertise("n is not null")
    subscription = await overlay.subscriber("c,0", ordered=False, policy="block")
    client = client_of(subscription)
    channel = client._connecting.channel
    assert channel is not None
    host = overlay.host("c,0")
    session = host.sessions[client.name]
    # Not a word of it to the client: its connection is gone as far as the broker knows.
    channel.transport.pause_reading()
    session.drop_channel("idle", "for the test")
    await publisher.publish_many({"n": n} for n in range(10))
    await until(lambda: session.queue.waits == 10)
    await overlay.stop("c,0")
    await publisher.publish_many({"n": n} for n in range(10, 20))
    await publisher.flush()
    await overlay.start("c,0")
    restored = overlay.host("c,0").sessions[client.name].deliveries
    assert (restored.policies, list(restored.unordered)) == ({subscription.id: "block"}, [subscription.id])
    channel.transport.abort()
    assert await numbers(subscription, 20) == list(range(20))
    assert client.reconnects == 1


def test_a_full_queue_is_saved_and_holds_publishers_until_its_client_is_back(tmp_path: Path) -> None:
    limits = NetLimits(
        link_grace_s=HANG_S,
        restart_grace_s=HANG_S,
        link_give_up_s=HANG_S,
        link_heartbeat_s=HANG_S,
        drain_s=HANG_S,
        stall_s=HANG_S,
        client_queue_frames_max=1000,
        link_queue_frames_max=1000,
        window_frames=10,
        block_s=HANG_S,
    )

    async def scene(overlay: Apart) -> None:
        publisher = await overlay.client("a,0")
        await publisher.advertise("n is not null and text is not null")
        subscription = await overlay.subscriber("b,0", policy="block", inbox_max=5)
        publishing = asyncio.create_task(publish_and_flush(publisher, 6000))
        session = overlay.host("b,0").sessions[client_of(subscription).name]
        await until(lambda: session.deliveries.asks)
        await overlay.stop("b,0")
        await overlay.start("b,0")
        assert not publishing.done()
        assert await numbers(subscription, 6000) == list(range(6000))
        await publishing
        assert client_of(subscription).dropped == 0

    apart(scene, tmp_path, tree="path:2", net_limits=limits)


async def publish_and_flush(publisher: Client, count: int) -> None:
    # Long ones, so that one read does not bring them all.
    await publisher.publish_many({"n": n, "text": 2000 * "x"} for n in range(count))
    await publisher.flush()


@restarting(tree="path:2")
async def test_a_request_that_was_not_answered_is_answered_by_the_next_life(overlay: Apart) -> None:
    """The subscription was carried out and not yet in force, since a neighbour was away."""
    await overlay.stop("a,0")
    client = await overlay.client("b,0")
    subscription = client.subscribe("n >= 0")
    asking = asyncio.create_task(client.start_subscription(subscription))
    session = overlay.host("b,0").sessions[client.name]
    await until(lambda: bool(session.unanswered))
    await overlay.stop("b,0")
    await overlay.start("b,0")
    await until(lambda: client.reconnects == 1)
    assert not asking.done()
    await overlay.start("a,0")
    await asking
    publisher = await overlay.client("a,0")
    await publisher.advertise("n is not null")
    await publisher.publish({"n": 1})
    assert await numbers(subscription, 1) == [1]


@restarting(tree="path:2")
async def test_a_stop_for_good_ends_sessions_and_saves_nothing(overlay: Apart) -> None:
    subscription = await overlay.subscriber("b,0")
    await overlay.stop("b,0", for_good=True)
    assert take(overlay.place("b,0"), 0.0, float("inf")) is None
    await overlay.start("b,0")
    await until(lambda: len(overlay.host("b,0").sessions) == 1)
    assert overlay.host("b,0").counters.sessions_resumed == 0
    await until(lambda: client_of(subscription).reconnects == 1)


def test_a_client_that_lost_its_rights_meanwhile_loses_its_session(tmp_path: Path) -> None:
    everything = ClientEntry(Rights("feed"), token="t" * 32)
    nothing = ClientEntry(Rights("other"), token="o" * 32)

    async def scene(overlay: Apart) -> None:
        client = await overlay.client("a,0", name="feed", token="t" * 32)
        await client.advertise("n > 0", id="mine")
        await overlay.stop("a,0")
        overlay.options["authority"] = Authority((nothing,), link_token="l" * 32)
        await overlay.start("a,0")
        host = overlay.host("a,0")
        assert len(host.sessions) == len(host.broker.state.srt) == 0

    apart(scene, tmp_path, tree="path:1", authority=Authority((everything,), link_token="l" * 32))


@restarting(tree="path:1")
async def test_the_file_holds_what_the_client_asked_for(overlay: Apart) -> None:
    client = await overlay.client("a,0", name="c", session_s=12.0)
    await client.advertise("n > 0", id="mine")
    subscription = client.subscribe("n > 1", id="s", policy="drop_newest", ordered=False)
    await client.start_subscription(subscription)
    await overlay.client("a,0", name="short", session_s=0.0)
    await client.publish({"n": 1})
    await client.flush()
    await overlay.stop("a,0")
    saved = take(overlay.place("a,0"), 0.0, float("inf"))
    assert saved is not None
    (session,) = saved.sessions
    assert (session.name, session.session_s, session.received, session.last_sequence) == ("c", 12.0, 3, 1)
    assert session.registrations == [
        advertise_frame("mine", parse_filter("n > 0")),
        subscribe_frame("s", parse_filter("n > 1"), "drop_newest", False),
    ]
    assert [frame[4] for frame in (*session.unconfirmed, *session.waiting)] in (
        [],
        [Kind.ACCEPTED],
        [Kind.ACCEPTED] * 2,
    )


@restarting(tree="path:2")
async def test_a_subscriber_waits_for_its_broker_and_a_mere_publisher_goes_on_elsewhere(overlay: Apart) -> None:
    urls = [f"octopia://{overlay.addresses[BrokerId.parse(broker)]}" for broker in ("a,0", "b,0")]
    reader, publisher = Client(urls), Client(urls)
    for client in (reader, publisher):
        await client.open()
        overlay.clients.append(client)
    await publisher.advertise("n is not null")
    subscription = reader.subscribe("n >= 0")
    await reader.start_subscription(subscription)
    await overlay.stop("a,0")
    await publisher.publish({"n": 1})
    await publisher.flush()
    assert (publisher.broker, reader.reconnects) == ("(b,0)", 0)
    await overlay.start("a,0")
    assert await numbers(subscription, 1) == [1]
    assert (reader.broker, overlay.host("a,0").counters.sessions_resumed) == ("(a,0)", 1)


@restarting(tree="path:2")
async def test_one_that_stops_for_good_is_left_by_everyone(overlay: Apart) -> None:
    urls = [f"octopia://{overlay.addresses[BrokerId.parse(broker)]}" for broker in ("a,0", "b,0")]
    reader = Client(urls)
    await reader.open()
    overlay.clients.append(reader)
    await reader.start_subscription(reader.subscribe("n >= 0"))
    await overlay.stop("a,0", for_good=True)
    await until(lambda: reader.broker == "(b,0)")


@restarting(tree="path:2", clusters=2, routing="fdr")
async def test_under_fdr_a_broker_recognises_what_it_took_before_its_restart(overlay: Apart) -> None:
    """Nothing of it was confirmed to the publisher's broker, which therefore sends all of it again."""
    publisher = await overlay.publisher("a,0", "n is not null")
    subscriptions = [await overlay.subscriber(broker) for broker in ("b,0", "b,1", "a,1")]
    log = overlay.host("a,0").broker.streams.log
    with patch.object(StreamLog, "confirm", lambda *_: None):
        await publisher.publish_many({"n": n} for n in range(100))
        for subscription in subscriptions:
            assert await numbers(subscription, 100) == list(range(100))
        await overlay.stop("b,0")
        await publisher.publish_many({"n": n} for n in range(100, 200))
        await publisher.flush()
        assert len(log) == 200
        await overlay.start("b,0")
        streams = overlay.host("b,0").broker.streams
        for subscription in subscriptions:
            assert await numbers(subscription, 100) == list(range(100, 200))
        await until(lambda: streams.gate.repeats >= 100)
        await publisher.publish({"n": 200})
        for subscription in subscriptions:
            assert await numbers(subscription, 1) == [200]


@restarting(tree="path:2", clusters=1, routing="idr", net_limits=replace(PATIENT, drain_s=0.01))
async def test_what_a_neighbour_has_not_confirmed_in_time_is_sent_again(overlay: Apart) -> None:
    """It may have taken it, so it may come twice, but it is not lost."""
    publisher = await overlay.publisher("a,0", "n is not null")
    subscription = await overlay.subscriber("b,0")
    link = overlay.host("b,0").links[BrokerId("a", 0)]
    link.channel.transport.pause_reading()
    await publisher.publish_many({"n": n} for n in range(10))
    await publisher.flush()
    queue = overlay.host("a,0").links[BrokerId("b", 0)].queue
    await until(lambda: len(queue.under_way) == 10)
    await overlay.stop("a,0")
    link.channel.abort()
    await overlay.start("a,0")
    assert await numbers(subscription, 10) == list(range(10))


@pytest.mark.parametrize("routing", ["idr", "fdr"])
def test_a_neighbour_whose_connection_broke_is_admitted_and_hears_of_the_restart(tmp_path: Path, routing: str) -> None:
    """Otherwise it would take the broker for dead, and keep what is for it for a shorter time."""

    async def scene(overlay: Apart) -> None:
        publisher = await overlay.publisher("a,0", "n is not null")
        subscription = await overlay.subscriber("b,0")
        dialler = overlay.host("a,0").diallers[BrokerId("b", 0)]
        near, far = overlay.host("a,0").links[BrokerId("b", 0)], overlay.host("b,0").links[BrokerId("a", 0)]
        dialler.address, address = None, dialler.address
        near.channel.abort()
        await until(lambda: near.channel is None and far.channel is None)
        host = overlay.host("b,0")
        stopping = asyncio.create_task(overlay.stop("b,0"))
        await until(lambda: host.draining)
        assert not host.is_drained
        stranger = Client(overlay.url("b,0"))
        with pytest.raises(UnreachableError, match="this broker is about to stop"):
            await stranger.open()
        await publisher.publish_many({"n": n} for n in range(10))
        await publisher.flush()
        dialler.address = address
        dialler.dial()
        await stopping
        await until(lambda: near.channel is None and near.leaves)
        assert near.keeps_all
        await overlay.start("b,0")
        await publisher.publish({"n": 10})
        assert await numbers(subscription, 11) == list(range(11))

    limits = replace(PATIENT, detour_grace_s=HANG_S)
    apart(scene, tmp_path, tree="path:2", clusters=1, routing=routing, net_limits=limits)


@restarting(tree="path:2", clusters=2, routing="fdr")
async def test_under_fdr_a_broker_that_leaves_confirms_at_once_what_it_took(overlay: Apart) -> None:
    """Its drain would otherwise last until the next confirmation is due, and be cut short before it was sent."""
    publisher = await overlay.publisher("a,0", "n is not null")
    subscription = await overlay.subscriber("b,1")
    host = overlay.host("b,1")
    host.broker.streams.owed._after_s = HANG_S
    await publisher.publish({"n": 0})
    assert await numbers(subscription, 1) == [0]
    log = overlay.host("a,0").broker.streams.log
    assert len(log) == 1
    await overlay.stop("b,1")
    await until(lambda: not len(log))


@restarting(tree="path:2", clusters=2, routing="fdr")
async def test_under_fdr_a_broker_sends_again_after_its_restart_what_was_lost_on_the_way(overlay: Apart) -> None:
    """Copies that a neighbour had confirmed, and then lost."""
    publisher = await overlay.publisher("a,0", "n is not null")
    subscriptions = [await overlay.subscriber(broker) for broker in ("b,0", "b,1", "a,1")]
    lost: list[str] = []

    def lose(streams: DestStreams, publisher: str, *_: Any) -> tuple[()]:
        lost.append(publisher)
        return ()

    with patch.multiple(DestStreams, arrived=lose, at_once=lambda *_: None, in_order=lambda *_: None):
        await publisher.publish_many({"n": n} for n in range(10))
        await until(lambda: len(lost) == 30)
        # it does not wait for their confirmations
        with patch("octopia.net.broker.host.CONFIRM_SHARE", 0.0):
            await overlay.stop("a,0")
    await overlay.start("a,0")
    await publisher.publish_many({"n": n} for n in range(10, 20))
    for subscription in subscriptions:
        assert await numbers(subscription, 10) == list(range(10))
        assert await numbers(subscription, 10) == list(range(10, 20))
