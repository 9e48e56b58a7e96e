"""Output queues under any history: nothing is lost or doubled on the way to a peer, and totals never fall."""

import asyncio
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.net import NetLimits
from octopia.net.frame_queue import FrameQueue, Turn
from octopia.topology import BrokerId
from tests.effort import cases
from tests.net.live import Live, channel_of, overlay, take, until


class Wire:
    """A socket that keeps its input; frames here are one letter long."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "flush", "confirm", "break", "restart", "stop", "go"]), st.integers(0, 7)),
    max_size=60,
)


@settings(deadline=None, max_examples=cases(300))
@given(STEPS)
def test_a_peer_that_comes_back_gets_every_frame_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        box = FrameQueue(Turn(loop), frames_max=1000, bytes_max=1000, window=5)
        wire = Wire()
        box.attach(cast("Any", wire), 0)
        put = 0
        received = b""  # by the peer, over all connections
        before = 0
        for step, number in [*steps, ("break", 9), *[("confirm", 9), ("go", 0), ("flush", 0)] * 100]:
            if step == "put":
                box.put(bytes([put % 251]))
                put += 1
            elif step == "flush":
                box.flush()
            elif step == "confirm":
                # The peer reads so much of what is on its way, and says how much it has in all.
                received += wire.written[:number]
                wire.written = wire.written[number:]
                box.confirm(len(received))
            elif step == "break":
                # A part still arrives, and what is confirmed by it is told by the next handshake only.
                received += wire.written[:number]
                box.detach()
                wire = Wire()
                box.attach(cast("Any", wire), len(received))
            elif step == "restart":
                # As after a break, but it is another box that was given what this one held.
                received += wire.written[:number]
                kept = (box.confirmed, box.under_way, list(box.waiting), box.untold)
                box = FrameQueue(Turn(loop), frames_max=1000, bytes_max=1000, window=5)
                box.refill(*kept)
                assert box.held == put - box.confirmed
                before = 0
                wire = Wire()
                box.attach(cast("Any", wire), len(received))
            elif step == "stop":
                box.writable = False
            else:
                box.resume_writing()
            assert box.left_total >= before
            before = box.left_total
            assert box.held == put - box.confirmed
            assert box.waiting_bytes == len(box.waiting)
        assert received == bytes(n % 251 for n in range(put))
    finally:
        loop.close()


def box_of(window: int, frames_max: int) -> tuple[FrameQueue, Wire, asyncio.AbstractEventLoop]:
    """A box whose frames are one letter long, on a socket that takes everything."""
    loop = asyncio.new_event_loop()
    box, wire = FrameQueue(Turn(loop), frames_max, 1000, window), Wire()
    box.attach(cast("Any", wire), 0)
    return box, wire, loop


def test_frames_are_taken_in_one_go_up_to_the_mark_alone() -> None:
    box, wire, loop = box_of(window=3, frames_max=100)
    box.mark_frames = 4
    assert box.put_if_room([b"a", b"b", b"c"])
    assert not box.put_if_room([b"d"])
    box.put(b"d")
    # What the socket takes does not count.
    assert [box.is_over_mark] == [False]
    assert wire.written == b"abc"
    for frame in (b"e", b"f"):
        box.put(frame)
    assert [box.is_over_mark] == [False]
    box.put(b"g")
    assert [box.is_over_mark] == [True]
    assert [box.is_full] == [False]
    box.mark_frames, box.mark_bytes = 100, 4
    assert not box.put_if_room([b"h"])
    assert [box.is_over_mark] == [True]
    box.mark_frames = box.mark_bytes = 0
    box.confirm(3)
    box.confirm(6)
    assert not box.waiting
    assert not box.put_if_room([b"h"]), "a mark of 0 lets nothing pass unseen"
    loop.close()


def test_who_wants_to_know_when_little_waits_is_told_once() -> None:
    box, _, loop = box_of(window=2, frames_max=100)
    told: list[int] = []
    box.put_many([b"a", b"b", b"c", b"d", b"e", b"f"])
    box.when_low(2, 1000, lambda: told.append(len(box.waiting)))
    assert [box.holds_up] == [True]
    box.flush()
    assert not told
    box.confirm(1)
    assert not told
    box.confirm(2)
    assert told == [2]
    assert [box.holds_up] == [False]
    box.confirm(4)
    assert told == [2]
    assert (box.confirmed, box.confirmed_bytes) == (4, 4)
    box.put_many([b"g", b"h", b"i"])
    box.when_low(0, 1000, lambda: told.append(len(box.waiting)))
    box.never_mind()
    box.clear()
    assert told == [2]
    assert box.confirmed_bytes == 4
    loop.close()


def test_a_box_that_shall_write_no_more_writes_what_waited_then_and_the_rest_on_the_next_connection() -> None:
    loop = asyncio.new_event_loop()
    try:
        box = FrameQueue(Turn(loop), frames_max=1000, bytes_max=1000, window=5)
        wire, next_wire = Wire(), Wire()
        box.attach(cast("Any", wire), 0)
        box.put_many(bytes([n]) for n in range(7))
        assert not box.has_written_all
        box.write_no_more()
        box.put_many(bytes([n]) for n in range(7, 10))
        box.flush()
        assert (wire.written, box.has_written_all) == (bytes(range(5)), False)
        box.confirm(3)
        assert (wire.written, box.has_written_all) == (bytes(range(7)), True)
        box.confirm(6)
        # The peer says goodbye and that it took no more than it confirmed.
        box.take_back()
        box.detach()
        assert list(box.waiting) == [bytes([n]) for n in range(6, 10)]
        assert box.left_total == 7
        box.attach(cast("Any", next_wire), 6)
        box.flush()
        assert next_wire.written == bytes(range(6, 10))
    finally:
        loop.close()


@overlay(tree="path:2", clusters=1, net_limits=NetLimits(link_grace_s=0.05))
async def test_a_broker_keeps_time_when_a_link_went_down_with_frames_on_it(live: Live) -> None:
    """Totals of a link that starts anew are not those of Eq. 10's window; samples go on all the same."""
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    host = live.host("a,0")
    link, dialler = host.links[BrokerId("b", 0)], host.diallers[BrokerId("b", 0)]
    await publisher.publish_many({"n": n} for n in range(100))
    await take(subscription, 100)
    for _ in range(3):
        address, dialler.address = dialler.address, None
        link.channel.abort()
        await until(lambda: not link.is_up)
        dialler.address = address
        dialler.dial_later()
        await until(lambda: link.is_up)
    assert failures == []
    session = await live.client("a,0", reconnect=False, session_s=0.01, name="short")
    channel_of(session).transport.abort()
    await until(lambda: "short" not in host.sessions)


