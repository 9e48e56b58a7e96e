"""Pauses of sources: a filling queue pauses the publishers that fill it, and no others.

Whoever puts notifications into a queue says by which connection they came (`source`). Notifications released by a
timeout (`engine/order.py`) have no source, and pause nobody.

There are two ways to stop a source. The usual one names publishers (`holds.py`): a queue over its mark reports its new
entries (`went_in`); a client that sent them is not read from, and a neighbour that sent them gets a Hold. The last
resort, for a link's queue at its hard bound, is to stop reading from any source of more (`hold_back`).

The effects of a read are sent once, at its end (`read_ended`); those between reads at once. So it makes no difference
whether notifications came one by one or together. A held client is not read from, so its confirmations are not seen
either: its own queue asks nobody to pause meanwhile. This avoids circular waits.

A stopping broker holds nobody up (`hold_nobody`): it takes in notifications in flight, at most a window per neighbour,
beyond the bounds of queues.
"""

from collections.abc import Hashable, Iterable
from typing import Protocol, cast

from octopia.net.broker.holds import Holds
from octopia.net.broker.operations.counters import Counters
from octopia.net.channel import Channel
from octopia.net.frame_queue import FrameQueue, Source
from octopia.wire import ROLE_BROKER, Hold


class Member(Hashable, Protocol):
    """A session or a link: a queue, and a source."""

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """The publishers of these notifications, which it sent."""

    def pause(self, publishers: list[str], held: bool) -> None:
        """Pause or resume these publishers."""


class Intake:
    """The paused publishers of one broker."""

    __slots__ = ("_counters", "_holding", "_holds", "_is_reading")

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._holds: Holds[Member] = Holds()
        self._holding = True
        self._is_reading = False

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
        if not self._is_reading:
            self._carry_out()

    def went_in(self, queue: Member, frames: list[bytes], source: Channel | None) -> None:
        """Notifications of a source went into a queue over its mark."""
        owner = _owner(source)
        if owner is not None:
            self._holds.passed(owner, owner.publishers_of(frames), queue)

    def passed_on(self, link: Member, frames: list[bytes], source: Channel | None) -> None:
        """Notifications of a source went to a neighbour that has named publishers."""
        owner = _owner(source)
        if owner is not None:
            self._holds.passed_on(owner, owner.publishers_of(frames), link)

    def read_began(self) -> None:
        """Collect the effects of what follows, until `read_ended`."""
        self._is_reading = True

    def read_ended(self) -> None:
        """All notifications of a read have been routed."""
        self._is_reading = False
        if self._holds.changed:
            self._carry_out()

    def hold_back(self, queue: FrameQueue, source: Channel | None, *, clients_only: bool = False) -> None:
        """The last resort: this queue is full, and the source is not read from until half of it is empty again."""
        if source is not None and self._holding and not (clients_only and source.role == ROLE_BROKER):
            self._counters.sources_held += not source.is_held
            queue.block(source)

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
        if not self._is_reading:
            self._carry_out()

    def forget(self, source: Source) -> None:
        """A channel that was held is gone: its owner says so itself (`gone`)."""

    def _carry_out(self) -> None:
        for member, publishers, held in self._holds.take_orders():
            member.pause(publishers, held)


def _owner(source: Channel | None) -> Member | None:
    return None if source is None else cast("Member | None", source.owner)
