"""Any k - 1 brokers dead, or as many links: under `fdr` every pair of live clients goes on, exactly once.

By brute force over sets of dead brokers and over all publishers that live. The oracle is the set of live brokers: k - 1
dead never cut the overlay in two. The subscriptions and advertisements were in force before.
"""

from collections.abc import Iterable
from itertools import chain, combinations
from random import Random

import pytest

from octopia.embedded import Hop
from octopia.language import parse_filter, parse_notification
from octopia.routing import Action, Advertised, Deliver, Published, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.breaking import BreakingNetwork

STOCK = parse_filter("x is not null")
QUOTE = parse_notification({"x": 1})
# All sets of dead brokers of these are tried; of larger overlays, as many as drawn.
SMALL = [
    ("path:2", 2),
    ("path:2", 3),
    ("path:2", 4),
    ("path:3", 2),
    ("path:3", 3),
    ("path:3", 4),
    ("star:4", 2),
    ("star:4", 3),
]
LARGE = [("star:4", 4), ("balanced:2,2", 2), ("balanced:2,2", 3), ("balanced:2,2", 4)]


class Everyone(BreakingNetwork):
    """A client at every broker, which subscribed and advertised while all was well."""

    def __init__(self, scot: Scot) -> None:
        super().__init__(scot, "fdr", self._act, keeps=False)
        self.got: list[BrokerId] = []
        for broker in scot.brokers:
            self.tell(broker, Subscribed("c", "s", STOCK))
            self.tell(broker, Advertised("c", "a", STOCK))
        self.run_until_quiet()

    def _act(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            self.got += [broker for _ in action.recipients]

    def cut_and_notice(self, a: BrokerId, b: BrokerId) -> None:
        self.cut_link(a, b)
        self.notice((a, b))
        self.notice((b, a))

    def publish(self, home: BrokerId) -> None:
        self.tell(home, Published("c", "n", QUOTE))

    def who_gets_it(self, home: BrokerId) -> list[BrokerId]:
        self.got = []
        self.publish(home)
        self.run_until_quiet()
        return sorted(self.got)

    def load(self, draw: Random) -> None:
        """Any queues: every tree is chosen by some host broker."""
        for sender, receiver in self.ends:
            self.hold_queue(sender, receiver, draw.choice((0, 0, 2, 9, 60)))


def check_brokers_dead(scot: Scot, dead: tuple[BrokerId, ...], draw: Random) -> None:
    network = Everyone(scot)
    for broker in dead:
        for neighbour in scot.neighbours(broker):
            network.cut_and_notice(broker, neighbour)
    live = sorted(set(scot.brokers) - set(dead))
    for loaded in (False, True):
        if loaded:
            network.load(draw)
        for home in live:
            assert network.who_gets_it(home) == live, f"{home} publishes, dead: {[str(broker) for broker in dead]}"


def sets_of(brokers: tuple[BrokerId, ...], most: int) -> Iterable[tuple[BrokerId, ...]]:
    return chain.from_iterable(combinations(brokers, count) for count in range(most + 1))


@pytest.mark.parametrize(("tree", "clusters"), SMALL)
def test_every_set_of_dead_brokers(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(0)
    for dead in sets_of(scot.brokers, clusters - 1):
        check_brokers_dead(scot, dead, draw)


@pytest.mark.parametrize(("tree", "clusters"), LARGE)
def test_drawn_sets_of_dead_brokers(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(1)
    for _ in range(40):
        check_brokers_dead(scot, tuple(draw.sample(scot.brokers, clusters - 1)), draw)


@pytest.mark.parametrize(("tree", "clusters"), [("path:1", 3), ("path:2", 3), ("path:3", 2), ("path:3", 3)])
def test_every_set_of_dead_links(tree: str, clusters: int) -> None:
    """Both ends live: a dead link is not a dead broker."""
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(2)
    everyone = sorted(scot.brokers)
    for count in range(1, scot.connectivity):
        for dead in combinations(scot.links, count):
            network = Everyone(scot)
            for a, b in dead:
                network.cut_and_notice(a, b)
            for loaded in (False, True):
                if loaded:
                    network.load(draw)
                for home in everyone:
                    got = network.who_gets_it(home)
                    assert got == everyone, f"{home} publishes, dead: {[f'{a}-{b}' for a, b in dead]}, loaded: {loaded}"
