# ruff: noqa: S106  tokens of tests
"""Attacks on what a broker keeps for others: each is bounded, and bystanders go on as if nothing were."""

import asyncio
import errno
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import UnreachableError
from octopia.language import parse_filter
from octopia.net import Address, Client, NetLimits
from octopia.net.broker import listener
from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.descriptors import CONNECTIONS_MIN, FILES_MARGIN, ConnectionRoom, places_that_fit
from octopia.net.broker.listener import Listener
from octopia.net.broker.memory import IDLE_TICKS
from octopia.net.broker.operations.log import Log
from octopia.net.broker.sessions import ANSWERS_MAX
from octopia.net.channel import Channel
from octopia.topology import BrokerId
from octopia.wire import (
    Ack,
    Delivery,
    Dropped,
    Goodbye,
    Hello,
    Welcome,
    message_frame,
    subscribe_frame,
    unsubscribe_frame,
)
from tests.net.live import Live, asynchronous, in_overlay, overlay, take, until
from tests.net.raw import RawPeer
from tests.net.test_security import CLIENTS, Certificates, secure_url, with_tls

SMALL = NetLimits(connections_max=3, handshakes_max=8)


class Bystanders:
    """A publisher and a subscriber that have nothing to do with anything."""

    def __init__(self, publisher: Client, subscription: Any) -> None:
        self.publisher = publisher
        self.subscription = subscription
        self.count = 0

    @classmethod
    async def come(cls, live: Live, broker: str = "a,0") -> "Bystanders":
        publisher = await live.publisher(broker, "bystander is not null")
        return cls(publisher, await live.subscriber(broker, "bystander > 0"))

    async def are_served(self) -> None:
        self.count += 1
        await self.publisher.publish({"bystander": self.count})
        (delivery,) = await take(self.subscription, 1)
        assert delivery.notification["bystander"] == self.count


class Silent:
    """Connections that say nothing."""

    def __init__(self, live: Live, address: Address, count: int) -> None:
        # The system takes them in before anyone accepts them.
        self._sockets = [socket.create_connection((address.host, address.port)) for _ in range(count)]
        for each in self._sockets:
            each.setblocking(False)
        live.clients.append(self)

    @property
    def closed(self) -> int:
        """How many the other side has closed."""
        return sum(map(_is_closed, self._sockets))

    async def close(self) -> None:
        for each in self._sockets:
            each.close()


def _is_closed(each: socket.socket) -> bool:
    try:
        return each.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def has_read(channel: Channel, count: int) -> bool:
    """Whether this many requests were handled, or nothing more is read."""
    return channel.is_held or channel.connection.received == count


def address_of(live: Live, broker: str) -> Address:
    return live.addresses[BrokerId.parse(broker)]


# -- unread answers


@overlay(tree="path:1", clusters=1)
async def test_who_confirms_no_answer_is_disconnected(live: Live) -> None:
    bystanders = await Bystanders.come(live)
    peer = await RawPeer.enter(live, "a,0", Hello([1], "client", "greedy"))
    host = live.host("a,0")
    session = host.sessions["greedy"]
    requests = 2 * ANSWERS_MAX
    peer.send(unsubscribe_frame("x") * requests)
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, session.queue.waits)
        channel = session.channel
        return "greedy" not in host.sessions or channel is None or channel.connection.received == requests

    await until(is_over)
    await until(lambda: "greedy" not in host.sessions)
    assert most <= ANSWERS_MAX
    assert host.counters.sessions_ended_slow == 1
    await bystanders.are_served()


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(client_queue_frames_max=500))
async def test_who_confirms_and_does_not_read_is_not_read_from(live: Live) -> None:
    bystanders = await Bystanders.come(live)
    peer = await RawPeer.enter(live, "a,0", Hello([1], "client", "greedy"))
    session = live.host("a,0").sessions["greedy"]
    channel, box = session.channel, session.queue
    asked = 0
    while not channel.is_held:
        # Answers are large, so that the system's own buffers fill soon.
        peer.send(unsubscribe_frame("x" * 250) * 1000 + message_frame(Ack(box.sent)))
        asked += 1000
        await until(partial(has_read, channel, asked))
    assert box.waits < 2000
    await bystanders.are_served()
    # It reads, and is read from again.
    answers = 0
    while answers < asked:
        assert await peer.next() is not None
        answers += 1
        if answers % 500 == 0:
            peer.send(message_frame(Ack(answers)))
    assert not channel.is_held


