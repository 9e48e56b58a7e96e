"""Streams: what a routing that numbers notifications offers to hosts, beside its decisions.

A routing that has streams (`Policy.streams`) promises more than a way: order, no loss, no repeats. Its decisions stay
free of numbers, so that they can be remembered; what belongs to one notification alone is the `Stamp` beside them. A
host does four things for it, and nothing where `Broker.streams` is None:

    published   `Broker.publish`; for each decision `sent`, whose stamp goes with all its copies
    received    `Broker.receive`; copies go onward at once, with the stamp that came; where `Decision.here` says that
                this broker is a destination, `arrived`: what it gives is to be delivered now, in this order; a host
                in a hurry asks `at_once` before
    time        `Broker.tick` when `Broker.due` has come; its actions are carried out as those of `Broker.handle`
    events      `Broker.handle`, as ever

`Broker.handle` does all of this by itself for a notification (`Published`, `Received` of a `Notify`), for hosts that
carry out one at a time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from octopia.language import Notification
from octopia.routing.actions import Action, Recipient
from octopia.routing.decision import Decision
from octopia.routing.messages import Key, Stamp


class Released(NamedTuple):
    """A notification that is to be delivered to these clients now, and what the host wanted kept with it."""

    publisher: str
    notification: Notification
    kept: Any
    recipients: tuple[Recipient, ...]


class Streams(Protocol):
    """The streams of one broker: those that begin at its clients, and those that end there.

    `due`: when `tick` has something to do; None: as things are, never. It is looked at after every call.
    """

    @property
    def due(self) -> float | None: ...

    def sent(
        self, publisher: str, id: str, notification: Notification, decision: Decision, size: int = 0
    ) -> Stamp | None:
        """A notification that was published here is being sent: its stamp; None where it goes nowhere.

        It is kept until all destinations confirmed it. To be called in the order of publishing. `size` is what it takes
        to keep it, in bytes, where the host wants that bounded.
        """

    def at_once(self, publisher: str, stamp: Stamp, notification: Notification) -> tuple[Recipient, ...] | None:
        """A copy for this broker came: who gets it, where it is the next and that is all; then nothing becomes due.

        None where it is not as simple: then nothing was noted, and `arrived` is to be asked. It answers for all copies,
        but takes longer.
        """

    def arrived(
        self, publisher: str, stamp: Stamp, notification: Notification, kept: Any, now: float, size: int = 0
    ) -> Sequence[Released]:
        """A copy for this broker came: what is to be delivered now. That may be nothing, itself, or much that waited.

        `kept` comes back with it, whenever that is: here, or as the id of a `Deliver`. Where nobody here wants a
        notification, it is left out.
        """

    def tick(self, now: float) -> list[Action]:
        """Do what is due."""

    def leaves(self, now: float) -> bool:
        """This broker is about to stop: whatever came is confirmed with the next tick.

        Returns whether there is nothing to confirm.
        """

    def takes_any(self, subscription: Key) -> None:
        """A subscription of a client here wants notifications as they come, in whatever order."""
