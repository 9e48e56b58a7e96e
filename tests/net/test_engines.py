"""One broker among peers that say anything: both engines make the same of it, and so does one notification at a time.

Three brokers get the same bytes from the same clients and neighbours, over sockets that only keep what is written. One
has the compiled engine, one the reference, and the third takes every notification by itself. Whatever the policies, the
bounds, the queues that are full, the links that are overloaded, the reads that are paused and the bytes that are wrong:
everyone is written the same bytes, and the counters are the same. `test_equal_engines.py` has whole overlays.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from octopia.language import Filter, parse_filter, parse_notification
from octopia.matching import kernels_in_use
from octopia.net import BrokerHost, NetLimits, warm_up
from octopia.net.broker.engine.outcome import Outcome
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.engine.reference import ReferenceEngine
from octopia.net.channel import Channel
from octopia.net.frame_queue import FrameQueue
from octopia.protocol import CibClear, CibSet, Civ, Dests, Key, Notify, Stamp, Subscribe, SubscriptionsComplete
from octopia.routing import LinkSampled
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    PLAIN,
    Ack,
    Batch,
    CopyHeader,
    Hello,
    Hold,
    Kind,
    Unread,
    advertise_frame,
    encode_parcel,
    link_frames,
    message_frame,
    publish_frame,
    subscribe_frame,
    unsubscribe_frame,
    wire_notification,
)
from octopia.wire.batches import BatchReader
from tests.effort import cases
from tests.net.live import asynchronous
from tests.net.stories import by_publisher

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")

SCOT = Scot(parse_tree("path:2"), 3)
OWN = BrokerId("b", 2)
COMPILED, REFERENCE, ONE_BY_ONE = "compiled", "reference", "one by one"
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


class OneByOne:
    """The reference, one notification at a time."""

    def __init__(self, reference: ReferenceEngine) -> None:
        self._reference = reference
        self.check_time = reference.check_time
        self.withdrawn = reference.withdrawn

    def publish(self, publisher: Publisher, unread: Unread, now: float) -> Outcome:
        return self._reference.publish(publisher, unread, now, most=1)

    def receive(self, sender: BrokerId, unread: Unread, now: float) -> Outcome:
        return self._reference.receive(sender, unread, now, most=1)


class Half:
    """One broker, (b,2), and its clients and neighbours, which all dial it."""

    def __init__(self, engine: str, limits: NetLimits, clock: Callable[[], float], **options: Any) -> None:
        self.host = BrokerHost(OWN, SCOT, net_limits=limits, now=clock, compiled=engine == COMPILED, **options)
        if engine == ONE_BY_ONE:
            self.host._router.engine = OneByOne(self.host._reference)
        self.peers: dict[str, Channel] = {}
        self.sockets: dict[str, Socket] = {}

    async def connect(self, name: str) -> None:
        role, to = ("broker", str(OWN)) if name.startswith("(") else ("client", "")
        peer, socket = self.host.door.accept(), Socket()
        # How many pieces a read has depends on the engine: what is routed together is one.
        peer._slice_max = 0
        peer.connection_made(socket)  # type: ignore[arg-type]
        peer.data_received(message_frame(Hello([1], role, name, session=b"life", overlay=self.overlay, to=to)))
        await settled()
        socket.written = b""
        self.peers[name], self.sockets[name] = peer, socket

    @property
    def overlay(self) -> str:
        return self.host._identity.overlay.nameless_digest

    def queue_of(self, name: str) -> FrameQueue | None:
        """The queue towards a client or a neighbour that is there."""
        owner = self.host.links[BrokerId.parse(name)] if name.startswith("(") else self.host.sessions.get(name)
        return owner.queue if owner is not None and owner.queue.transport is not None else None

    def said(self, name: str) -> Any:
        """What was written, and what waits; with streams, what waits for its turn may do so behind other publishers."""
        queue = self.queue_of(name)
        written, waiting = self.sockets[name].written, b"".join(queue.in_order() if queue is not None else ())
        return (written, waiting) if self.host.broker.streams is None else by_publisher(written + waiting)

    def state(self) -> Any:
        host, counters, order = self.host, self.host.counters, self.host.order
        return (
            {name: (self.said(name), socket.reading, socket.closed) for name, socket in self.sockets.items()},
            (counters.notifications, counters.duplicates, counters.refusals, counters.sessions_ended_slow),
            {name: session.queue.dropped_total for name, session in host.sessions.items()},
            {neighbour: link.outgoing.dropped for neighbour, link in host.links.items()},
            None if order is None else (len(order.reorder), len(order.ways), dict(order.reorder.last)),
            (counters.deliveries, host.traces.as_json()),
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

    engines: tuple[str, ...] = (COMPILED, REFERENCE, ONE_BY_ONE)
    client_queues: tuple[tuple[int, int], ...] = ((5, 100_000), (30, 400), (1000, 100_000))  # frames, bytes
    advertised = ADVERTISED
    odd = 0.03

    def __init__(self, seed: int, **options: Any) -> None:
        self.draw = draw = random.Random(seed)
        limits = NetLimits(
            client_queue_frames_max=draw.choice(self.client_queues)[0],
            client_queue_bytes_max=draw.choice(self.client_queues)[1],
            link_queue_frames_max=draw.choice((20, 1000)),
            window_frames=draw.choice((8, 4096)),
        )
        self.now_s = 100.0
        options = {"routing": "idr", **options}
        self.halves = [Half(engine, limits, lambda: self.now_s, **options) for engine in self.engines]
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
            compiled, *others = (half.state() for half in self.halves)
            assert all(compiled == other for other in others)
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
            queue = half.queue_of(name)
            if queue is not None:
                queue.writable = goes
                queue.flush()

    async def confirm(self) -> None:
        name = self.draw.choice([*self.readers, *NEIGHBOURS])
        queue = self.halves[0].queue_of(name)
        if queue is not None:
            await self.tell(name, message_frame(Ack(queue.sent)))

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
            half.host._router.check_time(self.now_s)


class UsualHistory(History):
    """Clients of one broker alone, whose publications are nearly all as usual, so that reads stay whole."""

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
    """Nothing comes from elsewhere, so nothing waits for its turn."""

    engines = (COMPILED, REFERENCE)

    def __init__(self, seed: int) -> None:
        super().__init__(seed, routing="fdr")


class StampedHistory(History):
    """The same under full dynamic routing: copies name their destinations and have stamps.

    Trees are chosen by run, so one by one differs. With publishers in another order, others would be dropped.
    """

    engines = (COMPILED, REFERENCE)
    client_queues = ((100_000, 10_000_000),)

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


@pytest.fixture(autouse=True)
def _same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys begin at the clock: all brokers must make the same."""
    monkeypatch.setattr("octopia.net.broker.host.time.time_ns", lambda: 10**18)


