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

Where a link is down: 3. What would have gone over it is handed, all in one copy, to a region mate that has not tried
yet (`tried` has the clusters that have). If there is none, to a neighbouring region, once from each (`left`), as if it
were to go around. 4. If nothing is left to try, it is put on the link that is down, where the host keeps or drops it.

**Exactly once.** Each destination is in the dests of exactly one copy: all steps divide. **It ends.** On an aLink a
destination comes closer, but for the first hop of a region mate on its way around; each hop inside a region adds to
`tried` or is the last. **Hops**: at most diam(G_af) + 2 while all links are up: to the chosen tree, along it, and to
the destination; or three, around.

**Any k - 1 brokers dead**: they touch at most k - 1 of the k copies of a tree edge, and those left of a region are all
linked. So among the region mates that are alive one has the next hop alive, and each is tried at most once.

The decision depends on the queues only through the tree, which the header of a publication names together with the
brokers in doubt; and on which links are up and who is written off, whose every change makes the table forget all
decisions (`FdrState`).
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.fdr.check import check_header
from octopia.routing.fdr.places import AROUND
from octopia.routing.fdr.state import DestsMatched, FdrState
from octopia.routing.messages import Chosen, Dests
from octopia.topology import BrokerId

# A neighbour, and tried and left of a copy for it.
_Copy = tuple[BrokerId, int, int]


def first_header(state: FdrState, satisfied: Sequence[Registered]) -> Chosen:
    """The brokers that may host a match without this broker's knowing it, and the tree."""
    unknown = 0
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            unknown |= entry.unknown
    return _chosen(state.in_doubt | state.places.of_clusters(unknown) if unknown else state.in_doubt, state.tree())


@lru_cache(maxsize=1024)
def _chosen(in_doubt: int, tree: int) -> Chosen:
    return Chosen(in_doubt, tree)


def links_seen(state: FdrState) -> int:
    """Nothing that is not in the header; it is here since a routing without it is not told of queues."""
    return 0


def passes(state: FdrState, header: Dests) -> bool:
    """Whether a copy is for others only."""
    return not header.dests & state.me


def route(state: FdrState, matched: DestsMatched, header: Dests | Chosen, came_by: BrokerId | None) -> Decision:
    if isinstance(header, Chosen):
        return _begin(state, matched, header)
    if came_by is not None:
        check_header(state, header, came_by)
    return _go_on(state, matched, header, came_by)


def _begin(state: FdrState, matched: DestsMatched, chosen: Chosen) -> Decision:
    """At the host broker."""
    dests = (matched.dests | chosen.in_doubt) & ~(state.written_off | state.me)
    onward = _Onward(state, None)
    if chosen.tree == AROUND:
        dests = onward.send_mates_around(dests)
    first = state.i_link_to.get(chosen.tree)
    if dests and first is not None and first in state.up:
        onward.send_to_tree(first, dests)
    else:
        onward.send_dests(dests)
    return Decision(matched.recipients, onward.copies())


def _go_on(state: FdrState, matched: DestsMatched, header: Dests, came_by: BrokerId | None) -> Decision:
    onward = _Onward(state, came_by, header.tried, header.left)
    onward.send_dests(header.dests & ~state.me)
    return Decision(matched.recipients if header.dests & state.me else (), onward.copies())


class _Onward:
    """What goes where: `to` has, by neighbour and what did not work (tried, left), the dests of a copy.

    While all links are up a neighbour gets at most one. Others are not put together: what did not work for one
    destination may work for the other.
    """

    __slots__ = ("_came_by", "_left", "_state", "_tried", "to")

    def __init__(self, state: FdrState, came_by: BrokerId | None, tried: int = 0, left: int = 0) -> None:
        self._state = state
        self._came_by = came_by
        self._tried = tried
        self._left = left
        self.to: dict[_Copy, int] = {}

    def copies(self) -> tuple[tuple[BrokerId, Dests], ...]:
        # sorting keeps those for the same neighbour as they are
        order = self._state.order
        made = sorted(self.to.items(), key=lambda copy: order[copy[0][0]])
        return tuple((to, Dests(dests, tried, left)) for (to, tried, left), dests in made)

    def _add(self, to: BrokerId, dests: int, left: int, tried: int = 0) -> None:
        copy = (to, tried, left)
        self.to[copy] = self.to.get(copy, 0) | dests

    def send_to_tree(self, first: BrokerId, dests: int) -> None:
        self._add(first, dests, self._left)

    def send_dests(self, dests: int) -> None:
        """Along the own tree, and to region mates."""
        state, up, left, came_by = self._state, self._state.up, self._left, self._came_by
        cut: list[tuple[BrokerId, int]] = []
        for to, lies_there in state.ways:
            part = dests & lies_there
            if part and to == came_by:
                part = self._send_back(part)
            if part and to in up and not (left and to == came_by):
                self._add(to, part, left)
            elif part:
                cut.append((to, part))
        if cut:
            self._hand_over(cut)

    def send_mates_around(self, dests: int) -> int:
        """Put region mates on the copy for a neighbouring region; what is left."""
        state = self._state
        for to, lies_there in state.ways:
            if dests & lies_there and to in state.up_a_links:
                self._add(to, dests & state.near, 0)
                return dests & ~state.near
        return dests

    def _send_back(self, dests: int) -> int:
        """Destinations beyond the link they came by are reached from the region mate in their cluster; what is left."""
        state = self._state
        for mate in state.up_i_links:
            part = dests & state.places.clusters[mate.cluster]
            if part:
                self._add(mate, part, self._left)
                dests &= ~part
        return dests

    def _hand_over(self, cut: list[tuple[BrokerId, int]]) -> None:
        """To a region mate; or to a neighbouring region, once from each region; or else on the link that is down."""
        state, left, came_by = self._state, self._left, self._came_by
        mate, here = self._untried_mate(), self._state.places.here
        near = [to for to in state.up_a_links if to != came_by] or [to for to in state.up_a_links if to == came_by]
        for to, part in cut:
            if mate is not None:
                self._add(mate, part, left, self._tried | state.own_bit)
            elif near and not left & here:
                self._add(near[0], part, left | here)
            else:
                self._add(to, part, left)

    def _untried_mate(self) -> BrokerId | None:
        up, tried = self._state.up, self._tried
        return next((mate for mate in self._state.mates if mate in up and not tried >> mate.cluster & 1), None)
