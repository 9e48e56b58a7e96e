"""A subscription that is withdrawn while its host broker holds notifications for it, which wait for an earlier one.

They are delivered before the answer, and nothing after it. A link is clogged, so that what takes another way overtakes.
"""

from typing import Any

import pytest

from octopia.language import parse_notification
from octopia.net import NetLimits
from octopia.net.broker.engine.order import Reorder
from octopia.routing import Deliver, Recipient
from octopia.topology import BrokerId
from octopia.wire import CopyHeader
from tests.net.live import Live, in_overlay, take, until, waiting
from tests.net.test_order import notification

# On a busy machine nobody is to be taken for dead, which would change ways, too.
LIMITS = NetLimits(reorder_hold_s=1000.0, link_heartbeat_s=1000.0)
EVERYTHING = "n is not null"


def numbers(deliveries: list[Any]) -> list[int]:
    return [delivery.notification["n"] for delivery in deliveries]


def held_at(host: Any) -> list[int]:
    """What waits at a broker of the one publisher, in order."""
    if host.broker.streams is not None:
        streams = host.broker.streams.gate.waiting
        return [stream.held[number][1].notification["n"] for stream in streams for number in stream.order]
    return sorted(entry[-1].notification["n"] for entries in host.order.reorder.waiting.values() for entry in entries)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("routing", "clogged"), [("idr", "b,0"), ("fdr", "c,2")])
def test_what_has_arrived_comes_before_the_answer(routing: str, clogged: str, compiled: bool) -> None:
    async def scene(live: Live) -> None:
        publisher, home = await live.publisher("b,2", EVERYTHING), live.host("c,0")
        stays, leaves, partly = [await live.subscriber("c,0", f"n >= 0 and n < {most}") for most in (999, 999, 250)]
        # by whose iLink the others' copies go around the clogged one
        await live.subscriber("c,1", "n >= 0")
        await publisher.publish_many({"n": n} for n in range(100))
        for subscription in (stays, leaves, partly):
            assert numbers(await take(subscription, 100)) == list(range(100))
        link = BrokerId.parse(clogged)
        queue = live.host("b,2").links[link].queue
        # not `writable`, which a connection that is made anew sets
        queue.window = 0
        await publisher.publish_many({"n": n} for n in range(100, 200))
        # what follows goes around the clogged link
        await until(lambda: live.host("b,2").broker.state.lst.overloaded(link))
        await publisher.publish_many({"n": n} for n in range(200, 300))
        await until(lambda: len(held_at(home)) >= 50)
        router, held = home._router, list[list[int]]()
        unsubscribe = router.unsubscribe

        def noted(*which: Any) -> None:
            held.append(held_at(home))
            unsubscribe(*which)

        router.unsubscribe = noted
        for subscription, most in ((leaves, 999), (partly, 250)):
            await subscription.close(drain=True)
            came, last = numbers(waiting(subscription)), [n for n in held[-1] if n < most]
            in_turn = len(came) - len(last)
            assert last
            assert came == [*range(100, 100 + in_turn), *last]
            assert numbers(waiting(stays)) == [*range(100, 100 + in_turn)], "the other waits for its turn"
        queue.window = LIMITS.window_frames
        queue.flush()
        assert numbers(await take(stays, 200)) == list(range(100, 300))

    in_overlay(scene, routing=routing, net_limits=LIMITS, compiled=compiled)


# ---- by hand


class Waiting:
    """Deliveries 10, 11 and so on that wait for number 5, each with recipients."""

    def __init__(self, *recipients: tuple[Recipient, ...]) -> None:
        self.reorder = Reorder(100, 10**6)
        for sequence, to in enumerate(recipients, 10):
            seen = notification(sequence, CopyHeader(earlier=5, hold_ms=1000))
            assert self.reorder.take(Deliver("p", str(sequence), seen, to), 0.0) == []

    def withdrawn(self, client: str, subscription: str | None) -> list[tuple[str, tuple[Recipient, ...]]]:
        return self.told(self.reorder.withdrawn(client, subscription))

    def released(self) -> list[tuple[str, tuple[Recipient, ...]]]:
        return self.told(self.reorder.release_due(1.0))

    @staticmethod
    def told(orders: list[Deliver]) -> list[tuple[str, tuple[Recipient, ...]]]:
        return [(order.id, order.recipients) for order in orders]


S, T, BOTH = Recipient("S", ("s",)), Recipient("T", ("t",)), Recipient("S", ("s", "s2"))


def test_a_withdrawal_takes_what_waits_for_it_alone() -> None:
    held = Waiting((S, T), (T,), (BOTH,), (S,))
    assert held.withdrawn("S", "s") == [("10", (S,)), ("13", (S,))]
    assert held.withdrawn("S", "s") == []
    assert held.released() == [("10", (T,)), ("11", (T,)), ("12", (Recipient("S", ("s2",)),)), ("13", ())]


def test_nothing_waits_for_a_client_that_left() -> None:
    held = Waiting((S, T), (BOTH,))
    held.reorder.withdrawn("S", None)
    assert held.released() == [("10", (T,)), ("11", ())]


def test_without_recipients_it_still_makes_others_wait() -> None:
    """Its number counts, as it would have for those who withdrew."""
    held = Waiting((S,))
    held.reorder.withdrawn("S", "s")
    assert len(held.reorder) == 1
    assert parse_notification({"n": 10}) == held.reorder.waiting["p"][0][-1].notification
    held.reorder.release_due(1.0)
    assert held.reorder.last == {"p": 10}
