"""One decision of IDR, judged against the table of its cases, restated here as plain conditions on the copies sent."""

from random import Random

import pytest

from octopia.embedded import Hop, Network
from octopia.language import parse_filter, parse_notification
from octopia.protocol import Notify
from octopia.routing import Advertised, Published, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree

TAU = 10
LEAVES = "bcde"
STOCK = parse_filter("class = 'STOCK'")
QUOTE = parse_notification({"class": "STOCK"})


def decide(clusters: int, wanting: list[int], leaves: list[str], queues: dict[BrokerId, int]) -> dict[BrokerId, int]:
    """The copies that the centre of a star in the last cluster sends first: neighbour -> CIV carried (0 is plain).

    `wanting` are the clusters with a subscriber, `leaves` the primary neighbours with one.
    """
    first: dict[BrokerId, int] = {}
    home = BrokerId("a", clusters - 1)

    def note(hop: Hop) -> None:
        if isinstance(hop.message, Notify) and hop.sender == home:
            first[hop.receiver] = hop.message.civ

    network = Network(Scot(parse_tree("star:5"), clusters), "idr", on_hop=note)
    network.tell(home, Advertised("P", "a", STOCK))
    for cluster in wanting:
        network.tell(BrokerId("a", cluster), Subscribed(f"S{cluster}", "s", STOCK))
    for leaf in leaves:
        network.tell(BrokerId(leaf, home.cluster), Subscribed(f"T{leaf}", "s", STOCK))
    network.run_until_quiet()
    for neighbour, length in queues.items():
        network.hold_queue(home, neighbour, length)
    network.tell(home, Published("P", "n", QUOTE))
    return first


def drawn(draw: Random) -> tuple[int, list[int], list[str], float]:
    """The number of clusters, those that want it, the leaves that do, and the share of overloaded links."""
    clusters = draw.randint(2, 6)
    wanting = sorted(draw.sample(range(clusters - 1), draw.randint(0, clusters - 1)))
    return clusters, wanting, sorted(draw.sample(LEAVES, draw.randint(0, 4))), draw.choice((0.0, 0.3, 0.7, 1.0))


@pytest.mark.parametrize("seed", range(300))
def test_every_decision_is_one_of_the_four_cases(seed: int) -> None:
    draw = Random(seed)
    clusters, wanting, leaves, share = drawn(draw)
    home = BrokerId("a", clusters - 1)
    i_targets = [BrokerId("a", cluster) for cluster in wanting]
    a_targets = [BrokerId(leaf, home.cluster) for leaf in leaves]
    everyone = [BrokerId("a", c) for c in range(clusters - 1)] + [BrokerId(leaf, home.cluster) for leaf in LEAVES]
    queues = {b: draw.randint(11, 40) if draw.random() < share else draw.randint(0, 10) for b in everyone}

    sent = decide(clusters, wanting, leaves, queues)

    free_i = [b for b in i_targets if queues[b] <= TAU]
    free_a = [b for b in a_targets if queues[b] <= TAU]
    loaded_i = [b for b in i_targets if queues[b] > TAU]
    plain = dict.fromkeys(a_targets, 0)
    if not loaded_i:  # case 0
        assert sent == plain | dict.fromkeys(i_targets, 0)
    elif free_i:  # case i
        carrier = min(free_i, key=lambda b: queues[b])
        assert sent == plain | dict.fromkeys(free_i, 0) | {carrier: sum(1 << b.cluster for b in loaded_i)}
    elif free_a:  # case ii
        carrier = min(free_a, key=lambda b: queues[b])
        assert sent == plain | {carrier: sum(1 << b.cluster for b in i_targets)}
    else:  # case iv
        carrier = min(i_targets, key=lambda b: queues[b])
        assert sent == plain | {carrier: sum(1 << b.cluster for b in i_targets if b != carrier)}


def test_the_seeds_reach_all_cases() -> None:
    """So that the test above cannot quietly test one case only."""
    seen = set()
    for seed in range(300):
        _, wanting, leaves, share = drawn(Random(seed))
        seen.add((len(wanting) > 1, bool(leaves), share))
    assert len(seen) == 16
