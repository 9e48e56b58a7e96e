"""The scenes of Fig. 7 and 8 over real sockets; a link is overloaded since its socket takes nothing and a queue grows.

The numbers are those of the paper as the reading notes correct them; see tests/scenes for the same without sockets.
"""

import asyncio
from typing import Any

import pytest

from octopia.net import NetLimits
from octopia.net.frame_queue import Bundle, FrameQueue
from octopia.topology import BrokerId
from octopia.wire import COPIES, Codec, WireLimits
from tests.net.live import Live, overlay, take, until

LIMITS = NetLimits(reorder_hold_s=0.05)
AT_A_TO_C = {"S1": "c,0", "S2": "c,1", "S3": "a,2", "S4": "c,2"}
AT_D = {"S1": "a,0", "S2": "c,1", "S3": "c,2", "S4": "c,2"}
Hop = tuple[str, str, str]
CODEC = Codec(WireLimits())


class Hops:
    """Every copy of the probe that a broker puts on a link: from, to, CIV."""

    def __init__(self, live: Live) -> None:
        self.seen: list[Hop] = []
        for broker in live.scot.brokers:
            for neighbour, link in live.host(f"{broker.region},{broker.cluster}").links.items():
                link.queue.observer = HopObserver(self.seen, str(broker), str(neighbour))


class HopObserver:
    """Sees the copies for one neighbour."""

    def __init__(self, seen: list[Hop], sender: str, receiver: str) -> None:
        self._seen = seen
        self._ends = sender, receiver

    def entered(self, queue: FrameQueue, bundle: Bundle, waited: int) -> None:
        for frame in bundle.split():
            if frame[4] in COPIES and b"\xa5probe" in frame:
                civ = CODEC.batches.read(frame, 0, len(frame)).carried.civ
                self._seen.append((*self._ends, f"{civ:03b}"))

    def left(self, queue: FrameQueue, bundle: Bundle) -> None:
        pass

    returned = lost = expired = left


class Clog:
    """A link that takes nothing more, and the messages that wait for it. Registered before: a clog stops that."""

    def __init__(self, live: Live, sender: str, receiver: str, queued: int) -> None:
        self.live = live
        self.host, self.neighbour = live.host(sender), BrokerId.parse(receiver)
        self.at = (sender, receiver)
        self.queued = queued
        self.tag = f"w{sender}{receiver}".replace(",", "")
        self.queue = self.host.links[self.neighbour].queue

    async def prepare(self) -> None:
        await self.live.subscriber(self.at[1], f"{self.tag} > 0")
        self.filler = await self.live.publisher(self.at[0], f"{self.tag} is not null")

    async def close(self) -> None:
        self.queue.writable = False
        for _ in range(self.queued):
            await self.filler.publish({self.tag: 1})
        await self.filler.flush()
        assert self.queue.waits == self.queued
        lst = self.host.broker.state.lst
        await until(lambda: lst.queue_lengths[self.neighbour] == self.queued)
        assert lst.overloaded(self.neighbour) == (self.queued > 10)


SCENES: dict[str, Any] = {
    "7a": (AT_A_TO_C, [("b,2", "b,0", 40)], 6, {("(b,2)", "(b,1)", "001")}),
    "7b": (
        AT_A_TO_C,
        [("b,2", "b,0", 40), ("b,2", "b,1", 40), ("b,2", "a,2", 1)],
        4,
        {("(b,2)", "(c,2)", "011")},
    ),
    "7c": (
        AT_A_TO_C,
        [("b,2", "b,0", 40), ("b,1", "b,0", 40), ("c,1", "c,0", 40)],
        5,
        {("(b,2)", "(b,1)", "001"), ("(b,1)", "(c,1)", "001")},
    ),
    "7d": (
        AT_D,
        [("b,2", "b,0", 60), ("b,2", "b,1", 40), ("b,2", "c,2", 40)],
        5,
        {("(b,2)", "(b,1)", "001")},
    ),
}


# Worked out from the scenes: by broker the case it is in, and the copies it makes. α + θ in case i, α in ii, α + 1 in
# iv, α + β in 0; brokers without target iLinks are in none.
CASES: dict[str, dict[str, tuple[str, int]]] = {
    # α 2 (S3, S4), β 2, θ 1; then D is cluster 0, α 1 (S2), β 1
    "7a": {"b,2": ("i", 2 + 1), "b,1": ("0", 1 + 1)},
    # α 2, θ 0; then D is clusters 0 and 1, α 0, β 2
    "7b": {"b,2": ("ii", 2), "c,2": ("0", 0 + 2)},
    # as in a; then the iLink into cluster 0 is overloaded and α is 1; there the next one is, and α is 0
    "7c": {"b,2": ("i", 2 + 1), "b,1": ("ii", 1), "c,1": ("iv", 0 + 1)},
    # α 1 (S3 and S4 are at one broker), nothing is free; then D is cluster 0, α 1, β 1
    "7d": {"b,2": ("iv", 1 + 1), "b,1": ("0", 1 + 1)},
}


