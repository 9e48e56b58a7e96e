"""A broker is dead, and a publisher advertises at another: who is reached, by brute force, over all pairs of the two.

What must hold follows from the overlay alone. Inside a cluster a copy follows the tree, which a dead broker cuts. Into
another cluster it goes by the iLink of its own region or, where the broker there is the dead one, IDR carries it along
the publisher's cluster to a region whose broker is alive. When the broker is back all is as if it had never been away.
"""

from itertools import product

import pytest

from octopia.embedded import Hop
from octopia.language import parse_filter, parse_notification
from octopia.protocol import Notify
from octopia.routing import Action, Advertised, Deliver, Published, Subscribed, Unadvertised
from octopia.routing.entries import SrtEntry
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.breaking import BreakingNetwork

STOCK = parse_filter("x is not null")
QUOTE = parse_notification({"x": 1})
OVERLAYS = [("path:1", 3), ("path:2", 2), ("path:2", 3), ("path:3", 2), ("path:3", 3), ("star:4", 2)]


class FailOver(BreakingNetwork):
    """An overlay with subscribers, whole and quiet, and what happens to it then."""

    def __init__(self, scot: Scot, routing: str, subscribed: list[BrokerId]) -> None:
        super().__init__(scot, routing, self._act, keeps=False)
        self.got: list[BrokerId] = []
        self.subscribed = subscribed
        for broker in subscribed:
            self.tell(broker, Subscribed(f"s{broker}", "s", STOCK))
        self.run_until_quiet()

    def _act(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            self.got += [broker for _ in action.recipients]

    def die(self, dead: BrokerId) -> None:
        for neighbour in self.overlay.neighbours(dead):
            self.cut_link(dead, neighbour)
            self.notice((neighbour, dead))

    def come_back(self, dead: BrokerId) -> None:
        self.restart(dead)
        if dead in self.subscribed:
            self.tell(dead, Subscribed(f"s{dead}", "s", STOCK))
        for neighbour in self.overlay.neighbours(dead):
            self.connect(dead, neighbour)
        for end in self.ends:
            if end in self.untold:
                self.tell_end(end)
        self.run_until_quiet()

    def advertise(self, *homes: BrokerId) -> None:
        for home in homes:
            self.tell(home, Advertised("p", "a", STOCK))
        self.run_until_quiet()

    def own_entry(self, home: BrokerId) -> SrtEntry:
        entries: list[SrtEntry] = [entry for entry in self.brokers[home].state.srt if entry.last_hop is None]
        (entry,) = entries
        return entry

    def publish(self, home: BrokerId) -> list[BrokerId]:
        """Who gets one notification, each as often as it does."""
        self.got = []
        self.do(home, Published("p", "n", QUOTE))
        return sorted(self.got)

    def copies_of_one(self, home: BrokerId) -> list[tuple[BrokerId, BrokerId]]:
        seen: list[tuple[BrokerId, BrokerId]] = []
        on_hop, self._on_hop = self._on_hop, lambda hop: seen.append((hop.sender, hop.receiver))
        self.publish(home)
        self._on_hop = on_hop
        return sorted(seen)


def regions_reached(scot: Scot, cluster: int, start: str, dead: BrokerId) -> set[str]:
    """The regions whose broker of this cluster can be reached from that of `start` inside the cluster."""
    blocked = dead.region if dead.cluster == cluster else None
    seen, todo = {start}, [start]
    for region in todo:
        fresh = [near for near in scot.tree.neighbours(region) if near not in seen and near != blocked]
        seen.update(fresh)
        todo += fresh
    return seen


def reachable(scot: Scot, home: BrokerId, dead: BrokerId, goes_around: bool) -> list[set[BrokerId]]:
    """For each cluster the sets of brokers of which one must be served, as far as they have subscribers."""
    ways = []
    for cluster in range(scot.clusters):
        if BrokerId(home.region, cluster) != dead:
            entries = [home.region]
        else:
            entries = list(scot.tree.neighbours(home.region)) if goes_around else []
        served = [regions_reached(scot, cluster, entry, dead) for entry in entries]
        ways.append([{BrokerId(region, cluster) for region in part} for part in served])
    return [set().union(*parts) for parts in product(*(parts or [set()] for parts in ways))]


def some_of(scot: Scot, dead: BrokerId) -> list[list[BrokerId]]:
    """Subscribers everywhere, at every other broker, and at each broker of the dead one's cluster alone."""
    brokers = list(scot.brokers)
    return [brokers, brokers[::2], *([broker] for broker in scot.cluster(dead.cluster))]


@pytest.mark.parametrize("routing", ["snr", "idr"])
@pytest.mark.parametrize(("tree", "clusters"), OVERLAYS)
def test_everyone_who_can_be_reached_is_reached_once(tree: str, clusters: int, routing: str) -> None:
    scot = Scot(parse_tree(tree), clusters)
    for dead in scot.brokers:
        for subscribed in some_of(scot, dead):
            network = FailOver(scot, routing, subscribed)
            network.die(dead)
            for home in [broker for broker in scot.brokers if broker != dead]:
                network.advertise(home)
                expected = reachable(scot, home, dead, goes_around=routing == "idr")
                wanted = [sorted(part & set(subscribed) - {dead}) for part in expected]
                assert network.publish(home) in wanted, f"{dead} dead, {home} publishes, subscribers {subscribed}"
                network.do(home, Unadvertised("p", "a"))


@pytest.mark.parametrize("routing", ["snr", "idr"])
@pytest.mark.parametrize(("tree", "clusters"), [("path:3", 3), ("star:4", 2)])
def test_when_it_is_back_nothing_crosses_for_nobody(tree: str, clusters: int, routing: str) -> None:
    """The copies are those of an overlay in which nothing ever went wrong, and no bit is unknown."""
    scot = Scot(parse_tree(tree), clusters)
    for dead in scot.brokers:
        homes = [broker for broker in scot.brokers if broker != dead]
        for subscribed in some_of(scot, dead)[1:]:
            network, sound = FailOver(scot, routing, subscribed), FailOver(scot, routing, subscribed)
            network.die(dead)
            network.advertise(*homes)
            network.come_back(dead)
            sound.advertise(*homes)
            for home in homes:
                assert network.copies_of_one(home) == sound.copies_of_one(home)
                entry, sound_entry = network.own_entry(home), sound.own_entry(home)
                assert (entry.civ, entry.unknown) == (sound_entry.civ, 0)
                assert network.brokers[home].state.cut_off == 0


def test_the_case_it_was_seen_in() -> None:
    """path:3 × 3: (a,0) dies, its publisher moves to (a,1), and the subscriber at (c,0) goes on getting everything."""
    scot = Scot(parse_tree("path:3"), 3)
    a0, a1, c0 = BrokerId("a", 0), BrokerId("a", 1), BrokerId("c", 0)
    network = FailOver(scot, "idr", [c0])
    network.advertise(a0)
    assert network.publish(a0) == [c0]
    network.die(a0)
    network.advertise(a1)
    assert network.publish(a1) == [c0]


def test_a_neighbour_that_is_still_learning_wants_it_until_it_knows() -> None:
    """(a,0) restarted and waits for (b,0), when a client of (a,1) advertises: what (c,0) wants is not known there."""
    scot = Scot(parse_tree("path:3"), 2)
    a0, a1, b0, c0 = BrokerId("a", 0), BrokerId("a", 1), BrokerId("b", 0), BrokerId("c", 0)
    for subscribed in ([c0], []):
        network = FailOver(scot, "idr", subscribed)
        network.restart(a0)
        network.mend(a0, a1)
        network.advertise(a1)
        (entry,) = network.brokers[a1].state.srt
        assert entry.civ == 0b11
        network.mend(a0, b0)
        assert entry.civ == (0b11 if subscribed else 0b10)
        assert network.publish(a1) == subscribed
        assert [type(hop.message) for hop in network.in_flight if type(hop.message) is Notify] == []
