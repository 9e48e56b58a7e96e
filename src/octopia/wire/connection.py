"""One connection, without I/O: bytes in, messages out, and vice versa.

    dialling side      HELLO ->            <- WELCOME (or GOODBYE)            then both ways, as the role allows
    accepting side     -> HELLO            `open(role)`, WELCOME ->

A probe gets LOAD for its HELLO and nothing else.

Between brokers that share a token, CHALLENGE (`expect_proof`) and PROOF come before the WELCOME.

Only handshake frames are accepted before the handshake is done, and after it only the kinds that this role may send.
Every violation by a peer ends in one `RemoteProtocolError` whose text may be sent to the peer; messages before it in
the same bytes stay available in `messages`. An invalid filter is not a protocol violation but a request to refuse: it
is returned as `BadRequest`. The connection counts numbered frames for sessions.
"""

import sys
from collections.abc import Callable, Iterable
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder

from octopia.errors import InputError, LocalProtocolError, RemoteProtocolError
from octopia.hints import one_line
from octopia.routing import PRIORITY_MAX
from octopia.topology import Scot
from octopia.wire.arrow.kernels import kernels
from octopia.wire.delivered import BYTES_MIN, split_deliveries
from octopia.wire.dests import split_stamp
from octopia.wire.frames import FrameBuffer, too_long
from octopia.wire.haul import HAUL_MIN
from octopia.wire.kinds import (
    BROKER_TO_BROKER,
    BROKER_TO_CLIENT,
    CLIENT_TO_BROKER,
    COPIES,
    FIRST_NUMBERED,
    HANDSHAKE,
    Kind,
    kind_name,
)
from octopia.wire.limits import (
    DEADLINE_MS_MAX,
    HANDSHAKE_BYTES_MAX,
    LINK_EXTRA_BYTES,
    PREFIX_BYTES,
    REASON_CHARS_MAX,
    SUBSCRIPTIONS_PER_DELIVERY_MAX,
    WireLimits,
)
from octopia.wire.link_messages import PROBE, LinkReader, said_of
from octopia.wire.messages import (
    KIND_OF,
    POLICIES,
    ROLE_BROKER,
    ROLE_CLIENT,
    AdvertiseRequest,
    Count,
    CountRequest,
    Delivery,
    Id,
    Name,
    SubscribeRequest,
)
from octopia.wire.parcel import ParcelReader, Parcels, WireNotification
from octopia.wire.values import array_decoder, filter_in, filter_type

if TYPE_CHECKING:
    from octopia.wire.scanner import Scanner

_ARRAY_OF_6: Final = b"\x96"
_HEAD: Final = Struct(">IB")
_HEADER_LENGTH: Final = Struct(">I")
_NOTIFICATIONS: Final = COPIES | {Kind.PUBLISH, Kind.PROBE, Kind.DELIVER}
# Head of a frame with a notification, as far as its header: length, kind, length of the header.
_NOTIFICATION_HEAD_BYTES: Final = 9
_PLAIN_HEAD: Final = Struct(">IBI")
_PLAIN_HEAD_BYTES: Final = _PLAIN_HEAD.size - PREFIX_BYTES
_NO_HEADER: Final = bytes(4)
# Kind, length of the header, and something of a parcel.
_PLAIN_BYTES_MIN: Final = 6


# After a notification that cannot be read as columns, this many take the ordinary path before the next attempt.
_UNUSUAL_MAX: Final = 8


class Side(Enum):
    """Our role on this connection."""

    CLIENT = "client"
    DIALLING_BROKER = "dialling broker"
    ACCEPTING_BROKER = "accepting broker"


# Kinds accepted before the handshake is done.
_FIRST: Final = {
    Side.CLIENT: (Kind.WELCOME, Kind.GOODBYE, Kind.LOAD),
    Side.DIALLING_BROKER: (Kind.WELCOME, Kind.GOODBYE, Kind.CHALLENGE),
    Side.ACCEPTING_BROKER: (Kind.HELLO,),
}


class BadRequest(msgspec.Struct, frozen=True):
    """A client's request with an invalid filter, to be refused with this reason."""

    request: str
    id: str
    reason: str


