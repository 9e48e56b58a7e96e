"""Deliveries against interest: the same answer as sets of pairs, whatever the size of a block."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from octopia.language import matches
from octopia.sim import exactly_once
from octopia.sim.exactly_once import compare
from octopia.topology import Scot, parse_tree
from tests.sim.worlds import drawn, workload

OVERLAY = Scot(parse_tree("path:2"), 2)


@pytest.mark.parametrize("cells_max", [1, 40, 1 << 24])
@pytest.mark.parametrize("seed", range(5))
def test_differences_are_those_of_the_sets(monkeypatch: pytest.MonkeyPatch, seed: int, cells_max: int) -> None:
    monkeypatch.setattr(exactly_once, "CELLS_MAX", cells_max)
    draw = Random(seed)
    world = drawn(OVERLAY, seed, publishers=2, subscribers=7, notifications=30, span_ns=1000)
    # some clients have several subscriptions, some filters several clients
    more = [(f"s{draw.randrange(4)}", ("a", 0), str(draw.choice(world.subscriptions).filter)) for _ in range(4)]
    listed = [(each.client, each.broker, str(each.filter)) for each in world.subscriptions]
    rows = world.notifications.to_pylist()
    published = [(n, draw.randrange(2), rows[draw.randrange(30)]) for n in range(40)]
    world = workload([("p0", ("a", 0), "x >= 0"), ("p1", ("b", 1), "y >= 0")], [*listed, *more], published)
    clients = {name: n for n, name in enumerate(("p0", "p1", *(f"s{n}" for n in range(7))))}
    wanted = {
        (number, clients[each.client])
        for number, row in enumerate(world.publications.row.tolist())
        for each in world.subscriptions
        if matches(each.filter, world.notifications.to_pylist()[row])
    }
    got = [pair for pair in sorted(wanted) if draw.random() < 0.8]
    got += draw.choices(got, k=5) + [(draw.randrange(40), draw.randrange(9)) for _ in range(5)]
    got += [(40, 3), (40, 3), (-1, 2)]  # of what nobody published
    draw.shuffle(got)
    publication, client = (np.array(part, dtype=np.int64) for part in zip(*got, strict=True))
    found = compare(world, clients, publication, client)
    counted = Counter(got)
    expected = (wanted - set(got), {pair for pair in got if counted[pair] > 1}, set(got) - wanted)
    for codes, pairs in zip(found, expected, strict=True):
        assert codes.tolist() == sorted(publication * len(clients) + client for publication, client in pairs)


def test_nothing_published_and_nothing_delivered() -> None:
    nothing = np.empty(0, dtype=np.int64)
    world = workload([("P", ("a", 0), "x >= 0")], [("S", ("b", 0), "x >= 0")], [])
    assert [len(codes) for codes in compare(world, {"P": 0, "S": 1}, nothing, nothing)] == [0, 0, 0]
