"""Quality of service on live brokers, end to end: a slow way under load, urgent and ordinary subscribers, deadlines.

A way is slow because the window of its queue is small, so its peer takes a few frames and confirms them at its next
tick; it is loaded because it was stopped until all was published. So what leaves it, and in which order, follows from
the rules alone, and no clock decides. The oracle is `served`: who goes when if 64, 16, 4 and 1 go in each round.
"""

import asyncio
from collections import deque
from typing import Any

import pytest

from octopia import connect_sync
from octopia.errors import InputError, RefusedError
from octopia.net import Client, NetLimits
from octopia.net.broker.qos import Granted, Qos
from octopia.net.frame_queue import FrameQueue
from octopia.protocol import Confirm, Confirmation, Confirmed, Waits
from octopia.routing import POLICIES
from octopia.topology import BrokerId
from octopia.wire import POLICIES as SLOW_POLICIES
from octopia.wire import Kind, link_frames
from tests.net.live import Live, in_overlay, overlay, take, until, waiting
from tests.net.test_restart_in_process import Apart, restarting

SLOW = NetLimits(window_frames=7, link_grace_s=0.3, link_give_up_s=2.0, heartbeat_s=5.0)
LIVE_ROUTINGS = [name for name, policy in POLICIES.items() if policy.live]
QOS = (Qos(is_timed=True),) * 3
ORDINARY, URGENT = 60, 140


class Clock:
    """The world's clock, moved by hand."""

    def __init__(self) -> None:
        self.s = 1_000_000.0

    def __call__(self) -> float:
        return self.s


def served(lanes: dict[int, list[int]]) -> list[int]:
    """The order in which frames in lanes leave, if nothing more arrives."""
    queues = {priority: deque(numbers) for priority, numbers in lanes.items()}
    order: list[int] = []
    while any(queues.values()):
        for priority, share in ((3, 64), (2, 16), (1, 4), (0, 1)):
            queue = queues.get(priority, deque())
            order += [queue.popleft() for _ in range(min(share, len(queue)))]
    return order


def stop(box: FrameQueue) -> None:
    """The socket takes nothing more for now."""
    box.writable = False


def numbers(deliveries: list[Any]) -> list[int]:
    return [delivery.notification.to_dict()["n"] for delivery in deliveries]


def link(live: Live, one: str, other: str) -> Any:
    return live.host(one).links[BrokerId.parse(other)]


async def known(live: Live, routing: str, subscriptions: int) -> None:
    """If registrations are not confirmed: wait until the publisher's broker knows this many subscriptions."""
    if not POLICIES[routing].confirms:
        await until(lambda: len(live.host("a,0").broker.state.prt) == subscriptions)


@pytest.mark.parametrize("routing", LIVE_ROUTINGS)
@pytest.mark.parametrize(
    ("tree", "clusters", "far"), [("path:2", 1, "b,0"), ("path:1", 2, "a,1")], ids=["aLink", "iLink"]
)
@overlay("tree", "clusters", "routing", net_limits=SLOW)
async def test_urgent_ones_overtake_on_a_slow_link_and_nobody_starves(
    live: Live, routing: str, tree: str, clusters: int, far: str
) -> None:
    """All are at the far end of the only link; the stopped queue is emptied in the oracle's order."""
    subscribers = {
        priority: await live.subscriber(far, f"p = {priority}", priority=priority, policy="block")
        for priority in (0, 1, 3)
    }
    # across an iLink a copy is as urgent as what overlaps the advertisement, so there is one for each
    publisher = await live.publisher("a,0", *(f"p = {priority} and n >= 0" for priority in (0, 1, 3)))
    await known(live, routing, 3)
    slow = link(live, "a,0", far).queue
    stop(slow)
    sent: dict[int, list[int]] = {0: [], 1: [], 3: []}
    for n in range(ORDINARY + URGENT):
        priority = 0 if n < ORDINARY else (3, 1)[n % 2]
        sent[priority].append(n)
        await publisher.publish({"p": priority, "n": n})
    await publisher.flush()
    await until(lambda: slow.waits >= ORDINARY + URGENT)
    assert slow.waits_by_priority[1:] == (len(sent[1]), 0, len(sent[3]))
    left = recorded(slow)
    slow.resume_writing()
    for priority, subscription in subscribers.items():
        assert numbers(await take(subscription, len(sent[priority]))) == sent[priority]
    assert left == served(sent)
    assert [waiting(subscription) for subscription in subscribers.values()] == [[], [], []]
    # one of the first round is an ordinary one, and the urgent ones are through long before the ordinary are
    assert left.index(sent[3][-1]) < left.index(sent[0][3])
    assert sent[0][0] in left[:85]


