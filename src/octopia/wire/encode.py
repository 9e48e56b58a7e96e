"""Frames out: one function per kind that hosts and clients send. (Between brokers: `link_messages`.)

Rules of this file: what is sent is always within what the other side accepts, or is an `InputError` that tells the
person what is too large. Requests carry filters in structure, never as text: brokers need not parse.
"""

from functools import lru_cache

from octopia.errors import InputError
from octopia.language import Filter
from octopia.wire.frames import frame, notification_frame
from octopia.wire.kinds import Kind
from octopia.wire.limits import NAME_CHARS_MAX
from octopia.wire.messages import (
    Accepted,
    Ack,
    Barrier,
    BarrierDone,
    Dropped,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Refused,
    Welcome,
)
from octopia.wire.values import ENCODER, filter_out

_SIMPLE: dict[type, Kind] = {
    Hello: Kind.HELLO,
    Welcome: Kind.WELCOME,
    Goodbye: Kind.GOODBYE,
    Ack: Kind.ACK,
    Ping: Kind.PING,
    Pong: Kind.PONG,
    Accepted: Kind.ACCEPTED,
    Refused: Kind.REFUSED,
    Dropped: Kind.DROPPED,
    Barrier: Kind.BARRIER,
    BarrierDone: Kind.BARRIER_DONE,
}


def message_frame(
    message: Hello | Welcome | Goodbye | Ack | Ping | Pong | Accepted | Refused | Dropped | Barrier | BarrierDone,
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


@lru_cache(maxsize=8192)
def _subscriptions_header(subscriptions: tuple[str, ...]) -> bytes:
    # Few combinations come again and again.
    return ENCODER.encode(subscriptions)


def _checked_id(id: str) -> str:
    if not 0 < len(id) <= NAME_CHARS_MAX:
        raise InputError(f"an id of {len(id)} characters: 1 to {NAME_CHARS_MAX} are allowed")
    return id
