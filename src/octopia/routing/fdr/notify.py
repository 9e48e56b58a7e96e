"""Notifications in full dynamic routing: copies that name their destinations, on any copy of the tree.

A copy serves `dests`, brokers that this copy and no other must reach. They are named once, at the host broker: the
hosts of all matching subscriptions that it holds, of its own cluster and of others; and brokers of which it does not
know whether they host one (`FdrState.in_doubt`, `SrtEntry.unknown`; none while nothing went wrong and nobody has too
many subscriptions). Such a broker matches for itself, and may deliver to nobody: a copy in vain, never a loss. Brokers
that are `written_off` are left out.

At a broker: 1. If it is in dests itself, it delivers, and leaves dests. 2. Each destination in this region gets a copy
over the iLink. The others go along this cluster's copy of the tree, one copy per direction.

At the host broker a tree was chosen (`FdrState.tree`). If it is another cluster's, all of dests go to the region mate
there, in one copy. If it is the own one `AROUND`, the region mates ride along to a neighbouring region. There they lie
beyond the link they came by, and are handed to the broker of their own cluster. So a host broker with k - 1 iLinks and
an aLink has k trees that share no directed link, its own among them.

Where links are down, anywhere: 3. Each destination goes along a shortest way to a broker that has a link to it, by the
links that this broker knows to be up (`LinkState.ways`). Those that must leave a tree leave it together.

**Exactly once.** Each destination is in the dests of exactly one copy: all steps divide. **It ends.** While brokers
know the same of links, each hop brings a destination closer, by the number of hops to a broker with a link to it; but
for the first hop, to the chosen tree or around, and the one back across after it. A broker on the way may know more
than those before it, never less (`flood.py`), so this starts anew at most once for each report that is under way: a
copy cannot run in circles, and a neighbour cannot make it. **Hops**: at most diam(G_af) + 2 while all links are up: to
the chosen tree, along it, and to the destination; or three, around. Each dead broker adds at most one, where the way
leaves a tree for another.

**Whoever can be reached is reached**, however many brokers and links are down: a way is found by search among all
links. Any k - 1 brokers dead cut off nobody. What a dead broker or link held is lost here, and so is a copy whose
destination is out of reach for a broker on the way that knows more than the host broker did.

The decision depends on the queues only through the tree, which the header of a publication names together with the
brokers in doubt; and on what is known of links, whose every change makes the table forget all decisions (`FdrState`).
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.fdr.check import check_header
from octopia.routing.fdr.places import AROUND
from octopia.routing.fdr.state import DestsMatched, FdrState
from octopia.routing.messages import Chosen, Dests
from octopia.routing.state import remember_passed
from octopia.topology import BrokerId


def first_header(state: FdrState, satisfied: Sequence[Registered]) -> Chosen:
    """The brokers that may host a match without this broker's knowing it, and the tree."""
    unknown = 0
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            unknown |= entry.unknown
    in_doubt = state.in_doubt | state.places.of_clusters(unknown) if unknown else state.in_doubt
    return _chosen(in_doubt, state.trees.take(state.now))


@lru_cache(maxsize=1024)
def _chosen(in_doubt: int, tree: int) -> Chosen:
    return Chosen(in_doubt, tree)


def links_seen(state: FdrState) -> int:
    """Nothing that is not in the header; it is here since a routing without it is not told of queues."""
    return 0


def route(state: FdrState, matched: DestsMatched, header: Chosen, came_by: BrokerId | None) -> Decision:
    """At the host broker: `came_by` is None."""
    dests = (matched.dests | header.in_doubt) & ~state.me
    reached = dests & ~state.written_off
    copies = copies_for(state, reached, header.tree)
    return Decision(matched.recipients, copies, dests=reached, missed=dests & state.written_off, tree=header.tree)


def copies_for(state: FdrState, dests: int, tree: int) -> tuple[tuple[BrokerId, Dests], ...]:
    """The copies of what begins at this broker, for these destinations and on this tree."""
    onward = _Onward(state)
    if tree == AROUND:
        dests = onward.send_mates_around(dests)
    first = state.i_link_to.get(tree)
    if dests and first is not None and not state.links.is_down(state.id, first):
        onward.add(first, dests)
    else:
        onward.send(dests, None)
    return onward.copies()


def pass_on(state: FdrState, header: Dests, came_by: BrokerId) -> Decision:
    """At every other broker: nothing is matched there."""
    return Decision((), copies_onward(state, header, came_by), here=bool(header.dests & state.me))


def passed_on(state: FdrState, header: Dests, came_by: BrokerId) -> Decision:
    """As `pass_on`, remembered as for notifications."""
    known = state.passed[came_by]
    decision = known.get(header)
    if decision is None:
        decision = pass_on(state, header, came_by)
        remember_passed(known, header, decision)
    return decision


def copies_onward(state: FdrState, header: Dests, came_by: BrokerId) -> tuple[tuple[BrokerId, Dests], ...]:
    """The copies that are made of one that came."""
    check_header(state, header, came_by)
    onward = _Onward(state)
    onward.send(header.dests & ~state.me, came_by)
    return onward.copies()


# Equal headers are one object where they can be: they are looked up at every hop.
@lru_cache(maxsize=1 << 14)
def _for_brokers(dests: int) -> Dests:
    return Dests(dests)


class _Onward:
    """What goes where: `to` has, by neighbour, the dests of the one copy it gets."""

    __slots__ = ("_state", "to")

    def __init__(self, state: FdrState) -> None:
        self._state = state
        self.to: dict[BrokerId, int] = {}

    def copies(self) -> tuple[tuple[BrokerId, Dests], ...]:
        order = self._state.order
        made = sorted(self.to.items(), key=lambda copy: order[copy[0]])
        return tuple((to, _for_brokers(dests)) for to, dests in made)

    def add(self, to: BrokerId, dests: int) -> None:
        self.to[to] = self.to.get(to, 0) | dests

    def send(self, dests: int, came_by: BrokerId | None) -> None:
        """Each by its way; those that no way leads to any more are left out."""
        for to, reached in self._state.ways:
            part = dests & reached
            if part and to == came_by:
                part = self._across(part, came_by.region)
            if part:
                self.add(to, part)

    def send_mates_around(self, dests: int) -> int:
        """Put region mates on the copy for a neighbouring region; what is left."""
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
        """Brokers of the region they came from are reached by the region mate in their cluster; what is left."""
        state = self._state
        for mate in state.i_links:
            there = BrokerId(region, mate.cluster)
            part = dests & state.places.brokers[there]
            if part and not state.links.is_down(state.id, mate) and not state.links.is_down(mate, there):
                self.add(mate, part)
                dests &= ~part
        return dests