def recorded(box: FrameQueue) -> list[int]:
    """The numbers of notifications as they leave this queue, in order."""
    left: list[int] = []
    assert box.transport is not None
    transport: Any = box.transport

    class Spy:
        def write(self, given: bytes | memoryview) -> None:
            data, at = bytes(given), 0
            while at < len(data):
                end = at + 4 + int.from_bytes(data[at : at + 4], "big")
                found = data.find(b"\xa1n", at, end)
                if found >= 0:
                    left.append(read_number(data, found + 2))
                at = end
            transport.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(transport, name)

    box.transport = Spy()  # type: ignore[assignment]
    return left


def read_number(data: bytes, at: int) -> int:
    """A small MessagePack integer."""
    first = data[at]
    if first < 0x80:
        return first
    size = {0xCC: 1, 0xCD: 2}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "big")


@pytest.mark.parametrize("routing", LIVE_ROUTINGS)
@overlay("routing", tree="path:2", clusters=2, net_limits=SLOW)
async def test_a_slow_client_gets_its_urgent_subscription_first(live: Live, routing: str) -> None:
    client = await live.client("b,1", name="slow")
    ordinary = client.subscribe("n >= 0", policy="block")
    urgent = client.subscribe("p = 2 and n >= 0", priority=2, policy="block")
    for subscription in (ordinary, urgent):
        await client.start_subscription(subscription)
    publisher = await live.publisher("a,0", "p >= 0 and n >= 0")
    await known(live, routing, 2)
    box = live.host("b,1").sessions["slow"].queue
    stop(box)
    for n in range(60):
        await publisher.publish({"p": 2 if n % 4 == 3 else 0, "n": n})
    await publisher.flush()
    await until(lambda: box.waits == 60)
    lanes = {0: [n for n in range(60) if n % 4 != 3], 2: [n for n in range(60) if n % 4 == 3]}
    box.resume_writing()
    # all come by the ordinary subscription, too, each once, in the order in which they left
    assert numbers(await take(ordinary, 60)) == served(lanes)
    assert numbers(await take(urgent, 15)) == lanes[2]
    assert waiting(ordinary) == waiting(urgent) == []


