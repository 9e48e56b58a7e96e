"""Subscriptions in SCOT routing (Alg. 2 of the paper), and their withdrawal.

A subscription is broadcast along the tree of its own cluster and never leaves it (`spread.py`; with covering, only as
far as nothing covers it). Every broker that stores it counts it as interest in the overlapping advertisements it knows;
where a count leaves 0, the cluster's bit goes ON, and where it returns to 0, OFF. The advertisement's host broker is
told with CIB_SET and CIB_CLEAR (`interest.py`).

One CIB message per secondary neighbour and (un)subscription, for all its advertisements at once. The counts make
withdrawal exact: the last overlapping subscription of the cluster, and no other, turns the bit OFF. The counts per
priority do the same for how urgent the cluster's interest is. Nothing is sent on a link that is down; `resync.py`
repairs that later.
"""

from octopia.errors import RemoteProtocolError
from octopia.language import Filter
from octopia.protocol import Key, Subscribe, Unsubscribe
from octopia.routing.actions import Action
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.scot.state import ScotState
from octopia.topology import BrokerId


def subscribe(
    state: ScotState, key: Key, filter: Filter, client: str, id: str, priority: int, out: list[Action]
) -> None:
    """A client of this broker subscribed."""
    _store(state, PrtEntry(key, filter, None, client, id, priority), out)


def unsubscribe(state: ScotState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew a subscription."""
    drop(state, key, out)


def receive_subscribe(state: ScotState, sender: BrokerId, message: Subscribe, now: float, out: list[Action]) -> None:
    check_a_link(state, sender)
    state.not_stale(sender, message.key)
    if message.key not in state.prt:
        _store(state, PrtEntry(message.key, message.filter, sender, priority=message.priority), out)


def receive_unsubscribe(
    state: ScotState, sender: BrokerId, message: Unsubscribe, now: float, out: list[Action]
) -> None:
    check_a_link(state, sender)
    entry = state.prt.get(message.key)
    if entry is None:
        return
    if entry.last_hop != sender:
        raise RemoteProtocolError(f"{sender} withdrew a subscription at {state.id} that did not come from it")
    state.not_stale(sender, message.key)
    drop(state, message.key, out)


def _store(state: ScotState, entry: PrtEntry, out: list[Action]) -> None:
    state.prt.add(entry)
    state.spread.changed(state, entry, True, out)
    overlapped = state.srt.overlapping(entry.filter)
    for advertisement in overlapped:
        advertisement.interest += 1
        if entry.priority:
            advertisement.count_urgent(entry.priority, 1)
        if advertisement.last_hop is not None:
            advertisement.civ |= state.own_bit
    state.tells.grew(state, entry, _of_neighbours(overlapped), out)


def drop(state: ScotState, key: Key, out: list[Action]) -> None:
    """Remove a stored subscription, and tell the brokers beyond."""
    entry = state.prt.remove(key)
    state.spread.changed(state, entry, False, out)
    overlapped = state.srt.overlapping(entry.filter)
    for advertisement in overlapped:
        advertisement.interest -= 1
        if entry.priority:
            advertisement.count_urgent(entry.priority, -1)
        if advertisement.interest == 0 and advertisement.last_hop is not None:
            advertisement.civ &= ~state.own_bit
    state.tells.fell(state, entry, _of_neighbours(overlapped), out)


def _of_neighbours(advertisements: list[SrtEntry]) -> list[SrtEntry]:
    return [entry for entry in advertisements if entry.last_hop is not None]


def check_a_link(state: ScotState, sender: BrokerId) -> None:
    if sender not in state.a_links:
        raise RemoteProtocolError(f"{sender} sent a subscription message to {state.id}, which is not in its cluster")
