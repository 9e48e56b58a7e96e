"""What a neighbour may put into the header of a copy: what the rules of `notify.py` can lead to on its link.

Invariant: a copy that passes ends after finitely many hops and never becomes more copies than it has destinations,
whatever the neighbour meant by it; so a neighbour cannot make brokers loop or amplify. Until the first report of a link
comes, no link was ever down, for the neighbour neither, since what it knows it told before; so its copies go along the
trees. After that any destination may have to come by any link: a detour may still be under way when all is well again.
"""

from octopia.errors import RemoteProtocolError
from octopia.routing.fdr.state import FdrState
from octopia.routing.messages import Dests
from octopia.topology import BrokerId


def check_header(state: FdrState, header: Dests, came_by: BrokerId) -> None:
    """`RemoteProtocolError` where this neighbour may not send this."""
    reason = _why_not(state, header, came_by)
    if reason is not None:
        raise RemoteProtocolError(f"{came_by} sent a copy {reason}")


def _why_not(state: FdrState, header: Dests, came_by: BrokerId) -> str | None:
    dests, places = header.dests, state.places
    if not dests or dests >> len(places.brokers):
        return "for nobody" if not dests else "for brokers that the overlay has not"
    if dests & places.brokers[came_by]:
        return "for itself"
    if came_by.region == state.id.region or not state.links.untouched:
        return None
    return _why_not_back(state, dests, came_by)


def _why_not_back(state: FdrState, dests: int, came_by: BrokerId) -> str | None:
    """What lies behind a primary neighbour comes from there only as its region mates, on their way around."""
    places = state.places
    back = dests & places.beyond[came_by.region]
    for cluster in range(len(places.clusters)):
        back &= ~places.brokers[BrokerId(came_by.region, cluster)]
    return "for brokers that do not lie beyond this link" if back else None