# -- sessions and frames that are left behind


def test_abandoned_sessions_share_one_bound_and_stay() -> None:
    bound = 4 * 1024 * 1024

    async def scene(live: Live) -> None:
        host = live.host("a,0")
        publisher = await live.publisher("a,0", "n is not null and text is not null")
        secrets = {}
        for name in (f"away{n}" for n in range(10)):
            peer = await RawPeer.enter(live, "a,0", Hello([1], "client", name, session_s=300))
            peer.send(subscribe_frame("s", parse_filter("n > 0"), "drop_oldest", True))
            await peer.next()
            assert peer.welcome is not None
            secrets[name] = peer.welcome.session
            peer.vanish()
        await until(lambda: all(host.sessions[name].is_away for name in secrets))
        for n in range(1, 2001):
            await publisher.publish({"n": n, "text": "x" * 1000})
        await publisher.flush()
        for _ in range(IDLE_TICKS):
            host.tick()
        assert host.memory.used_bytes <= bound
        assert sum(host.sessions[name].queue.memory_bytes for name in secrets) <= bound
        sizes = [host.sessions[name].queue.memory_bytes for name in secrets]
        assert max(sizes) - min(sizes) < 2000, "all are cut to the same level"
        dropped = host.counters.deliveries_dropped_for_memory
        assert dropped == sum(host.sessions[name].queue.dropped_total for name in secrets) > 0
        # Each comes back to its session: it is told how many it missed, and gets the rest, which are the newest.
        peer = await RawPeer.enter(live, "a,0", Hello([1], "client", "away3", session=secrets["away3"], received=1))
        assert peer.welcome is not None
        assert peer.welcome.resumed
        missed = await peer.next(lambda message: isinstance(message, Dropped))
        for got, n in enumerate(range(missed.count + 1, 2001), start=1):
            delivery = await peer.next(lambda message: isinstance(message, Delivery))
            assert delivery.notification["n"] == n
            if got % 100 == 0:
                peer.send(message_frame(Ack(got + 2)))

    in_overlay(scene, tree="path:1", clusters=1, net_limits=NetLimits(memory_bytes_max=bound))


def test_unfinished_frames_have_a_bound() -> None:
    bound = 1024 * 1024
    limits = NetLimits(unfinished_bytes_max=bound)

    async def scene(live: Live) -> None:
        bystanders = await Bystanders.come(live)
        host = live.host("a,0")
        begun = (900_000).to_bytes(4, "big") + b"\x00" * 100_000
        for n in range(40):
            peer = await RawPeer.enter(live, "a,0", Hello([1], "client", f"slow{n}"))
            peer.send(begun[:4] + bytes([0x10]) + begun[5:])
        await until(lambda: host.counters.frames_unfinished_closed >= 30)
        host.tick()
        assert host.channels.kept_bytes <= bound
        assert host.memory.used_bytes <= bound
        await bystanders.are_served()

    in_overlay(scene, tree="path:1", clusters=1, net_limits=limits)


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(memory_bytes_max=400_000, window_frames=20))
async def test_when_only_a_blocking_client_is_left_publishers_wait_and_newcomers_are_refused(live: Live) -> None:
    host = live.host("a,0")
    publisher = await live.publisher("a,0", "n is not null and text is not null")
    known = await RawPeer.enter(live, "a,0", Hello([1], "client", "known", session_s=300))
    peer = await RawPeer.enter(live, "a,0", Hello([1], "client", "slow"))
    peer.send(subscribe_frame("s", parse_filter("n > 0"), "block", True))
    await peer.next()
    publishing = asyncio.ensure_future(publisher.publish_many({"n": n, "text": "x" * 1000} for n in range(1, 801)))
    await until(lambda: host.memory.is_full)
    assert host.sessions[publisher.name].channel.is_held
    with pytest.raises(UnreachableError, match="no memory left"):
        await live.client("a,0", connect_s=0.1)
    # A client that returns to its session is admitted.
    assert known.welcome is not None
    known.vanish()
    back = Hello([1], "client", "known", session=known.welcome.session, session_s=300)
    assert isinstance(await (await RawPeer.dial(live, "a,0")).said(back), Welcome)
    for n in range(1, 801):
        assert (await peer.next()).notification["n"] == n
        peer.send(message_frame(Ack(n + 1)))
    await publishing
    await publisher.flush()
    await until(lambda: not host.memory.is_full)
    await live.client("a,0")
    assert host.counters.sessions_ended_for_memory == 0


