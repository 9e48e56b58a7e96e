"""From one life of a broker to the next: what is taken out of its parts when it stops, and put back when it starts.

Rules of this file: nothing may change between the last confirmation to a peer and `save`, so everything is frozen
before. Restoring comes before links come up and before anyone is let in, so that nobody meets a broker that knows half
of its clients. What the present configuration does not allow any more is left out, and said in the log.
"""

from collections.abc import Mapping
from typing import Any

from octopia.net.broker.links import Link
from octopia.net.broker.operations.log import Log
from octopia.net.broker.rights import Authority
from octopia.net.broker.saved import SavedBroker, SavedLink, SavedSession
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.routing import Broker
from octopia.topology import BrokerId
from octopia.wire import AdvertiseRequest, BadRequest, Codec, SubscribeRequest, advertise_frame, subscribe_frame

# Where the kind and the body of a frame begin.
_KIND, _BODY = 4, 5


def save(
    broker: Broker, sessions: Sessions, links: Mapping[BrokerId, Link]
) -> tuple[list[SavedSession], list[SavedLink]]:
    """What the next life needs."""
    saved_links = [SavedLink(str(neighbour), unsent) for neighbour, link in links.items() if (unsent := link.unsent())]
    return sessions.save(lambda session: _registrations(broker, session)), saved_links


def _registrations(broker: Broker, session: Session) -> list[bytes]:
    """As the client asked for them."""
    tables: Any = broker.state
    advertisements = tables.advertisements.of(session.name)
    subscriptions = tables.subscriptions.of(session.name)
    frames = [advertise_frame(id, registered.filter) for id, registered in advertisements.items()]
    for id, registered in subscriptions.items():
        ordered = id not in session.unordered
        frames.append(subscribe_frame(id, registered.filter, session.policies.get(id, "block"), ordered))
    return frames


def restore(
    saved: SavedBroker,
    broker: BrokerId,
    sessions: Sessions,
    links: Mapping[BrokerId, Link],
    *,
    authority: Authority,
    codec: Codec,
    log: Log,
) -> None:
    """Put back what the life before saved."""
    unsent = {link.neighbour: link.frames for link in saved.links}
    for neighbour, link in links.items():
        link.restore(unsent.get(str(neighbour), []))
    for session in saved.sessions:
        rights = authority.rights_of(session.owner, broker)
        if rights is None:
            log.warning("session over", client=session.name, reason="its client may not connect here any more")
            continue
        requests: list[AdvertiseRequest | SubscribeRequest] = []
        for frame in session.registrations:
            request = codec.decoders[frame[_KIND]](frame[_BODY:])
            if isinstance(request, BadRequest):
                log.warning("registration over", client=session.name, id=request.id, reason=request.reason)
            else:
                requests.append(request)
        sessions.restore(session, rights, requests)
