"""What an engine says about the notifications that it read: the bytes for each queue, and what else is to be done."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from octopia.net.broker.engine.publisher import Publisher
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle
from octopia.routing import Action, Decision, Refusal
from octopia.topology import BrokerId
from octopia.wire import Unread


class Destination(Protocol):
    """The queue of a client or a neighbour."""

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Queue frames that follow from a read of this connection."""


# The frames for a lane of a queue.
Addressed = tuple[Destination, int, Bundle]


class Notes(Protocol):
    """The notifications of an outcome, for observers; valid until the next read."""

    @property
    def publishers(self) -> Sequence[str]:
        """The publisher of each."""

    @property
    def sequences(self) -> Sequence[int]:
        """The number of each among its publisher's."""

    def content(self, at: int) -> bytes:
        """The parcel of one."""

    def decision(self, at: int) -> Decision | Refusal | None:
        """The decision about one, if there is one for it."""


class Outcome(Struct, eq=False):
    """The first notifications of a read: how many there were, and what follows from them.

    `after`: where the next frame begins. `frames`: how many were read. `bundles` are put into their queues first; then
    `actions` are carried out. `events` has for each bundle the notifications that its frames are of, if observed.
    """

    after: int
    frames: int
    bundles: Sequence[Addressed] = ()
    actions: Sequence[Action] = ()
    deliveries: int = 0
    notes: Notes | None = None
    events: Sequence[Sequence[int]] = ()


class Engine(Protocol):
    """Routes notifications: reads at least one of those that begin an `Unread`, and as many as it can take together."""

    def publish(self, publisher: Publisher, unread: Unread, now: float) -> Outcome:
        """Notifications published by a client."""

    def receive(self, sender: BrokerId, unread: Unread, now: float) -> Outcome:
        """Copies from a neighbour."""

    def check_time(self, now: float) -> Outcome | None:
        """What has waited long enough for an earlier notification."""