# -- connections that say nothing


@overlay(tree="path:2", clusters=1, net_limits=SMALL)
async def test_who_says_nothing_keeps_nobody_out(live: Live) -> None:
    host = live.host("b,0")
    silent = Silent(live, address_of(live, "b,0"), 50)
    bystanders = await Bystanders.come(live, "b,0")
    await bystanders.are_served()
    # A neighbour comes back, too.
    link = host.links[BrokerId("a", 0)]
    before = link.channel
    before.abort()
    await until(lambda: link.channel not in (None, before) and live.all_links_up())
    assert len(host.door.arrivals) <= 8
    assert host.counters.handshakes_crowded_out >= 42
    await until(lambda: len(host.channels) <= 2 + 8 + 1)
    await until(lambda: silent.closed >= 42)


def test_who_does_not_begin_with_tls_counts_too(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def scene(live: Live) -> None:
        host = live.host("a,0")
        silent = Silent(live, address_of(live, "a,0"), 50)
        client = Client(secure_url(live, "a,0"), token="t-reader", tls=certificates.of_client())
        live.clients.append(client)
        await client.open()
        assert len(host.door.arrivals) <= 8
        await until(lambda: host.counters.handshakes_crowded_out >= 42)
        await until(lambda: silent.closed >= 42)

    in_overlay(scene, host="127.0.0.1", net_limits=SMALL, **with_tls(certificates))


def test_places_are_reserved_for_those_who_are_known() -> None:
    async def strangers(live: Live) -> None:
        hello = Hello([1], "client", "first", session_s=300)
        first = await RawPeer.enter(live, "a,0", hello)
        assert first.welcome is not None
        first.vanish()
        host = live.host("a,0")
        await until(lambda: not host.door.guests)
        for _ in range(8):
            await live.client("a,0")
        with pytest.raises(UnreachableError, match="maximum of 10 connections, 2 of them reserved"):
            await live.client("a,0", connect_s=0.1)
        assert host.counters.newcomers_refused >= 1
        back = Hello([1], "client", "first", session=first.welcome.session, session_s=300)
        for _ in range(3):
            # Twice it takes its own place.
            answer = await (await RawPeer.dial(live, "a,0")).said(back)
            assert isinstance(answer, Welcome)
            assert answer.resumed

    async def named(live: Live) -> None:
        for n in range(10):
            await live.client("a,0", token="t-reader", name=f"reader/{n}")
        answer = await (await RawPeer.dial(live, "a,0")).said(Hello([1], "client", "reader/10", "t-reader"))
        assert answer == Goodbye("full", "this broker has its maximum of 10 connections")

    limits = NetLimits(connections_max=10, connections_reserved_percent=20)
    in_overlay(strangers, tree="path:1", clusters=1, net_limits=limits)
    in_overlay(named, tree="path:1", clusters=1, net_limits=limits, authority=CLIENTS)


def test_the_http_port_has_a_bound() -> None:
    broker = BrokerId("a", 0)

    async def scene(live: Live) -> None:
        address = live.servers[broker].http[broker]
        silent = Silent(live, address, 50)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"memory_bytes_max":536870912' in answer
        writer.close()
        await until(lambda: live.host("a,0").counters.http_crowded_out >= 46)
        await until(lambda: silent.closed >= 46)

    limits = NetLimits(http_connections_max=4)
    in_overlay(scene, tree="path:1", clusters=1, net_limits=limits, http={broker: Address("127.0.0.1", 0)})


# -- file descriptors


class Stingy(socket.socket):
    """Has no file descriptor left, for a while."""

    failures = 3

    def accept(self) -> Any:
        if Stingy.failures:
            Stingy.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


class Greeting(asyncio.Protocol):
    transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(b"hello")
        transport.close()


@asynchronous
async def test_a_listener_without_file_descriptors_rests_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RETRY_S", 0.01)
    with Stingy() as there:
        there.setblocking(False)
        there.bind(("127.0.0.1", 0))
        port = Listener([there], Greeting, Arrivals(4, 4), lambda: None, Log("test"))
        port.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        assert await reader.read() == b"hello"
        writer.close()
        port.close()
    assert Stingy.failures == 0


class Quiet(asyncio.Protocol):
    """A stranger, as the broker sees it."""

    transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def abort(self) -> None:
        self.transport.abort()


@asynchronous
async def test_without_file_descriptors_the_oldest_stranger_makes_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a pause that never ends here."""
    monkeypatch.setattr(listener, "RETRY_S", 1e6)
    Stingy.failures = 0
    with Stingy() as there:
        there.setblocking(False)
        there.bind(("127.0.0.1", 0))
        arrivals: Arrivals[Quiet] = Arrivals(99, 99)
        port = Listener([there], Quiet, arrivals, lambda: None, Log("test"))
        port.start()
        strangers = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(5)]
        await until(lambda: len(arrivals) == 5)
        Stingy.failures = 3
        newcomer = await asyncio.open_connection("127.0.0.1", port.port)
        for reader, _ in strangers[:3]:
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        await until(lambda: len(arrivals) == 3)
        for _, writer in (*strangers, newcomer):
            writer.close()
        port.close()


@pytest.mark.parametrize(
    ("files", "brokers", "fit"),
    [
        (10**6, 9, (1000, 20, 10)),
        (FILES_MARGIN + 9 * (1000 + 20 + 10 + 2 * 4 + 2), 9, (1000, 20, 10)),
        (FILES_MARGIN + 9 * (999 + 20 + 10 + 2 * 4 + 2), 9, (999, 20, 10)),
        (1024, 1, (1024 - FILES_MARGIN - 40, 20, 10)),
        (FILES_MARGIN + 8 * (CONNECTIONS_MIN + 40), 8, (CONNECTIONS_MIN, 20, 10)),
        # 38 are left for all of them
        (64, 1, (38 - 9 - 4, 9, 4)),
        (256, 9, (8, 2, 1)),
        (64, 9, (1, 1, 1)),
    ],
)
def test_no_more_connections_than_file_descriptors(files: int, brokers: int, fit: tuple[int, int, int]) -> None:
    limits = NetLimits(connections_max=1000, handshakes_max=20, http_connections_max=10)
    assert places_that_fit(files, brokers, limits, links=4) == ConnectionRoom(*fit)


@pytest.mark.parametrize("wanted", [9999, NetLimits().connections_max])
def test_a_broker_says_how_many_it_takes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: int
) -> None:
    monkeypatch.setattr("octopia.net.broker.server.raise_files_limit", lambda: 512)
    caplog.set_level("WARNING", "octopia.net")

    async def scene(live: Live) -> None:
        report = live.host("a,0").report()
        assert report.connections_max == 512 - FILES_MARGIN - 256 - 64 - 2
        if wanted == NetLimits().connections_max:
            assert not caplog.records
            return
        (said,) = [record for record in caplog.records if record.getMessage() == "connections_max lowered"]
        assert vars(said)["octopia"]["fix"] == (
            f"allow more (ulimit -n, LimitNOFILE), or set connections_max to {report.connections_max} or less"
        )

    in_overlay(scene, tree="path:1", clusters=1, net_limits=NetLimits(connections_max=wanted))
