"""More than k - 1 brokers dead, and any links: whoever can be reached is reached, the rest is known, nothing wanders.

The oracle is a search along the links that are left, one broker after the other.
"""

from random import Random

import pytest

from octopia.embedded import Hop
from octopia.protocol import LinkNews, Notify
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import cases
from tests.routing.everyone import Everyone, sets_of
from tests.routing.harness import draw_tree


class Counted(Everyone):
    """Notes how many hops each broker was away, and how many messages of news there were."""

    def __init__(self, scot: Scot) -> None:
        self.news = 0
        self.dead: set[frozenset[BrokerId]] = set()
        self.bound = scot.diameter + 1
        super().__init__(scot)

    def _sent(self, hop: Hop) -> None:
        self.news += isinstance(hop.message, LinkNews)
        super()._sent(hop)

    def receive(self, hop: Hop) -> None:
        if isinstance(hop.message, Notify):
            assert length(hop) <= self.bound, "it wanders"
        super().receive(hop)

    def kill(self, *links: tuple[BrokerId, BrokerId]) -> None:
        for a, b in links:
            self.dead.add(frozenset((a, b)))
            self.lose(a, b)

    def mend(self, a: BrokerId, b: BrokerId) -> None:
        self.dead.discard(frozenset((a, b)))
        self.reconnect(a, b)

    def distances(self, start: BrokerId) -> dict[BrokerId, int]:
        far, todo = {start: 0}, [start]
        for broker in todo:
            for near in self.overlay.neighbours(broker):
                if near not in far and frozenset((broker, near)) not in self.dead:
                    far[near] = far[broker] + 1
                    todo.append(near)
        return far

    def check(self, home: BrokerId) -> None:
        """With all news told: three hops more than the shortest way at most, of which one is to the chosen tree."""
        far = self.distances(home)
        self.bound = max(far.values()) + 3
        assert self.who_gets_it(home) == sorted(far)
        out = self.brokers[home].state.unreachable
        assert [each for place, each in enumerate(self.overlay.brokers) if out >> place & 1] == [
            each for each in self.overlay.brokers if each not in far
        ]


def length(hop: Hop | None) -> int:
    hops = 0
    while hop is not None:
        hops, hop = hops + 1, hop.cause
    return hops


