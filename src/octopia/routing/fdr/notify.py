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
beyond the link they came by, and are handed to the broker of their own cluster (or go back, where a link is down). So a
host broker with k - 1 iLinks and an aLink has k trees that share no directed link, its own among them.

Where a link is down: 3. A copy has with it the links that it found to be down (`down`). What would have gone over a
link that is down goes by the best way without these and without all links of this broker that are down (`ways.py`),
together with whatever else goes there. 4. What no way leads to is put on a link that is down, where the host drops it.

**Exactly once.** Each destination is in the dests of exactly one copy: all steps divide. **It ends**, and **whatever is
reachable is reached**, with any brokers and links dead: `ways.py` says why. While no link is known to be down each hop
brings a destination closer as well, but for the host broker's hop to the chosen tree, and for two hops around.
**Hops**: at most diam(G_af) + 2 while all links are up: to the chosen tree, along it, and to the destination; or three,
around.

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


def route(state: FdrState, matched: DestsMatched, header: Dests | Chosen, came_by: BrokerId | None) -> Decision:
    if isinstance(header, Chosen):
        return _begin(state, matched, header)
    if came_by is not None:
        check_header(state, header, came_by)
    return _go_on(state, matched, header, came_by)


def _begin(state: FdrState, matched: DestsMatched, chosen: Chosen) -> Decision:
    """At the host broker."""
    dests = (matched.dests | chosen.in_doubt) & ~(state.written_off | state.me)
    first = state.i_link_to.get(chosen.tree)
    if dests and first is not None and first in state.up:
        return Decision(matched.recipients, ((first, Dests(dests)),))
    onward = _Onward(state)
    if chosen.tree == AROUND:
        dests = onward.send_mates_around(dests)
    onward.send(dests)
    return Decision(matched.recipients, onward.copies())


def _go_on(state: FdrState, matched: DestsMatched, header: Dests, came_by: BrokerId | None) -> Decision:
    dests = header.dests & ~state.me
    onward = _Onward(state, header.down)
    if came_by in state.a_links and not header.down and not state.down:
        dests = onward.send_back(dests, came_by)
    onward.send(dests)
    return Decision(matched.recipients if header.dests & state.me else (), onward.copies())


class _Onward:
    """What goes where: `to` has, by neighbour, the dests of its copy and the links that the copy found to be down."""

    __slots__ = ("_down", "_state", "to")

    def __init__(self, state: FdrState, down: int = 0) -> None:
        self._state = state
        self._down = down
        self.to: dict[BrokerId, tuple[int, int]] = {}

    def copies(self) -> tuple[tuple[BrokerId, Dests], ...]:
        to = self.to
        return tuple((neighbour, Dests(*to[neighbour])) for neighbour in self._state.neighbours if neighbour in to)

    def _add(self, to: BrokerId, dests: int, down: int) -> None:
        others, known = self.to.get(to, (0, 0))
        self.to[to] = (others | dests, known | down)

    def send(self, dests: int) -> None:
        state, up, down = self._state, self._state.up, self._down
        for to, leads_to in state.ways_without(down) if down else state.ways:
            part = dests & leads_to
            if part and to in up:
                self._add(to, part, down)
                dests &= ~part
        if dests:
            self._send_another_way(dests)

    def _send_another_way(self, dests: int) -> None:
        """Without the links of this broker that are down, which nobody on the way needs to try again."""
        state, down = self._state, self._down | self._state.down
        for to, leads_to in state.ways_without(down):
            part = dests & leads_to
            if part:
                self._add(to, part, down)
                dests &= ~part
        for to, lies_there in state.ways:
            part = dests & lies_there
            if part:
                # should the host keep it, the link will have come up: all that was found before is out of date
                last, without = state.last_way(to)
                self._add(last, part, without)

    def send_mates_around(self, dests: int) -> int:
        """Put region mates on the copy for a neighbouring region; what is left."""
        state = self._state
        for to, lies_there in state.ways:
            if dests & lies_there and to in state.up_a_links:
                self._add(to, dests & state.near, 0)
                return dests & ~state.near
        return dests

    def send_back(self, dests: int, came_by: BrokerId) -> int:
        """Region mates of the host broker are reached from the mate in their cluster; what is left."""
        state = self._state
        back = dests & state.places.beyond[came_by.region]
        if back:
            for mate in state.up_i_links:
                part = back & state.places.clusters[mate.cluster]
                if part:
                    self._add(mate, part, 0)
            dests &= ~back
        return dests
