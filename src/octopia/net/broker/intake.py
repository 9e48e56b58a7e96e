"""Who brings what is being routed at this moment, so that a queue that fills up stops its own publishers and no others.

Whoever takes in what a read brought says from whom (`source`) for as long as that lasts, and nobody else does. Outside
of a read there is no source: what time lets go (`order.py`) holds nobody up.

Two ways to stop a source. The usual one names publishers (`holds.py`): a queue that is over its mark tells what went
into it (`went_in`), a client that brought it is not read from, a neighbour that did gets a Hold. The last resort, for
a link's queue at its hard bound, is not to read from whoever brings more (`hold_back`).

Rules of this file: what a read leads to is said once, when it is over (`done`); what happens between reads, at once. So
it makes no difference whether notifications came one by one or together. A client that is held is not read from, so its
confirmations are not seen either: its own queue asks for nothing while that lasts. So nobody waits in a circle.

A broker that stops holds nobody up (`hold_nobody`): it takes in what is under way, at most a window of each neighbour,
above the bounds of queues.
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
        """Whose notifications these are, which it has brought."""

    def pause(self, publishers: list[str], held: bool) -> None:
        """Bring no more of these publishers, or bring them again."""


class Intake:
    """The source of what is being routed, of one broker, and who was asked to pause."""

    __slots__ = ("_counters", "_holding", "_holds", "source")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._holds: Holds[Member] = Holds()
        self.source: Channel | None = None
        self._holding = True

    @property
    def held(self) -> int:
        """Publishers that are asked to pause at present."""
        return self._holds.held

    # -- queues

    def fills(self, queue: Member) -> None:
        """This queue is over its mark: what goes into it is to be told (`went_in`), until it has room."""
        self._holds.queue_fills(queue)

    def has_room(self, queue: Member) -> None:
        """This queue holds nobody up any more."""
        self._holds.queue_has_room(queue)
        if self.source is None:
            self._carry_out()

    def went_in(self, queue: Member, frames: list[bytes]) -> None:
        """What is being routed went into a queue that is over its mark."""
        source = self._source()
        if source is not None:
            self._holds.passed(source, source.publishers_of(frames), queue)

    def passed_on(self, link: Member, frames: list[bytes]) -> None:
        """What is being routed went to a neighbour that has named publishers."""
        source = self._source()
        if source is not None:
            self._holds.passed_on(source, source.publishers_of(frames), link)

    def _source(self) -> Member | None:
        return None if self.source is None else cast("Member | None", self.source.owner)

    def done(self) -> None:
        """All that a read brought has been routed."""
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
        """From now on nobody waits for room here, whatever fills up."""
        self._holding = False
        self._holds.stop()
        self._carry_out()

    # -- neighbours, and connections

    def neighbour_said(self, link: Member, hold: Hold) -> bool:
        """A neighbour wants no more of some publishers, or wants them again; returns whether any are left."""
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
