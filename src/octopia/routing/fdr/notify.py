"""Notifications in full dynamic routing: copies that name their destinations, on any copy of the tree.

A copy serves `dests`, the brokers that this copy and no other must reach. They are chosen once, at the host broker: the
hosts of all matching subscriptions that it holds, in its own cluster and in others; and brokers that may host one
without its knowledge (`FdrState.in_doubt`, `SrtEntry.unknown`; none unless a link failed or a cluster has too many
subscriptions). Such a broker matches for itself, and may have no recipient: a wasted copy, never a loss. Brokers that
are `unreachable` are left out: the host broker keeps it for them (`streams/`).

At a broker: 1. If it is in dests itself, it delivers, and is removed from dests. 2. Each destination in this region
gets a copy over the iLink. The others go along this cluster's copy of the tree, one copy per direction.

The host broker has chosen a tree (`FdrState.tree`). If it is another cluster's, all of dests go to the region mate
there, in one copy. If it is its own cluster's with `AROUND`, copies for region mates travel along to a neighbouring
region. There these destinations lie beyond the link that the copy came from, and are handed to the broker of their own
cluster. So a host broker with k - 1 iLinks and an aLink has k trees that share no directed link, including its own.

If links are down, anywhere: 3. Each destination takes a shortest path to a broker that has a link to it, over the links
that this broker knows to be up (`KnownLinks.ways`). Destinations that must leave a tree leave it together.

**Exactly once.** Each destination is in the dests of exactly one copy: all steps divide. **It ends.** While brokers
have the same knowledge of links, each hop brings a destination closer, by the number of hops to a broker with a link to
it. The exceptions are the first hop, to the chosen tree or around, and the one back across after it. A broker on the
path may know more than those before it, never less (`flood.py`), so this starts over at most once for each report in
flight: a copy cannot run in circles, and a neighbour cannot make it do so. **Hops**: at most diam(G_af) + 2 while all
links are up: to the chosen tree, along it, and to the destination; or three, for region mates with `AROUND`. Each dead
broker adds at most one, where the path changes from one tree to another.

**Every reachable destination is reached**, however many brokers and links are down: the path is searched for among all
links. The loss of any k - 1 brokers cuts off no other. Messages held by a dead broker or link are lost here, and so is
a copy whose destination is out of reach for a broker on the way that knows more than the host broker did.

The decision depends on the queues only through the tree, which the header of a publication names together with the
brokers in doubt; and on the known state of links, whose every change clears all cached decisions (`FdrState`).
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.protocol import Chosen, Dests, Waits
from octopia.routing.actions import Action
from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.fdr.broker_sets import AROUND
from octopia.routing.fdr.check import check_header
from octopia.routing.fdr.state import DestsMatched, FdrState
from octopia.routing.priorities import Urgent, or_none, priority_of, union
from octopia.routing.state import remember_passed
from octopia.topology import BrokerId


def first_header(state: FdrState, satisfied: Sequence[Registered], now: float, counts: int) -> Chosen:
    """The brokers that may host a match without this broker knowing it, and the tree."""
    unknown = 0
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            unknown |= entry.unknown
    tree = state.trees.take(now, counts)
    if not unknown:
        return _chosen(state.in_doubt, tree)
    of_clusters = state.places.of_clusters
    entries = [state.srt.get(registered.key) for registered in satisfied]
    urgent = union(entry.urgent for entry in entries if entry is not None)
    in_doubt = state.in_doubt | of_clusters(unknown)
    return _chosen(in_doubt, tree, tuple(map(of_clusters, urgent)))


@lru_cache(maxsize=1024)
def _chosen(in_doubt: int, tree: int, urgent: Urgent = ()) -> Chosen:
    return Chosen(in_doubt, tree, urgent)


def is_steady(state: FdrState, now: float) -> bool:
    """Whether all publications take this cluster's own tree."""
    return state.trees.is_steady(now)


def receive_waits(state: FdrState, sender: BrokerId, message: Waits, now: float, out: list[Action]) -> None:
    state.beyond.learn(sender, message.wait_ms / 1000, message.pace_us / 1e6, now)
    if sender.cluster == state.id.cluster:
        state.beyond.tell(now, out)


def sampled(state: FdrState, now: float, out: list[Action]) -> None:
    """Called before each sample is processed, so that samples of one moment count together."""
    state.beyond.look(now, out)


def links_seen(state: FdrState) -> int:
    """Nothing beyond the header; it exists because a routing without it is not told of queues."""
    return 0


