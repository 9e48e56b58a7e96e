"""Advertisements in full dynamic routing: as in SCOT routing, but the host broker borrows overlapping subscriptions.

The subscriptions that the host broker holds for a cluster follow, message by message, those that the secondary
neighbour in that cluster lends (`interest.py`). A bit of an advertisement's CIV is ON while it is, or may be, bound to
a subscription of that cluster: if the cluster is `unknown` or cut off, all its brokers count as destinations.
"""

from octopia.errors import RemoteProtocolError
from octopia.protocol import CibClear, CibSet, Key
from octopia.routing.actions import Action
from octopia.routing.entries import SrtEntry
from octopia.routing.fdr.state import FdrState
from octopia.routing.priorities import with_priority
from octopia.routing.scot import advertise as scot
from octopia.topology import BrokerId, civ


def unadvertise(state: FdrState, key: Key, out: list[Action]) -> None:
    """A client of this broker withdrew an advertisement."""
    for neighbour in state.i_links:
        state.prt.gives_back_all(key, neighbour.cluster)
    scot.unadvertise(state, key, out)


def receive_cib_set(state: FdrState, sender: BrokerId, message: CibSet, now: float, out: list[Action]) -> None:
    scot.check_i_link(state, sender, message.kind)
    for lent in message.subscriptions:
        _check_lender(sender, lent.key)
    for entry in scot.hosted(state, message.advertisements):
        entry.civ |= civ.bit(sender.cluster)
        for lent in message.subscriptions:
            state.prt.borrow(entry.key, lent.key, lent.filter, sender, lent.priority)
        if not message.subscriptions:
            state.prt.gives_back_all(entry.key, sender.cluster)
            entry.unknown |= civ.bit(sender.cluster)
    if not message.subscriptions:
        scot.set_priorities(state, sender, message)


def receive_cib_clear(state: FdrState, sender: BrokerId, message: CibClear, now: float, out: list[Action]) -> None:
    scot.check_i_link(state, sender, message.kind)
    for key in message.subscriptions:
        _check_lender(sender, key)
    for key in message.subscriptions:
        for entry in scot.hosted(state, tuple(state.prt.gives_back(key))):
            _renew_bit(state, entry, sender.cluster)
    for entry in scot.hosted(state, message.advertisements):
        entry.unknown &= ~civ.bit(sender.cluster)
        if entry.urgent is not None:
            entry.urgent = with_priority(entry.urgent, civ.bit(sender.cluster), 0)
        _renew_bit(state, entry, sender.cluster)


def _renew_bit(state: FdrState, entry: SrtEntry, cluster: int) -> None:
    if not entry.unknown >> cluster & 1 and not state.prt.has_borrowed(entry.key, cluster):
        entry.civ &= ~civ.bit(cluster)


def _check_lender(sender: BrokerId, key: Key) -> None:
    if key.host.cluster != sender.cluster:
        raise RemoteProtocolError(f"{sender} told of a subscription of {key.host}, which is not in its cluster")
