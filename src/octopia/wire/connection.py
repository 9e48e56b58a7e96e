"""One connection, without I/O: bytes in, messages out, and vice versa.

    dialling side      HELLO ->            <- WELCOME (or GOODBYE)            then both ways, as the role allows
    accepting side     -> HELLO            `open(role)`, WELCOME ->

A probe gets LOAD for its HELLO and nothing else.

Between brokers that share a token, CHALLENGE (`expect_proof`) and PROOF come before the WELCOME.

Only handshake frames are accepted before the handshake is done, and after it only the kinds that this role may send.
Messages are parsed one by one as they are asked for. Every violation by a peer ends in one `RemoteProtocolError`, at
its turn, whose text may be sent to the peer. An invalid filter is not a protocol violation but a request to refuse: it
is returned as `BadRequest`. The connection counts numbered frames for sessions.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from struct import Struct
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.msgpack import Decoder

from octopia.errors import InputError, LocalProtocolError, RemoteProtocolError
from octopia.hints import one_line
from octopia.protocol import PRIORITY_MAX
from octopia.topology import Scot
from octopia.wire.arrow.kernels import kernels
from octopia.wire.batches import BatchReader
from octopia.wire.delivered import BYTES_MIN, Cut, DecodedDeliveries, Deliveries, DeliveryCutter, split_deliveries
from octopia.wire.frames import FrameBuffer, too_long
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
from octopia.wire.link_messages import LinkReader
from octopia.wire.messages import (
    KIND_OF,
    POLICIES,
    ROLE_BROKER,
    ROLE_CLIENT,
    AdvertiseRequest,
    Count,
    CountRequest,
    Id,
    Name,
    SubscribeRequest,
)
from octopia.wire.parcel import Batch, ParcelReader
from octopia.wire.values import array_decoder, filter_in, filter_type

_ARRAY_OF_6: Final = b"\x96"
_HEAD: Final = Struct(">IB")
_HEADER_LENGTH: Final = Struct(">I")
# Frames with notifications for a broker, which reads runs of them at once.
_UNREAD: Final = COPIES | {Kind.PUBLISH, Kind.PROBE}


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


class Codec:
    """Decoders for one set of limits and, between brokers, one overlay; made once and shared by all connections."""

    def __init__(self, limits: WireLimits, overlay: Scot | None = None) -> None:
        self.limits = limits
        self._parcels = ParcelReader(limits)
        self.read_parcels = self._parcels.read_many
        self._filter_request = array_decoder(Id, filter_type(limits))
        self._count_request = array_decoder(Count, filter_type(limits))
        asked = (Id, filter_type(limits), Name | None, bool)
        self._subscribe_request = array_decoder(*asked)
        self._subscribe_qos_request = array_decoder(
            *asked,
            Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] | None,
            Annotated[int, Meta(ge=0, le=DEADLINE_MS_MAX)] | None,
        )
        self.read_delivery_header = Decoder(
            Annotated[tuple[Id, ...], Meta(min_length=1, max_length=SUBSCRIPTIONS_PER_DELIVERY_MAX)]
        ).decode
        links = LinkReader(limits, overlay)
        self.dests = links.dests
        self.cut_deliveries = DeliveryCutter(self.read_delivery_header).cut
        self.batches = BatchReader(self._parcels, links)
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
            Kind.ASK_CONFIRM: links.ask_confirm,
            Kind.WAITS: links.waits,
        }

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

    def deliveries(self, cut: Cut) -> DecodedDeliveries | list[bytes]:
        """The deliveries in these frames, up to one whose notification is wrong; raises if that is the first."""
        parcels, subscriptions, _ = cut
        if len(parcels) == 1:
            values, publisher, sequence = self._parcels.read_one(parcels[0])
            return DecodedDeliveries((values,), parcels, (publisher,), (sequence,), subscriptions)
        batch = Batch()
        try:
            self._parcels.read_many(parcels, batch)
        except RemoteProtocolError:
            if not len(batch):
                raise
        subscriptions = subscriptions[: len(batch)]
        return DecodedDeliveries(batch.values, batch.parcels, batch.publishers, batch.sequences, subscriptions)


class Unread:
    """Frames with notifications that were not read yet. Whoever reads some of them says so (`took`).

    The first begins at `at`; it is whole, and its length is within the bound.
    """

    __slots__ = ("_connection", "at", "data", "frame_bytes_max")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.data = b""
        self.at = 0
        self.frame_bytes_max = 0

    def took(self, after: int, frames: int) -> None:
        """So many frames were read; the next begins there."""
        self.at = after
        self._connection.went_on(after, frames)

    def skip(self) -> None:
        """Do not read the first frame, and do not count it."""
        self.took(self.at + PREFIX_BYTES + _HEADER_LENGTH.unpack_from(self.data, self.at)[0], 0)


class Connection:
    """The state of one connection. Feed it bytes from the socket; it knows neither sockets nor time.

    `received` counts the numbered frames of the session that were handed on.
    """

    __slots__ = (
        "_allowed",
        "_at",
        "_buffer",
        "_codec",
        "_data",
        "_deliveries",
        "_frame_bytes_max",
        "_others",
        "_side",
        "_unread",
        "_waits",
        "closed",
        "received",
    )

    def __init__(self, side: Side, codec: Codec) -> None:
        self._side = side
        self._deliveries: Any = None  # the kernels that cut joined deliveries
        self._codec = codec
        self._buffer = FrameBuffer()
        self._data = b""  # bytes at hand, handed on up to `_at`
        self._at = 0
        self._unread = Unread(self)
        self._waits = False  # for `open`, after a handshake message
        self._frame_bytes_max = HANDSHAKE_BYTES_MAX
        self.closed = False
        self.received = 0
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
        self._data, self._at = b"", 0
        self._buffer.clear()

    def expect_proof(self) -> None:
        """Accept only a proof next: the peer was challenged."""
        if self.is_open or self._side is not Side.ACCEPTING_BROKER:
            raise LocalProtocolError("only the accepting broker challenges a peer, and only during the handshake")
        self._waits = False
        self._allow((Kind.PROOF,))

    def open(self, role: str, received: int = 0) -> None:
        """Finish the handshake: the peer has this role, and this many of its frames were received before."""
        if self.is_open:
            raise LocalProtocolError("the connection is open already")
        limits = self._codec.limits
        extra = LINK_EXTRA_BYTES if role == ROLE_BROKER or self._side is Side.CLIENT else 0
        self._frame_bytes_max = self._unread.frame_bytes_max = limits.frame_bytes_max + extra
        self.received = received
        self._waits = False
        if role == ROLE_BROKER:
            self._allow(BROKER_TO_CLIENT if self._side is Side.CLIENT else BROKER_TO_BROKER)
        elif role == ROLE_CLIENT and self._side is Side.ACCEPTING_BROKER:
            self._allow(CLIENT_TO_BROKER)
        else:
            raise LocalProtocolError(f"no connection between {self._side.value} and {role!r}")

    def join_deliveries(self) -> None:
        """From the next read on, hand on plain deliveries as `JoinedDeliveries`, if numba is loaded."""
        if self._deliveries is None:
            self._deliveries = kernels("check")

    # -- bytes in, messages out

    @property
    def has_more(self) -> bool:
        """Whether there are bytes at hand that were not parsed, because nobody asked for more messages."""
        return self._at < len(self._data)

    def went_on(self, after: int, frames: int) -> None:
        """The frames up to this place were read by somebody else; so many count."""
        self._at = after
        self.received += frames

    def feed(self, data: bytes) -> None:
        """Take bytes from the socket; `messages` hands on what they complete."""
        if self.closed:
            return
        if self._at < len(self._data):
            self._data = self._data[self._at :] + data
        else:
            self._data = self._buffer.take(data) or b"" if self._buffer.parts else data
        self._at = 0

    def receive(self, data: bytes) -> list[Any]:
        """All messages that these bytes complete: a `Batch` for each run of notifications, deliveries singly."""
        self.feed(data)
        found: list[Any] = []
        for message in self.messages():
            if type(message) is Unread:
                try:
                    batch = self._codec.batches.read(message.data, message.at, message.frame_bytes_max)
                except RemoteProtocolError as error:
                    self.closed = True
                    raise RemoteProtocolError(reason_text(str(error))) from None
                message.took(batch.stops[-1], len(batch))
                found.append(batch)
            elif type(message) is DecodedDeliveries:
                found += message.decoded()
            else:
                found.append(message)
        return found

    def messages(self) -> Iterator[Any]:
        """The messages at hand, one after the other; what is not asked for stays at hand.

        A broker gets an `Unread` where notifications begin, and reads at least one of them before it asks for the next
        message. After a `Hello` the rest waits for `open`.
        """
        unread, needed = self._unread, PREFIX_BYTES + 1
        try:
            while not self.closed and not self._waits:
                data, at = self._data, self._at
                if len(data) - at <= PREFIX_BYTES:
                    break
                length, kind = _HEAD.unpack_from(data, at)
                if not 0 < length <= self._frame_bytes_max:
                    raise too_long(length, self._frame_bytes_max, data[at : at + 8])
                stop = at + PREFIX_BYTES + length
                if stop > len(data):
                    needed = stop - at
                    break
                if kind not in self._allowed:
                    raise self._not_allowed(kind)
                if kind in _UNREAD:
                    unread.data, unread.at = data, at
                    yield unread
                    if self._at == at:
                        raise LocalProtocolError("a notification was not read")
                    continue
                if kind == Kind.DELIVER:
                    deliveries, count, self._at = self._next_deliveries(data, at)
                    self.received += count
                    yield deliveries
                    continue
                self._at = stop
                self.received += kind >= FIRST_NUMBERED
                # The rest waits for `open`, or comes after the end. A challenge is answered, and then comes a welcome.
                self._waits = kind in HANDSHAKE and kind != Kind.CHALLENGE
                self.closed = kind == Kind.GOODBYE
                yield self._others[kind](data[at + PREFIX_BYTES + 1 : stop])
        except (RemoteProtocolError, InputError) as error:
            self.closed = True
            raise RemoteProtocolError(reason_text(str(error))) from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self.closed = True
            raise RemoteProtocolError(reason_text(f"a frame cannot be decoded: {error}")) from None
        if not self._waits:
            self._keep_rest(needed)

    def _keep_rest(self, needed: int) -> None:
        """All whole frames were handed on: keep what there is of the next, until there are `needed` bytes of it."""
        data, at = self._data, self._at
        self._data, self._at = b"", 0
        if at < len(data) and not self.closed:
            self._buffer.keep(data[at:], needed)

    def _next_deliveries(self, data: bytes, at: int) -> tuple[Deliveries | list[bytes], int, int]:
        """The deliveries from there on, their number, and where the next frame begins."""
        if self._deliveries is not None and len(data) - at >= BYTES_MIN:
            limits = (self._frame_bytes_max, self._codec.limits.attributes_max)
            joined, after = split_deliveries(self._deliveries, data, at, limits, self._codec.read_delivery_header)
            if joined is not None:
                return joined, len(joined), after
        cut = self._codec.cut_deliveries(data, at, self._frame_bytes_max)
        deliveries = self._codec.deliveries(cut)
        count = len(deliveries)
        return deliveries, count, cut[2][count - 1]

    def _allow(self, kinds: Iterable[Kind]) -> None:
        self._allowed = frozenset(map(int, kinds))
        decoders = self._codec.decoders
        self._others = {kind: decoders[kind] for kind in self._allowed if kind in decoders}

    def _not_allowed(self, kind: int) -> RemoteProtocolError:
        if not self.is_open:
            first = min(self._allowed)
            return RemoteProtocolError(
                f"a frame {kind_name(kind)} before the handshake; {kind_name(first)} comes first"
            )
        return RemoteProtocolError(f"a frame {kind_name(kind)}, which this peer may not send")


def reason_text(text: str) -> str:
    """`text` as one line that fits into a `Goodbye` or a `Refused`."""
    line = one_line(text)
    return line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 1]}…"
