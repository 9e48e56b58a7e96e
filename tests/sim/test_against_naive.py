"""The simulator against a second one that works step by step: the same messages at the same moments."""

from pathlib import Path
from typing import Any, Literal

import pytest

from octopia.routing import POLICIES
from octopia.sim.model import ClientModel, LinkModel, Machines, Model, OneLink, OtherLink, Processor, Receiver
from octopia.topology import Scot, Sites, parse_tree
from tests.sim.compared import same_as_naive
from tests.sim.worlds import drawn

OVERLAY = Scot(parse_tree("path:3"), 3)
# Odd numbers, so that no two things happen at one moment by accident.
BUSY_LINKS = Model(
    processor=Processor(base_ns=211_003),
    link=LinkModel(per_message_ns=9_000_017, delay_ns=70_001),
    client=ClientModel(delay_ns=13),
)
BUSY_BROKERS = Model(processor=Processor(base_ns=3_000_019), link=LinkModel(per_message_ns=2_000_003, delay_ns=70_001))


PROCESSOR = Processor(base_ns=1_100_003)
LINK = LinkModel(per_message_ns=4_000_037, delay_ns=70_001)
# What only some models have; each is busy enough to make messages wait for what it is about.
PARTS = {
    "kinds": Model(
        processor=PROCESSOR,
        link=LINK,
        a_link=OtherLink(per_message_ns=7_000_003),
        i_link=OtherLink(delay_ns=200_003, per_byte_ns=11_003),
        links=(OneLink(between=("a.1", "b.1"), per_message_ns=2_000_003), OneLink(between=("b.2", "b.0"), delay_ns=9)),
    ),
    "cores": Model(processor=PROCESSOR, link=LINK, machines=Machines(count=4, cores=2)),
    "one core": Model(processor=PROCESSOR, link=LINK, machines=Machines(names=("east", "west"))),
    "card": Model(
        processor=Processor(base_ns=211_003),
        link=LinkModel(per_message_ns=200_003, delay_ns=70_001),
        machines=Machines(count=3, cores=3, card_mbit_per_s=2, card_per_message_ns=90_001),
    ),
    "inputs": Model(processor=PROCESSOR, link=LinkModel(per_message_ns=800_011, delay_ns=70_001), receiver=Receiver(3)),
    "one by one": Model(processor=PROCESSOR, link=LINK, receiver=Receiver(1)),
    "all": Model(
        processor=PROCESSOR,
        link=LinkModel(per_message_ns=1_500_007, per_byte_ns=503, delay_ns=70_001),
        i_link=OtherLink(per_message_ns=3_000_017),
        machines=Machines(count=3, cores=2, card_mbit_per_s=4),
        receiver=Receiver(2),
    ),
}


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize("model", [BUSY_LINKS, BUSY_BROKERS], ids=["links", "brokers"])
@pytest.mark.parametrize("seed", range(3))
def test_same_hops_and_deliveries_at_the_same_moments(tmp_path: Path, routing: str, model: Model, seed: int) -> None:
    hops = compare_with_naive(tmp_path, routing, model, seed)
    if model is BUSY_LINKS:
        carrying = sum(1 for hop in hops if hop[4])
        assert bool(carrying) == (routing == "idr"), "congestion was there to be routed around"


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize("part", PARTS)
def test_same_with_every_part_of_a_model(tmp_path: Path, routing: str, part: str) -> None:
    compare_with_naive(tmp_path, routing, PARTS[part], 1, count=200)


@pytest.mark.parametrize("by", ["cluster", "region"])
def test_same_with_sites(tmp_path: Path, by: Literal["cluster", "region"]) -> None:
    sites = Sites.even(OVERLAY, by, 2, delay_ms=37.000_001)
    hops = compare_with_naive(tmp_path, "idr", BUSY_BROKERS, 2, sites)
    far = {(one, other) for _, one, other, _, _, _, left, _, arrived, _ in hops if arrived - left > 37_000_000}
    assert far
    assert far <= {link for pair in sites.links_between(OVERLAY) for link in (pair, pair[::-1])}
    assert len(far) > len(sites.links_between(OVERLAY))


def compare_with_naive(
    tmp_path: Path, routing: str, model: Model, seed: int, sites: Sites | None = None, count: int = 600
) -> list[tuple[Any, ...]]:
    world = drawn(OVERLAY, seed, publishers=4, subscribers=12, notifications=count, span_ns=5_000_011 * count)
    return same_as_naive(tmp_path, world, OVERLAY, routing, model, sites)[0]