@overlay(tree="path:2", clusters=1, net_limits=NetLimits(link_grace_s=100))
async def test_a_link_that_goes_down_while_it_is_dialled_begins_anew(live: Live) -> None:
    """The neighbour resumes the link with counts that are no longer ours."""
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    await publisher.publish_many({"n": n} for n in range(100))
    await take(subscription, 100)
    host = live.host("a,0")
    link = host.links[BrokerId("b", 0)]
    said = link.hello

    def hello(*proof: Any) -> Any:
        asyncio.get_running_loop().call_soon(link.go_down)
        link.hello = said
        return said(*proof)

    link.hello = hello
    link.channel.abort()
    await until(lambda: link.hello is said)
    await until(live.all_links_up)
    await publisher.publish_many({"n": n} for n in range(100, 2000))
    assert [d.notification["n"] for d in await take(subscription, 1900)] == list(range(100, 2000))
    await until(lambda: link.queue.held == 0 or host.counters.peers_at_fault > 0)
    assert host.counters.peers_at_fault == live.host("b,0").counters.peers_at_fault == 0


@overlay(
    tree="path:2", clusters=1, net_limits=NetLimits(link_grace_s=0.05, link_give_up_s=100, link_queue_frames_max=100)
)
async def test_what_does_not_fit_behind_a_link_that_is_down_is_dropped_and_the_link_comes_back(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    host = live.host("a,0")
    link, dialler = host.links[BrokerId("b", 0)], host.diallers[BrokerId("b", 0)]
    address, dialler.address = dialler.address, None
    link.channel.abort()
    await until(lambda: not link.is_up)
    before = link.dropped
    await publisher.publish_many({"n": n} for n in range(150))
    await publisher.flush()
    kept = len(link.queue.waiting)
    assert kept == 99
    assert link.dropped - before == 51
    dialler.address = address
    dialler.dial_later()
    assert [d.notification["n"] for d in await take(subscription, kept)] == list(range(kept))
    await publisher.publish({"n": 1000})
    assert [d.notification["n"] for d in await take(subscription, 1)] == [1000]
    assert live.host("b,0").counters.peers_at_fault == 0
