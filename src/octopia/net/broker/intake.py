"""The source of the notifications being routed, so that a filling queue pauses its own publishers and no others.

The reader of a batch sets its `source` while the batch is handled, and nobody else does. Outside of a read there is no
source: notifications released by a timeout (`order.py`) pause nobody.

There are two ways to stop a source. The usual one names publishers (`holds.py`): a queue over its mark reports its new
entries (`went_in`); a client that sent them is not read from, and a neighbour that sent them gets a Hold. The last
resort, for a link's queue at its hard bound, is to stop reading from any source of more (`hold_back`).

The effects of a read are sent once, at its end (`done`); those between reads at once. So it makes no difference whether
notifications came one by one or together. A held client is not read from, so its confirmations are not seen either: its
own queue asks nobody to pause meanwhile. This avoids circular waits.

A stopping broker holds nobody up (`hold_nobody`): it takes in notifications in flight, at most a window per neighbour,
beyond the bounds of queues.
"""

from collections.abc import Hashable, Iterable
from typing import Protocol, cast

from octopia.net.broker.holds import Holds
from octopia.net.broker.operations.counters import Counters
from octopia.net.channel import Channel
from octopia.net.outbox import Outbox, Source
from octopia.wire import ROLE_BROKER, Hold


class Member(Hashable, Protocol):
    """A session or a link: a queue, and a source."""

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """The publishers of these notifications, which it sent."""

    def pause(self, publishers: list[str], held: bool) -> None:
        """Pause or resume these publishers."""


class Intake:
    """The current source of one broker, and its paused publishers."""

    __slots__ = ("_counters", "_holding", "_holds", "source")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._holds: Holds[Member] = Holds()
        self.source: Channel | None = None
        self._holding = True

    @property
    def held(self) -> int:
        """The number of paused publishers."""
        return self._holds.held

    # -- queues

    def fills(self, queue: Member) -> None:
        """This queue is over its mark: report its new entries (`went_in`) until it has room."""
        self._holds.queue_fills(queue)

    def has_room(self, queue: Member) -> None:
        """This queue has room again and pauses nobody."""
        self._holds.queue_has_room(queue)
        if self.source is None:
            self._carry_out()

    def went_in(self, queue: Member, frames: list[bytes]) -> None:
        """The current notifications went into a queue over its mark."""
        source = self._source()
        if source is not None:
            self._holds.passed(source, source.publishers_of(frames), queue)

    def passed_on(self, link: Member, frames: list[bytes]) -> None:
        """The current notifications went to a neighbour that has named publishers."""
        source = self._source()
        if source is not None:
            self._holds.passed_on(source, source.publishers_of(frames), link)

    def _source(self) -> Member | None:
        return None if self.source is None else cast("Member | None", self.source.owner)

    def done(self) -> None:
        """The current read has been routed."""
        self.source = None
        if self._holds.changed:
            self._carry_out()

    def hold_back(self, box: Outbox, *, clients_only: bool = False) -> None:
        """The last resort: this box is full, and its source is not read from until half of it is empty again."""
        source = self.source
        if source is not None and self._holding and not (clients_only and source.role == ROLE_BROKER):
            self._counters.sources_held += not source.is_held
            box.block(source)

    def hold_nobody(self) -> None:
        """From now on, nobody waits for room here."""
        self._holding = False
        self._holds.stop()
        self._carry_out()

    # -- neighbours, and connections

    def neighbour_said(self, link: Member, hold: Hold) -> bool:
        """A neighbour pauses or resumes some publishers; returns whether any are still paused."""
        if hold.held:
            self._holds.neighbour_holds(link, hold.publishers)
        else:
            self._holds.neighbour_releases(link, hold.publishers)
        return self._holds.has_named(link)

    def gone(self, member: Member) -> None:
        """Its connection is gone."""
        self._holds.gone(member)
        if self.source is None:
            self._carry_out()

    def forget(self, source: Source) -> None:
        """A channel that was held is gone: its owner says so itself (`gone`)."""

    def _carry_out(self) -> None:
        for member, publishers, held in self._holds.take_orders():
            member.pause(publishers, held)