@pytest.mark.parametrize("kind", [History, StampedHistory, UsualHistory, UsualStampedHistory])
@pytest.mark.parametrize("part", range(4))
@asynchronous
async def test_the_same_for_everyone_at_every_step(part: int, kind: type[History]) -> None:
    held = 0
    for seed in range(part, cases(160), 4):
        history = kind(seed)
        try:
            await history.run()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        held += history.halves[0].host.counters.sources_held
    assert held or kind is StampedHistory, "no queue asked anyone to pause"


def mutated(draw: random.Random, data: bytes) -> bytes:
    """The same bytes with a few changed; the lengths of frames are mostly left alone."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(changed))
        if at % 40 >= 4 or draw.random() < 0.2:
            changed[at] = draw.choice([draw.randrange(256), changed[at] ^ 1 << draw.randrange(8)])
    return bytes(changed)


@asynchronous
async def test_both_engines_make_the_same_of_any_bytes() -> None:
    for seed in range(cases(240)):
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


@pytest.mark.parametrize("engine", [COMPILED, REFERENCE])
@asynchronous
async def test_a_publication_in_the_name_of_another_ends_the_connection_after_what_came_before(engine: str) -> None:
    half = Half(engine, NetLimits(), lambda: 0.0)
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


def plain(*sequences: int) -> bytes:
    return b"".join(publish_frame(encode_parcel(parse_notification({"x": n}), "p", n)) for n in sequences)


def refused(sequence: int) -> bytes:
    return publish_frame(encode_parcel(parse_notification({"x": -1}), "p", sequence))


def traced(sequence: int) -> bytes:
    return publish_frame(encode_parcel(parse_notification({"x": sequence}), "p", sequence), traced=True)


@pytest.mark.parametrize(
    ("reads", "by_reference"),
    [
        ([plain(1, 2)], []),
        ([plain(1)], []),
        ([traced(1), plain(2)], [1]),
        ([traced(1) + plain(2, 3)], [1]),
        ([plain(1) + traced(2) + plain(3, 4) + traced(5) + plain(6)], [2, 5]),
        ([plain(1, 2) + traced(3)[:9], traced(3)[9:] + plain(4)], [3]),
        ([plain(1, 2) + refused(3) + plain(4)], [3]),
    ],
)
@asynchronous
async def test_what_is_not_for_compiled_code_does_not_drag_the_rest_of_the_read_with_it(
    reads: list[bytes], by_reference: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Half(COMPILED, NetLimits(), lambda: 0.0)
    await half.connect("r")
    await half.connect("p")
    half.peers["r"].data_received(subscribe_frame("s", parse_filter("x is not null"), "block", True))
    half.peers["p"].data_received(advertise_frame("a", parse_filter("x > 0")))
    await settled()
    half.sockets["r"].written = b""
    seen: list[int] = []
    publish = ReferenceEngine.publish

    def noted(self: ReferenceEngine, publisher: Publisher, *given: Any, **options: Any) -> Outcome:
        outcome = publish(self, publisher, *given, **options)
        assert outcome.frames == 1
        seen.append(publisher.last_sequence)
        return outcome

    monkeypatch.setattr(ReferenceEngine, "publish", noted)
    for read in reads:
        half.peers["p"].data_received(read)
        await settled()
    assert seen == by_reference
    last = half.host.sessions["p"].publisher.last_sequence
    assert kinds(half.sockets["r"].written) == [Kind.DELIVER] * (last - half.host.counters.refusals)
    half.end()


@pytest.mark.parametrize("every", [1, 2, 50])
@asynchronous
async def test_what_is_decoded_grows_as_the_read_does_whatever_is_refused(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused notification ends a batch: what the batch had decoded behind it must not be as long as the read."""
    count, decoded, read = 1_000, 0, BatchReader.read

    def counted(self: BatchReader, *given: Any) -> Batch:
        nonlocal decoded
        batch = read(self, *given)
        decoded += len(batch)
        return batch

    monkeypatch.setattr(BatchReader, "read", counted)
    half = Half(REFERENCE, NetLimits(), lambda: 0.0)
    await half.connect("p")
    half.peers["p"].data_received(advertise_frame("a", parse_filter("x > 0")))
    frames = [refused(n) if n % every == 0 else plain(n) for n in range(1, count + 1)]
    half.peers["p"].data_received(b"".join(frames))
    await settled()
    assert half.host.sessions["p"].publisher.last_sequence == count
    assert decoded <= 8 * count
    half.end()
