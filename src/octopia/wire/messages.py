"""What peers say to each other, but for notifications: one typed message per kind of frame.

Rules of this file: the handshake's messages are MessagePack maps, so that later versions may add fields that older ones
pass over; all others are arrays whose fields stand in the order given here, and nothing may follow. Every string and
list has a bound in its type. What core messages between brokers look like is in `link_messages`.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from octopia.language import Filter
from octopia.wire.limits import (
    CAPABILITIES_MAX,
    HELD_PER_FRAME_MAX,
    NAME_CHARS_MAX,
    REASON_CHARS_MAX,
    SECRET_BYTES_MAX,
    SEQUENCE_MAX,
    TOKEN_CHARS_MAX,
)
from octopia.wire.parcel import WireNotification

VERSION = 1
ROLE_CLIENT = "client"
ROLE_BROKER = "broker"

Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=31_536_000)]
Secret: TypeAlias = Annotated[bytes, Meta(max_length=SECRET_BYTES_MAX)]
Reason: TypeAlias = Annotated[str, Meta(max_length=REASON_CHARS_MAX)]
Capabilities: TypeAlias = Annotated[list[Name], Meta(max_length=CAPABILITIES_MAX)]

# What happens when a subscriber's queue is full. The default harms nobody else.
POLICIES = ("drop_oldest", "drop_newest", "disconnect", "block")
POLICY_DEFAULT = "drop_oldest"


class Hello(Struct, frozen=True):
    """The first frame, of the side that dialled: who it is, what it speaks, and what it wants to take up again."""

    versions: Annotated[list[int], Meta(min_length=1, max_length=16)]
    role: Name
    name: Name = ""
    token: Annotated[str, Meta(max_length=TOKEN_CHARS_MAX)] = ""
    capabilities: Capabilities = []
    session: Secret = b""
    received: Count = 0
    session_s: Seconds = 0.0
    overlay: Name = ""
    to: Name = ""
    peer: Secret = b""
    nonce: Secret = b""


class Challenge(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Between brokers that share a token: prove that you know it, as I do here."""

    nonce: Secret
    proof: Secret


class Proof(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer to a `Challenge`."""

    proof: Secret


class Welcome(Struct, frozen=True):
    """The answer to a `Hello` that was accepted. `received`: how many frames of the session had arrived before."""

    version: int
    broker: Name
    name: Name
    capabilities: Capabilities = []
    session: Secret = b""
    resumed: bool = False
    received: Count = 0
    session_s: Seconds = 0.0
    frame_bytes_max: Count = 0
    heartbeat_s: Seconds = 0.0


class Goodbye(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last frame: nothing follows. `code` is for programs, `reason` for people."""

    code: Name
    reason: Reason = ""


class Ack(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """So many numbered frames of this session have arrived and been dealt with."""

    received: Count


class Ping(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    number: Count = 0


class Pong(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    number: Count = 0


class Hold(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Between brokers: bring no more of these publishers for now (`held`), or bring them again."""

    publishers: Annotated[list[Id], Meta(min_length=1, max_length=HELD_PER_FRAME_MAX)]
    held: bool


class Drain(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Between brokers: this broker is about to stop. Write no more numbered frames here, and say `Drained`."""


class Drained(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The answer to `Drain`: no numbered frame follows on this connection; what there was came before."""


class AdvertiseRequest(Struct, frozen=True):
    id: str
    filter: Filter


class UnadvertiseRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    id: Id


class SubscribeRequest(Struct, frozen=True):
    """`policy`: what happens when the subscriber's queue is full. `ordered`: False allows reordering."""

    id: str
    filter: Filter
    policy: str = POLICY_DEFAULT
    ordered: bool = True


class UnsubscribeRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    id: Id


class Accepted(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A request was carried out. `request` is its name in lower case, `id` what it was about."""

    request: Name
    id: Name


class Refused(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A request, or a publication (`id` is its sequence number), was not carried out."""

    request: Name
    id: Name
    reason: Reason


class Dropped(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """So many deliveries were dropped at this place in the stream, because the subscriber's queue was full."""

    count: Count


class Delivery(Struct, frozen=True):
    """A notification as a subscriber gets it: from whom, under which id, and for which of its subscriptions."""

    notification: WireNotification
    publisher: str
    id: str
    subscriptions: tuple[str, ...]


class Barrier(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Say so when everything that was sent before this has taken effect: here, or in the whole cluster and its regions.

    Links keep order, so the answer, which comes after the same question was asked further on, proves it.
    """

    number: Count
    cluster_wide: bool = False


class BarrierDone(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    number: Count
