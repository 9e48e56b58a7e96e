"""Actions: the outputs of `Broker.handle`.

An action is an instruction to the host; actions are carried out in the given order. A delivery comes first, then copies
on aLinks in tree order, then copies on iLinks by cluster, so that equal inputs give equal outputs.
"""

from typing import NamedTuple

from msgspec import Struct

from octopia.language import Notification
from octopia.protocol import Message
from octopia.topology import BrokerId


class Send(Struct, frozen=True, gc=False):
    """Put this message into the output queue towards a neighbour.

    `priority` is that of a notification; other messages do not have one and keep their order.
    """

    to: BrokerId
    message: Message
    priority: int = 0


class Recipient(NamedTuple):
    """A client of this broker that receives a notification, and its matching subscriptions (the client's own ids)."""

    client: str
    subscriptions: tuple[str, ...]


def withdraw_from(
    recipients: tuple[Recipient, ...], client: str, id: str | None = None
) -> tuple[tuple[Recipient, ...], tuple[Recipient, ...]]:
    """Recipients of a notification after a subscription was withdrawn, or all of a client; and who is none any more."""
    for at, (name, subscriptions) in enumerate(recipients):
        if name == client and (id is None or id in subscriptions):
            before, after = recipients[:at], recipients[at + 1 :]
            others = tuple(each for each in subscriptions if id not in (None, each))
            if others:
                return (*before, Recipient(name, others), *after), ()
            return before + after, (recipients[at],)
    return recipients, ()


class Deliver(Struct, frozen=True, gc=False):
    """Deliver a notification once to each of these clients; a single action, so that the host encodes it once."""

    publisher: str
    id: str
    notification: Notification
    recipients: tuple[Recipient, ...]


class Accept(Struct, frozen=True):
    """A client's request was carried out here (or had been already: requests are idempotent)."""

    client: str
    request: str
    id: str


class Refuse(Struct, frozen=True):
    """A client's request was refused; `reason` is one line for the user."""

    client: str
    request: str
    id: str
    reason: str


Action = Send | Deliver | Accept | Refuse
