"""The kinds of frames: one byte each, and who may send them when.

Rules of this file: a number is never used for anything else once it was given out. Kinds below `FIRST_NUMBERED` manage
the connection and are not counted; all others are counted by both ends, so that a session can be taken up where it
broke off. The direction of a kind is data here, and the connection knows no other rule.
"""

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """What a frame is."""

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

    ADVERTISE = 0x10
    UNADVERTISE = 0x11
    SUBSCRIBE = 0x12
    UNSUBSCRIBE = 0x13
    PUBLISH = 0x14

    ACCEPTED = 0x20
    REFUSED = 0x21
    DELIVER = 0x22
    DROPPED = 0x23

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


FIRST_NUMBERED: Final = 0x10
# What follows one of these depends on what it said.
HANDSHAKE: Final = frozenset({Kind.HELLO, Kind.WELCOME, Kind.GOODBYE, Kind.CHALLENGE, Kind.PROOF})

MANAGEMENT: Final = (Kind.GOODBYE, Kind.ACK, Kind.PING, Kind.PONG)
CLIENT_TO_BROKER: Final = (
    *MANAGEMENT,
    Kind.ADVERTISE,
    Kind.UNADVERTISE,
    Kind.SUBSCRIBE,
    Kind.UNSUBSCRIBE,
    Kind.PUBLISH,
)
BROKER_TO_CLIENT: Final = (*MANAGEMENT, Kind.ACCEPTED, Kind.REFUSED, Kind.DELIVER, Kind.DROPPED)
BROKER_TO_BROKER: Final = (
    *MANAGEMENT,
    Kind.HOLD,
    Kind.DRAIN,
    Kind.DRAINED,
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
    """The name of a kind for an error's line."""
    try:
        return Kind(number).name
    except ValueError:
        return f"0x{number:02x}"
