"""Messages between peers, except notifications: one typed message per kind of frame.

Handshake messages are MessagePack maps, so that later versions may add fields that older ones ignore; all others are
arrays with the fields in the order given here and nothing after them. Every string and list has a bound in its type.
Core messages between brokers are in `link_messages`.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from octopia.language import Filter
from octopia.wire.kinds import Kind
from octopia.wire.limits import (
    BROKERS_MAX,
    CAPABILITIES_MAX,
    FLUSH_MS_MAX,
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
# Asks for a broker's load and disconnects, without a session.
ROLE_PROBE = "probe"
# Capability of a client: it knows other brokers, and can move there when this one is overloaded.
MOVE = "move"
# Capability of a client or broker: it knows `CountRequest` and `Counted`.
COUNTS = "count"
# Capability of a client or broker: it knows `FlushRequest` and `Flushed`.
FLUSHES = "flush"

Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=31_536_000)]
Secret: TypeAlias = Annotated[bytes, Meta(max_length=SECRET_BYTES_MAX)]
Reason: TypeAlias = Annotated[str, Meta(max_length=REASON_CHARS_MAX)]
Capabilities: TypeAlias = Annotated[list[Name], Meta(max_length=CAPABILITIES_MAX)]

# The policy for a subscriber's full queue. The default affects no one else.
POLICIES = ("drop_oldest", "drop_newest", "disconnect", "block")
POLICY_DEFAULT = "drop_oldest"


class Body(Struct, frozen=True):
    """A message whose fields are the body of its frame (`KIND_OF`)."""


class _Fields(Body, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fields alone, in their order."""


class Hello(Body, frozen=True):
    """The first frame, from the dialling side: its identity, version and capabilities, and the session to resume."""

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
    overlay_name: Name = ""


class Challenge(_Fields, frozen=True):
    """Between brokers that share a token: prove that you know it, as I do here."""

    nonce: Secret
    proof: Secret


class Proof(_Fields, frozen=True):
    """The answer to a `Challenge`."""

    proof: Secret


class Welcome(Body, frozen=True):
    """The answer to an accepted `Hello`. `received`: the number of frames of the session received before.

    `restart_s`: how long a restart may take; the default is that of versions that do not send it.
    """

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
    restart_s: Seconds = 30.0


class Goodbye(_Fields, frozen=True):
    """The last frame. `code` is for programs, `reason` for people."""

    code: Name
    reason: Reason = ""


class Ack(_Fields, frozen=True, gc=False):
    """The number of numbered frames of this session that were received and processed."""

    received: Count


class Ping(_Fields, frozen=True, gc=False):
    number: Count = 0


class Pong(_Fields, frozen=True, gc=False):
    number: Count = 0


class Crowded(_Fields, frozen=True):
    """To a client that can move: this broker is overloaded, and others may not be."""

    reason: Reason = ""


class Load(Body, frozen=True):
    """The answer to the `Hello` of a probe: the broker's identity, and whether it is overloaded."""

    broker: Name
    overloaded: bool = False


class CountRequest(Struct, frozen=True):
    """How many advertisements overlap this filter? None: the filter was invalid, so the answer will be incomplete."""

    number: int
    filter: Filter | None


class Counted(_Fields, frozen=True, gc=False):
    """The answer to a `CountRequest`: at least this many, or exactly this many if it is complete."""

    number: Count
    count: Count
    complete: bool


class Hold(_Fields, frozen=True):
    """Between brokers: pause these publishers (`held`), or resume them."""

    publishers: Annotated[list[Id], Meta(min_length=1, max_length=HELD_PER_FRAME_MAX)]
    held: bool


class Drain(_Fields, frozen=True, gc=False):
    """Between brokers: this broker is about to stop. Send no more numbered frames, and answer `Drained`."""


class Drained(_Fields, frozen=True, gc=False):
    """The answer to `Drain`: no numbered frame follows on this connection."""


class AdvertiseRequest(Struct, frozen=True):
    id: str
    filter: Filter


class UnadvertiseRequest(_Fields, frozen=True):
    id: Id


class SubscribeRequest(Struct, frozen=True):
    """`policy`: what happens when the subscriber's queue is full. `ordered`: False allows reordering.

    `priority`: larger ones go first. `deadline_ms`: notifications older than this when their turn comes are dropped; 0
    is never. None for any of the three: the default of the host broker's cluster.
    """

    id: str
    filter: Filter
    policy: str | None = POLICY_DEFAULT
    ordered: bool = True
    priority: int | None = None
    deadline_ms: int | None = None


class UnsubscribeRequest(_Fields, frozen=True):
    id: Id


class FlushRequest(_Fields, frozen=True):
    """Tell me when everything that I published has arrived at the host brokers of its subscribers; at the latest then.

    The answer is `Flushed`, or `Refused` with the request "flush".
    """

    id: Id
    timeout_ms: Annotated[int, Meta(ge=0, le=FLUSH_MS_MAX)]


class Flushed(_Fields, frozen=True):
    """The answer to a `FlushRequest`: these brokers have not confirmed everything."""

    id: Id
    missing: Annotated[list[Name], Meta(max_length=BROKERS_MAX)]


class Accepted(_Fields, frozen=True):
    """A request was carried out. `request` is its name in lower case, `id` its subject."""

    request: Name
    id: Name


class Refused(_Fields, frozen=True):
    """A request, or a publication (`id` is its sequence number), was not carried out."""

    request: Name
    id: Name
    reason: Reason


class Dropped(_Fields, frozen=True, gc=False):
    """Deliveries dropped at this point in the stream because the subscriber's queue was full."""

    count: Count


class TooOld(_Fields, frozen=True, gc=False):
    """Deliveries dropped just before this point because their deadline had passed."""

    count: Count


class Delivery(Struct, frozen=True):
    """A notification as delivered: its publisher, its id, and the subscriptions that it matched."""

    notification: WireNotification
    publisher: str
    id: str
    subscriptions: tuple[str, ...]


class Barrier(_Fields, frozen=True, gc=False):
    """Answer when everything sent before this has taken effect: here, or in the whole cluster and its regions.

    Links keep order, so an answer that waits for the same question to come back from further on proves it.
    """

    number: Count
    cluster_wide: bool = False


class BarrierDone(_Fields, frozen=True, gc=False):
    number: Count


KIND_OF: Final[dict[type[Body], Kind]] = {
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
    Crowded: Kind.CROWDED,
    Load: Kind.LOAD,
    Counted: Kind.COUNTED,
    UnadvertiseRequest: Kind.UNADVERTISE,
    UnsubscribeRequest: Kind.UNSUBSCRIBE,
    FlushRequest: Kind.FLUSH,
    Flushed: Kind.FLUSHED,
    Accepted: Kind.ACCEPTED,
    Refused: Kind.REFUSED,
    Dropped: Kind.DROPPED,
    TooOld: Kind.TOO_OLD,
    Barrier: Kind.BARRIER,
    BarrierDone: Kind.BARRIER_DONE,
}
