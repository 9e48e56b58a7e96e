"""Notifications in full dynamic routing: copies that name their destinations, on any copy of the tree.

A copy serves `dests`, brokers that this copy and no other must reach, and `todo`, clusters whose destinations are still
to be found by a broker of that cluster. At the host broker `dests` are the hosts of all matching subscriptions that it
holds, of its own cluster and of others; `todo` are the clusters that it does not hold in full (none while nothing went
wrong and nobody has too many subscriptions).

At a broker: 1. If its cluster is in todo, the hosts of matching subscriptions of the cluster join dests. If it is in
dests itself, it delivers, and leaves dests. 2. Each destination in this region gets a copy over the iLink. The others
go along this cluster's copy of the tree, one copy per direction. 3. Each cluster in todo goes to its broker in this
region.

At the host broker a tree was chosen (`FdrState.tree`). If it is another cluster's, all of dests go to the region mate
there, in one copy. If it is the own one `AROUND`, the region mates ride along to a neighbouring region. There they lie
beyond the link they came by, and are handed to the broker of their own cluster. So a host broker with k - 1 iLinks and
an aLink has k trees that share no directed link, its own among them.

Where a link is down: 4. What would have gone over it is handed, all in one copy, to a region mate that has not tried
yet (`tried` has the clusters that have). If there is none, to a neighbouring region, once from each (`left`), as if it
were to go around. 5. A cluster in todo whose broker here cannot be reached is taken to the
nearest region that it has not been to (`seen`), and when it has been to all, to a region mate that has not tried. 6. If
nothing is left to try, it is put on the link that is down, where the host keeps or drops it.

**Exactly once.** Each interested broker is in the dests of exactly one copy, or its cluster in the todo of exactly one:
step 1 replaces a bit by its brokers once, all other steps divide. **It ends.** On an aLink a destination comes closer,
but for the first hop of a region mate on its way around; each hop inside a region adds to `tried` or is the last; a bit
of todo comes closer to a region it has not seen. **Hops**: at most diam(G_af) + 2 while all links are up: to the chosen
tree, along it, and to the destination; or three, around.

**Any k - 1 brokers dead**: they touch at most k - 1 of the k copies of a tree edge, and those left of a region are all
linked. So among the region mates that are alive one has the next hop alive, and each is tried at most once.

The decision depends on the queues only through the tree, which the header of a publication
names; and on which links are up, whose every change makes the table forget all decisions (`FdrState`).
"""

from collections.abc import Sequence
from functools import lru_cache

from octopia.routing.clients import Registered
from octopia.routing.decision import Decision
from octopia.routing.fdr.places import AROUND, nearest_regions
from octopia.routing.fdr.state import DestsMatched, FdrState
from octopia.routing.messages import Chosen, Dests
from octopia.topology import BrokerId, civ

# A neighbour, and tried, seen and left of a copy for it.
_Copy = tuple[BrokerId, int, int, int]


def first_header(state: FdrState, satisfied: Sequence[Registered]) -> Chosen:
    """The clusters that this broker does not hold in full, and the tree."""
    todo = state.cut_off
    for registered in satisfied:
        entry = state.srt.get(registered.key)
        if entry is not None:
            todo |= entry.unknown
    return _chosen(todo, state.tree())


@lru_cache(maxsize=1024)
def _chosen(todo: int, tree: int) -> Chosen:
    return Chosen(todo, tree)


def links_seen(state: FdrState) -> int:
    """Nothing that is not in the header; it is here since a routing without it is not told of queues."""
    return 0


def route(state: FdrState, matched: DestsMatched, header: Dests | Chosen, came_by: BrokerId | None) -> Decision:
    return _begin(state, matched, header) if isinstance(header, Chosen) else _go_on(state, matched, header, came_by)


def _begin(state: FdrState, matched: DestsMatched, chosen: Chosen) -> Decision:
    """At the host broker."""
    dests = matched.dests & ~state.me
    for cluster in civ.bits(chosen.todo):
        dests &= ~state.places.clusters[cluster]
    onward = _Onward(state, None)
    if chosen.tree == AROUND:
        dests = onward.send_mates_around(dests)
    first = state.i_link_to.get(chosen.tree)
    if dests and first is not None and first in state.up:
        onward.send_to_tree(first, dests)
    else:
        onward.send_dests(dests)
    onward.send_todo(chosen.todo)
    return Decision(matched.recipients, onward.copies())


def _go_on(state: FdrState, matched: DestsMatched, header: Dests, came_by: BrokerId | None) -> Decision:
    onward = _Onward(state, came_by, header.tried, header.seen, header.left)
    onward.send_dests(header.dests & ~state.me)
    onward.send_todo(header.todo & ~state.own_bit)
    resolves = header.todo & state.own_bit
    if resolves:
        # what was tried for others says nothing about these
        onward = _Onward(state, came_by, to=onward.to)
        onward.send_dests(matched.dests & state.places.clusters[state.id.cluster] & ~state.me)
    recipients = matched.recipients if resolves or header.dests & state.me else ()
    return Decision(recipients, onward.copies())


