"""The simulator against a second one that works step by step: the same messages at the same moments."""

from pathlib import Path

import pytest

from octopia.routing import POLICIES
from octopia.sim import RunSpec, simulate
from octopia.sim.model import Client, Link, Model, Processor
from octopia.topology import Scot, parse_tree
from tests.sim.naive import Naive
from tests.sim.worlds import drawn, rows

# Odd numbers, so that no two things happen at one moment by accident.
BUSY_LINKS = Model(
    processor=Processor(base_ns=211_003),
    link=Link(per_message_ns=9_000_017, delay_ns=70_001),
    client=Client(delay_ns=13),
)
BUSY_BROKERS = Model(processor=Processor(base_ns=3_000_019), link=Link(per_message_ns=2_000_003, delay_ns=70_001))


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize("model", [BUSY_LINKS, BUSY_BROKERS], ids=["links", "brokers"])
@pytest.mark.parametrize("seed", range(3))
def test_same_hops_and_deliveries_at_the_same_moments(tmp_path: Path, routing: str, model: Model, seed: int) -> None:
    overlay = Scot(parse_tree("path:3"), 3)
    world = drawn(overlay, seed, publishers=4, subscribers=12, notifications=600, span_ns=3_000_000_011)
    naive = Naive(overlay, routing, model)
    naive.play(world, 101_000_003, 53_000_017)
    spec = RunSpec(routing=routing, model=model, advertise_every_ns=101_000_003, subscribe_every_ns=53_000_017)
    simulate(world, overlay, spec, tmp_path)
    ids = overlay.brokers
    hops = [
        (
            row["kind"], ids[row["sender"]], ids[row["receiver"]], row["hop"], int(row["civ"] or "0", 2),
            row["queued_ns"], row["left_ns"], row["queue"], row["arrived_ns"], row["handled_ns"],
        )
        for row in rows(tmp_path, "hops")
    ]  # fmt: skip
    names = [row["name"] for row in rows(tmp_path, "clients")]
    first = len(world.advertisements) + len(world.subscriptions)
    deliveries = [
        (
            row["request"] - first, names[row["client"]], ids[row["broker"]], row["hop"], row["delivered_ns"],
            row["subscriptions"],
        )
        for row in rows(tmp_path, "deliveries")
    ]  # fmt: skip
    assert sorted(hops) == sorted(naive.hops)
    assert sorted(deliveries) == sorted(naive.deliveries)
    if model is BUSY_LINKS:
        carrying = sum(1 for hop in hops if hop[4])
        assert bool(carrying) == (routing == "idr"), "congestion was there to be routed around"
