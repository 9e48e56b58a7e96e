"""What happens to a broker: the inputs of `Broker.handle`, named in the past tense.

Rules of this file: an event is a frozen value made by the broker's host (simulator, network, embedded overlay); it
says what happened and nothing of what to do about it. Time is not in here: it is the second argument of `handle`.
"""

from msgspec import Struct

from octopia.language import Filter, Notification
from octopia.routing.messages import Message
from octopia.topology import BrokerId


class Received(Struct, frozen=True, gc=False):
    """A neighbour's message arrived. Links keep order: the host hands messages of one link over as they were sent."""

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
    """There is no connection to this neighbour. What was in flight, either way, may be lost.

    From now on only notifications are sent there, and by `idr` only where there is no other way.
    """

    neighbour: BrokerId


class LinkCameUp(Struct, frozen=True):
    """There is a fresh connection to this neighbour, at whose other end the same is told.

    Told before anything of that connection is received, and never again anything of an older one. What the broker
    ordered to be sent there before now is not sent any more, except for notifications that are certain not to have
    arrived. A host that resumes a connection without loss tells nothing.
    """

    neighbour: BrokerId


class LinkGivenUp(Struct, frozen=True):
    """A neighbour that is down is not expected back soon: wait no longer to learn what lies beyond it.

    Matters only to a broker that was made with `links_up=False` and has not learnt it yet; of a link that is up it
    says nothing.
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
    """`ordered`: False takes notifications as they come, where the routing would hold them back for order's sake."""

    client: str
    id: str
    filter: Filter
    ordered: bool = True


class Unsubscribed(Struct, frozen=True):
    client: str
    id: str


class Published(Struct, frozen=True, gc=False):
    client: str
    id: str
    notification: Notification


class ClientLeft(Struct, frozen=True):
    """The client is gone for good: everything it registered goes with it.

    One call withdraws a slice of it (`broker.DEPARTURE_SLICE_MAX`). While `Broker.is_leaving` says so, the host hands
    over the same event again, at its leisure; until then it drops deliveries for the client and lets nobody else have
    its name.
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
