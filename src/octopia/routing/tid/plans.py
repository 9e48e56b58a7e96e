"""Plans of dynamic TID routing: the options for the routes of a copy at a broker, independent of the queues.

Notifications of one publisher that match the same subscriptions carry the same routes. Everything that does not depend
on the queues is computed once: whether the copy is for clients of this broker, which routes have a single way on, and
between which ways the others choose. The copies for each choice of ways are computed once, too.

A plan depends only on the routes and the matching subscriptions. It is dropped when its table clears its matches. Equal
choices give identical header objects, so that queued messages share them and each is hashed once.
"""

from collections.abc import Callable, Mapping

from octopia.protocol import Key, Route, Routes
from octopia.routing.congestion import Lst
from octopia.topology import BrokerId

# A next hop, and the tree that leads there.
Way = tuple[BrokerId, Key]
# By destination the ways on: the first is the present tree's.
Ways = Mapping[BrokerId, tuple[Way, ...]]
Copies = tuple[tuple[BrokerId, Routes], ...]


# Called with the number of additional routes cached.
Count = Callable[[int], None]


class RoutePlan:
    """The treatment of a copy with these routes at a broker."""

    __slots__ = ("_choices", "_count", "_neighbours", "_onward", "_outcomes", "_routes", "is_for_us")

    def __init__(
        self,
        here: BrokerId,
        neighbours: tuple[BrokerId, ...],
        routes: Routes,
        ways: Callable[[Key], Ways],
        count: Count,
    ) -> None:
        self._routes = routes
        # a copy without a route to this broker is not for its clients
        self.is_for_us = any(route.destination == here for route in routes.routes)
        self._neighbours = neighbours
        self._count = count
        # routes that continue, and the ways open to each: the present tree, and those that it may change to
        self._onward: list[tuple[Route, tuple[Way, ...]]] = []
        for route in routes.routes:
            found = ways(route.tid).get(route.destination)
            if found is not None:
                self._onward.append((route, (found[0], *(way for way in found[1:] if way[1] not in route.left))))
        self._choices = [tuple(hop for hop, _ in possible) for _, possible in self._onward if len(possible) > 1]
        # copies by the chosen ways, if there is a choice, encoded as one number
        self._outcomes: dict[int, Copies] = {}
        count(len(routes.routes) + 1)

    @property
    def has_choice(self) -> bool:
        return bool(self._choices)

    def copies(self, lst: Lst, came_by: BrokerId | None) -> Copies:
        """One copy per next hop, with its routes: each by the way with the least Q_l, never back."""
        chosen = 0
        if lst.queues:
            for hops in self._choices:
                chosen = chosen * len(hops) + least_loaded(hops, lst.queue_lengths, came_by)
        try:
            return self._outcomes[chosen]
        except KeyError:
            outcome = self._outcomes[chosen] = self._grouped(chosen)
            self._count(len(self._onward) + 1)
            return outcome

    def _grouped(self, chosen: int) -> Copies:
        taken: list[tuple[Route, Way]] = []
        for route, ways in reversed(self._onward):
            chosen, choice = divmod(chosen, len(ways))
            taken.append((route, ways[choice]))
        by_hop: dict[BrokerId, list[Route]] = {}
        for route, (hop, tid) in reversed(taken):
            changed = route if tid == route.tid else Route(route.destination, tid, (*route.left, route.tid))
            by_hop.setdefault(hop, []).append(changed)
        if [self._routes.routes] == [tuple(routes) for routes in by_hop.values()]:
            # all routes continue together unchanged, so the header can be reused
            return ((next(iter(by_hop)), self._routes),)
        return tuple((hop, Routes(tuple(by_hop[hop]))) for hop in self._neighbours if hop in by_hop)


def least_loaded(hops: tuple[BrokerId, ...], queue_lengths: Mapping[BrokerId, int], came_by: BrokerId | None) -> int:
    """Which of these has the least Q_l, never the one it came by; the first, the present tree's, wins ties."""
    best = 0
    least = queue_lengths[hops[0]]
    if least:
        for number, hop in enumerate(hops):
            length = queue_lengths[hop]
            if length < least and hop != came_by:
                best, least = number, length
    return best