@pytest.mark.parametrize("routing", LIVE_ROUTINGS)
def test_deadlines_drop_exactly_what_is_too_old_and_count_it(routing: str) -> None:
    clock = Clock()

    async def scene(live: Live) -> None:
        client = await live.client("b,1", name="slow")
        patient = client.subscribe("n >= 0", policy="block", deadline_ms=0)
        hasty = client.subscribe("h = 1 and n >= 0", policy="block", deadline_ms=1000)
        hastier = client.subscribe("h >= 1 and n >= 500", policy="block", deadline_ms=200)
        for subscription in (hasty, hastier):
            await client.start_subscription(subscription)
        publisher = await live.publisher("a,0", "h >= 0 and n >= 0")
        await known(live, routing, 2)
        host = live.host("b,1")
        box = host.sessions["slow"].queue
        stop(box)
        expected: list[int] = []
        for n in range(0, 1000, 20):
            h = 1 + n // 20 % 2
            clock.s = 1_000_000.0 + n / 100  # so the last is published after 9.8 s
            await publisher.publish({"h": h, "n": n})
            await publisher.flush()
            # a delivery waits as long as the most patient of its subscriptions
            deadline_s = 1.0 if h == 1 else 0.2 if n >= 500 else None
            if deadline_s is not None:
                expected += [n] if 9.9 - n / 100 <= deadline_s else []
        wanted = len([n for n in range(0, 1000, 20) if n // 20 % 2 == 0 or n >= 500])
        await until(lambda: box.waits == wanted)
        clock.s = 1_000_000.0 + 9.9
        box.resume_writing()
        await client.start_subscription(patient)  # its answer comes after all that waited
        got = sorted(set(numbers(waiting(hasty)) + numbers(waiting(hastier))))
        assert got == sorted(expected)
        assert box.too_old_total == wanted - len(expected) > 0
        assert (box.dropped_total, client.dropped) == (0, 0)
        await until(lambda: client.too_old == box.too_old_total)
        report = host.report()
        assert (report.too_old_total, report.dropped_total) == (box.too_old_total, 0)
        await known(live, routing, 3)
        # one that has no deadline gets all, however old
        stop(box)
        await publisher.publish({"h": 0, "n": 1})
        await publisher.publish({"h": 1, "n": 3})
        await publisher.flush()
        await until(lambda: box.waits == 2)
        clock.s += 1_000.0
        box.resume_writing()
        assert numbers(await take(patient, 2)) == [1, 3]
        assert report.too_old_total == host.report().too_old_total
        # and they stay counted when the client has gone
        await client.close()
        await until(lambda: "slow" not in host.sessions)
        assert host.report().too_old_total == report.too_old_total

    in_overlay(scene, tree="path:2", clusters=2, routing=routing, net_limits=SLOW, qos=QOS, wall=clock)


@overlay(
    tree="path:2",
    clusters=2,
    qos=(
        Qos(Granted("block", 1, 0), ("block", "drop_oldest"), 2, is_timed=True),
        Qos(Granted("drop_oldest", 0, 500), SLOW_POLICIES, 3, is_timed=True),
    ),
)
async def test_a_cluster_grants_what_it_allows(live: Live) -> None:
    first, second = await live.client("a,0", name="one"), await live.client("a,1", name="two")
    for client in (first, second):
        await client.start_subscription(client.subscribe("x > 0", id="s"))
    one, two = live.host("a,0").sessions["one"].deliveries, live.host("a,1").sessions["two"].deliveries
    assert (one.policies, one.priorities, one.deadline_ms_of("s")) == ({"s": "block"}, {"s": 1}, 0)
    assert (two.policies, two.priorities, two.deadline_ms_of("s")) == ({"s": "drop_oldest"}, {}, 500)
    await refused(first, "priority 3 is not allowed in this cluster; at most 2 is", priority=3)
    await refused(first, "policy disconnect is not allowed in this cluster", policy="disconnect")
    await second.start_subscription(second.subscribe("x > 0", id="u", priority=3, policy="disconnect"))
    assert (two.policies["u"], two.priorities) == ("disconnect", {"u": 3})


@overlay(tree="path:2", clusters=2)
async def test_without_a_table_of_qos_there_are_no_deadlines(live: Live) -> None:
    client = await live.client("a,0")
    await refused(client, r"add a table \[qos\] to the overlay file", deadline_ms=100)
    await client.start_subscription(client.subscribe("x > 0", priority=3))


async def refused(client: Client, reason: str, **asked: Any) -> None:
    with pytest.raises(RefusedError, match=reason):
        await client.start_subscription(client.subscribe("x > 0", **asked))


@overlay(
    tree="path:2",
    clusters=2,
    qos=(Qos(), Qos(limits={"client_queue_frames_max": 5, "link_queue_frames_max": 77}, tau=3.0, window_ms=20.0)),
)
async def test_each_cluster_has_its_own_queues_and_congestion(live: Live) -> None:
    plain, own = live.host("a,0"), live.host("a,1")
    assert (own.net_limits.client_queue_frames_max, own.congestion.tau, own.congestion.window_s) == (5, 3.0, 0.02)
    assert link(live, "a,1", "a,0").queue.frames_max == 77
    assert (plain.net_limits.client_queue_frames_max, plain.congestion.tau) == (10_000, 10.0)
    client = await live.client("a,1", name="c")
    assert own.sessions[client.name].queue.frames_max == 5


@restarting(tree="path:1", clusters=1, qos=QOS[:1])
async def test_a_restart_keeps_priorities_deadlines_and_what_waited(overlay: Apart) -> None:
    """Waiting frames go first, in their previous order; later ones have their priority as before."""
    client = await overlay.client("a,0", name="slow")
    ordinary = client.subscribe("n >= 0", id="o", policy="block", deadline_ms=0)
    urgent = client.subscribe("p = 2 and n >= 0", id="u", priority=2, policy="block", deadline_ms=70_000)
    for subscription in (ordinary, urgent):
        await client.start_subscription(subscription)
    publisher = await overlay.client("a,0")
    await publisher.advertise("p >= 0 and n >= 0")
    box = overlay.host("a,0").sessions["slow"].queue
    stop(box)
    for n in range(20):
        await publisher.publish({"p": 2 if n >= 15 else 0, "n": n})
    await publisher.flush()
    await until(lambda: bool(box.waits == 20))
    await overlay.stop("a,0")
    await overlay.start("a,0")
    session = overlay.host("a,0").sessions["slow"]
    deliveries = session.deliveries
    deadlines = [deliveries.deadline_ms_of(id) for id in ("o", "u")]
    assert (deliveries.priorities, deadlines) == ({"u": 2}, [0, 70_000])
    assert numbers(await take(ordinary, 20)) == [*range(15, 20), *range(15)]
    stop(session.queue)
    await publisher.publish_many([{"p": 0, "n": 20}, {"p": 2, "n": 21}])
    await publisher.flush()
    await until(lambda: bool(session.queue.waits == 2))
    session.queue.resume_writing()
    assert numbers(await take(ordinary, 2)) == [21, 20]
    assert numbers(await take(urgent, 6)) == [*range(15, 20), 21]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"priority": 4}, r"priority 4: it is a number from 0 \(ordinary\) to 3"),
        ({"deadline_ms": -1}, r"a deadline of -1 ms: 0 \(none\) to 31,622,400,000"),
        ({"policy": "wait"}, "unknown policy 'wait'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_it_is_sent(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Client("octopia://127.0.0.1:1").subscribe("x > 0", **asked)


@overlay(tree="path:2", clusters=2, qos=QOS)
async def test_blocking_code_asks_for_the_same(live: Live) -> None:
    def ask() -> None:
        asked: dict[str, Any] = {"priority": 3, "deadline_ms": 900, "policy": "block"}
        with connect_sync(live.url("a,0"), name="sync") as client, client.subscribe("x > 0", id="s", **asked):
            deliveries = live.host("a,0").sessions["sync"].deliveries
            granted.append((dict(deliveries.policies), dict(deliveries.priorities), deliveries.deadline_ms_of("s")))

    granted: list[Any] = []
    await asyncio.to_thread(ask)
    assert granted == [({"s": "block"}, {"s": 3}, 900)]


@overlay(tree="path:2", clusters=1, routing="snr")
async def test_on_a_link_all_but_confirmations_and_waits_are_fences(live: Live) -> None:
    await live.subscriber("b,0", "p = 0")
    await live.subscriber("b,0", "p = 3", priority=3)
    publisher = await live.publisher("a,0", "p >= 0")
    own = link(live, "a,0", "b,0")
    box: FrameQueue = own.queue
    stop(box)

    async def publish(*priorities: int) -> None:
        before = box.waits
        await publisher.publish_many([{"p": priority} for priority in priorities])
        await publisher.flush()
        await until(lambda: bool(box.waits == before + len(priorities)))

    await publish(0, 3)
    client = await live.client("a,0")
    asked = asyncio.create_task(client.start_subscription(client.subscribe("p = 7")))
    await until(lambda: bool(box.waits == 4))  # the subscription, and the question whether it is in force
    await publish(0)
    own.send(Waits(5, 7), link_frames(Waits(5, 7)))
    confirm = Confirm((Confirmation(own.neighbour, own.neighbour, (Confirmed("p", 1),)),))
    own.send(confirm, link_frames(confirm))
    await publish(3)
    assert [frame[4] for frame in box.in_order()] == [
        Kind.NOTIFY,
        Kind.NOTIFY,
        Kind.LINK_SUBSCRIBE,
        Kind.BARRIER,
        Kind.NOTIFY,
        Kind.NOTIFY,
        Kind.WAITS,
        Kind.CONFIRM,
    ]
    said = [b"\xa1p\x03" in frame for frame in box.in_order() if frame[4] == Kind.NOTIFY]
    assert said == [True, False, True, False], "the urgent one goes first, on either side of the fence"
    asked.cancel()
