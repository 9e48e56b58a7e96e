"""Save the state of a broker when it stops, and restore it when it starts again.

Nothing may change between the last confirmation to a peer and `save`, so everything is frozen before. State is restored
before links come up and clients are accepted, so that nobody meets a half-restored broker. Anything that the current
configuration no longer allows is left out and logged.
"""

from collections.abc import Mapping
from typing import Any

from octopia.net.broker.links import Link
from octopia.net.broker.operations.log import Log
from octopia.net.broker.rights import Authority
from octopia.net.broker.saved import SavedBroker, SavedLink, SavedSent, SavedState, SavedStreams
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.routing import Broker, Unconfirmed, policy_if_known, policy_named
from octopia.topology import BrokerId
from octopia.wire import (
    AdvertiseRequest,
    BadRequest,
    Codec,
    SubscribeRequest,
    advertise_frame,
    read_parcel,
    subscribe_frame,
)

# Offsets of the kind and the body of a frame.
_KIND, _BODY = 4, 5
# More than an entry of a list, and the fields of a session, take beside their contents.
_ENTRY_BYTES = 16
_SESSION_BYTES = 4096
_SENT_BYTES = 32


def save(broker: Broker, sessions: Sessions, links: Mapping[BrokerId, Link]) -> SavedState:
    """The state for the next process."""
    saved_links = [SavedLink(str(neighbour), unsent) for neighbour, link in links.items() if (unsent := link.unsent())]
    streams: list[SavedStreams] = []
    sent: list[SavedSent] = []
    if broker.streams is not None:
        streams = [SavedStreams(host, publishers) for host, publishers in broker.streams.taken().items()]
        for each in broker.streams.unconfirmed():
            # every notification here came by a wire
            parcel = each.notification.parcel  # type: ignore[attr-defined]
            sent.append(SavedSent(each.number, _as_bytes(each.dests), each.priority, parcel))
    return SavedState(sessions.save(lambda session: _registrations(broker, session)), saved_links, streams, sent)


def size_of_saved(broker: Broker, sessions: Sessions, links: Mapping[BrokerId, Link]) -> int:
    """A size that the encoded state does not exceed, and that is not much larger."""
    tables: Any = broker.state
    size = sum(_ENTRY_BYTES + link.queue.memory_bytes for link in links.values())
    for session in sessions.values():
        frames = _registrations(broker, session)
        size += _SESSION_BYTES + session.queue.memory_bytes + sum(map(len, frames)) + _ENTRY_BYTES * len(frames)
        size += sum(_ENTRY_BYTES + len(request) + 4 * len(id) for request, id in session.unanswered)
    if broker.streams is not None:
        log = broker.streams.log
        size += log.unconfirmed_bytes + len(log) * (_SENT_BYTES + _bytes_of(tables.overlay.broker_count))
        for publishers in broker.streams.taken().values():
            size += _ENTRY_BYTES + sum(_ENTRY_BYTES + 4 * len(publisher) for publisher in publishers)
    return size


def _registrations(broker: Broker, session: Session) -> list[bytes]:
    """The registrations of a client, as the requests that it sent."""
    tables: Any = broker.state
    advertisements = tables.advertisements.of(session.name)
    subscriptions = tables.subscriptions.of(session.name)
    frames = [advertise_frame(id, registered.filter) for id, registered in advertisements.items()]
    default = session.qos.default
    for id, registered in subscriptions.items():
        ordered = id not in session.deliveries.unordered
        policy, priority, deadline_ms = (
            session.deliveries.policies.get(id, "block"),
            registered.priority,
            session.deliveries.deadline_ms_of(id),
        )
        as_here = (priority, deadline_ms) == (default.priority, default.deadline_ms)
        qos = (None, None) if as_here else (priority, deadline_ms)
        frames.append(subscribe_frame(id, registered.filter, policy, ordered, *qos))
    return frames


def restore(
    saved: SavedBroker,
    broker: Broker,
    sessions: Sessions,
    links: Mapping[BrokerId, Link],
    *,
    authority: Authority,
    codec: Codec,
    log: Log,
) -> None:
    """Restore the state saved by the previous process."""
    unsent = {link.neighbour: link.frames for link in saved.links}
    made_by, own = policy_if_known(saved.routing), policy_named(broker.routing)
    is_ours = made_by is not None and made_by.header is own.header
    if is_ours and broker.streams is not None:
        taken = {streams.host: streams.publishers for streams in saved.streams}
        broker.streams.take_up(taken, map(_unconfirmed, saved.sent))
    if unsent and not is_ours:
        log.warning(
            "saved notifications not used",
            notifications=sum(map(len, unsent.values())),
            reason=f"they were on their way to neighbours under {saved.routing or 'another routing'}, "
            f"and this broker uses {broker.routing}",
        )
        unsent = {}
    for neighbour, link in links.items():
        link.restore(unsent.get(str(neighbour), []))
    for session in saved.sessions:
        rights = authority.rights_of(session.owner, broker.id)
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


def _unconfirmed(sent: SavedSent) -> tuple[Unconfirmed, int]:
    """A notification for the log of a broker's streams, and its memory."""
    notification = read_parcel(sent.parcel)
    dests = int.from_bytes(sent.dests, "little")
    publisher, id = notification.publisher, str(notification.sequence)
    return Unconfirmed(publisher, id, notification, sent.number, dests, sent.priority), len(sent.parcel)


def _as_bytes(dests: int) -> bytes:
    return dests.to_bytes(_bytes_of(dests.bit_length()), "little")


def _bytes_of(bits: int) -> int:
    return (bits + 7) // 8
