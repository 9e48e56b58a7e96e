"""The wire protocol, sans-IO: frames, messages, limits, and the state of one connection.

Rules of this package: no socket, no clock, no randomness. docs/reference/wire.md describes every byte.
"""

from octopia.wire.connection import BadRequest, Codec, Connection, Side, reason_text
from octopia.wire.encode import (
    advertise_frame,
    deliver_frame,
    message_frame,
    publish_frame,
    subscribe_frame,
    unadvertise_frame,
    unsubscribe_frame,
)
from octopia.wire.frames import frame, notification_frame
from octopia.wire.kinds import FIRST_NUMBERED, Kind, kind_name
from octopia.wire.limits import LINK_EXTRA_BYTES, NAME_CHARS_MAX, PLAIN_OVERHEAD_BYTES, TOKEN_CHARS_MAX, WireLimits
from octopia.wire.link_messages import PLAIN, CopyHeader, link_frames
from octopia.wire.messages import (
    POLICIES,
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Accepted,
    Ack,
    AdvertiseRequest,
    Barrier,
    BarrierDone,
    Delivery,
    Dropped,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
)
from octopia.wire.parcel import WireNotification, check_parcel, encode_parcel, wire_notification

__all__ = [
    "FIRST_NUMBERED",
    "LINK_EXTRA_BYTES",
    "NAME_CHARS_MAX",
    "PLAIN",
    "PLAIN_OVERHEAD_BYTES",
    "POLICIES",
    "ROLE_BROKER",
    "ROLE_CLIENT",
    "TOKEN_CHARS_MAX",
    "VERSION",
    "Accepted",
    "Ack",
    "AdvertiseRequest",
    "BadRequest",
    "Barrier",
    "BarrierDone",
    "Codec",
    "Connection",
    "CopyHeader",
    "Delivery",
    "Dropped",
    "Goodbye",
    "Hello",
    "Kind",
    "Ping",
    "Pong",
    "Refused",
    "Side",
    "SubscribeRequest",
    "UnadvertiseRequest",
    "UnsubscribeRequest",
    "Welcome",
    "WireLimits",
    "WireNotification",
    "advertise_frame",
    "check_parcel",
    "deliver_frame",
    "encode_parcel",
    "frame",
    "kind_name",
    "link_frames",
    "message_frame",
    "notification_frame",
    "publish_frame",
    "reason_text",
    "subscribe_frame",
    "unadvertise_frame",
    "unsubscribe_frame",
    "wire_notification",
]
