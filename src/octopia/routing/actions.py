"""What a broker orders: the outputs of `Broker.handle`.

Rules of this file: an action is an order to the host, to be carried out in the order given. A delivery comes first,
then copies on aLinks in tree order, then copies on iLinks by cluster, so that equal inputs give equal outputs.
"""

from typing import NamedTuple

from msgspec import Struct

from octopia.language import Notification
from octopia.routing.messages import Message
from octopia.topology import BrokerId


class Send(Struct, frozen=True, gc=False):
    """Put this message into the output queue towards a neighbour."""

    to: BrokerId
    message: Message


class Recipient(NamedTuple):
    """A client of this broker that is to get a notification, and all its subscriptions (client's ids) that match."""

    client: str
    subscriptions: tuple[str, ...]


class Deliver(Struct, frozen=True, gc=False):
    """Hand a notification to these clients of this broker, to each once: one order, so that a host encodes it once."""

    publisher: str
    id: str
    notification: Notification
    recipients: tuple[Recipient, ...]


class Accepted(Struct, frozen=True):
    """A client's request was carried out here (or had been already: requests are idempotent)."""

    client: str
    request: str
    id: str


class Refused(Struct, frozen=True):
    """A client's request was not carried out; `reason` is one line for the person behind the client."""

    client: str
    request: str
    id: str
    reason: str


Action = Send | Deliver | Accepted | Refused
