"""Frames out: one function per kind that hosts and clients send. (Between brokers: `link_messages`.)

Frames are always within the other side's limits; anything larger is an `InputError` that tells the user what is too
large. Requests carry filters as structures, never as text, so brokers need not parse.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Raw
from msgspec.msgpack import Decoder

from octopia.errors import InputError
from octopia.language import Filter
from octopia.wire.dests import read_varint
from octopia.wire.frames import frame, notification_frame, notification_head
from octopia.wire.kinds import Kind
from octopia.wire.limits import NAME_CHARS_MAX
from octopia.wire.messages import KIND_OF, Body, UnadvertiseRequest, UnsubscribeRequest
from octopia.wire.parcel import TIMED, UNTIMED, accepted_ms, timed
from octopia.wire.values import ENCODER, filter_out

# Cached parcel lengths per kind and header, and the longest header cached: 200 bytes each at most.
HEADS_MAX = 32
HEADER_BYTES_MAX = 64
_decode_subscriptions = Decoder(tuple[str, ...]).decode
_decode_publisher = Decoder(tuple[Raw, str, int]).decode
_decode_timed_publisher = Decoder(tuple[Raw, str, int, int]).decode
_THREE = bytes([UNTIMED])


def message_frame(message: Body) -> bytes:
    """The frame of a message whose fields are its body."""
    return frame(KIND_OF[type(message)], ENCODER.encode(message))


def advertise_frame(id: str, filter: Filter) -> bytes:
    return frame(Kind.ADVERTISE, ENCODER.encode((_checked_id(id), filter_out(filter))))


def count_frame(number: int, filter: Filter) -> bytes:
    return frame(Kind.COUNT, ENCODER.encode((number, filter_out(filter))))


def unadvertise_frame(id: str) -> bytes:
    return message_frame(UnadvertiseRequest(_checked_id(id)))


def subscribe_frame(
    id: str,
    filter: Filter,
    policy: str | None,
    ordered: bool,
    priority: int | None = None,
    deadline_ms: int | None = None,
) -> bytes:
    body: tuple[Any, ...] = (_checked_id(id), filter_out(filter), policy, ordered)
    if priority is not None or deadline_ms is not None:
        body = (*body, priority, deadline_ms)
    return frame(Kind.SUBSCRIBE, ENCODER.encode(body))


def unsubscribe_frame(id: str) -> bytes:
    return message_frame(UnsubscribeRequest(_checked_id(id)))


def publish_frame(parcel: bytes, *, traced: bool = False) -> bytes:
    return notification_frame(Kind.PUBLISH, ENCODER.encode((True,)) if traced else b"", parcel)


def probe_frame(parcel: bytes) -> bytes:
    return notification_frame(Kind.PROBE, b"", parcel)


def deliver_frame(subscriptions: tuple[str, ...], parcel: bytes) -> bytes:
    return notification_frame(Kind.DELIVER, _subscriptions_header(subscriptions), parcel)


class Heads(dict[int, bytes]):
    """The bytes before a parcel in frames of one kind and header, by the parcel's length; made once per length.

    `heads[len(parcel)] + parcel` is the frame. Lengths are few; a full cache is cleared.
    """

    __slots__ = ("header", "kind")

    def __init__(self, kind: Kind, header: bytes = b"") -> None:
        super().__init__()
        self.kind = kind
        self.header = header

    def __missing__(self, parcel_bytes: int) -> bytes:
        made = notification_head(self.kind, self.header, parcel_bytes)
        if len(self.header) <= HEADER_BYTES_MAX:
            if len(self) >= HEADS_MAX:
                self.clear()
            self[parcel_bytes] = made
        return made


@lru_cache(maxsize=4096)
def deliver_heads(subscriptions: tuple[str, ...]) -> Heads:
    """The heads of deliveries for these subscriptions."""
    return Heads(Kind.DELIVER, _subscriptions_header(subscriptions))


def delivered_for(delivery: bytes) -> tuple[str, ...]:
    """The subscriptions of a frame made by `deliver_frame` or `deliver_heads`."""
    return _decode_subscriptions(delivery[9 : 9 + int.from_bytes(delivery[5:9], "big")])


def subscriptions_in(header: bytes) -> tuple[str, ...]:
    """The same, from the header of such a frame alone."""
    return _decode_subscriptions(header)


def delivered_at(delivery: bytes) -> int | None:
    """When the notification of such a frame was accepted, in ms by its host broker's clock; None: not recorded."""
    return accepted_ms(delivery, 9 + int.from_bytes(delivery[5:9], "big"))


def publisher_of(frame: bytes) -> str:
    """The publisher of the notification in a frame, of any kind that carries one; attributes are skipped."""
    return named_in(frame)[0]


def named_in(frame: bytes) -> tuple[str, int]:
    """The same, with its sequence number."""
    at = 9 + int.from_bytes(frame[5:9], "big")
    if frame[4] == Kind.NOTIFY_DESTS:
        length, at = read_varint(frame, at)
        at += length
    if frame[at] == TIMED:
        return _decode_timed_publisher(memoryview(frame)[at:])[1:3]
    return _decode_publisher(memoryview(frame)[at:])[1:]


def with_publisher(delivery: bytes, name_for: Callable[[str], str]) -> bytes:
    """The same delivery with its publisher renamed by `name_for`."""
    at = 9 + int.from_bytes(delivery[5:9], "big")
    body, encode = memoryview(delivery)[at:], ENCODER.encode
    accepted = accepted_ms(delivery, at)
    if accepted is None:
        attributes, publisher, sequence = _decode_publisher(body)
    else:
        attributes, publisher, sequence, _ = _decode_timed_publisher(body)
    # an array of three, like every parcel without a time
    parcel = b"".join((_THREE, attributes, encode(name_for(publisher)), encode(sequence)))
    return notification_frame(Kind.DELIVER, delivery[9:at], parcel if accepted is None else timed(parcel, accepted))


@lru_cache(maxsize=8192)
def _subscriptions_header(subscriptions: tuple[str, ...]) -> bytes:
    # The same few combinations come over and over.
    return ENCODER.encode(subscriptions)


def _checked_id(id: str) -> str:
    if not 0 < len(id) <= NAME_CHARS_MAX:
        raise InputError(f"an id of {len(id)} characters: 1 to {NAME_CHARS_MAX} are allowed")
    return id
