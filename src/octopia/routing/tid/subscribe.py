"""Subscriptions in TID routing: bound to the trees of the overlapping advertisements, along their reverse paths.

Only the subscriber's host broker binds a subscription to a tree, when either of the two arrives there; all others pass
it on towards the root (`spread.py`). So each subscription lies on exactly one path per tree, as far as nothing covers
it. A message for a tree that a broker no longer knows is dropped: the withdrawal that removed the tree here is on its
way to the sender of the message, and cleans up there.
"""

from octopia.language import Filter
from octopia.protocol import Key, Subscribe, Unsubscribe
from octopia.routing.actions import Action
from octopia.routing.tid.state import BoundEntry, TidState
from octopia.topology import BrokerId


def subscribe(
    state: TidState, key: Key, filter: Filter, client: str, id: str, priority: int, out: list[Action]
) -> None:
    """A client of this broker subscribed."""
    entry = BoundEntry(key, filter, None, client, id, priority)
    state.prt.add(entry)
    tids = tuple(advertisement.key for advertisement in state.srt.overlapping(filter))
    state.prt.bind_own(entry, tids)
    state.spread.changed(state, entry, tids, True, out)


def receive_subscribe(state: TidState, sender: BrokerId, message: Subscribe, now: float, out: list[Action]) -> None:
    known = (tid for tid in message.tids if tid in state.srt)
    bind = state.prt.bind
    bound = tuple(tid for tid in known if bind(message.key, message.filter, tid, sender, message.priority))
    entry = state.prt.get(message.key)
    if entry is not None and bound:
        state.spread.changed(state, entry, bound, True, out)


def unsubscribe(state: TidState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew a subscription."""
    entry = state.prt.remove(key)
    state.spread.changed(state, entry, tuple(entry.bindings), False, out)


def receive_unsubscribe(state: TidState, sender: BrokerId, message: Unsubscribe, now: float, out: list[Action]) -> None:
    entry = state.prt.get(message.key)
    unbound = tuple(tid for tid in message.tids if state.prt.unbind(message.key, tid, sender))
    if entry is not None and unbound:
        state.spread.changed(state, entry, unbound, False, out)