class ProbeRequest(msgspec.Struct, frozen=True):
    """A client asks how a notification would be routed."""

    notification: WireNotification


class Codec:
    """Decoders for one set of limits and, between brokers, one overlay; made once and shared by all connections."""

    def __init__(self, limits: WireLimits, overlay: Scot | None = None) -> None:
        self.limits = limits
        self._parcels = ParcelReader(limits)
        self.read_parcels = self._parcels.read_many
        self.scanner: Scanner | None = None
        self._filter_request = array_decoder(Id, filter_type(limits))
        self._count_request = array_decoder(Count, filter_type(limits))
        asked = (Id, filter_type(limits), Name | None, bool)
        self._subscribe_request = array_decoder(*asked)
        self._subscribe_qos_request = array_decoder(
            *asked,
            Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] | None,
            Annotated[int, Meta(ge=0, le=DEADLINE_MS_MAX)] | None,
        )
        self._publish_header = Decoder(tuple[bool]).decode
        self.read_delivery_header = Decoder(
            Annotated[tuple[Id, ...], Meta(min_length=1, max_length=SUBSCRIPTIONS_PER_DELIVERY_MAX)]
        ).decode
        links = LinkReader(limits, self._parcels, overlay)
        self.dests = links.dests
        self.decoders: dict[int, Callable[[bytes], Any]] = {
            **{kind: Decoder(message).decode for message, kind in KIND_OF.items()},
            Kind.COUNT: self._count,
            Kind.ADVERTISE: self._advertise,
            Kind.SUBSCRIBE: self._subscribe,
            Kind.LINK_ADVERTISE: links.advertise,
            Kind.LINK_UNADVERTISE: links.unadvertise,
            Kind.LINK_SUBSCRIBE: links.subscribe,
            Kind.LINK_UNSUBSCRIBE: links.unsubscribe,
            Kind.LINK_CIB_SET: links.cib_set,
            Kind.LINK_CIB_CLEAR: links.cib_clear,
            Kind.LINK_SUBSCRIPTIONS_COMPLETE: links.subscriptions_complete,
            Kind.LINK_ADVERTISEMENTS_COMPLETE: links.advertisements_complete,
            Kind.LINK_SUBSCRIPTIONS_INCOMPLETE: links.subscriptions_incomplete,
            Kind.LINK_NEWS: links.link_news,
            Kind.CONFIRM: links.confirm,
            Kind.WAITS: links.waits,
        }
        self.notification_decoders: dict[int, Callable[[bytes, bytes], Any]] = {
            Kind.PUBLISH: self._publish,
            Kind.PROBE: self._probe,
            Kind.DELIVER: self._deliver,
            Kind.NOTIFY: links.notify,
            Kind.NOTIFY_TREE: links.notify_tree,
            Kind.NOTIFY_ROUTES: links.notify_routes,
            Kind.NOTIFY_DESTS: links.notify_dests,
        }

    def start_scanning(self) -> bool:
        """Read runs of plain notifications as columns (`Haul`) if compiled code is in use; returns whether it is."""
        from octopia.wire.scanner import scanner_for

        self.scanner = scanner_for(self.limits, self._parcels)
        return self.scanner is not None

    def stop_scanning(self) -> None:
        self.scanner = None

    def _advertise(self, body: bytes) -> AdvertiseRequest | BadRequest:
        id, filter = self._filter_request(body)
        try:
            return AdvertiseRequest(id, filter_in(filter, self.limits))
        except InputError as error:
            return BadRequest("advertise", id, reason_text(str(error)))

    def _subscribe(self, body: bytes) -> SubscribeRequest | BadRequest:
        priority = deadline_ms = None
        if body[:1] == _ARRAY_OF_6:
            id, filter, policy, ordered, priority, deadline_ms = self._subscribe_qos_request(body)
        else:
            id, filter, policy, ordered = self._subscribe_request(body)
        if policy is not None and policy not in POLICIES:
            return BadRequest("subscribe", id, f"unknown policy {policy!r}; choose from {', '.join(POLICIES)}")
        try:
            return SubscribeRequest(id, filter_in(filter, self.limits), policy, ordered, priority, deadline_ms)
        except InputError as error:
            return BadRequest("subscribe", id, reason_text(str(error)))

    def _count(self, body: bytes) -> CountRequest:
        number, filter = self._count_request(body)
        try:
            return CountRequest(number, filter_in(filter, self.limits))
        except InputError:
            return CountRequest(number, None)

    def _publish(self, head: bytes, parcel: bytes) -> WireNotification:
        if not head:
            return self._parcels.read(parcel)
        (traced,) = self._publish_header(head)
        return self._parcels.read(parcel, traced)

    def _probe(self, head: bytes, parcel: bytes) -> ProbeRequest:
        if head:
            raise RemoteProtocolError("a probe has no header")
        return ProbeRequest(self._parcels.read(parcel, PROBE))

    def read_stamped(self, header: bytes, stamped: list[bytes], messages: list[Any]) -> None:
        """Decode copies with this header and add them as one batch; if one is invalid, those before it were added."""
        batch = Parcels()
        batch.carried, *said = self.dests.header(header)
        batch.header = said_of(*said)
        messages.append(batch)
        parcels: list[bytes] = []
        try:
            for each in stamped:
                parcels.append(split_stamp(each)[1])
        finally:
            # an error in a stamp is reported after an error in an earlier parcel
            try:
                if parcels:
                    self.read_parcels(parcels, batch)
            finally:
                batch.stamped = stamped[: len(batch)]

    def _deliver(self, head: bytes, parcel: bytes) -> Delivery:
        subscriptions = self.read_delivery_header(head)
        seen = self._parcels.read(parcel)
        return Delivery(seen, seen.publisher, str(seen.sequence), subscriptions)


