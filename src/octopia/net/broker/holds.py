"""Backpressure by publisher: a full queue pauses its own publishers and no others.

Three terms. A *queue* holds frames for a client or a neighbour. A *source* is the client or neighbour that sends us
notifications. Both are opaque here: a broker uses its sessions and links, which are queue and source at once. A
*publisher* is a client's name; a client sends only its own notifications, a neighbour those of many.

There are two reasons for a publisher to pause:

- a queue is filling up (`queue_fills`): all publishers whose notifications go into it pause until it has room again
  (`queue_has_room`);
- a neighbour said Hold (`neighbour_holds`): the publishers it named pause, as far as they go to it, until it releases
  them (`neighbour_releases`) or its connection is gone.

The source of a publisher is not known beforehand, and with dynamic routing there may be several. So a source is asked
when it next sends an unwanted notification (`passed`, `passed_on`): one more notification per hop, and only sources
that actually fill the queue are asked. A client of the same name elsewhere, or a neighbour that sends that publisher
for others, is left alone.

A source is asked once for each publisher, and released when the last reason is gone. Orders are collected and taken by
the host (`take_orders`); a pause that is released in between is never sent. Pauses belong to a connection and end with
it (`gone`): a queue that is still full asks again at the next notification.

No I/O, no clock, all in order of arrival. At most `held_max` publishers are held, and as many remembered for
neighbours; beyond that no more are asked, and the hard bound of the queue decides.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

# Publishers that one broker holds at a time; its neighbours may have named as many again.
HELD_MAX = 10_000


class PauseOrder(NamedTuple, Generic[Owner]):
    """Tell this source to pause or resume these publishers."""

    source: Owner
    publishers: list[str]
    held: bool


class Holds(Generic[Owner]):
    """The pauses of one broker, and their reasons."""

    __slots__ = (
        "_asked_by",
        "_askers",
        "_filling",
        "_held_max",
        "_named",
        "_told",
        "changed",
        "held",
        "named",
    )

    def __init__(self, held_max: int = HELD_MAX) -> None:
        self.held = 0  # publishers that are to pause, counted once for each source that brings them
        self.named = 0  # publishers that neighbours have named
        self._held_max = held_max
        self._filling: dict[Owner, None] = {}
        self._named: dict[Owner, dict[str, None]] = {}  # by neighbour
        # By source and publisher, its askers; and the reverse. An asker is a filling queue (True) or a neighbour
        # (False).
        self._askers: dict[Owner, dict[str, dict[tuple[Owner, bool], None]]] = {}
        self._asked_by: dict[tuple[Owner, bool], dict[str, dict[Owner, None]]] = {}
        # By source: the publishers it was told to pause, and those that may have changed since (see `take_orders`).
        self._told: dict[Owner, dict[str, None]] = {}
        self.changed: dict[Owner, dict[str, None]] = {}

    # -- reasons to pause

    def queue_fills(self, queue: Owner) -> None:
        """From now on, sources that add to this queue are asked to pause."""
        self._filling[queue] = None

    def queue_has_room(self, queue: Owner) -> None:
        """This queue no longer asks anyone to pause."""
        if queue in self._filling:
            del self._filling[queue]
            self._withdraw((queue, True))

    def neighbour_holds(self, neighbour: Owner, publishers: Iterable[str]) -> None:
        """A neighbour asks for these publishers to pause."""
        named = self._named.get(neighbour, {})
        for publisher in publishers:
            if publisher not in named and self.named < self._held_max:
                named[publisher] = None
                self.named += 1
        if named:
            self._named[neighbour] = named

    def neighbour_releases(self, neighbour: Owner, publishers: Iterable[str]) -> None:
        """A neighbour accepts these publishers again."""
        named = self._named.get(neighbour, {})
        for publisher in publishers:
            if publisher in named:
                del named[publisher]
                self.named -= 1
                self._drop((neighbour, False), publisher)
        if not named:
            self._named.pop(neighbour, None)

    # -- traffic of sources

    def has_named(self, neighbour: Owner) -> bool:
        """Whether this neighbour has asked any publishers to pause."""
        return neighbour in self._named

    def passed(self, source: Owner, publishers: Iterable[str], queue: Owner) -> None:
        """Notifications of these publishers came by this source and went into this queue, which is filling up."""
        # Not a client that subscribes to itself: if it paused, its queue would not empty.
        if queue in self._filling and source != queue:
            for publisher in publishers:
                self._ask(source, publisher, (queue, True))

    def passed_on(self, source: Owner, publishers: Iterable[str], neighbour: Owner) -> None:
        """Notifications of these publishers came by this source and went to this neighbour, which has named some."""
        named = self._named.get(neighbour, {})
        for publisher in publishers:
            if publisher in named and source != neighbour:
                self._ask(source, publisher, (neighbour, False))

    def gone(self, owner: Owner) -> None:
        """Its connection is gone, and with it all pauses it asked for or was asked for."""
        self.queue_has_room(owner)
        self.neighbour_releases(owner, list(self._named.get(owner, ())))
        for publisher, askers in self._askers.pop(owner, {}).items():
            self.held -= 1
            for asker in askers:
                self._unlink(asker, publisher, owner)
        self._told.pop(owner, None)
        self.changed.pop(owner, None)

    def stop(self) -> None:
        """Release everyone and ask nobody from now on."""
        self._held_max = 0
        for asker in list(self._asked_by):
            self._withdraw(asker)

    # -- orders

    def take_orders(self) -> list[PauseOrder[Owner]]:
        """The orders for sources since the last call; names are sorted, whatever their order of arrival."""
        if not self.changed:
            return []
        changed, self.changed = self.changed, {}
        orders: list[PauseOrder[Owner]] = []
        for source, publishers in changed.items():
            wanted, told = self._askers.get(source, {}), self._told.get(source, {})
            pause = sorted(publisher for publisher in publishers if publisher in wanted and publisher not in told)
            resume = sorted(publisher for publisher in publishers if publisher in told and publisher not in wanted)
            self._note_told(source, pause, resume)
            if resume:
                orders.append(PauseOrder(source, resume, False))
            if pause:
                orders.append(PauseOrder(source, pause, True))
        return orders

    def _note_told(self, source: Owner, pause: list[str], resume: list[str]) -> None:
        told = self._told.setdefault(source, {})
        told.update(dict.fromkeys(pause))
        for publisher in resume:
            del told[publisher]
        if not told:
            del self._told[source]

    # -- keeping both sides in step

    def _ask(self, source: Owner, publisher: str, asker: tuple[Owner, bool]) -> None:
        askers = self._askers.get(source, {}).get(publisher)
        if askers is None:
            if self.held >= self._held_max:
                return
            self.held += 1
            askers = self._askers.setdefault(source, {})[publisher] = {}
            self.changed.setdefault(source, {})[publisher] = None
        askers[asker] = None
        self._asked_by.setdefault(asker, {}).setdefault(publisher, {})[source] = None

    def _withdraw(self, asker: tuple[Owner, bool]) -> None:
        for publisher in list(self._asked_by.get(asker, ())):
            self._drop(asker, publisher)

    def _drop(self, asker: tuple[Owner, bool], publisher: str) -> None:
        """Remove one reason for this publisher to pause, at every source."""
        for source in list(self._asked_by.get(asker, {}).get(publisher, ())):
            self._unlink(asker, publisher, source)
            askers = self._askers[source][publisher]
            del askers[asker]
            if not askers:
                self.held -= 1
                del self._askers[source][publisher]
                if not self._askers[source]:
                    del self._askers[source]
                self.changed.setdefault(source, {})[publisher] = None

    def _unlink(self, asker: tuple[Owner, bool], publisher: str, source: Owner) -> None:
        by_publisher = self._asked_by[asker]
        del by_publisher[publisher][source]
        if not by_publisher[publisher]:
            del by_publisher[publisher]
        if not by_publisher:
            del self._asked_by[asker]
