"""State of a broker in TID routing: subscriptions bound to advertisement trees, and trees that are fading.

A subscription is stored once per broker, with one binding per tree: the neighbour it came from on that tree, or None at
its host broker. A subscription without any binding is dropped, except at its host broker. A tree is fading from the
moment a broker first hears that it was withdrawn until every neighbour has withdrawn it: meanwhile late copies of its
flood may still be in flight and must not bring it back.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from octopia.language import Filter
from octopia.protocol import Key, Route, Routes, TreeHeader
from octopia.routing.actions import Action
from octopia.routing.entries import PrtEntry, recipients_of
from octopia.routing.index import MakeIndex
from octopia.routing.priorities import or_none
from octopia.routing.state import BrokerState, Setup
from octopia.routing.tables import Matched, SubscriptionTable
from octopia.routing.tid.plans import RoutePlan, Way
from octopia.topology import BrokerId

# Called with the growth of the data cached with a match.
Count = Callable[["TreeMatched", int], None]


class BoundEntry(PrtEntry):
    """A subscription and its bindings: tree id -> the neighbour it came from, or None if it is hosted here."""

    __slots__ = ("bindings",)

    def __init__(
        self,
        key: Key,
        filter: Filter,
        last_hop: BrokerId | None,
        client: str = "",
        id: str = "",
        priority: int = 0,
    ) -> None:
        super().__init__(key, filter, last_hop, client, id, priority)
        self.bindings: dict[Key, BrokerId | None] = {}


class TreeMatched(Matched):
    """The targets of a notification from here: clients of this broker, and per tree the neighbours and the ways."""

    __slots__ = ("_count", "_here", "_neighbours", "_plans", "_remote", "_ways", "urgent")

    def __init__(
        self, matching: list[BoundEntry], here: BrokerId, neighbours: tuple[BrokerId, ...], count: Count
    ) -> None:
        super().__init__(recipients_of(entry for entry in matching if entry.last_hop is None))
        self._remote = sorted((entry for entry in matching if entry.last_hop is not None), key=_key)
        # whether a subscription at another broker is urgent
        self.urgent = any(entry.priority for entry in self._remote)
        self._here = here
        self._neighbours = neighbours
        self._ways: dict[Key, dict[BrokerId, tuple[Way, ...]]] = {}
        self._plans: dict[Routes | TreeHeader, RoutePlan] = {}
        self._count = count

    def hops(self, tid: Key) -> tuple[BrokerId, ...]:
        """The neighbours that subscriptions bound to this tree came from."""
        bound = {entry.bindings.get(tid): None for entry in self._remote}
        return tuple(hop for hop in self._neighbours if hop in bound)

    def hop_priorities(self, tid: Key, hops: Iterable[BrokerId]) -> tuple[int, ...] | None:
        """For each of these hops the priority of the most urgent subscription that came from there on this tree."""
        found: dict[BrokerId | None, int] = {}
        for entry in self._remote:
            hop = entry.bindings.get(tid)
            found[hop] = max(found.get(hop, 0), entry.priority)
        return or_none(found.get(hop, 0) for hop in hops)

    def route_priorities(self, copies: Iterable[tuple[BrokerId, Routes]]) -> tuple[int, ...] | None:
        """For each of these copies the priority of the most urgent subscription at one of its destinations."""
        found: dict[BrokerId, int] = {}
        for entry in self._remote:
            host = entry.key.host
            found[host] = max(found.get(host, 0), entry.priority)
        return or_none(max(found.get(route.destination, 0) for route in header.routes) for _, header in copies)

    def ways(self, tid: Key) -> dict[BrokerId, tuple[Way, ...]]:
        """For every destination on this tree the next hops towards it: on this tree, then on others it may change to.

        Another tree qualifies only if all matching subscriptions of the destination are bound to it.
        """
        found = self._ways.get(tid)
        if found is None:
            by_destination: dict[BrokerId, list[BoundEntry]] = {}
            for entry in self._remote:
                if tid in entry.bindings:
                    by_destination.setdefault(entry.key.host, []).append(entry)
            found = {destination: _ways(tid, entries) for destination, entries in by_destination.items()}
            self._ways[tid] = found
        return found

    def plan(self, header: Routes | TreeHeader) -> RoutePlan:
        """The plan for a copy with this header; a header with a tree goes to every destination on it."""
        found = self._plans.get(header)
        if found is None:
            if isinstance(header, TreeHeader):
                routes = Routes(tuple(Route(destination, header.tid, ()) for destination in self.ways(header.tid)))
            else:
                routes = header
            count = partial(self._count, self)
            found = RoutePlan(self._here, self._neighbours, routes, self.ways, count)
            self._plans[header] = found
        return found


def _ways(tid: Key, entries: list[BoundEntry]) -> tuple[Way, ...]:
    first, *others = entries
    shared = [other for other in first.bindings if other != tid and all(other in entry.bindings for entry in others)]
    hops = ((first.bindings[each], each) for each in (tid, *shared))
    return tuple((hop, each) for hop, each in hops if hop is not None)


class TreePrt(SubscriptionTable[BoundEntry, TreeMatched]):
    """The subscription table of TID routing: one index for all, since all matches are bound to the tree.

    A subscription that a notification matches overlaps the advertisement that the notification conforms to, so an index
    per tree would find the same, at the cost of one index per tree.
    """

    __slots__ = ("_here", "_neighbours")

    def __init__(self, make_index: MakeIndex, here: BrokerId, neighbours: tuple[BrokerId, ...]) -> None:
        super().__init__(make_index)
        self._here = here
        self._neighbours = neighbours

    @staticmethod
    def way_of(entry: BoundEntry) -> Key:
        """Every subscription is bound to trees of its own."""
        return entry.key

    @staticmethod
    def stand_in(entry: BoundEntry) -> BoundEntry:
        """Itself, with the bindings that it will get."""
        return entry

    def local_overlapping(self, advertisement: Filter) -> list[BoundEntry]:
        """Subscriptions of this broker's own clients that overlap an advertisement, in order of subscription."""
        own = [entry for entry in self._index.overlapping(advertisement) if entry.last_hop is None]
        return sorted(own, key=_key)

    def bind_own(self, entry: BoundEntry, tids: tuple[Key, ...]) -> None:
        """Bind a subscription of this broker's own client."""
        entry.bindings.update(dict.fromkeys(tids))
        self.forget_matches()

    def bind(self, key: Key, filter: Filter, tid: Key, came_from: BrokerId, priority: int = 0) -> bool:
        """Bind a neighbour's subscription to a tree; False if it was bound already."""
        entry = self._entries.get(key)
        if entry is None:
            entry = BoundEntry(key, filter, came_from, priority=priority)
            self.add(entry)
        elif tid in entry.bindings:
            return False
        entry.bindings[tid] = came_from
        self.forget_matches()
        return True

    def unbind(self, key: Key, tid: Key, came_from: BrokerId) -> bool:
        """Undo `bind`; False if there is no such binding."""
        entry = self._entries.get(key)
        if entry is None or entry.bindings.get(tid) != came_from:
            return False
        del entry.bindings[tid]
        self.forget_matches()
        if not entry.bindings:
            self.remove(key)
        return True

    def forget_tree(self, tid: Key) -> None:
        """Drop all bindings to a tree, and subscriptions without any other."""
        self.forget_matches()
        for entry in list(self._entries.values()):
            if entry.bindings.pop(tid, self) is not self and not entry.bindings and entry.last_hop is not None:
                self.remove(entry.key)

    def _find_out(self, matching: list[BoundEntry]) -> TreeMatched:
        return TreeMatched(matching, self._here, self._neighbours, self.remember_more)