class Connection:
    """The state of one connection. Feed it bytes from the socket; it knows neither sockets nor time."""

    __slots__ = (
        "_allowed",
        "_buffer",
        "_codec",
        "_deliveries",
        "_frame_bytes_max",
        "_joined",
        "_joins",
        "_notifications",
        "_others",
        "_side",
        "closed",
        "messages",
        "received",
    )

    def __init__(self, side: Side, codec: Codec, *, joins: bool = False) -> None:
        """With `joins` plain publications, or copies, come as `Parcels` or, where the codec scans, as a `Haul`: all
        that follow one another as one.

        So do copies that name their destinations, as long as their headers are equal.
        """
        self._side = side
        self._joins = joins
        self._deliveries: Any = None  # the kernels that cut joined deliveries
        self._codec = codec
        self._buffer = FrameBuffer()
        self._frame_bytes_max = HANDSHAKE_BYTES_MAX
        self.closed = False
        self.received = 0
        self.messages: list[Any] = []
        self._allow(_FIRST[side])

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done."""
        return self._frame_bytes_max != HANDSHAKE_BYTES_MAX

    @property
    def unfinished_bytes(self) -> int:
        """The received part of an incomplete frame."""
        return len(self._buffer)

    @property
    def frames_begun(self) -> int:
        """Changes whenever a new incomplete frame begins."""
        return self._buffer.begun

    def drop_unfinished(self) -> None:
        """Close the connection and discard an incomplete frame."""
        self.closed = True
        self._buffer.clear()

    def expect_proof(self) -> None:
        """Accept only a proof next: the peer was challenged."""
        if self.is_open or self._side is not Side.ACCEPTING_BROKER:
            raise LocalProtocolError("a challenge is for who accepts, before the handshake is done")
        self._allow((Kind.PROOF,))

    def open(self, role: str, received: int = 0) -> None:
        """Finish the handshake: the peer has this role, and this many of its frames were received before."""
        if self.is_open:
            raise LocalProtocolError("the connection is open already")
        limits = self._codec.limits
        extra = LINK_EXTRA_BYTES if role == ROLE_BROKER or self._side is Side.CLIENT else 0
        self._frame_bytes_max = limits.frame_bytes_max + extra
        self.received = received
        if role == ROLE_BROKER:
            self._allow(BROKER_TO_CLIENT if self._side is Side.CLIENT else BROKER_TO_BROKER)
        elif role == ROLE_CLIENT and self._side is Side.ACCEPTING_BROKER:
            self._allow(CLIENT_TO_BROKER)
        else:
            raise LocalProtocolError(f"no connection between {self._side.value} and {role!r}")

    def join_deliveries(self) -> None:
        """From the next read on, return consecutive plain deliveries as `Deliveries`, if numba is loaded."""
        if self._deliveries is None and (checking := kernels("check")) is not None:
            self._deliveries = checking
            self._joined[int(Kind.DELIVER)] = Connection._take_deliveries

    def joined_with_rest(self, data: bytes) -> bytes | None:
        """These bytes after those of an incomplete frame, which are not kept here any longer; None if it still is."""
        if self.closed:
            return None
        return self._buffer.take(data) if self._buffer.parts else data

    def receive(self, data: bytes) -> list[Any]:
        """The messages that these bytes complete. After a `Hello` the rest waits until `open` and the next call."""
        messages: list[Any] = []
        self.messages = messages
        try:
            self._receive(data, messages)
        except (RemoteProtocolError, InputError) as error:
            self.closed = True
            raise RemoteProtocolError(reason_text(str(error))) from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self.closed = True
            raise RemoteProtocolError(reason_text(f"a frame cannot be decoded: {error}")) from None
        return messages

    def _receive(self, data: bytes, messages: list[Any]) -> None:
        if self.closed:
            return
        at_hand = self._buffer.take(data)
        if at_hand is None:
            return
        data = at_hand
        notifications, others, joined = self._notifications, self._others, self._joined
        frame_bytes_max = self._frame_bytes_max
        at, end, needed = 0, len(data), PREFIX_BYTES + 1
        numbered = 0
        while end - at > PREFIX_BYTES:
            length, kind = _HEAD.unpack_from(data, at)
            if not 0 < length <= frame_bytes_max:
                raise too_long(length, frame_bytes_max, data[at : at + 8])
            stop = at + PREFIX_BYTES + length
            if stop > end:
                needed = stop - at
                break
            if kind in joined and (after := joined[kind](self, data, at, messages)) > at:
                numbered += len(messages[-1])
                at = after
                continue
            if kind in notifications:
                if length < _NOTIFICATION_HEAD_BYTES - PREFIX_BYTES:
                    raise RemoteProtocolError(f"a frame {kind_name(kind)} of {length} bytes has no room for its header")
                start = at + _NOTIFICATION_HEAD_BYTES
                parcel = start + _HEADER_LENGTH.unpack_from(data, start - 4)[0]
                if parcel >= stop:
                    raise RemoteProtocolError(
                        f"a frame {kind_name(kind)} whose header leaves no room for a notification"
                    )
                messages.append(notifications[kind](data[start:parcel], data[parcel:stop]))
                numbered += 1
            elif kind in others:
                messages.append(others[kind](data[at + PREFIX_BYTES + 1 : stop]))
                numbered += kind >= FIRST_NUMBERED
                if kind in HANDSHAKE:
                    # The rest waits for `open`, or comes after the end.
                    at = stop
                    self.closed = kind == Kind.GOODBYE
                    break
            else:
                raise self._not_allowed(kind)
            at = stop
        self.received += numbered
        self._buffer.keep(data[at:], needed)

    def _take_plain(self, data: bytes, at: int, messages: list[Any]) -> int:
        """Read consecutive frames of plain notifications; returns where the next frame begins."""
        frame_bytes_max, most = self._frame_bytes_max, sys.maxsize
        scanner = self._codec.scanner
        if scanner is not None and self._may_scan(data, at) and data.startswith(_NO_HEADER, at + PREFIX_BYTES + 1):
            haul, after = scanner.take(data, at, _PLAIN_HEAD_BYTES, False, frame_bytes_max)
            if haul is not None:
                messages.append(haul)
                return after
            most = _UNUSUAL_MAX
        start, end, joined = at, len(data), data[at + PREFIX_BYTES]
        last = end - _NOTIFICATION_HEAD_BYTES
        head = _PLAIN_HEAD.unpack_from
        parcels: list[bytes] = []
        while at < last and len(parcels) < most:
            length, kind, header_bytes = head(data, at)
            stop = at + PREFIX_BYTES + length
            # Unusual frames are left to the caller, which reports errors.
            if kind != joined or header_bytes or stop > end or not _PLAIN_BYTES_MIN <= length <= frame_bytes_max:
                break
            parcels.append(data[at + _NOTIFICATION_HEAD_BYTES : stop])
            at = stop
        if not parcels:
            return start
        batch = Parcels()
        messages.append(batch)
        self._codec.read_parcels(parcels, batch)
        return at

    def _may_scan(self, data: bytes, at: int) -> bool:
        """Whether enough frames like the one at this place may follow that it pays to read them as columns."""
        return len(data) - at >= HAUL_MIN * (PREFIX_BYTES + int(_HEADER_LENGTH.unpack_from(data, at)[0]))

    def _take_stamped(self, data: bytes, at: int, messages: list[Any]) -> int:
        """Like `_take_plain`, for copies that name their destinations and have the same header as the first."""
        start, end, frame_bytes_max = at, len(data), self._frame_bytes_max
        if at + _NOTIFICATION_HEAD_BYTES > end:
            return start
        header = at + _NOTIFICATION_HEAD_BYTES
        tail = header + _HEADER_LENGTH.unpack_from(data, header - 4)[0]
        same = data[at + PREFIX_BYTES : tail]
        scanner = self._codec.scanner
        if scanner is not None and self._may_scan(data, at):
            carried, *noted = self._codec.dests.header(data[header:tail])
            haul, after = (None, at) if any(noted) else scanner.take(data, at, len(same), True, frame_bytes_max)
            if haul is not None:
                haul.carried = carried
                messages.append(haul)
                return after
        offset = tail - at
        length_of = _HEADER_LENGTH.unpack_from
        stamped: list[bytes] = []
        while at + offset < end:
            stop = at + PREFIX_BYTES + (length := length_of(data, at)[0])
            if not at + offset < stop <= end or length > frame_bytes_max or not data.startswith(same, at + 4):
                break
            stamped.append(data[at + offset : stop])
            at = stop
        if stamped:
            self._codec.read_stamped(data[header:tail], stamped, messages)
        return at

    def _take_deliveries(self, data: bytes, at: int, messages: list[Any]) -> int:
        """Like `_take_plain`, for deliveries, which are kept as bytes."""
        if len(data) - at < BYTES_MIN:
            return at
        limits = (self._frame_bytes_max, self._codec.limits.attributes_max)
        joined, after = split_deliveries(self._deliveries, data, at, limits, self._codec.read_delivery_header)
        if joined is not None:
            messages.append(joined)
        return after

    def _allow(self, kinds: Iterable[Kind]) -> None:
        allowed = tuple(kinds)
        self._allowed = frozenset(map(int, allowed))
        decoders = self._codec
        self._others = {int(kind): decoders.decoders[kind] for kind in allowed if kind not in _NOTIFICATIONS}
        self._joined = {int(kind): take for kind, take in _JOINS.items() if self._joins and kind in allowed}
        self._notifications = {
            int(kind): decoders.notification_decoders[kind] for kind in allowed if kind in _NOTIFICATIONS
        }

    def _not_allowed(self, kind: int) -> RemoteProtocolError:
        if not self.is_open:
            first = min(self._allowed)
            return RemoteProtocolError(
                f"a frame {kind_name(kind)} before the handshake; {kind_name(first)} comes first"
            )
        return RemoteProtocolError(f"a frame {kind_name(kind)}, which this peer may not send")


# Readers of runs of consecutive frames.
_JOINS: Final[dict[int, Callable[[Connection, bytes, int, list[Any]], int]]] = {
    Kind.PUBLISH: Connection._take_plain,  # noqa: SLF001
    Kind.NOTIFY: Connection._take_plain,  # noqa: SLF001
    Kind.NOTIFY_DESTS: Connection._take_stamped,  # noqa: SLF001
}


def reason_text(text: str) -> str:
    """`text` as one line that fits into a `Goodbye` or a `Refused`."""
    line = one_line(text)
    return line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 1]}…"
