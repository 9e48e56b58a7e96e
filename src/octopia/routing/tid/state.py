"""State of a broker in TID routing: subscriptions bound to advertisement trees, and trees that are fading.

Rules of this file: a subscription is stored once per broker, with one binding per tree: the neighbour it came from on
that tree, or None at its host broker. A subscription with no binding left is forgotten, except at its host broker. A
tree fades from the moment a broker first hears that it was withdrawn until every neighbour has said so: while it fades,
late copies of its flood are still under way and must not bring it back.
"""

from octopia.language import Filter, Notification
from octopia.routing.clients import Limits
from octopia.routing.congestion import CongestionParameters
from octopia.routing.messages import Key
from octopia.routing.state import BrokerState
from octopia.routing.tables import PrtEntry, Table
from octopia.topology import BrokerId, Scot


class BoundEntry(PrtEntry):
    """A subscription and its bindings: tree id -> the neighbour it came from, None where it is hosted here."""

    __slots__ = ("bindings",)

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, client: str = "", id: str = "") -> None:
        super().__init__(key, filter, last_hop, client, id)
        self.bindings: dict[Key, BrokerId | None] = {}


class TreePrt(Table[BoundEntry]):
    """The subscription table of TID routing: one index for all, since what matches a notification is bound to its tree.

    A subscription that a notification matches overlaps the advertisement that the notification conforms to, so that an
    index per tree would find the same, at the price of as many indexes as there are trees.
    """

    __slots__ = ()

    def local_overlapping(self, advertisement: Filter) -> list[BoundEntry]:
        """Subscriptions of this broker's own clients that overlap an advertisement, in order of subscription."""
        own = [entry for entry in self._index.overlapping(advertisement) if entry.last_hop is None]
        return sorted(own, key=lambda entry: entry.key)

    def bind(self, key: Key, filter: Filter, tid: Key, came_from: BrokerId) -> bool:
        """Bind a neighbour's subscription to a tree; False where it was bound already."""
        entry = self._entries.get(key)
        if entry is None:
            entry = BoundEntry(key, filter, came_from)
            self.add(entry)
        elif tid in entry.bindings:
            return False
        entry.bindings[tid] = came_from
        return True

    def unbind(self, key: Key, tid: Key, came_from: BrokerId) -> bool:
        """Undo `bind`; False where there is no such binding."""
        entry = self._entries.get(key)
        if entry is None or entry.bindings.get(tid) != came_from:
            return False
        del entry.bindings[tid]
        if not entry.bindings:
            self.remove(key)
        return True

    def forget_tree(self, tid: Key) -> None:
        """Drop all bindings to a tree, and the subscriptions that had no other."""
        for entry in list(self._entries.values()):
            if entry.bindings.pop(tid, self) is not self and not entry.bindings and entry.last_hop is not None:
                self.remove(entry.key)

    def match(self, notification: Notification) -> tuple[list[BoundEntry], list[BoundEntry]]:
        """The subscriptions that a notification matches: those of this broker's clients, and those of neighbours."""
        local: list[BoundEntry] = []
        remote: list[BoundEntry] = []
        for entry in self._index.match(notification):
            (local if entry.last_hop is None else remote).append(entry)
        return local, remote


class TidState(BrokerState):
    """`fading`: tree id -> the neighbours that have not yet said that the tree is withdrawn."""

    __slots__ = ("fading", "prt")

    def __init__(
        self, id: BrokerId, overlay: Scot, congestion: CongestionParameters, limits: Limits, first_serial: int
    ) -> None:
        super().__init__(id, overlay, congestion, limits, first_serial)
        self.prt = TreePrt()
        self.fading: dict[Key, dict[BrokerId, None]] = {}

    def hops_towards(self, tids: tuple[Key, ...]) -> dict[BrokerId, tuple[Key, ...]]:
        """The trees grouped by the next broker towards their roots; trees rooted here or unknown are left out."""
        grouped: dict[BrokerId, list[Key]] = {}
        for tid in tids:
            entry = self.srt.get(tid)
            if entry is not None and entry.last_hop is not None:
                grouped.setdefault(entry.last_hop, []).append(tid)
        return {hop: tuple(grouped[hop]) for hop in self.neighbours if hop in grouped}
