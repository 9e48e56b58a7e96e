"""Brokers that die in a simulated run under `fdr`: pairs of live brokers go on, once their neighbours know.

With more than k - 1 dead these are the pairs that a way is left for, found by search.
"""

from itertools import combinations
from pathlib import Path

import pytest

from octopia.language import matches
from octopia.sim import BrokerFault, RunSpec, load_model, simulate
from octopia.topology import BrokerId, Scot, parse_tree
from tests.sim.worlds import drawn, rows

OVERLAY = Scot(parse_tree("path:3"), 3)
DOWN_NS, UNTIL_NS = 10**8, 3 * 10**9
# By then whatever was on its way when they died has arrived or is lost, and their neighbours know.
KNOWN_NS = DOWN_NS + 10**9

FEW = list(combinations((("b", 0), ("b", 1), ("a", 2), ("c", 2)), 2))
MANY = [
    (("b", 0), ("b", 1), ("b", 2)),  # in two parts
    (("a", 0), ("b", 1), ("c", 2), ("b", 0)),  # all that is left hangs together by one link
    (("a", 0), ("b", 1), ("c", 1), ("c", 2), ("b", 2)),  # a region without the way to the others
]


def part_of(start: BrokerId, gone: set[BrokerId]) -> set[BrokerId]:
    """All that live brokers lead to."""
    seen, todo = {start}, [start]
    for broker in todo:
        fresh = [near for near in OVERLAY.neighbours(broker) if near not in gone and near not in seen]
        seen.update(fresh)
        todo += fresh
    return seen


@pytest.mark.parametrize("dead", [*FEW, *MANY], ids=str)
def test_pairs_of_live_brokers_lose_nothing_once_it_is_known(tmp_path: Path, dead: tuple[tuple[str, int], ...]) -> None:
    world = drawn(OVERLAY, 7, publishers=6, subscribers=18, notifications=300, span_ns=2 * 10**9)
    faults = tuple(BrokerFault(broker, DOWN_NS, UNTIL_NS) for broker in dead)
    simulate(world, OVERLAY, RunSpec(routing="fdr", model=load_model("live"), faults=faults), tmp_path)
    first = len(world.advertisements) + len(world.subscriptions)
    names = [row["name"] for row in rows(tmp_path, "clients")]
    got = sorted((row["request"] - first, names[row["client"]]) for row in rows(tmp_path, "deliveries"))
    assert len(got) == len(set(got)), "nobody gets anything twice"
    gone = {BrokerId(*broker) for broker in dead}
    values = world.notifications.to_pylist()
    expected = set()
    for number, (at_ns, publisher, row) in enumerate(
        zip(world.publications.at_ns, world.publications.publisher, world.publications.row, strict=True)
    ):
        if at_ns < KNOWN_NS or world.advertisements[publisher].broker in gone:
            continue
        part = part_of(world.advertisements[publisher].broker, gone)
        for subscription in world.subscriptions:
            if subscription.broker in part and matches(subscription.filter, values[row]):
                expected.add((number, subscription.client))
    assert expected
    assert expected - set(got) == set()