class TreeSpreading(Protocol):
    """How a broker updates the brokers towards the roots when bindings come and go (`spread.py`)."""

    def changed(
        self, state: "TidState", entry: BoundEntry, tids: tuple[Key, ...], came: bool, out: list[Action]
    ) -> None:
        """Bindings of a subscription to these trees came, or went."""

    def forget_tree(self, tid: Key) -> None:
        """Drop a withdrawn tree; all bindings to it are gone."""


class TidState(BrokerState):
    """`fading`: tree id -> the neighbours that have not yet withdrawn the tree.

    `spread` is how subscriptions go on towards the roots; the policy chooses it.
    """

    __slots__ = ("fading", "prt", "spread")

    def __init__(self, setup: Setup, spread: TreeSpreading) -> None:
        super().__init__(setup)
        self.prt = TreePrt(setup.make_index, self.id, self.neighbours)
        self.fading: dict[Key, dict[BrokerId, None]] = {}
        self.spread = spread

    def hops_towards(self, tids: tuple[Key, ...]) -> dict[BrokerId, tuple[Key, ...]]:
        """The trees grouped by the next broker towards their roots; trees rooted here or unknown are left out."""
        grouped: dict[BrokerId, list[Key]] = {}
        for tid in tids:
            entry = self.srt.get(tid)
            if entry is not None and entry.last_hop is not None:
                grouped.setdefault(entry.last_hop, []).append(tid)
        return {hop: tuple(grouped[hop]) for hop in self.neighbours if hop in grouped}


def _key(entry: BoundEntry) -> Key:
    return entry.key
