"""What an engine says about the notifications that it read: the bytes for each queue, and what else is to be done."""

from collections.abc import Sequence
from typing import Final, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from octopia.net.broker.engine.publisher import Publisher
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle
from octopia.protocol import Header
from octopia.routing import Action, Decision, Refusal
from octopia.topology import BrokerId
from octopia.wire import Unread

Numbers = npt.NDArray[np.int64]

# Columns of `Sample.notes`: the number of its publisher, its sequence number, the numbers of its header and of its
# decision, and where its parcel ends among all.
NOTE_PUBLISHER, NOTE_SEQUENCE, NOTE_HEADER, NOTE_DECISION, NOTE_END = range(5)
# Columns of `Carried.frames`: its place in its bundle, the number of the publisher, the sequence number, its kind, and
# where the subscriptions end that it is for.
PLACE, PUBLISHER, SEQUENCE, KIND, IDS_END = range(5)
FRAME_COLUMNS: Final = 5
# Notifications are chosen by a number of 32 bits that follows from publisher and sequence number: those below this.
ALL: Final = 1 << 32


def is_chosen(publisher: str, sequence: int, below: int) -> bool:
    """Whether the number of a notification is below this."""
    return below >= ALL or crc32(b"%d" % sequence, crc32(publisher.encode())) < below


class Destination(Protocol):
    """The queue of a client or a neighbour."""

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Queue frames that follow from a read of this connection."""


# The frames for a lane of a queue.
Addressed = tuple[Destination, int, Bundle]


class Carried(Struct, eq=False):
    """Frames that carry chosen notifications: a line for each, in order, and the subscriptions that they are for.

    `ids` has the headers of deliveries, one after the other.
    """

    publishers: Sequence[str]
    frames: Numbers
    ids: bytes = b""


class Sample(Struct, eq=False):
    """The chosen notifications of an outcome, as columns, and the frames that carry them.

    `spans` has for each bundle that is told a number: where its frames begin in `carried` is there in `starts`, and
    they end where those of the next number begin.
    """

    notes: Numbers
    parcels: bytes
    headers: Sequence[Header]
    decisions: Sequence[Decision | Refusal]
    carried: Carried
    starts: Sequence[int] = ()
    spans: Sequence[int] = ()
    is_probe: bool = False


class Notes(Protocol):
    """The notifications of an outcome, for observers; valid until the next read.

    `told`: of how many bundles, from the first on, a sample tells the frames. Those of others are told by their bytes.
    """

    @property
    def told(self) -> int: ...

    def sample(self, below: int, parcels: bool) -> Sample | None:
        """Those whose number is below this, with their parcels or without; None if there are none."""


class Outcome(Struct, eq=False):
    """The first notifications of a read: how many there were, and what follows from them.

    `after`: where the next frame begins. `frames`: how many were read. `bundles` are put into their queues first; then
    `actions` are carried out. `notes`: if the engine is observed.
    """

    after: int
    frames: int
    bundles: Sequence[Addressed] = ()
    actions: Sequence[Action] = ()
    deliveries: int = 0
    notes: Notes | None = None


class Engine(Protocol):
    """Routes notifications: reads at least one of those that begin an `Unread`, and as many as it can take together."""

    def publish(self, publisher: Publisher, unread: Unread, now: float) -> Outcome:
        """Notifications published by a client."""

    def receive(self, sender: BrokerId, unread: Unread, now: float) -> Outcome:
        """Copies from a neighbour."""

    def withdrawn(self, client: str, subscription: str | None) -> Outcome | None:
        """What waits for a subscription that is being withdrawn, or for any of a client that left (None), and for
        nothing else of this client; it does not wait any more."""

    def check_time(self, now: float) -> Outcome | None:
        """What has waited long enough for an earlier notification."""
