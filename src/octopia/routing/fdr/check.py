"""Checks on the header of a neighbour's copy: only what the rules of `notify.py` can produce on its link.

Invariant: a copy that passes ends after finitely many hops and never becomes more copies than it has destinations,
whatever the neighbour intended; so a neighbour cannot cause loops or amplification.

A copy that goes around links that are down may have any destinations: the neighbour may know less about links than this
broker, and believe links to be down that have come up since. But it knows nothing that this broker does not know
(`flood.py`). So if there never was any news of links here, the neighbour has nothing to go around. The exception is a
restart of this broker: copies that waited for it come before the neighbour's word, and its news comes with that word.
"""

from octopia.errors import RemoteProtocolError
from octopia.protocol import Dests
from octopia.routing.fdr.state import FdrState
from octopia.topology import BrokerId


def check_header(state: FdrState, header: Dests, came_by: BrokerId) -> None:
    """`RemoteProtocolError` if this neighbour may not send this."""
    reason = _why_not(state, header.dests, came_by)
    if reason is not None:
        raise RemoteProtocolError(f"{came_by} sent a copy {reason}")


def _why_not(state: FdrState, dests: int, came_by: BrokerId) -> str | None:
    brokers = state.places.brokers
    if not dests or dests >> len(brokers):
        return "for nobody" if not dests else "for brokers that the overlay has not"
    if dests & brokers[came_by]:
        return "for itself"
    if came_by.region == state.id.region or not state.links.untouched or came_by in state.unlearnt:
        return None
    # what lies behind the neighbour comes from there only as its region mates, on their way around
    back = dests & state.places.beyond[came_by.region]
    for cluster in range(len(state.places.clusters)):
        back &= ~brokers[BrokerId(came_by.region, cluster)]
    return "for brokers that do not lie beyond this link" if back else None
