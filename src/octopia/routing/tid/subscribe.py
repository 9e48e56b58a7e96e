"""Subscriptions in TID routing: bound to the trees of the overlapping advertisements, along their reverse paths.

Rules of this file: only the subscriber's host broker binds a subscription to a tree, when either of the two arrives
there; all others pass it on towards the root. So each subscription lies on exactly one path per tree. Trees that share
the next hop share the message. What reaches a broker for a tree that it no longer knows ends there: the withdrawal that
removed the tree here is on its way to where the message came from, and cleans up there.
"""

from octopia.language import Filter
from octopia.routing.actions import Action, Send
from octopia.routing.messages import Key, Subscribe, Unsubscribe
from octopia.routing.tid.state import BoundEntry, TidState
from octopia.topology import BrokerId


def subscribe(state: TidState, key: Key, filter: Filter, client: str, id: str, out: list[Action]) -> None:
    """A client of this broker subscribed."""
    entry = BoundEntry(key, filter, None, client, id)
    state.prt.add(entry)
    tids = tuple(advertisement.key for advertisement in state.srt.overlapping(filter))
    state.prt.bind_own(entry, tids)
    _pass_on(state, key, filter, tids, out)


def receive_subscribe(state: TidState, sender: BrokerId, message: Subscribe, out: list[Action]) -> None:
    known = (tid for tid in message.tids if tid in state.srt)
    bound = tuple(tid for tid in known if state.prt.bind(message.key, message.filter, tid, sender))
    _pass_on(state, message.key, message.filter, bound, out)


def unsubscribe(state: TidState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew a subscription."""
    entry = state.prt.remove(key)
    _withdraw(state, key, tuple(entry.bindings), out)


def receive_unsubscribe(state: TidState, sender: BrokerId, message: Unsubscribe, out: list[Action]) -> None:
    unbound = tuple(tid for tid in message.tids if state.prt.unbind(message.key, tid, sender))
    _withdraw(state, message.key, unbound, out)


def _pass_on(state: TidState, key: Key, filter: Filter, tids: tuple[Key, ...], out: list[Action]) -> None:
    out.extend(Send(hop, Subscribe(key, filter, group)) for hop, group in state.hops_towards(tids).items())


def _withdraw(state: TidState, key: Key, tids: tuple[Key, ...], out: list[Action]) -> None:
    out.extend(Send(hop, Unsubscribe(key, group)) for hop, group in state.hops_towards(tids).items())