def route(state: FdrState, matched: DestsMatched, header: Chosen, came_by: BrokerId | None) -> Decision:
    """At the host broker: `came_by` is None."""
    dests = (matched.dests | header.in_doubt) & ~state.me
    reached = dests & ~state.unreachable
    copies = copies_for(state, reached, header.tree)
    priorities = None
    if matched.urgent or header.urgent:
        urgent = union((matched.urgent, header.urgent))
        copies = tuple((to, _for_brokers(each.dests, priority_of(urgent, each.dests))) for to, each in copies)
        priorities = or_none(each.priority for _, each in copies)
    missed = dests & state.unreachable
    return Decision(matched.recipients, copies, dests=reached, missed=missed, tree=header.tree, priorities=priorities)


def copies_for(state: FdrState, dests: int, tree: int, priority: int = 0) -> tuple[tuple[BrokerId, Dests], ...]:
    """The copies of a notification published here, for these destinations, on this tree, with this priority."""
    onward = _Onward(state)
    if tree == AROUND:
        dests = onward.send_mates_around(dests)
    first = state.i_link_to.get(tree)
    if dests and first is not None and not state.links.is_down(state.id, first):
        onward.add(first, dests)
    else:
        onward.send(dests, None)
    return onward.copies(priority)


def pass_on(state: FdrState, header: Dests, came_by: BrokerId) -> Decision:
    """At every other broker: nothing is matched there."""
    copies = copies_onward(state, header, came_by)
    priorities = (header.priority,) * len(copies) if header.priority else None
    return Decision((), copies, here=bool(header.dests & state.me), priorities=priorities)


def passed_on(state: FdrState, header: Dests, came_by: BrokerId) -> Decision:
    """Like `pass_on`, cached as for notifications."""
    known = state.passed[came_by]
    decision = known.get(header)
    if decision is None:
        decision = pass_on(state, header, came_by)
        remember_passed(known, header, decision)
    return decision


def copies_onward(state: FdrState, header: Dests, came_by: BrokerId) -> tuple[tuple[BrokerId, Dests], ...]:
    """The copies made from a received one."""
    check_header(state, header, came_by)
    onward = _Onward(state)
    onward.send(header.dests & ~state.me, came_by)
    return onward.copies(header.priority)


# Equal headers are one object where possible: they are looked up at every hop.
@lru_cache(maxsize=1 << 14)
def _for_brokers(dests: int, priority: int = 0) -> Dests:
    return Dests(dests, priority)


class _Onward:
    """The division of destinations: `to` has, by neighbour, the dests of the one copy it gets."""

    __slots__ = ("_state", "to")

    def __init__(self, state: FdrState) -> None:
        self._state = state
        self.to: dict[BrokerId, int] = {}

    def copies(self, priority: int) -> tuple[tuple[BrokerId, Dests], ...]:
        order = self._state.order
        made = sorted(self.to.items(), key=lambda copy: order[copy[0]])
        return tuple((to, _for_brokers(dests, priority)) for to, dests in made)

    def add(self, to: BrokerId, dests: int) -> None:
        self.to[to] = self.to.get(to, 0) | dests
        if to not in self._state.up:
            # a broker that restarted, and is not told yet that this link is up
            self._state.lost_on[to] = True

    def send(self, dests: int, came_by: BrokerId | None) -> None:
        """Assign each destination to its path; unreachable ones are left out."""
        for to, reached in self._state.ways:
            part = dests & reached
            if part and to == came_by:
                part = self._across(part, came_by.region)
            if part:
                self.add(to, part)

    def send_mates_around(self, dests: int) -> int:
        """Put region mates on the copy for a neighbouring region; returns the rest."""
        state = self._state
        mates = dests & state.near
        for to, reached in state.ways:
            if to in state.a_links and dests & reached & ~state.near:
                for mate, bit in ((mate, state.places.brokers[mate]) for mate in state.i_links):
                    across = BrokerId(to.region, mate.cluster)
                    if state.links.is_down(to, across) or state.links.is_down(across, mate):
                        mates &= ~bit
                if mates:
                    self.add(to, mates)
                return dests & ~mates
        return dests

    def _across(self, dests: int, region: str) -> int:
        """Send to brokers of the region they came from by the region mate in their cluster; returns the rest."""
        state = self._state
        for mate in state.i_links:
            there = BrokerId(region, mate.cluster)
            part = dests & state.places.brokers[there]
            if part and not state.links.is_down(state.id, mate) and not state.links.is_down(mate, there):
                self.add(mate, part)
                dests &= ~part
        return dests
