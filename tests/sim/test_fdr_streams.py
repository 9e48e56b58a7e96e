"""Streams of `fdr` in simulated runs under load: whatever dies, pairs of brokers that stay up lose nothing, get nothing
twice, and get it in order.

Drawn: up to k - 1 brokers and links that go down, some of them twice, and a slow link, at any moment of the run. The
oracle is brute force: every publication at a broker that stays up against every subscription at such a broker.
"""

from pathlib import Path
from random import Random

import pytest

from octopia.language import matches
from octopia.routing import Broker
from octopia.sim import BrokerFault, LinkFault, RunSpec, simulate
from octopia.sim.faults import Fault
from octopia.sim.model import LinkModel, Model, Processor
from octopia.sim.simulation import Simulation
from octopia.topology import Scot, parse_tree
from octopia.workload import Workload
from tests.sim.worlds import drawn, rows

OVERLAY = Scot(parse_tree("path:3"), 3)
SPAN_NS = 2 * 10**9
# 600 notifications in 2 s, each for most brokers, over links that send 500 a second: queues everywhere.
LOADED = Model(processor=Processor(base_ns=50_000), link=LinkModel(per_message_ns=2_000_000, delay_ns=300_000))


def drawn_faults(draw: Random) -> list[Fault]:
    """At most two things down at a time, and one slow link."""
    faults: list[Fault] = []
    for _ in range(2):
        begin = draw.randrange(SPAN_NS)
        spans = [(begin, begin + draw.choice((10**8, 10**9, 10**10)))]
        if draw.random() < 0.4:
            spans.append((spans[0][1] + draw.choice((10**7, 5 * 10**8)), spans[0][1] + 10**9))
        sender = draw.choice(OVERLAY.brokers)
        if draw.random() < 0.5:
            faults += [BrokerFault(sender, *span) for span in spans]
        else:
            receiver = draw.choice(OVERLAY.neighbours(sender))
            faults += [LinkFault(sender, receiver, "down", *span, both=True) for span in spans]
    slow = draw.choice(OVERLAY.brokers)
    faults.append(LinkFault(slow, draw.choice(OVERLAY.neighbours(slow)), "slow", 0, SPAN_NS, factor=10))
    return faults


def check(world: Workload, faults: list[Fault], folder: Path) -> None:
    gone = {fault.broker for fault in faults if isinstance(fault, BrokerFault)}
    first = len(world.advertisements) + len(world.subscriptions)
    names = [row["name"] for row in rows(folder, "clients")]
    homes = {each.client: each.broker for each in world.subscriptions}
    publishers = [world.advertisements[publisher] for publisher in world.publications.publisher]
    got: dict[tuple[str, str], list[int]] = {}
    for row in sorted(rows(folder, "deliveries"), key=lambda row: (row["delivered_ns"], row["request"])):
        number, client = row["request"] - first, names[row["client"]]
        if homes[client] not in gone and publishers[number].broker not in gone:
            got.setdefault((publishers[number].client, client), []).append(number)
    wanted: dict[tuple[str, str], list[int]] = {}
    values = world.notifications.to_pylist()
    for number, row in enumerate(world.publications.row):
        for each in world.subscriptions:
            if {each.broker, publishers[number].broker} & gone or not matches(each.filter, values[row]):
                continue
            wanted.setdefault((publishers[number].client, each.client), []).append(number)
    assert wanted
    assert got == wanted


@pytest.mark.parametrize("seed", range(12))
def test_pairs_that_stay_up_get_all_once_and_in_order(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Random(seed)
    world = drawn(OVERLAY, seed, publishers=6, subscribers=18, notifications=600, span_ns=SPAN_NS)
    faults = drawn_faults(draw)
    ran: list[Simulation] = []
    finish = Simulation._finish

    def noted(self: Simulation) -> None:
        ran.append(self)
        finish(self)

    monkeypatch.setattr(Simulation, "_finish", noted)
    simulate(world, OVERLAY, RunSpec(routing="fdr", model=LOADED, faults=tuple(faults), seed=seed), tmp_path)
    check(world, faults, tmp_path)
    assert [id for id, broker in ran[-1].brokers.items() if kept(broker)] == [], "nothing is kept, nothing waits"


def kept(broker: Broker) -> bool:
    streams = broker.state.streams
    return bool(len(streams.log) or streams.log.given_up or len(streams.owed))