class _Onward:
    """What goes where: `to` has, by neighbour and what did not work (tried, seen, left), dests and todo of a copy.

    While all links are up a neighbour gets at most one. Others are not put together: what did not work for one
    destination may work for the other.
    """

    __slots__ = ("_came_by", "_left", "_seen", "_state", "_tried", "to")

    def __init__(
        self,
        state: FdrState,
        came_by: BrokerId | None,
        tried: int = 0,
        seen: int = 0,
        left: int = 0,
        to: dict[_Copy, list[int]] | None = None,
    ) -> None:
        self._state = state
        self._came_by = came_by
        self._tried = tried
        self._seen = seen
        self._left = left
        self.to: dict[_Copy, list[int]] = {} if to is None else to

    def copies(self) -> tuple[tuple[BrokerId, Dests], ...]:
        # sorting keeps those for the same neighbour as they are
        order = self._state.order
        made = sorted(self.to.items(), key=lambda copy: order[copy[0][0]])
        return tuple((to, Dests(dests, todo, *what)) for (to, *what), (dests, todo) in made)

    def _add_dests(self, to: BrokerId, dests: int, left: int, tried: int = 0) -> None:
        self.to.setdefault((to, tried, 0, left), [0, 0])[0] |= dests

    def _add_todo(self, to: BrokerId, todo: int, seen: int, tried: int = 0) -> None:
        self.to.setdefault((to, tried, seen, 0), [0, 0])[1] |= todo

    def send_to_tree(self, first: BrokerId, dests: int) -> None:
        self._add_dests(first, dests, self._left)

    def send_dests(self, dests: int) -> None:
        """Along the own tree, and to region mates."""
        state, up, left, came_by = self._state, self._state.up, self._left, self._came_by
        cut: list[tuple[BrokerId, int]] = []
        for to, lies_there in state.ways:
            part = dests & lies_there
            if part and to == came_by:
                part = self._send_back(part)
            if part and to in up and not (left and to == came_by):
                self._add_dests(to, part, left)
            elif part:
                cut.append((to, part))
        if cut:
            self._hand_over(cut)

    def send_mates_around(self, dests: int) -> int:
        """Put region mates on the copy for a neighbouring region; what is left."""
        state = self._state
        for to, lies_there in state.ways:
            if dests & lies_there and to in state.up_a_links:
                self._add_dests(to, dests & state.near, 0)
                return dests & ~state.near
        return dests

    def _send_back(self, dests: int) -> int:
        """Destinations beyond the link they came by are reached from the region mate in their cluster; what is left."""
        state = self._state
        for mate in state.up_i_links:
            part = dests & state.places.clusters[mate.cluster]
            if part:
                self._add_dests(mate, part, self._left)
                dests &= ~part
        return dests

    def _hand_over(self, cut: list[tuple[BrokerId, int]]) -> None:
        """To a region mate; or to a neighbouring region, once from each region; or else on the link that is down."""
        state, left, came_by = self._state, self._left, self._came_by
        mate, here = self._untried_mate(), self._state.places.here
        near = [to for to in state.up_a_links if to != came_by] or [to for to in state.up_a_links if to == came_by]
        for to, part in cut:
            if mate is not None:
                self._add_dests(mate, part, left, self._tried | state.own_bit)
            elif near and not left & here:
                self._add_dests(near[0], part, left | here)
            else:
                self._add_dests(to, part, left)

    def _untried_mate(self) -> BrokerId | None:
        up, tried = self._state.up, self._tried
        return next((mate for mate in self._state.mates if mate in up and not tried >> mate.cluster & 1), None)

    def send_todo(self, todo: int) -> None:
        state = self._state
        cut = 0
        for cluster in civ.bits(todo):
            mate = state.i_link_to.get(cluster)
            if mate is not None and mate in state.up:
                self._add_todo(mate, civ.bit(cluster), 0)
            elif mate is not None:
                cut |= civ.bit(cluster)
        if cut:
            self._carry(cut)

    def _carry(self, todo: int) -> None:
        """Take clusters whose brokers cannot be reached here to where they have not been sought."""
        state = self._state
        seen, tried = self._seen | state.places.here, self._tried | state.own_bit
        mate = self._untried_mate()
        near = {neighbour.region: neighbour for neighbour in state.a_links}
        for place, towards in nearest_regions(state.overlay, state.id.region):
            if not seen >> place & 1:
                if near[towards] in state.up:
                    self._add_todo(near[towards], todo, seen)
                    return
                if mate is not None:
                    self._add_todo(mate, todo, self._seen, tried)
                    return
        if mate is not None:
            self._add_todo(mate, todo, seen, tried)
            return
        for cluster in civ.bits(todo):
            self._add_todo(state.i_link_to[cluster], civ.bit(cluster), 0)
