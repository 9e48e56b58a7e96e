"""Advertisements in TID routing: flooding and withdrawal.

An advertisement floods the overlay; every broker keeps the first copy, remembers the neighbour it came from as the way
to the root, and drops the others: 2|E| - (n - 1) messages, and a tree that depends on the delays of that moment.

Withdrawal floods too. A broker withdraws a tree when its way to the root says so, and then tells *all* its neighbours,
that one as well (2|E| messages). Both halves matter. Notifications come down the tree by that same link, so the
withdrawal never overtakes a notification that was published before it. And links keep order, so a neighbour's
withdrawal comes after its last copy of the advertisement: once all neighbours have withdrawn the tree, it can be
forgotten completely, whereas a copy still in flight would install it again, forever.
"""

from octopia.errors import RemoteProtocolError
from octopia.language import Filter
from octopia.protocol import Advertise, Key, Unadvertise
from octopia.routing.actions import Action, Send
from octopia.routing.entries import SrtEntry
from octopia.routing.tid.state import TidState
from octopia.topology import BrokerId


def advertise(state: TidState, key: Key, filter: Filter, out: list[Action]) -> None:
    """A client of this broker advertised."""
    _store(state, Advertise(key, filter), None, out)


def receive_advertise(state: TidState, sender: BrokerId, message: Advertise, now: float, out: list[Action]) -> None:
    if message.key in state.srt or message.key in state.fading:
        return
    if message.key.host == state.id:
        raise RemoteProtocolError(f"{sender} sent {state.id} an advertisement in its own name that it never made")
    _store(state, message, sender, out)


def unadvertise(state: TidState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew an advertisement."""
    if state.neighbours:
        state.fading[key] = dict.fromkeys(state.neighbours)
    _withdraw(state, Unadvertise(key), out)


def receive_unadvertise(state: TidState, sender: BrokerId, message: Unadvertise, now: float, out: list[Action]) -> None:
    entry = state.srt.get(message.key)
    if entry is None and message.key not in state.fading:
        return
    waiting = state.fading.setdefault(message.key, dict.fromkeys(state.neighbours))
    waiting.pop(sender, None)
    if entry is not None and entry.last_hop == sender:
        _withdraw(state, message, out)
    if not waiting:
        del state.fading[message.key]


def _store(state: TidState, message: Advertise, came_by: BrokerId | None, out: list[Action]) -> None:
    state.srt.add(SrtEntry(message.key, message.filter, came_by))
    out.extend(Send(neighbour, message) for neighbour in state.neighbours if neighbour != came_by)
    for entry in state.prt.local_overlapping(message.filter):
        state.prt.bind_own(entry, (message.key,))
        if came_by is not None:
            state.spread.changed(state, entry, (message.key,), True, out)


def _withdraw(state: TidState, message: Unadvertise, out: list[Action]) -> None:
    state.srt.remove(message.key)
    state.prt.forget_tree(message.key)
    state.spread.forget_tree(message.key)
    out.extend(Send(neighbour, message) for neighbour in state.neighbours)
