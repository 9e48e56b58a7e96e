"""Events: the inputs of `Broker.handle`, named in the past tense.

An event is a frozen value made by the broker's host (simulator, network, embedded overlay). It says what happened, not
what to do about it. It does not contain the time, which is the second argument of `handle`.
"""

from msgspec import Struct

from octopia.language import Filter, Notification
from octopia.protocol import Message
from octopia.topology import BrokerId


class Received(Struct, frozen=True, gc=False):
    """A neighbour's message arrived. Links keep order: the host passes on messages of one link as they were sent."""

    sender: BrokerId
    message: Message


class LinkSampled(Struct, frozen=True, gc=False):
    """State of the output queue towards a neighbour: its length, and how many messages ever entered and left it.

    Its `now` is the moment of the sample, which may lie before other events; the samples of one link come in order.
    """

    neighbour: BrokerId
    queue_length: int
    entered: int
    left: int


class LinkWentDown(Struct, frozen=True):
    """The connection to this neighbour is gone. Messages in flight, either way, may be lost.

    From now on only notifications are sent there, and `idr` sends them only without another way.
    """

    neighbour: BrokerId


class LinkCameUp(Struct, frozen=True):
    """There is a fresh connection to this neighbour, which gets the same event.

    This event comes before anything received on that connection, and after everything from an older one. Earlier
    messages for this neighbour are not sent any more, except notifications that have certainly not arrived. A host that
    resumes a connection without loss does not send this event.
    """

    neighbour: BrokerId


class LinkGivenUp(Struct, frozen=True):
    """A neighbour that is down is not expected back soon: wait no longer to learn what lies beyond it.

    Matters only to a broker that was made with `links_up=False` and has not learnt it yet; ignored for a link that is
    up.
    """

    neighbour: BrokerId


class Advertised(Struct, frozen=True):
    client: str
    id: str
    filter: Filter


class Unadvertised(Struct, frozen=True):
    client: str
    id: str


class Subscribed(Struct, frozen=True):
    """`ordered`: False delivers notifications as they come, where the routing would hold them back to keep order.

    `priority`: 0 (ordinary) to `PRIORITY_MAX`; a host sends notifications with a larger one first (`priorities.py`).
    """

    client: str
    id: str
    filter: Filter
    ordered: bool = True
    priority: int = 0


class Unsubscribed(Struct, frozen=True):
    client: str
    id: str


class Published(Struct, frozen=True, gc=False):
    client: str
    id: str
    notification: Notification


class ClientLeft(Struct, frozen=True):
    """The client is gone for good: everything it registered is withdrawn.

    One call withdraws a slice of it (`broker.DEPARTURE_SLICE_MAX`). While `Broker.is_leaving` holds, the host passes
    the same event again, when it has time; meanwhile it drops deliveries for the client and keeps its name reserved.
    """

    client: str


Event = (
    Received
    | LinkSampled
    | LinkWentDown
    | LinkCameUp
    | LinkGivenUp
    | Advertised
    | Unadvertised
    | Subscribed
    | Unsubscribed
    | Published
    | ClientLeft
)
