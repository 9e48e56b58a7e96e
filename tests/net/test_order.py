"""Order of one publisher's notifications under dynamic routing: by hand, then over sockets with a clogged link."""

from typing import Any

from octopia.language import parse_notification
from octopia.net import NetLimits
from octopia.net.broker.engine.order import Reorder, Ways
from octopia.protocol import Civ, Notify
from octopia.routing import Deliver, Recipient
from octopia.topology import BrokerId
from octopia.wire import PLAIN, Codec, Connection, CopyHeader, Hello, Side, WireLimits, link_frames, message_frame
from octopia.wire import wire_notification as make
from tests.net.live import Live, in_overlay, take, until

B0, B1, B2 = (BrokerId("b", cluster) for cluster in range(3))
C2 = BrokerId("c", 2)


def notification(sequence: int, header: CopyHeader = PLAIN) -> Any:
    """As it arrives by a link with this header."""
    connection = Connection(Side.ACCEPTING_BROKER, Codec(WireLimits()))
    connection.receive(message_frame(Hello([1], "broker")))
    connection.open("broker")
    sent = Notify("p", str(sequence), make(parse_notification({"n": sequence}), "p", sequence))
    (came,) = connection.receive(link_frames(sent, header)[0])
    return came.notification(0)


def copy(sequence: int, civ: int = 0) -> Notify:
    return Notify("p", str(sequence), notification(sequence), Civ(civ))


def test_ways_stamp_only_after_a_change_and_only_for_a_while() -> None:
    ways = Ways(B2, hold_s=1.0)
    assert ways.header(B0, copy(1), 0.0) == PLAIN
    assert not ways
    # 2 goes to cluster 0 by way of (b,1): 1 may still wait on the direct link.
    assert ways.header(B1, copy(2, 0b001), 10.0) == CopyHeader(earlier=1, hold_ms=1000)
    assert ways.header(B1, copy(3, 0b001), 10.4) == CopyHeader(earlier=1, hold_ms=600)
    # Back to the direct link: 3 may still be on its way by (b,1).
    assert ways.header(B0, copy(4), 10.5) == CopyHeader(earlier=3, hold_ms=900)
    assert ways.header(B0, copy(5), 11.0) == CopyHeader(earlier=3, hold_ms=400)
    assert ways.header(B0, copy(6), 11.5) == PLAIN
    # Into cluster 1 all went the same way.
    assert ways.header(B1, copy(7), 11.5) == PLAIN
    ways.forget_old(13.0)
    assert not ways


def test_along_an_a_link_a_carried_copy_is_a_way_too() -> None:
    ways = Ways(B2, hold_s=1.0)
    assert ways.header(C2, copy(5, 0b011), 0.0) == CopyHeader(earlier=4, hold_ms=1000)
    assert ways.header(C2, copy(6), 0.0) == PLAIN
    assert ways.header(B0, copy(7), 0.1) == CopyHeader(earlier=5, hold_ms=900)


def test_a_stamp_that_came_goes_on() -> None:
    ways = Ways(B1, hold_s=1.0)
    came = Notify("p", "9", notification(9, CopyHeader(earlier=7, hold_ms=300)), Civ(0b001))
    assert ways.header(B0, came, 0.0) == CopyHeader(earlier=8, hold_ms=1000)


class Taken:
    def __init__(self, waiting_max: int = 100, bytes_max: int = 10**6) -> None:
        self.got: list[int] = []
        self.reorder = Reorder(waiting_max, bytes_max)

    def come(self, sequence: int, now: float, earlier: int = 0, hold_ms: int = 0) -> list[int]:
        header = CopyHeader(earlier=earlier, hold_ms=hold_ms)
        seen = notification(sequence, header)
        order = Deliver("p", str(sequence), seen, (Recipient("s", ("s1",)),))
        self.got += [int(each.id) for each in self.reorder.take(order, now)]
        return self.got

    def pass_time(self, now: float) -> list[int]:
        self.got += [int(each.id) for each in self.reorder.release_due(now)]
        return self.got


def test_one_that_overtook_waits_for_the_one_it_overtook() -> None:
    taken = Taken()
    assert taken.come(1, 0.0) == [1]
    assert taken.come(3, 0.0, earlier=2, hold_ms=100) == [1]
    assert taken.come(4, 0.01, earlier=2, hold_ms=90) == [1]
    assert taken.come(5, 0.02) == [1]
    assert taken.come(2, 0.05) == [1, 2, 3, 4, 5]
    assert (taken.reorder.held_total, taken.reorder.late_total, len(taken.reorder)) == (3, 0, 0)


