"""What a neighbour may put into the header of a copy: what the rules of `notify.py` can lead to on its link.

Invariant: a copy that passes ends after finitely many hops and never becomes more copies than it has destinations,
whatever the neighbour meant by it; so a neighbour cannot make brokers loop or amplify. Which links are up does not
matter here, as the neighbour may know of a link that is down before we do.
"""

from octopia.errors import RemoteProtocolError
from octopia.routing.fdr.state import FdrState
from octopia.routing.fdr.ways import may_send
from octopia.routing.messages import Dests
from octopia.topology import BrokerId


def check_header(state: FdrState, header: Dests, came_by: BrokerId) -> None:
    """`RemoteProtocolError` where this neighbour may not send this."""
    reason = _why_not(state, header, came_by)
    if reason is not None:
        raise RemoteProtocolError(f"{came_by} sent a copy {reason}")


def _why_not(state: FdrState, header: Dests, came_by: BrokerId) -> str | None:
    dests, overlay = header.dests, state.overlay
    if not dests or dests >> overlay.broker_count:
        return "for nobody" if not dests else "for brokers that the overlay has not"
    if dests & state.places.brokers[came_by]:
        return "for itself"
    if header.down >> overlay.link_count:
        return "that found links down that the overlay has not"
    if dests & ~may_send(overlay, came_by, state.id, header.down):
        return "for brokers to which this link does not lead"
    return None
