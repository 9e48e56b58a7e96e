"""How subscriptions spread towards the roots of trees: all of them, or those that others do not cover.

    none   every subscription, on every tree that it is bound to
    host   like none, but of its own clients' subscriptions, a broker sends on a tree only those that no other covers
    link   of the subscriptions bound to a tree, only those that no other one sent on that tree covers

A subscription and its cover overlap the same advertisements, but may be bound to their trees at different times. So
covering works tree by tree: for each tree, a broker keeps a `CoverSet` of the subscriptions that are bound to it and
forwarded towards its root. On one link, the sets of all trees that lead there share messages.

A subscription is in the set of a tree exactly while it is bound to it here (under host: and a client of this broker has
it), and the tree is known and not rooted here. On each link new subscriptions are sent before withdrawals. Trees with
the same next hop share the message.
"""

from collections.abc import Iterable

from octopia.protocol import Key, Subscribe, Unsubscribe
from octopia.routing.actions import Action, Send
from octopia.routing.covering import Change, CoverSet, Pool
from octopia.routing.tid.state import BoundEntry, TidState
from octopia.topology import BrokerId


class OnEveryTree:
    """Every subscription, on every tree that it is bound to."""

    def changed(self, state: TidState, entry: BoundEntry, tids: tuple[Key, ...], came: bool, out: list[Action]) -> None:
        for hop, group in state.hops_towards(tids).items():
            out.append(Send(hop, subscribe_message(entry, group) if came else Unsubscribe(entry.key, group)))

    def forget_tree(self, tid: Key) -> None:
        """Nothing is kept by tree."""


class PerTree(OnEveryTree):
    """One set per tree; with `own_only`, only of subscriptions by this broker's own clients."""

    def __init__(self, *, own_only: bool) -> None:
        self._own_only = own_only
        self._pool: Pool[BoundEntry] = Pool()
        self._sets: dict[Key, CoverSet[BoundEntry]] = {}

    def changed(self, state: TidState, entry: BoundEntry, tids: tuple[Key, ...], came: bool, out: list[Action]) -> None:
        if self._own_only and entry.last_hop is not None:
            super().changed(state, entry, tids, came, out)
            return
        for hop, group in state.hops_towards(tids).items():
            _send(hop, ((tid, self._set(tid).change(entry, came)) for tid in group), out)

    def forget_tree(self, tid: Key) -> None:
        gone = self._sets.pop(tid, None)
        if gone is not None:
            gone.clear()

    def _set(self, tid: Key) -> CoverSet[BoundEntry]:
        found = self._sets.get(tid)
        if found is None:
            found = self._sets[tid] = CoverSet(self._pool)
        return found


def subscribe_message(entry: BoundEntry, tids: tuple[Key, ...]) -> Subscribe:
    return Subscribe(entry.key, entry.filter, tids, entry.priority)


def _send(hop: BrokerId, changes: Iterable[tuple[Key, Change[BoundEntry]]], out: list[Action]) -> None:
    """All changes on the trees that lead to one neighbour, with each subscription in one message."""
    sent: dict[Key, tuple[BoundEntry, list[Key]]] = {}
    withdrawn: dict[Key, list[Key]] = {}
    for tid, change in changes:
        for entry in change.send:
            sent.setdefault(entry.key, (entry, []))[1].append(tid)
        for key in change.withdraw:
            withdrawn.setdefault(key, []).append(tid)
    out.extend(Send(hop, subscribe_message(entry, tuple(tids))) for entry, tids in sent.values())
    out.extend(Send(hop, Unsubscribe(key, tuple(tids))) for key, tids in withdrawn.items())


def per_host(state: TidState) -> None:
    state.spread = PerTree(own_only=True)


def per_link(state: TidState) -> None:
    state.spread = PerTree(own_only=False)
