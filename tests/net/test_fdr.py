"""Full dynamic routing between live brokers: exactly once and in order, whatever k-1 brokers and which links fail.

The oracle is what was published: each subscriber between brokers that live gets every notification that its filter
wants, once, in the order of its publisher.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from octopia.net import Client, NetLimits, Subscription
from octopia.topology import BrokerId
from tests.net.live import Live, in_overlay, overlay, take, until
from tests.patience import HANG_S

# Detours at once; a dead neighbour is given up soon, so that a broker that restarts does not wait for it.
LIMITS = NetLimits(detour_grace_s=0.05, link_give_up_s=0.3, link_heartbeat_s=0.3)
# Queues that are full all the time.
NARROW = NetLimits(
    detour_grace_s=0.05,
    link_give_up_s=0.3,
    link_heartbeat_s=0.3,
    link_queue_frames_max=32,
    window_frames=16,
    client_queue_frames_max=64,
    block_s=1000.0,  # nobody is too slow here
)
COUNT = 240
ALL = "n is not null and of1 is not null and of2 is not null and of3 is not null"

Fault = Callable[[Live, int], Awaitable[None]]


class Pairs:
    """Publishers and subscribers at some brokers, each publisher with each subscriber."""

    def __init__(self, live: Live, brokers: list[str]) -> None:
        self.live = live
        self.brokers = brokers
        self.publishers: dict[str, Client] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.wanted: dict[str, int] = {}

    async def open(self) -> None:
        for number, broker in enumerate(self.brokers):
            # some want a part only, so that not all notifications have the same destinations
            self.wanted[broker] = 1 + number % 3
            filter = f"n >= 0 and of{self.wanted[broker]} = true"
            self.subscriptions[broker] = await self.live.subscriber(broker, filter, policy="block")
        for broker in self.brokers:
            name = f"p{broker}"
            self.publishers[name] = await self.live.publisher(broker, ALL, name=name)

    async def publish(self, start: int, stop: int) -> None:
        for n in range(start, stop):
            for client in self.publishers.values():
                await client.publish({"n": n, **{f"of{part}": n % part == 0 for part in (1, 2, 3)}})

    async def check(self, stop: int) -> None:
        """Everything has come, once, in order; and nothing else comes."""
        await asyncio.gather(*(self._check(broker, stop) for broker in self.subscriptions))

    async def _check(self, broker: str, stop: int) -> None:
        wanted = list(range(0, stop, self.wanted[broker]))
        came: dict[str, list[Any]] = {name: [] for name in self.publishers}
        for delivery in await take(self.subscriptions[broker], len(wanted) * len(came)):
            came[delivery.publisher].append(delivery.notification["n"])
        assert came == dict.fromkeys(came, wanted), broker

    def quiet(self) -> bool:
        """Whether every host broker has heard of all it sent that it has come."""
        return all(not len(self.live.host(broker).broker.streams.log) for broker in self.brokers)


async def with_faults(live: Live, brokers: list[str], fault: Fault, *, parts: int = 6) -> Pairs:
    """Publish in parts, with a fault before each but the first, while readers read."""
    pairs = Pairs(live, brokers)
    await pairs.open()
    readers = [asyncio.ensure_future(pairs.check(COUNT))]
    size = COUNT // parts
    for part in range(parts):
        if part:
            await fault(live, part)
        await pairs.publish(part * size, (part + 1) * size)
    for client in pairs.publishers.values():
        await client.flush()
    await asyncio.gather(*readers)
    assert not any(s.waiting for s in pairs.subscriptions.values())
    return pairs


def nobody_met_a_fault(live: Live) -> None:
    for id, server in live.servers.items():
        counters = server.hosts[id].counters
        assert (counters.faults, counters.stamps_wrong) == (0, 0), str(id)


def everyone(live: Live) -> list[str]:
    return [f"{broker.region},{broker.cluster}" for broker in live.scot.brokers]


@overlay(routing="fdr", net_limits=LIMITS)
async def test_every_pair_and_the_log_is_empty_at_the_end(live: Live) -> None:
    async def nothing(live: Live, part: int) -> None: ...

    pairs = await with_faults(live, everyone(live), nothing)
    for host in (live.host(broker) for broker in everyone(live)):
        host.broker.streams.owed._after_s = 0.05
        host.broker.streams.together._after_s = 0.05
    await pairs.publish(COUNT, COUNT + 1)
    await until(pairs.quiet)
    nobody_met_a_fault(live)


@pytest.mark.parametrize("limits", [LIMITS, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dead", list(combinations(["b,0", "b,1", "b,2", "c,1"], 2)), ids="-".join)
def test_two_brokers_die_while_others_speak(dead: tuple[str, ...], limits: NetLimits) -> None:
    async def scene(live: Live) -> None:
        async def fault(live: Live, part: int) -> None:
            if part == 2:
                for broker in dead:
                    live.crash(broker)

        await with_faults(live, ["a,0", "c,0", "a,1", "c,2"], fault)
        nobody_met_a_fault(live)

    in_overlay(scene, routing="fdr", net_limits=limits)


@pytest.mark.parametrize("limits", [LIMITS, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("seed", range(3))
def test_brokers_die_and_return_and_links_break(seed: int, limits: NetLimits) -> None:
    """At most k-1 brokers are gone or links broken at a time."""
    draw = random.Random(seed)
    mortal = ["b,0", "b,1", "b,2", "c,1", "a,2"]

    async def scene(live: Live) -> None:
        gone: list[str] = []

        async def fault(live: Live, part: int) -> None:
            await until(live.all_links_up)
            if gone and draw.random() < 0.6:
                back = gone.pop(draw.randrange(len(gone)))
                await live.start(back)
                await until(lambda: _is_back(live, back))
            elif len(gone) < 2:
                gone.append(draw.choice([broker for broker in mortal if broker not in gone]))
                live.crash(gone[-1])
            for _ in range(draw.randrange(3 - len(gone))):
                reset_a_link(live, draw)

        await with_faults(live, ["a,0", "c,0", "a,1", "c,2"], fault, parts=12)
        nobody_met_a_fault(live)

    in_overlay(scene, routing="fdr", net_limits=limits)


def _is_back(live: Live, broker: str) -> bool:
    """Whether its links to brokers that live are up, at both ends."""
    id = BrokerId.parse(broker)
    return all(
        link.is_up and live.servers[neighbour].hosts[neighbour].links[id].is_up
        for neighbour, link in live.host(broker).links.items()
        if neighbour in live.servers
    )


def reset_a_link(live: Live, draw: random.Random) -> None:
    """The connection between two brokers that live is reset."""
    channels = [
        link.channel
        for id, server in live.servers.items()
        for neighbour, link in server.hosts[id].links.items()
        if neighbour in live.servers and link.channel is not None
    ]
    draw.choice(channels).abort()


@overlay(routing="fdr", net_limits=replace(LIMITS, drain_s=HANG_S), tree="path:2", clusters=2)
async def test_a_broker_that_stops_waits_for_what_it_sent_on_a_silent_link(live: Live) -> None:
    live.crash("a,0")
    await live.start("a,0")  # a server of its own, which is stopped alone
    await until(live.all_links_up)
    reader = await live.subscriber("b,0", "n >= 0", policy="block")
    publisher = await live.publisher("a,0", "n is not null", name="p", reconnect=False)
    silence(live, "a,0", "b,0")
    for n in range(COUNT):
        await publisher.publish({"n": n})
    await publisher.flush()
    await live.servers[BrokerId("a", 0)].stop()
    assert [d.notification["n"] for d in await take(reader, COUNT)] == list(range(COUNT))


@overlay(routing="fdr", net_limits=LIMITS)
async def test_a_broker_that_was_out_of_reach_gets_what_waited_for_it(live: Live) -> None:
    readers = [await live.subscriber(at, "n >= 0", policy="block") for at in ("c,1", "c,0")]
    publisher = await live.publisher("a,0", "n is not null", name="p")
    place = live.scot.brokers.index(BrokerId("c", 1))
    state = live.host("a,0").broker.state
    for start in (0, COUNT):
        back = cut_off(live, "c,1")
        await until(lambda: state.unreachable == 1 << place)
        for n in range(start, start + COUNT):
            await publisher.publish({"n": n})
        # the other one does not wait for it
        assert [d.notification["n"] for d in await take(readers[1], COUNT)] == list(range(start, start + COUNT))
        assert not readers[0].waiting
        # for however long it stays away
        host = live.host("a,0")
        host._router.check_time(host.now() + 3600.0)
        back()
        assert [d.notification["n"] for d in await take(readers[0], COUNT)] == list(range(start, start + COUNT))
    assert not state.streams.missed
    nobody_met_a_fault(live)


def cut_off(live: Live, broker: str) -> Callable[[], None]:
    """All connections of a broker to others break, and there are no new ones until the returned call."""
    id = BrokerId.parse(broker)
    diallers = [
        dialler
        for own, server in live.servers.items()
        for neighbour, dialler in server.hosts[own].diallers.items()
        if id in (own, neighbour)
    ]
    addresses = [dialler.address for dialler in diallers]
    for dialler in diallers:
        dialler.address = None
    for link in live.host(broker).links.values():
        link.channel.abort()

    def join() -> None:
        for dialler, address in zip(diallers, addresses, strict=True):
            dialler.address = address
            dialler.dial()

    return join


def silence(live: Live, one: str, other: str) -> None:
    """The other broker gets nothing more on this link, and neither end has noticed."""
    channel = live.host(other).links[BrokerId.parse(one)].channel
    channel.transport.pause_reading()


@overlay(routing="fdr", net_limits=LIMITS)
async def test_a_subscription_made_during_an_outage_is_in_force_when_it_is_accepted(live: Live) -> None:
    publisher = await live.publisher("c,0", "n is not null", name="p")
    for broker in ("b,0", "b,1"):
        live.crash(broker)
    # both ends of all links know of it
    late = await live.subscriber("a,0", "n >= 0", policy="block")
    for n in range(50):
        await publisher.publish({"n": n})
    assert [d.notification["n"] for d in await take(late, 50)] == list(range(50))
    new = await live.publisher("a,1", "n is not null", name="q")
    for n in range(50):
        await new.publish({"n": n})
    assert [(d.publisher, d.notification["n"]) for d in await take(late, 50)] == [("q", n) for n in range(50)]


@overlay(routing="fdr", net_limits=LIMITS, tree="path:2", clusters=2)
async def test_publishers_pause_before_the_log_is_full(live: Live) -> None:
    host = live.host("a,0")
    log = host.broker.streams.log
    log._entries_max = 100
    reader = await live.subscriber("b,0", "n >= 0", policy="block")
    for broker in everyone(live):
        live.host(broker).broker.streams.owed._every = 10_000
        live.host(broker).broker.streams.owed._after_s = 0.1
    publisher = await live.publisher("a,0", "n is not null", name="p")
    for n in range(3000):
        await publisher.publish({"n": n})
    assert [d.notification["n"] for d in await take(reader, 3000)] == list(range(3000))
    assert host.counters.sources_held > 0