def test_the_wait_is_over_in_time_and_what_comes_later_is_delivered_and_counted() -> None:
    taken = Taken()
    taken.come(1, 0.0)
    taken.come(4, 0.0, earlier=2, hold_ms=100)
    assert taken.pass_time(0.09) == [1]
    assert taken.pass_time(0.1) == [1, 4]
    assert taken.come(2, 0.2) == [1, 4, 2]
    assert taken.reorder.late_total == 1


def test_an_earlier_one_that_has_come_already_costs_no_wait() -> None:
    taken = Taken()
    taken.come(2, 0.0)
    assert taken.come(3, 0.0, earlier=2, hold_ms=100) == [2, 3]


def test_the_buffer_is_bounded() -> None:
    taken = Taken(waiting_max=3)
    for sequence in range(10, 20):
        taken.come(sequence, 0.0, earlier=5, hold_ms=1000)
    assert taken.got == list(range(10, 20))
    taken = Taken(waiting_max=3)
    for sequence in range(10, 13):
        taken.come(sequence, 0.0, earlier=5, hold_ms=1000)
    assert taken.got == []


def test_the_buffer_is_bounded_in_bytes() -> None:
    size = len(notification(10, PLAIN).parcel)
    taken = Taken(bytes_max=3 * size)
    for sequence in range(10, 13):
        taken.come(sequence, 0.0, earlier=5, hold_ms=1000)
    assert (taken.got, taken.reorder.held_bytes) == ([], 3 * size)
    # One that is let go is the last that was delivered: nobody waits for an earlier one then.
    assert taken.come(13, 0.0, earlier=5, hold_ms=1000) == [10, 11, 12, 13]
    assert taken.reorder.held_bytes == 0


def clogged(live: Live) -> Any:
    """The link from (b,2) to (b,0) takes nothing more, as one that is far too slow."""
    box = live.host("b,2").links[B0].queue
    # not `writable`, which a connection that is made anew sets
    box.window = 0
    return box


def run_with_a_clog(ordered: bool, hold_s: float) -> tuple[list[int], Any]:
    result: list[int] = []
    seen: dict[str, Any] = {}

    async def scene(live: Live) -> None:
        publisher = await live.publisher("b,2", "n is not null")
        subscription = await live.subscriber("c,0", "n >= 0", ordered=ordered)
        other = await live.subscriber("c,1", "n >= 0")
        await publisher.publish_many({"n": n} for n in range(100))
        await take(other, 100)
        box = clogged(live)
        await publisher.publish_many({"n": n} for n in range(100, 200))
        # Some wait for the clogged link; it is overloaded now, and what follows goes around it.
        await until(lambda: live.host("b,2").broker.state.lst.overloaded(B0))
        await publisher.publish_many({"n": n} for n in range(200, 300))
        # `other` may have to wait: a burst overloads its link for a moment, too, and its copies take the clogged one.
        reorder = live.host("c,0").order.reorder
        if ordered:
            await until(lambda: reorder.held_total >= 100)
        else:
            result.extend(d.notification["n"] for d in await take(subscription, 101))  # type: ignore[misc]
        box.window = NetLimits().window_frames
        box.flush()
        result.extend(d.notification["n"] for d in await take(subscription, 300 - len(result)))  # type: ignore[misc]
        await until(lambda: not live.host("b,2").broker.state.lst.overloaded(B0))
        await publisher.publish_many({"n": n} for n in range(300, 400))
        result.extend(d.notification["n"] for d in await take(subscription, 100))  # type: ignore[misc]
        seen["reorder"] = reorder

    # On a busy machine nobody is to be taken for dead, which would change ways, too.
    in_overlay(scene, routing="idr", net_limits=NetLimits(reorder_hold_s=hold_s, link_heartbeat_s=1000.0))
    return result, seen["reorder"]


def test_order_is_kept_around_a_clogged_link() -> None:
    got, reorder = run_with_a_clog(ordered=True, hold_s=20.0)
    assert got == list(range(400))
    assert reorder.held_total >= 100
    assert reorder.late_total == 0


def test_a_subscription_that_allows_reordering_does_not_wait() -> None:
    got, reorder = run_with_a_clog(ordered=False, hold_s=20.0)
    assert sorted(got) == list(range(400))
    assert got[100:200] == list(range(200, 300))
    assert reorder.held_total == 0