def cases_of(live: Live) -> dict[tuple[str, str], tuple[int, int]]:
    """The counts of every broker: notifications and copies by broker and case."""
    found = {}
    for broker in live.scot.brokers:
        name = f"{broker.region},{broker.cluster}"
        for each in live.host(name).report().cases:
            found[name, each.case] = each.notifications, each.copies
    return found


@pytest.mark.parametrize("name", SCENES)
@overlay(net_limits=LIMITS, routing="idr")
async def test_fig_7(live: Live, name: str) -> None:
    places, overloads, messages, carrying = SCENES[name]
    publisher = await live.publisher("b,2", "probe is not null", name="P")
    subscriptions = {client: await live.subscriber(at, "probe > 0") for client, at in places.items()}
    hops = Hops(live)
    clogs = [Clog(live, *each) for each in overloads]
    for clog in clogs:
        await clog.prepare()
    for clog in clogs:
        await clog.close()
    before = cases_of(live)
    await publisher.publish({"probe": 1})
    await publisher.flush()
    for clog in clogs:
        clog.queue.resume_writing()
    for subscription in subscriptions.values():
        assert [d.publisher for d in await take(subscription, 1)] == ["P"]
    assert len(hops.seen) == messages
    assert {hop for hop in hops.seen if hop[2] != "000"} == carrying
    counted = {key: (n - before[key][0], c - before[key][1]) for key, (n, c) in cases_of(live).items()}
    expected = {(broker, case): (1, copies) for broker, (case, copies) in CASES[name].items()}
    assert {key: each for key, each in counted.items() if any(each)} == expected


@overlay(tree="h", clusters=3, routing="snr")
async def test_fig_8(live: Live) -> None:
    places = {"S1": "a,0", "S2": "f,0", "S3": "f,1", "S4": "f,2"}
    wanted = {"S1": "p in (2, 3)", "S2": "p = 3", "S3": "p = 3", "S4": "p in (1, 2, 3)"}
    subscriptions = {c: await live.subscriber(at, f"probe > 0 and {wanted[c]}") for c, at in places.items()}
    publishers = {
        p: await live.publisher(at, f"probe is not null and p = {p}")
        for p, at in {1: "a,2", 2: "a,1", 3: "e,1"}.items()
    }
    hops = Hops(live)
    for p, (messages, receivers) in {
        1: (4, ["S4"]),
        2: (6, ["S1", "S4"]),
        3: (8, ["S1", "S2", "S3", "S4"]),
    }.items():
        hops.seen.clear()
        await publishers[p].publish({"probe": 1, "p": p})
        for client in receivers:
            assert [d.notification["p"] for d in await take(subscriptions[client], 1)] == [p]
        assert len(hops.seen) == messages


@overlay(tree="path:3", clusters=3)
async def test_a_thousand_subscribes_and_unsubscribes_under_load_miss_nothing_after_the_acknowledgement(
    live: Live,
) -> None:
    """Notifications flow all the time; each subscription must get all that were published after it was acknowledged."""
    publisher = await live.publisher("a,0", "n is not null")
    client = await live.client("c,2")
    stop = False
    published = 0

    # Gets everything, so that publishing goes on as fast as the overlay carries it and no faster: a queue that
    # grows would only make the test longer.
    witness = await live.subscriber("b,0", "n >= 0")

    async def publish() -> None:
        nonlocal published
        while not stop:
            for _ in range(10):
                await publisher.publish({"n": published})
                published += 1
            await take(witness, 10)

    load = asyncio.create_task(publish())
    for turn in range(20):
        subscriptions = [client.subscribe("n >= 0") for _ in range(50)]
        await asyncio.gather(*(client.start_subscription(s) for s in subscriptions))
        first = published
        await until(lambda first=first: published > first + 5)  # type: ignore[misc]
        for subscription in subscriptions:
            numbers: list[Any] = []
            while not numbers or numbers[-1] < first + 5:
                numbers += [d.notification["n"] for d in await subscription.next_batch()]
            assert numbers[0] <= first, (turn, numbers[0], first)
            # what was published before may have come for a subscription that was just withdrawn, and then no more
            promised = [n for n in numbers if n >= first]
            assert promised == list(range(first, first + len(promised)))
            assert numbers == sorted(set(numbers))
        await asyncio.gather(*(s.close() for s in subscriptions))
    stop = True
    await load
