"""State of a broker in TID routing: subscriptions bound to advertisement trees, and trees that are fading.

Rules of this file: a subscription is stored once per broker, with one binding per tree: the neighbour it came from on
that tree, or None at its host broker. A subscription with no binding left is forgotten, except at its host broker. A
tree fades from the moment a broker first hears that it was withdrawn until every neighbour has said so: while it fades,
late copies of its flood are still under way and must not bring it back.
"""

from collections.abc import Callable
from functools import partial

from octopia.language import Filter
from octopia.routing.clients import Limits
from octopia.routing.congestion import CongestionParameters
from octopia.routing.entries import PrtEntry
from octopia.routing.index import MakeIndex
from octopia.routing.local import recipients_of
from octopia.routing.messages import Key, Route, Routes, Tree
from octopia.routing.state import BrokerState
from octopia.routing.tables import Matched, SubscriptionTable
from octopia.routing.tid.plans import Plan, Way
from octopia.topology import BrokerId, Scot

# Told that so much more is remembered with a match.
Count = Callable[["TreeMatched", int], None]


class BoundEntry(PrtEntry):
    """A subscription and its bindings: tree id -> the neighbour it came from, None where it is hosted here."""

    __slots__ = ("bindings",)

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, client: str = "", id: str = "") -> None:
        super().__init__(key, filter, last_hop, client, id)
        self.bindings: dict[Key, BrokerId | None] = {}


class TreeMatched(Matched):
    """Whom a notification goes to from here: clients of this broker, and per tree the neighbours and the ways."""

    __slots__ = ("_count", "_here", "_neighbours", "_plans", "_remote", "_ways")

    def __init__(
        self, matching: list[BoundEntry], here: BrokerId, neighbours: tuple[BrokerId, ...], count: Count
    ) -> None:
        super().__init__(recipients_of(entry for entry in matching if entry.last_hop is None))
        self._remote = sorted((entry for entry in matching if entry.last_hop is not None), key=_key)
        self._here = here
        self._neighbours = neighbours
        self._ways: dict[Key, dict[BrokerId, tuple[Way, ...]]] = {}
        self._plans: dict[Routes | Tree, Plan] = {}
        self._count = count

    def hops(self, tid: Key) -> tuple[BrokerId, ...]:
        """The neighbours that subscriptions bound to this tree came from."""
        bound = {entry.bindings.get(tid): None for entry in self._remote}
        return tuple(hop for hop in self._neighbours if hop in bound)

    def ways(self, tid: Key) -> dict[BrokerId, tuple[Way, ...]]:
        """For every destination on this tree the next hops towards it: on this tree, then on others it may change to.

        Another tree will do only if all matching subscriptions of the destination are bound to it.
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

    def plan(self, header: Routes | Tree) -> Plan:
        """What becomes of a copy with this header; one with a tree goes to every destination on it."""
        found = self._plans.get(header)
        if found is None:
            if isinstance(header, Tree):
                routes = Routes(tuple(Route(destination, header.tid, ()) for destination in self.ways(header.tid)))
            else:
                routes = header
            count = partial(self._count, self)
            found = Plan(self._here, self._neighbours, routes, self.recipients, self.ways, count)
            self._plans[header] = found
        return found


def _ways(tid: Key, entries: list[BoundEntry]) -> tuple[Way, ...]:
    first, *others = entries
    shared = [other for other in first.bindings if other != tid and all(other in entry.bindings for entry in others)]
    hops = ((first.bindings[each], each) for each in (tid, *shared))
    return tuple((hop, each) for hop, each in hops if hop is not None)


class TreePrt(SubscriptionTable[BoundEntry, TreeMatched]):
    """The subscription table of TID routing: one index for all, since what matches a notification is bound to its tree.

    A subscription that a notification matches overlaps the advertisement that the notification conforms to, so that an
    index per tree would find the same, at the price of as many indexes as there are trees.
    """

    __slots__ = ("_here", "_neighbours")

    def __init__(self, make_index: MakeIndex, here: BrokerId, neighbours: tuple[BrokerId, ...]) -> None:
        super().__init__(make_index)
        self._here = here
        self._neighbours = neighbours

    def local_overlapping(self, advertisement: Filter) -> list[BoundEntry]:
        """Subscriptions of this broker's own clients that overlap an advertisement, in order of subscription."""
        own = [entry for entry in self._index.overlapping(advertisement) if entry.last_hop is None]
        return sorted(own, key=_key)

    def bind_own(self, entry: BoundEntry, tids: tuple[Key, ...]) -> None:
        """Bind a subscription of this broker's own client."""
        entry.bindings.update(dict.fromkeys(tids))
        self.forget_matches()

    def bind(self, key: Key, filter: Filter, tid: Key, came_from: BrokerId) -> bool:
        """Bind a neighbour's subscription to a tree; False where it was bound already."""
        entry = self._entries.get(key)
        if entry is None:
            entry = BoundEntry(key, filter, came_from)
            self.add(entry)
        elif tid in entry.bindings:
            return False
        entry.bindings[tid] = came_from
        self.forget_matches()
        return True

    def unbind(self, key: Key, tid: Key, came_from: BrokerId) -> bool:
        """Undo `bind`; False where there is no such binding."""
        entry = self._entries.get(key)
        if entry is None or entry.bindings.get(tid) != came_from:
            return False
        del entry.bindings[tid]
        self.forget_matches()
        if not entry.bindings:
            self.remove(key)
        return True

    def forget_tree(self, tid: Key) -> None:
        """Drop all bindings to a tree, and the subscriptions that had no other."""
        self.forget_matches()
        for entry in list(self._entries.values()):
            if entry.bindings.pop(tid, self) is not self and not entry.bindings and entry.last_hop is not None:
                self.remove(entry.key)

    def _find_out(self, matching: list[BoundEntry]) -> TreeMatched:
        return TreeMatched(matching, self._here, self._neighbours, self.remember_more)


class TidState(BrokerState):
    """`fading`: tree id -> the neighbours that have not yet said that the tree is withdrawn."""

    __slots__ = ("fading", "prt")

    def __init__(
        self,
        id: BrokerId,
        overlay: Scot,
        congestion: CongestionParameters,
        limits: Limits,
        make_index: MakeIndex,
        first_serial: int,
    ) -> None:
        super().__init__(id, overlay, congestion, limits, make_index, first_serial)
        self.prt = TreePrt(make_index, id, self.neighbours)
        self.fading: dict[Key, dict[BrokerId, None]] = {}

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
