"""What one read brings goes through a broker as a batch, and must come out as if it had come piece by piece.

Three brokers get the same bytes from the same clients, over sockets that only keep what is written. One reads them as
columns and takes the express way and the short cut, as brokers do; one joins what a read brings, as brokers without a
compiler do; the third handles each notification by itself. Whatever the policies, the bounds, the queues
that are full, the links that are overloaded and the reads that are paused: everyone is written the same bytes, and the
counters are the same.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from octopia.language import Filter, parse_filter, parse_notification
from octopia.matching import kernels_in_use
from octopia.net import BrokerHost, NetLimits, warm_up
from octopia.net.broker.short_cut import ShortCuts
from octopia.net.channel import Channel
from octopia.net.frame_queue import FrameQueue
from octopia.protocol import CibClear, CibSet, Civ, Dests, Key, Notify, Stamp, Subscribe, SubscriptionsComplete
from octopia.routing import LinkSampled
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    PLAIN,
    Ack,
    Codec,
    Connection,
    CopyHeader,
    Hello,
    Hold,
    Kind,
    Side,
    WireLimits,
    advertise_frame,
    encode_parcel,
    link_frames,
    message_frame,
    publish_frame,
    subscribe_frame,
    unsubscribe_frame,
    wire_notification,
)
from tests.net.live import asynchronous

SCOT = Scot(parse_tree("path:2"), 3)
OWN = BrokerId("b", 2)
CODEC = Codec(WireLimits(), SCOT)
SCANNING = Codec(WireLimits(), SCOT)
# The aLink first, then the iLinks.
NEIGHBOURS = ("(a,2)", "(b,0)", "(b,1)")
# Not `disconnect`: in the midst of a read it withdraws subscriptions, which a batch that is under way does not see.
POLICIES = ("block", "drop_oldest", "drop_newest")
ADVERTISED = parse_filter("x between -5 and 5 and c is not null and text is not null")


class Socket:
    """A transport that keeps what is written, and knows whether it is read from."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    abort = close


class Half:
    """One broker, (b,2), and its clients and neighbours, which all dial it."""

    def __init__(
        self, joins: bool, limits: NetLimits, clock: Callable[[], float], codec: Codec = CODEC, **options: Any
    ) -> None:
        self.joins = joins
        self.codec = codec
        self.host = BrokerHost(OWN, SCOT, net_limits=limits, now=clock, **options)
        if codec is not SCANNING:
            self.host._router.short_cuts = None
        self.peers: dict[str, Channel] = {}
        self.sockets: dict[str, Socket] = {}

    async def connect(self, name: str) -> None:
        role, to = ("broker", str(OWN)) if name.startswith("(") else ("client", "")
        peer, socket = self.host.door.accept(), Socket()
        peer.connection = Connection(Side.ACCEPTING_BROKER, self.codec, joins=self.joins)
        # A run of notifications is one message only where it is joined.
        peer._slice_max = 0
        peer.connection_made(socket)  # type: ignore[arg-type]
        peer.data_received(message_frame(Hello([1], role, name, session=b"life", to=to)))
        await settled()
        socket.written = b""
        self.peers[name], self.sockets[name] = peer, socket

    def box_of(self, name: str) -> FrameQueue | None:
        """The queue towards a client or a neighbour that is there."""
        owner = self.host.links[BrokerId.parse(name)] if name.startswith("(") else self.host.sessions.get(name)
        return owner.queue if owner is not None and owner.queue.transport is not None else None

    def state(self) -> Any:
        host, counters = self.host, self.host.counters
        return (
            {name: (socket.written, socket.reading, socket.closed) for name, socket in self.sockets.items()},
            (counters.notifications, counters.duplicates, counters.refusals, counters.sessions_ended_slow),
            {name: list(session.queue.waiting) for name, session in host.sessions.items()},
            {name: session.queue.dropped_total for name, session in host.sessions.items()},
            {neighbour: (list(link.queue.waiting), link.dropped) for neighbour, link in host.links.items()},
            (len(host.dispatch.reorder), len(host.dispatch.ways), len(host.traces)),
            (counters.deliveries, dict(host.dispatch.reorder.last)),
            (host.intake.held, counters.sources_held),
        )

    def end(self) -> None:
        for peer in list(self.peers.values()):
            if peer._handshake_timer is not None:
                peer._handshake_timer.cancel()


async def settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def drawn_filter(draw: random.Random) -> Filter:
    return parse_filter(f"x >= {draw.randint(-5, 5)} and c = '{draw.choice('ab')}'")


def drawn_values(draw: random.Random) -> dict[str, Any]:
    return {"x": draw.randint(-5, 5), "c": draw.choice("ab"), "text": "t" * draw.randrange(30)}


