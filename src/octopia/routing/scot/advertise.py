"""Advertisements in SCOT routing (Alg. 1 of the paper), and their withdrawal.

An advertisement goes from its host broker to the k-1 secondary neighbours and no further: one hop, no duplicates. A
neighbour whose cluster has an overlapping subscription answers with CIB_SET (`interest.py`).

The host broker's bit for a cluster follows, message by message, the copy's bit at the secondary neighbour in that
cluster, which alone decides it. Links keep order, so both are equal once the link is quiet. Withdrawn keys are never
reused, so a CIB_SET that crosses the withdrawal finds nothing and does nothing. Nothing is sent on a link that is down;
`resync.py` repairs that later. An unknown bit counts as ON, since a needless copy is better than a missed notification:
while the iLink is down (`cut_off`), from when it came up until the neighbour has answered for that advertisement
(`unknown`), and while the neighbour has yet to learn its cluster's subscriptions.
"""

from itertools import repeat

from octopia.errors import RemoteProtocolError
from octopia.language import Filter
from octopia.protocol import Advertise, CibClear, CibSet, Key, Unadvertise
from octopia.routing.actions import Action, Send
from octopia.routing.entries import SrtEntry
from octopia.routing.priorities import with_priority
from octopia.routing.scot.state import ScotState
from octopia.topology import BrokerId, civ


def advertise(state: ScotState, key: Key, filter: Filter, out: list[Action]) -> None:
    """A client of this broker advertised."""
    _store(state, SrtEntry(key, filter, None, state.own_bit))
    message = Advertise(key, filter)
    out.extend(Send(neighbour, message) for neighbour in state.up_i_links)


def unadvertise(state: ScotState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew an advertisement."""
    state.srt.remove(key)
    message = Unadvertise(key)
    out.extend(Send(neighbour, message) for neighbour in state.up_i_links)


def receive_advertise(state: ScotState, sender: BrokerId, message: Advertise, now: float, out: list[Action]) -> None:
    _check_host(state, sender, message.key)
    state.not_stale(sender, message.key)
    if message.key in state.srt:
        return
    entry = SrtEntry(message.key, message.filter, sender, civ.bit(sender.cluster))
    _store(state, entry)
    if entry.interest:
        entry.civ |= state.own_bit
    state.tells.advertised(state, entry, out)


def receive_unadvertise(
    state: ScotState, sender: BrokerId, message: Unadvertise, now: float, out: list[Action]
) -> None:
    _check_host(state, sender, message.key)
    state.not_stale(sender, message.key)
    if message.key in state.srt:
        state.srt.remove(message.key)


def receive_cib_set(state: ScotState, sender: BrokerId, message: CibSet, now: float, out: list[Action]) -> None:
    check_i_link(state, sender, message.kind)
    for entry in hosted(state, message.advertisements):
        entry.civ |= civ.bit(sender.cluster)
        entry.unknown &= ~civ.bit(sender.cluster)
    set_priorities(state, sender, message)


def receive_cib_clear(state: ScotState, sender: BrokerId, message: CibClear, now: float, out: list[Action]) -> None:
    check_i_link(state, sender, message.kind)
    for entry in hosted(state, message.advertisements):
        entry.civ &= ~civ.bit(sender.cluster)
        entry.unknown &= ~civ.bit(sender.cluster)
        if entry.urgent is not None:
            entry.urgent = with_priority(entry.urgent, civ.bit(sender.cluster), 0)


def set_priorities(state: ScotState, sender: BrokerId, message: CibSet) -> None:
    """Update the priority of the sender's cluster for these advertisements."""
    for key, priority in zip(message.advertisements, message.priorities or repeat(0), strict=False):
        entry = state.srt.get(key)
        if entry is not None and entry.last_hop is None and (priority or entry.urgent is not None):
            entry.urgent = with_priority(entry.urgent, civ.bit(sender.cluster), priority)


def _store(state: ScotState, entry: SrtEntry) -> None:
    overlapping = state.prt.overlapping(entry.filter)
    entry.interest = len(overlapping)
    for subscription in overlapping:
        if subscription.priority:
            entry.count_urgent(subscription.priority, 1)
    state.srt.add(entry)


def hosted(state: ScotState, keys: tuple[Key, ...]) -> list[SrtEntry]:
    """The keys that are still in force for a client of this broker; others were withdrawn in the meantime."""
    found = (state.srt.get(key) for key in keys)
    return [entry for entry in found if entry is not None and entry.last_hop is None]


def check_i_link(state: ScotState, sender: BrokerId, kind: str) -> None:
    if state.i_link_to.get(sender.cluster) != sender:
        raise RemoteProtocolError(f"{sender} sent {kind} to {state.id}, which is not its secondary neighbour")


def _check_host(state: ScotState, sender: BrokerId, key: Key) -> None:
    check_i_link(state, sender, "an advertisement message")
    if key.host != sender:
        raise RemoteProtocolError(
            f"{sender} sent an advertisement message for {key.host}, whose clients it does not host"
        )
