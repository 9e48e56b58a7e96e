"""Advertisements in SCOT routing (Alg. 1 of the paper), and their withdrawal.

An advertisement goes from its host broker to the k-1 secondary neighbours and no further: one hop, no duplicates. A
neighbour whose cluster has an overlapping subscription answers with CIB_SET (`interest.py`).

Rules of this file: the host broker's bit of a cluster follows, message by message, the copy's bit at the secondary
neighbour in that cluster, which alone decides it. Links keep order, so both are equal once the link is quiet. Withdrawn
keys never come back, so a CIB_SET that crosses the withdrawal finds nothing and does nothing. Nothing is sent on a link
that is down; `resync.py` makes it good. A bit that cannot be known counts as ON, so that a notification is rather
carried for nobody than missed: while the iLink is down (`cut_off`), from when it came up until the neighbour's word on
that advertisement has come (`unknown`), and while the neighbour has yet to learn what its cluster wants.
"""

from octopia.errors import RemoteProtocolError
from octopia.language import Filter
from octopia.routing.actions import Action, Send
from octopia.routing.entries import SrtEntry
from octopia.routing.messages import Advertise, CibClear, CibSet, Key, Unadvertise
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


def receive_advertise(state: ScotState, sender: BrokerId, message: Advertise, out: list[Action]) -> None:
    _check_host(state, sender, message.key)
    state.not_stale(sender, message.key)
    if message.key in state.srt:
        return
    entry = SrtEntry(message.key, message.filter, sender, civ.bit(sender.cluster))
    _store(state, entry)
    if entry.interest:
        entry.civ |= state.own_bit
    state.tells.advertised(state, entry, out)


def receive_unadvertise(state: ScotState, sender: BrokerId, message: Unadvertise, out: list[Action]) -> None:
    _check_host(state, sender, message.key)
    state.not_stale(sender, message.key)
    if message.key in state.srt:
        state.srt.remove(message.key)


def receive_cib_set(state: ScotState, sender: BrokerId, message: CibSet, out: list[Action]) -> None:
    check_i_link(state, sender, message.kind)
    for entry in hosted(state, message.advertisements):
        entry.civ |= civ.bit(sender.cluster)
        entry.unknown &= ~civ.bit(sender.cluster)


def receive_cib_clear(state: ScotState, sender: BrokerId, message: CibClear, out: list[Action]) -> None:
    check_i_link(state, sender, message.kind)
    for entry in hosted(state, message.advertisements):
        entry.civ &= ~civ.bit(sender.cluster)
        entry.unknown &= ~civ.bit(sender.cluster)


def _store(state: ScotState, entry: SrtEntry) -> None:
    entry.interest = len(state.prt.overlapping(entry.filter))
    state.srt.add(entry)


def hosted(state: ScotState, keys: tuple[Key, ...]) -> list[SrtEntry]:
    """Those of the keys that a client of this broker has in force: others were withdrawn in the meantime."""
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