def drawn_read(draw: random.Random, name: str, sequence: int, odd: float = 0.03) -> tuple[bytes, int]:
    """Publications: most as advertised, some not, some repeated, some traced; and the last sequence number."""
    frames = []
    for _ in range(draw.choice((1, 2, 7, 40))):
        sequence += 3 if draw.random() < 5 * odd else 0 if draw.random() < odd else 1
        values = drawn_values(draw)
        if draw.random() < odd:
            values["x"] = 99
        if draw.random() < odd:
            values["other"] = 1
        made = encode_parcel(parse_notification(values), name, sequence)
        frames.append(publish_frame(made, traced=draw.random() < odd))
    return b"".join(frames), sequence


class History:
    """Random clients, subscriptions, reads, stops and confirmations, the same for all brokers."""

    ways: tuple[tuple[bool, Codec], ...] = ((True, SCANNING), (True, CODEC), (False, CODEC))
    advertised = ADVERTISED
    odd = 0.03

    def __init__(self, seed: int, **options: Any) -> None:
        self.draw = draw = random.Random(seed)
        limits = NetLimits(
            client_queue_frames_max=draw.choice((5, 30, 1000)),
            client_queue_bytes_max=draw.choice((400, 100_000)),
            link_queue_frames_max=draw.choice((20, 1000)),
            window_frames=draw.choice((8, 4096)),
        )
        self.now_s = 100.0
        self.halves = [Half(joins, limits, lambda: self.now_s, codec, **options) for joins, codec in self.ways]
        self.readers = [f"r{n}" for n in range(3)]
        self.sequences = dict.fromkeys(["p0", "p1", *NEIGHBOURS], 0)
        self.subscribed = 0

    async def run(self) -> None:
        for name in [*self.readers, *self.sequences]:
            for half in self.halves:
                await half.connect(name)
        await self.tell(NEIGHBOURS[0], b"".join(link_frames(SubscriptionsComplete())))
        for name in ("p0", "p1"):
            await self.tell(name, advertise_frame("a", self.advertised))
        steps = self.steps()
        for _ in range(80):
            await self.draw.choice(steps)()
            express, *others = (half.state() for half in self.halves)
            assert all(express == other for other in others)
            assert self.halves[0].host.counters.faults == 0
        for half in self.halves:
            half.end()

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            *[self.subscribe] * 5,
            self.unsubscribe,
            *[self.neighbour_wants] * 4,
            *[self.stop_or_go] * 3,
            *[self.confirm] * 2,
            *[self.publish] * 8,
            *[self.copies_come] * 4,
            *[self.links_are_sampled] * 2,
            *[self.neighbour_holds] * 2,
            *[self.time_passes] * 2,
        ]

    async def tell(self, name: str, data: bytes) -> None:
        for half in self.halves:
            if not half.peers[name].closing:
                half.peers[name].data_received(data)
        await settled()

    async def subscribe(self) -> None:
        draw = self.draw
        self.subscribed += 1
        policy, ordered = draw.choice(POLICIES), draw.random() < 0.9
        frame = subscribe_frame(f"s{self.subscribed}", drawn_filter(draw), policy, ordered)
        await self.tell(draw.choice(self.readers), frame)

    async def unsubscribe(self) -> None:
        frame = unsubscribe_frame(f"s{self.draw.randrange(self.subscribed + 1)}")
        await self.tell(self.draw.choice(self.readers), frame)

    async def neighbour_wants(self) -> None:
        """The aLink brings a subscription, an iLink turns a bit of the publishers' advertisements ON or OFF."""
        name = self.draw.choice(NEIGHBOURS)
        if name == NEIGHBOURS[0]:
            self.subscribed += 1
            key = Key(BrokerId.parse(name), self.subscribed)
            await self.tell(name, b"".join(link_frames(Subscribe(key, drawn_filter(self.draw)))))
            return
        publisher, kind = self.draw.choice(("p0", "p1")), self.draw.choice((CibSet, CibSet, CibClear))
        key = self.halves[0].host.broker.state.advertisements.of(publisher)["a"].key
        await self.tell(name, b"".join(link_frames(kind((key,)))))

    async def stop_or_go(self) -> None:
        name, goes = self.draw.choice([*self.readers, *NEIGHBOURS]), self.draw.random() < 0.5
        for half in self.halves:
            box = half.box_of(name)
            if box is not None:
                box.writable = goes
                box.flush()

    async def confirm(self) -> None:
        name = self.draw.choice([*self.readers, *NEIGHBOURS])
        box = self.halves[0].box_of(name)
        if box is not None:
            await self.tell(name, message_frame(Ack(box.sent)))

    async def publish(self) -> None:
        name = self.draw.choice(("p0", "p1"))
        data, last = drawn_read(self.draw, name, self.sequences[name], self.odd)
        if self.halves[0].sockets[name].reading:
            self.sequences[name] = last
            await self.tell(name, data)

    async def copies_come(self) -> None:
        """From a neighbour: plain ones, and some that were diverted or may have overtaken others."""
        name, draw = self.draw.choice(NEIGHBOURS), self.draw
        frames = []
        for _ in range(draw.choice((1, 2, 7, 40))):
            self.sequences[name] += 1
            sequence, publisher = self.sequences[name], draw.choice(("far", "other"))
            seen = wire_notification(parse_notification(drawn_values(draw)), publisher, sequence)
            civ, header = 0, PLAIN
            if draw.random() < 0.04:
                civ = draw.choice((0b001, 0b010, 0b011))
            if draw.random() < 0.04:
                header = CopyHeader(earlier=sequence - 1, hold_ms=500)
            frames += link_frames(Notify(publisher, str(sequence), seen, Civ(civ)), header)
        if self.halves[0].sockets[name].reading:
            await self.tell(name, b"".join(frames))

    async def links_are_sampled(self) -> None:
        calm = self.draw.random() < 0.5
        for name in NEIGHBOURS:
            queue = 0 if calm else self.draw.choice((0, 5, 40))
            for half in self.halves:
                half.host.broker.handle(LinkSampled(BrokerId.parse(name), queue, 0, 0), self.now_s)

    async def neighbour_holds(self) -> None:
        """A neighbour wants no more of some publishers, or wants them again."""
        draw = self.draw
        named = draw.sample(("p0", "p1", "far", "other"), draw.randint(1, 3))
        await self.tell(draw.choice(NEIGHBOURS), message_frame(Hold(named, draw.random() < 0.6)))

    async def time_passes(self) -> None:
        self.now_s += self.draw.choice((0.01, 0.3, 2.0))
        for half in self.halves:
            half.host.dispatch.check_time(self.now_s)


