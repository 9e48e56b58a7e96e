"""The kinds of frames: one byte each, with the roles that may send them.

A number is never reused for another kind. Kinds below `FIRST_NUMBERED` manage the connection and are not counted; both
ends count all others, so that a session can resume where it broke off. The direction of a kind is data here, and the
connection applies no other rule.
"""

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """The kind of a frame."""

    HELLO = 0x01
    WELCOME = 0x02
    GOODBYE = 0x03
    ACK = 0x04
    PING = 0x05
    PONG = 0x06
    HOLD = 0x07
    DRAIN = 0x08
    DRAINED = 0x09
    CHALLENGE = 0x0A
    PROOF = 0x0B
    CROWDED = 0x0C
    LOAD = 0x0D
    COUNT = 0x0E
    COUNTED = 0x0F

    ADVERTISE = 0x10
    UNADVERTISE = 0x11
    SUBSCRIBE = 0x12
    UNSUBSCRIBE = 0x13
    PUBLISH = 0x14
    PROBE = 0x15
    FLUSH = 0x16

    ACCEPTED = 0x20
    REFUSED = 0x21
    DELIVER = 0x22
    DROPPED = 0x23
    TOO_OLD = 0x24
    FLUSHED = 0x25

    LINK_ADVERTISE = 0x30
    LINK_UNADVERTISE = 0x31
    LINK_SUBSCRIBE = 0x32
    LINK_UNSUBSCRIBE = 0x33
    LINK_CIB_SET = 0x34
    LINK_CIB_CLEAR = 0x35
    BARRIER = 0x36
    BARRIER_DONE = 0x37
    NOTIFY = 0x38
    NOTIFY_TREE = 0x39
    NOTIFY_ROUTES = 0x3A
    LINK_SUBSCRIPTIONS_COMPLETE = 0x3B
    LINK_ADVERTISEMENTS_COMPLETE = 0x3C
    NOTIFY_DESTS = 0x3D
    LINK_SUBSCRIPTIONS_INCOMPLETE = 0x3E
    LINK_NEWS = 0x3F
    CONFIRM = 0x40
    WAITS = 0x41
    ASK_CONFIRM = 0x42


FIRST_NUMBERED: Final = 0x10
# The frames after one of these depend on its content.
HANDSHAKE: Final = frozenset({Kind.HELLO, Kind.WELCOME, Kind.GOODBYE, Kind.CHALLENGE, Kind.PROOF})

MANAGEMENT: Final = (Kind.GOODBYE, Kind.ACK, Kind.PING, Kind.PONG)
CLIENT_TO_BROKER: Final = (
    *MANAGEMENT,
    Kind.COUNT,
    Kind.ADVERTISE,
    Kind.UNADVERTISE,
    Kind.SUBSCRIBE,
    Kind.UNSUBSCRIBE,
    Kind.PUBLISH,
    Kind.PROBE,
    Kind.FLUSH,
)
BROKER_TO_CLIENT: Final = (
    *MANAGEMENT,
    Kind.CROWDED,
    Kind.COUNTED,
    Kind.ACCEPTED,
    Kind.REFUSED,
    Kind.DELIVER,
    Kind.DROPPED,
    Kind.TOO_OLD,
    Kind.FLUSHED,
)
BROKER_TO_BROKER: Final = (
    *MANAGEMENT,
    Kind.HOLD,
    Kind.DRAIN,
    Kind.DRAINED,
    Kind.COUNT,
    Kind.COUNTED,
    Kind.LINK_ADVERTISE,
    Kind.LINK_UNADVERTISE,
    Kind.LINK_SUBSCRIBE,
    Kind.LINK_UNSUBSCRIBE,
    Kind.LINK_CIB_SET,
    Kind.LINK_CIB_CLEAR,
    Kind.LINK_SUBSCRIPTIONS_COMPLETE,
    Kind.LINK_ADVERTISEMENTS_COMPLETE,
    Kind.LINK_SUBSCRIPTIONS_INCOMPLETE,
    Kind.LINK_NEWS,
    Kind.CONFIRM,
    Kind.ASK_CONFIRM,
    Kind.WAITS,
    Kind.BARRIER,
    Kind.BARRIER_DONE,
    Kind.NOTIFY,
    Kind.NOTIFY_TREE,
    Kind.NOTIFY_ROUTES,
    Kind.NOTIFY_DESTS,
)
# Those that carry a copy of a notification.
COPIES: Final = frozenset({Kind.NOTIFY, Kind.NOTIFY_TREE, Kind.NOTIFY_ROUTES, Kind.NOTIFY_DESTS})


def kind_name(number: int) -> str:
    """The name of a kind for an error message."""
    try:
        return Kind(number).name
    except ValueError:
        return f"0x{number:02x}"
