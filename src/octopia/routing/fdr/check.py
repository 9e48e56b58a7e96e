"""What a neighbour may put into the header of a copy: what the rules of `notify.py` can lead to on its link.

Invariant: a copy that passes ends after finitely many hops and never becomes more copies than it has destinations,
whatever the neighbour meant by it; so a neighbour cannot make brokers loop or amplify. Which links are up does not
matter here, as the neighbour may know of a link that is down before we do.
"""

from octopia.errors import RemoteProtocolError
from octopia.routing.fdr.state import FdrState
from octopia.routing.messages import Dests
from octopia.topology import BrokerId, civ


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
    if header.tried >> len(places.clusters) or header.left >> len(places.brokers) // len(places.clusters):
        return "that was in clusters or regions that the overlay has not"
    if came_by.region == state.id.region:
        return _why_not_by_i_link(state, header, came_by)
    return _why_not_by_a_link(state, header, came_by)


def _why_not_by_i_link(state: FdrState, header: Dests, came_by: BrokerId) -> str | None:
    """A region mate gives what is to take this cluster's tree, or what it cannot pass on itself."""
    if header.tried and not header.tried & civ.bit(came_by.cluster):
        return "that others of the region tried to pass on, and not itself"
    if header.tried & state.own_bit:
        return f"that {state.id} tried to pass on before"
    return None


def _why_not_by_a_link(state: FdrState, header: Dests, came_by: BrokerId) -> str | None:
    """What lies behind the neighbour comes from there only as its region mates, or where their region was left."""
    if header.tried:
        return "that the clusters of another region tried to pass on"
    places = state.places
    back = header.dests & places.beyond[came_by.region]
    # a region's place is that of its broker in the first cluster
    if not back or header.left & places.brokers[BrokerId(came_by.region, 0)]:
        return None
    for cluster in range(len(places.clusters)):
        back &= ~places.brokers[BrokerId(came_by.region, cluster)]
    return "for brokers that do not lie beyond this link" if back else None
