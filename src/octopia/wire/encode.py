"""Frames out: one function per kind that hosts and clients send. (Between brokers: `link_messages`.)

Rules of this file: what is sent is always within what the other side accepts, or is an `InputError` that tells the
person what is too large. Requests carry filters in structure, never as text: brokers need not parse.
"""

from functools import lru_cache

from msgspec import Raw
from msgspec.msgpack import Decoder

from octopia.errors import InputError
from octopia.language import Filter
from octopia.wire.dests import read_varint
from octopia.wire.frames import frame, notification_frame, notification_head
from octopia.wire.kinds import Kind
from octopia.wire.limits import NAME_CHARS_MAX
from octopia.wire.messages import (
    Accepted,
    Ack,
    Barrier,
    BarrierDone,
    Challenge,
    Drain,
    Drained,
    Dropped,
    Goodbye,
    Hello,
    Hold,
    Ping,
    Pong,
    Proof,
    Refused,
    Welcome,
)
from octopia.wire.values import ENCODER, filter_out

# Lengths of parcels remembered per kind and header, if the header is no longer than this: 200 bytes each at most.
HEADS_MAX = 32
HEADER_BYTES_MAX = 64
_decode_subscriptions = Decoder(tuple[str, ...]).decode
_decode_publisher = Decoder(tuple[Raw, str, int]).decode

_SIMPLE: dict[type, Kind] = {
    Hello: Kind.HELLO,
    Welcome: Kind.WELCOME,
    Goodbye: Kind.GOODBYE,
    Ack: Kind.ACK,
    Ping: Kind.PING,
    Pong: Kind.PONG,
    Hold: Kind.HOLD,
    Drain: Kind.DRAIN,
    Drained: Kind.DRAINED,
    Challenge: Kind.CHALLENGE,
    Proof: Kind.PROOF,
    Accepted: Kind.ACCEPTED,
    Refused: Kind.REFUSED,
    Dropped: Kind.DROPPED,
    Barrier: Kind.BARRIER,
    BarrierDone: Kind.BARRIER_DONE,
}


def message_frame(
    message: Hello
    | Welcome
    | Goodbye
    | Ack
    | Ping
    | Pong
    | Hold
    | Drain
    | Drained
    | Challenge
    | Proof
    | Accepted
    | Refused
    | Dropped
    | Barrier
    | BarrierDone,
) -> bytes:
    """The frame of a message whose fields are its body."""
    return frame(_SIMPLE[type(message)], ENCODER.encode(message))


def advertise_frame(id: str, filter: Filter) -> bytes:
    return frame(Kind.ADVERTISE, ENCODER.encode((_checked_id(id), filter_out(filter))))


def unadvertise_frame(id: str) -> bytes:
    return frame(Kind.UNADVERTISE, ENCODER.encode((_checked_id(id),)))


def subscribe_frame(id: str, filter: Filter, policy: str, ordered: bool) -> bytes:
    return frame(Kind.SUBSCRIBE, ENCODER.encode((_checked_id(id), filter_out(filter), policy, ordered)))


def unsubscribe_frame(id: str) -> bytes:
    return frame(Kind.UNSUBSCRIBE, ENCODER.encode((_checked_id(id),)))


def publish_frame(parcel: bytes, *, traced: bool = False) -> bytes:
    return notification_frame(Kind.PUBLISH, ENCODER.encode((True,)) if traced else b"", parcel)


def deliver_frame(subscriptions: tuple[str, ...], parcel: bytes) -> bytes:
    return notification_frame(Kind.DELIVER, _subscriptions_header(subscriptions), parcel)


class Heads(dict[int, bytes]):
    """What comes before a parcel in frames of one kind and header, by the parcel's length: made once for each length.

    `heads[len(parcel)] + parcel` is the frame. Lengths are few; when they are not, all are forgotten.
    """

    __slots__ = ("_header", "_kind")

    def __init__(self, kind: Kind, header: bytes = b"") -> None:
        super().__init__()
        self._kind = kind
        self._header = header

    def __missing__(self, parcel_bytes: int) -> bytes:
        made = notification_head(self._kind, self._header, parcel_bytes)
        if len(self._header) <= HEADER_BYTES_MAX:
            if len(self) >= HEADS_MAX:
                self.clear()
            self[parcel_bytes] = made
        return made


@lru_cache(maxsize=4096)
def deliver_heads(subscriptions: tuple[str, ...]) -> Heads:
    """The heads of deliveries for these subscriptions."""
    return Heads(Kind.DELIVER, _subscriptions_header(subscriptions))


def delivered_for(delivery: bytes) -> tuple[str, ...]:
    """The subscriptions that a frame made by `deliver_frame` or `deliver_heads` is for."""
    return _decode_subscriptions(delivery[9 : 9 + int.from_bytes(delivery[5:9], "big")])


def publisher_of(frame: bytes) -> str:
    """Whose notification a frame carries, of any kind that carries one; its attributes are passed over."""
    at = 9 + int.from_bytes(frame[5:9], "big")
    if frame[4] == Kind.NOTIFY_DESTS:
        length, at = read_varint(frame, at)
        at += length
    return _decode_publisher(memoryview(frame)[at:])[1]


@lru_cache(maxsize=8192)
def _subscriptions_header(subscriptions: tuple[str, ...]) -> bytes:
    # Few combinations come again and again.
    return ENCODER.encode(subscriptions)


def _checked_id(id: str) -> str:
    if not 0 < len(id) <= NAME_CHARS_MAX:
        raise InputError(f"an id of {len(id)} characters: 1 to {NAME_CHARS_MAX} are allowed")
    return id