class UsualHistory(History):
    """Clients of one broker alone, whose publications are nearly all as usual, so that most take the short cut."""

    advertised = parse_filter("x is not null and c is not null and text is not null")
    odd = 0.003

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        left_out = (self.neighbour_wants, self.copies_come, self.links_are_sampled, self.neighbour_holds)
        own = [step for step in super().steps() if step not in left_out]
        return [*own, *[self.publish] * 20, *[self.tables_settle] * 3, self.half_a_frame]

    async def tables_settle(self) -> None:
        for half in self.halves:
            half.host.broker.state.prt.index.settle()

    async def half_a_frame(self) -> None:
        """A read that ends in the midst of a frame, and the rest of it, with a confirmation behind."""
        name = self.draw.choice(("p0", "p1"))
        data, last = drawn_read(self.draw, name, self.sequences[name], self.odd)
        if self.halves[0].sockets[name].reading:
            self.sequences[name] = last
            cut = self.draw.randrange(1, len(data))
            await self.tell(name, data[:cut])
            await self.tell(name, data[cut:] + message_frame(Ack(1)))


class UsualStampedHistory(UsualHistory):
    def __init__(self, seed: int) -> None:
        super().__init__(seed, routing="fdr")


class StampedHistory(History):
    """The same under full dynamic routing: copies name their destinations and have stamps, and are always joined."""

    ways = ((True, SCANNING), (True, CODEC))

    def __init__(self, seed: int) -> None:
        super().__init__(seed, routing="fdr")
        self.streams = dict.fromkeys(("far", "other"), 0)

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        left_out = (self.links_are_sampled, self.copies_come)
        return [*(step for step in super().steps() if step not in left_out), *[self.stamped_copies_come] * 8]

    async def stamped_copies_come(self) -> None:
        """For this broker, for others or for both; most in their turn, some too early, again, or wrongly stamped."""
        draw, name = self.draw, self.draw.choice(NEIGHBOURS)
        places = {broker: place for place, broker in enumerate(SCOT.brokers)}
        # what may come on this link: this broker, and those beyond it
        own, beyond = 1 << places[OWN], 1 << places[BrokerId("b", 1 if name != NEIGHBOURS[2] else 0)]
        dests = draw.choice((own, own, own | beyond, beyond))
        if name == NEIGHBOURS[0] or dests == own:
            frames: list[bytes] = []
            for _ in range(draw.choice((1, 2, 7, 40))):
                publisher = draw.choice(list(self.streams))
                self.streams[publisher] += 1 if draw.random() < 0.97 else draw.choice((0, 2))
                sequence = max(self.streams[publisher], 1)
                stamp = Stamp(places[BrokerId("a", 2)], sequence, dests, (min(1, sequence),) * dests.bit_count())
                if draw.random() < 0.02:
                    stamp = Stamp(places[BrokerId("a", 2)], sequence, beyond, (sequence,))
                seen = wire_notification(parse_notification(drawn_values(draw)), publisher, sequence)
                frames += link_frames(Notify(publisher, str(sequence), seen, Dests(dests), stamp))
            if self.halves[0].sockets[name].reading:
                await self.tell(name, b"".join(frames))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compiling may take longer than a test's time limit."""
    warm_up()


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many notifications took the short cut, read by read."""
    counts: list[int] = []
    carry = ShortCuts.carry

    def counted(self: ShortCuts, *given: Any) -> tuple[int, int] | None:
        found = carry(self, *given)
        if found is not None and found[0]:
            counts.append(found[0])
        return found

    monkeypatch.setattr(ShortCuts, "carry", counted)
    return counts


@pytest.mark.parametrize("kind", [History, StampedHistory, UsualHistory, UsualStampedHistory])
@pytest.mark.parametrize("part", range(4))
@asynchronous
async def test_the_same_for_everyone_at_every_step(
    part: int, kind: type[History], monkeypatch: pytest.MonkeyPatch, carried: list[int]
) -> None:
    # Keys begin at the clock: all brokers must make the same.
    monkeypatch.setattr("octopia.wire.connection.HAUL_MIN", 1)
    SCANNING.start_scanning()
    monkeypatch.setattr("octopia.net.broker.host.time.time_ns", lambda: 10**18)
    held = 0
    for seed in range(part * 20, part * 20 + (10 if issubclass(kind, UsualHistory) else 20)):
        history = kind(seed)
        try:
            await history.run()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        held += history.halves[0].host.counters.sources_held

    assert held, "no queue asked anyone to pause"
    if issubclass(kind, UsualHistory) and kernels_in_use() == "numba":
        assert {1, 2, 7} <= set(carried)


def mutated(draw: random.Random, data: bytes) -> bytes:
    """The same bytes with a few changed; the lengths of frames are mostly left alone."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(changed))
        if at % 40 >= 4 or draw.random() < 0.2:
            changed[at] = draw.choice([draw.randrange(256), changed[at] ^ 1 << draw.randrange(8)])
    return bytes(changed)