@pytest.mark.parametrize("seed", range(cases(40)))
def test_any_dead_brokers_and_links(seed: int) -> None:
    draw = Random(seed)
    scot = Scot(draw_tree(draw), draw.choice((1, 2, 3, 4)))
    network = Counted(scot)
    dead = draw.sample(scot.brokers, draw.randint(0, len(scot.brokers) // 2))
    network.kill(*(link for link in scot.links if link[0] in dead or link[1] in dead))
    left = [link for link in scot.links if frozenset(link) not in network.dead]
    network.kill(*draw.sample(left, draw.randint(0, len(left) * 2 // 3)))
    network.run_until_quiet()
    for loaded in (False, True):
        if loaded:
            network.load(draw)
        for home in scot.brokers:
            network.check(home)
    # they come back, some at a time
    while network.dead:
        broken = [link for link in scot.links if frozenset(link) in network.dead]
        for link in draw.sample(broken, draw.randint(1, len(broken))):
            network.mend(*link)
        # what waited for those who are back may start anew with each report that it meets
        network.bound = (2 * len(scot.links) + 1) * (scot.broker_count + 2)
        network.run_until_quiet()
        network.check(draw.choice(scot.brokers))
    assert not any(broker.state.links.any_down for broker in network.brokers.values())


@pytest.mark.parametrize(("tree", "clusters"), [("path:3", 2), ("path:3", 3), ("star:4", 2), ("path:5", 2)])
def test_each_dead_broker_adds_at_most_one_hop(tree: str, clusters: int) -> None:
    """Up to k - 1 dead: diam(G_af) + 2 hops, and one for each of them."""
    scot = Scot(parse_tree(tree), clusters)
    draw = Random(3)
    for dead in sets_of(scot.brokers, clusters - 1):
        network = Counted(scot)
        network.kill(*(link for link in scot.links if link[0] in dead or link[1] in dead))
        network.run_until_quiet()
        live = sorted(set(scot.brokers) - set(dead))
        network.bound = scot.tree.diameter + 2 + len(dead)
        for loaded in (False, True):
            if loaded:
                network.load(draw)
            for home in live:
                assert network.who_gets_it(home) == live


@pytest.mark.parametrize("seed", range(cases(40)))
def test_copies_end_while_news_is_under_way(seed: int) -> None:
    """Links go down and come up while copies are on their way, and news comes late: nothing runs in circles.

    A copy may start anew with each report that it meets, so this is the bound; and nobody gets it twice.
    """
    draw = Random(seed)
    scot = Scot(draw_tree(draw), draw.choice((2, 3, 4)))
    network = Counted(scot)
    changes = 0
    for _ in range(30):
        links = [link for link in scot.links if frozenset(link) not in network.dead]
        if draw.random() < 0.5 and links:
            network.kill(draw.choice(links))
        elif network.dead:
            network.mend(*draw.choice([link for link in scot.links if frozenset(link) in network.dead]))
        changes += 2
        network.bound = (changes + 1) * (scot.broker_count + 2)
        network.got = []
        network.publish(draw.choice(scot.brokers))
        for _ in range(draw.randint(0, 12)):
            if heads := network.oldest_of_each_link():
                network.receive(draw.choice(heads))
    network.run_until_quiet()
    for home in scot.brokers:
        network.check(home)


@pytest.mark.parametrize("dead", [BrokerId("b", 1), BrokerId("b", 0), BrokerId("a", 2)])
def test_the_price_of_one_dead_broker(dead: BrokerId) -> None:
    """One flood for the reports of all its neighbours, and when it is back likewise: at most one message on each link
    and direction, all but the one over which it first came to each broker; and two for each report until it is
    gathered."""
    scot = Scot(parse_tree("path:3"), 3)
    network = Counted(scot)
    reports = scot.neighbours(dead)
    for near in reports:
        network.cut_link(dead, near)
    network.news = 0
    for near in reports:
        network.notice((near, dead))
    network.run_until_quiet()
    others = scot.broker_count - 1
    directed = 2 * (len(scot.links) - len(reports))
    assert network.news <= directed - others + 1 + 2 * len(reports)
    assert all(
        broker.state.unreachable == broker.state.places.brokers[dead]
        for id, broker in network.brokers.items()
        if id != dead
    )


@pytest.mark.parametrize("first", range(4))
def test_a_broker_that_can_be_reached_is_never_given_up(first: int) -> None:
    """All links of a broker but one are down: nothing is concluded about that one."""
    scot = Scot(parse_tree("path:3"), 3)
    network = Counted(scot)
    alone = BrokerId("b", 1)
    near = scot.neighbours(alone)
    network.kill(*((alone, each) for each in near if each != near[first]))
    network.run_until_quiet()
    assert not any(broker.state.unreachable for broker in network.brokers.values())
    for home in scot.brokers:
        network.check(home)


def test_a_broker_with_many_neighbours_is_reported_in_parts() -> None:
    """One message has room for a hundred reports, and (hub,1) gathers one of each region, and its own."""
    scot = Scot(parse_tree("star:121"), 2)
    network = Counted(scot)
    dead = next(broker for broker in scot.brokers if len(scot.neighbours(broker)) > 100)
    for near in scot.neighbours(dead):
        network.cut_link(dead, near)
    for near in scot.neighbours(dead):
        network.notice((near, dead))
    network.run_until_quiet()
    assert all(
        len(broker.state.links.all_reports()) == len(scot.neighbours(dead))
        for id, broker in network.brokers.items()
        if id != dead
    )


def test_reports_are_spread_though_the_broker_that_gathers_them_dies() -> None:
    """(b,0) gathers what is said about (b,1), and dies with all that it was told."""
    scot = Scot(parse_tree("path:3"), 3)
    network = Counted(scot)
    gone, gathers = BrokerId("b", 1), BrokerId("b", 0)
    for dead in (gone, gathers):
        for near in scot.neighbours(dead):
            network.cut_link(dead, near)
    for near in scot.neighbours(gone):
        if near != gathers:
            network.notice((near, gone))
    for near in scot.neighbours(gathers):
        if near != gone:
            network.notice((near, gathers))
    network.run_until_quiet()
    for id, broker in network.brokers.items():
        if id not in (gone, gathers):
            places = broker.state.places.brokers
            assert broker.state.unreachable == places[gone] | places[gathers]


def test_a_copy_is_sent_again_that_was_lost_on_a_link_not_up_yet() -> None:
    """(b,1) has restarted. All others know that its link to (b,0) is up again, before (b,1) itself is told."""
    scot = Scot(parse_tree("path:3"), 2)
    network = Counted(scot)
    back, mate, home = BrokerId("b", 1), BrokerId("b", 0), BrokerId("c", 1)
    network.restart(back)
    near = scot.neighbours(back)
    for each in near:
        network.notice((each, back))
    network.run_until_quiet()
    for each in near:
        network.connect(each, back)
    for each in near:
        network.tell_end((each, back))
    for each in near:
        if each != mate:
            network.tell_end((back, each))
    network.run_until_quiet()
    network.bound = 2 * scot.broker_count
    assert mate not in network.who_gets_it(home)
    network.tell_end((back, mate))
    network.run_until_quiet()
    assert mate in network.got
    assert len(network.got) == len(set(network.got))