@asynchronous
async def test_the_short_cut_makes_of_any_bytes_what_the_ordinary_way_makes_of_them(
    monkeypatch: pytest.MonkeyPatch, carried: list[int]
) -> None:
    monkeypatch.setattr("octopia.net.broker.host.time.time_ns", lambda: 10**18)
    SCANNING.start_scanning()
    for seed in range(60):
        history = UsualHistory(seed)
        for name in ("r0", "p0", *NEIGHBOURS):
            for half in history.halves:
                await half.connect(name)
        await history.tell(NEIGHBOURS[0], b"".join(link_frames(SubscriptionsComplete())))
        await history.tell("r0", subscribe_frame("s", drawn_filter(history.draw), "block", True))
        await history.tell("p0", advertise_frame("a", history.advertised))
        await history.tables_settle()
        sequence = 0
        for changes in (False, False, True, False):
            data, sequence = drawn_read(history.draw, "p0", sequence, 0.0)
            await history.tell("p0", mutated(history.draw, data) if changes else data)
            first, *others = (half.state() for half in history.halves)
            assert all(first == other for other in others), seed
        for half in history.halves:
            half.end()
    if kernels_in_use() == "numba":
        assert len(carried) > 60


@asynchronous
async def test_a_publication_in_the_name_of_another_ends_the_connection_after_what_came_before() -> None:
    half = Half(True, NetLimits(), lambda: 0.0)
    await half.connect("r")
    await half.connect("p")
    half.peers["r"].data_received(subscribe_frame("s", parse_filter("x > 0"), "block", True))
    half.peers["p"].data_received(advertise_frame("a", parse_filter("x > 0")))
    await settled()
    half.sockets["r"].written = b""
    frames = [
        publish_frame(encode_parcel(parse_notification({"x": n}), name, n))
        for n, name in [(1, "p"), (2, "p"), (3, "q"), (4, "p"), (5, "p")]
    ]
    half.peers["p"].data_received(b"".join(frames))
    await settled()
    assert kinds(half.sockets["r"].written) == [Kind.DELIVER, Kind.DELIVER]
    assert half.sockets["p"].closed
    assert b"p published in the name of q" in half.sockets["p"].written
    half.end()


def kinds(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(data[at + 4])
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return found
