"""One memory bound for everything that peers make a broker keep, and what goes first when it is reached.

What counts: queues of clients and links (waiting, and sent but not confirmed), what sockets have not taken yet, frames
that are not complete, notifications that wait for their order. A frame that waits for several clients counts for each,
so the bound errs on the safe side. Tables do not count; they have bounds of their own (`octopia.routing.Limits`).

`check` is called at every tick, and adds up at every tick or, while less than half of the bound is used, at every
fourth. What comes in between is the overshoot: one notification may go to thousands of clients. Above the bound, room
is made down to 15/16 of it, so that this is not done at every tick. What goes first:

1. Deliveries for clients that are away, the oldest of the largest queues first. Their sessions stay, unless more than
   `AWAY_BYTES` remain of a queue (answers, and places of frames by number): then the session ends, the largest first.
   They have a bound of their own, too (`away_bytes_max`), which holds at all times.
2. Deliveries for connected clients whose subscriptions say to drop, likewise. Then clients with more than `LARGE_BYTES`
   in their queue that asked to be disconnected when it is full, the largest first.
3. Unfinished frames: the connection that has waited longest for the rest of one is closed. They have a bound of their
   own, too (`unfinished_bytes_max`), which holds at all times. Neighbours are left alone.
4. Clients that publish are not read from, until no more than 7/8 of the bound is used. If that does not help within
   `HOLD_S`, or an eighth more than the bound is used, connected clients with more than `LARGE_BYTES` in their queue are
   disconnected, the largest first.
5. Then, notifications that wait for links that are down, the oldest of the largest queues first.
6. While 4. lasts, new clients are refused.

Never: what waits for a neighbour that is up. Its queue has its own bound.

Rules of this file: no I/O and no clock. "The largest first" means: as if one byte at a time were taken from whichever
queue is the largest at that moment, so that small queues are touched last (`level`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.limits import NetLimits
from octopia.net.outbox import Outbox, Source, memory_bytes_of

# Of a client that is away: a session that cannot be made smaller than this is ended.
AWAY_BYTES = 128 * 1024
# Connected clients are disconnected for the sake of more than this.
LARGE_BYTES = 1024 * 1024
# How long to wait for those who publish to be heard no more.
HOLD_S = 1.0
# While less than half of the bound is used, all is added up so rarely.
IDLE_TICKS = 4
# The code of a Goodbye to a client whose session is ended for memory. It may come back at once, with a new session.
MEMORY = "memory"


class Queue(Protocol):
    """Something with a box of which part may be dropped."""

    box: Outbox

    def shed(self, memory_bytes: int) -> int:
        """Drop what may be dropped, the oldest first, down to so much memory. Returns how many were dropped."""


class Client(Queue, Protocol):
    """What is asked of a session."""

    @property
    def is_away(self) -> bool: ...
    @property
    def may_shed(self) -> bool: ...
    @property
    def may_end(self) -> bool: ...


class Link(Queue, Protocol):
    """What is asked of a link."""

    is_up: bool


class Reader(Protocol):
    """What is asked of a connection."""

    unfinished_s: float  # for how long a frame has been incomplete

    @property
    def unfinished_bytes(self) -> int: ...
    def drop_unfinished(self, reason: str) -> None: ...


class Clients(Protocol):
    """What is asked of the table of sessions."""

    def values(self) -> Iterable[Any]: ...
    def end(self, session: Any, code: str, reason: str) -> None: ...
    def hold_sources(self, holder: Any) -> None: ...
    def release_sources(self, holder: Any) -> None: ...


class Connections(Protocol):
    """What is asked of the table of connections."""

    kept_bytes: int  # what sockets have not taken, and frames that are not complete, at this tick

    @property
    def unfinished(self) -> Sequence[Reader]:
        """Those with a frame that is not complete, without neighbours'."""


class Memory:
    """The bound of one broker."""

    def __init__(
        self,
        limits: NetLimits,
        *,
        clients: Clients,
        links: Mapping[Any, Link],
        connections: Connections,
        held_bytes: Callable[[], int],
        counters: Counters,
        log: Log,
    ) -> None:
        """`held_bytes`: of what waits for its order."""
        self.bytes_max = limits.memory_bytes_max
        self.used_bytes = 0
        self._away_bytes_max = limits.away_bytes_max
        self._unfinished_bytes_max = limits.unfinished_bytes_max
        self._clients = clients
        self._links = links
        self._connections = connections
        self._held_bytes = held_bytes
        self._counters = counters
        self._log = log
        self._held_since: float | None = None
        self._queue_bytes = 0  # when they were last added up
        self._ticks = 0

    @property
    def is_full(self) -> bool:
        """Whether those who publish are not read from, and nobody new is let in."""
        return self._held_since is not None

    def forget(self, source: Source) -> None:
        """A connection that was not read from is gone."""

    def check(self, now: float) -> None:
        """Add up what is used, and make room if it is too much."""
        unfinished = sum(each.unfinished_bytes for each in self._connections.unfinished)
        self._ticks += 1
        if 2 * self.used_bytes >= self.bytes_max or self._ticks % IDLE_TICKS == 1:
            self._queue_bytes = self._sum()
        self.used_bytes = self._queue_bytes + self._held_bytes() + self._connections.kept_bytes
        if self._ticks % IDLE_TICKS == 1:
            self._bound_away()
        self._close_unfinished(unfinished - self._unfinished_bytes_max)
        if self.used_bytes > self.bytes_max:
            self._make_room(now)
            self._ticks = 0  # what is left is added up at the next tick
        if self._held_since is not None:
            if 8 * self.used_bytes <= 7 * self.bytes_max:
                self._held_since = None
                self._clients.release_sources(self)
                self._log.info("memory is free again", used=self.used_bytes)
            else:
                # Those who have begun to publish since, too.
                self._clients.hold_sources(self)

    def _sum(self) -> int:
        """What all queues take."""
        clients = memory_bytes_of([client.box for client in self._clients.values()])
        return clients + memory_bytes_of([link.box for link in self._links.values()])

    def _bound_away(self) -> None:
        used = memory_bytes_of([client.box for client in self._clients.values() if client.is_away])
        if used > self._away_bytes_max:
            goal = self.used_bytes - used + self._away_bytes_max - self._away_bytes_max // 16
            self._shed_away(self.used_bytes - goal)
            self._end_away(self.used_bytes - goal)
            self._ticks = 0

    def _make_room(self, now: float) -> None:
        goal = self.bytes_max - self.bytes_max // 16
        for step in (self._shed_away, self._end_away, self._shed_connected, self._close_unfinished):
            step(self.used_bytes - goal)
            if self.used_bytes <= goal:
                return
        if self.used_bytes <= self.bytes_max:
            return
        if self._held_since is None:
            self._held_since = now
            self._log.warning("memory is full; clients that publish wait", used=self.used_bytes, bound=self.bytes_max)
        if now - self._held_since > HOLD_S or 8 * self.used_bytes > 9 * self.bytes_max:
            self._end_connected(self.used_bytes - goal)
            if self.used_bytes > self.bytes_max:
                self._shed([link for link in self._links.values() if not link.is_up], self.used_bytes - goal)

    # -- the steps, each of which is to free so many bytes if it can

    def _shed_away(self, wanted: int) -> None:
        away = [client for client in self._clients.values() if client.is_away]
        self._counters.deliveries_dropped_for_memory += self._shed(away, wanted)

    def _end_away(self, wanted: int) -> None:
        self._end([client for client in self._clients.values() if client.is_away], wanted, AWAY_BYTES)

    def _shed_connected(self, wanted: int) -> None:
        clients = [client for client in self._clients.values() if not client.is_away]
        giving_way = [client for client in clients if client.may_shed]
        before = self.used_bytes
        self._counters.deliveries_dropped_for_memory += self._shed(giving_way, wanted)
        self._end([client for client in clients if client.may_end], wanted - (before - self.used_bytes), LARGE_BYTES)

    def _end_connected(self, wanted: int) -> None:
        self._end([client for client in self._clients.values() if not client.is_away], wanted, LARGE_BYTES)

    def _shed(self, queues: Sequence[Queue], wanted: int) -> int:
        """Drop from the largest of these; returns how many frames were dropped."""
        sizes = [queue.box.memory_bytes for queue in queues]
        to_bytes = level(sizes, sum(sizes) - wanted)
        dropped = 0
        for queue, size in zip(queues, sizes, strict=True):
            if size > to_bytes:
                dropped += queue.shed(to_bytes)
                self.used_bytes -= size - queue.box.memory_bytes
        return dropped

    def _end(self, clients: Iterable[Client], wanted: int, at_least: int) -> None:
        """End the sessions with the largest queues, of those that are larger than this."""
        for client in largest(clients, lambda client: client.box.memory_bytes):
            size = client.box.memory_bytes
            if wanted <= 0 or size <= at_least:
                return
            self._clients.end(client, MEMORY, f"the broker needs the {size:,} bytes of its queue")
            self.used_bytes -= size
            wanted -= size

    def _close_unfinished(self, wanted: int) -> None:
        """Close those that have waited longest for the rest of a frame; among equals, for the largest."""
        for each in largest(self._connections.unfinished, lambda each: (each.unfinished_s, each.unfinished_bytes)):
            size = each.unfinished_bytes
            if wanted <= 0:
                return
            if size:
                self._counters.frames_unfinished_closed += 1
                each.drop_unfinished("its frame is not complete, and the broker needs the memory")
                self.used_bytes -= size
                wanted -= size


Item = TypeVar("Item")


def largest(items: Iterable[Item], size: Callable[[Item], Any]) -> list[Item]:
    """By size, the largest first; equals stay in their order."""
    return sorted(items, key=size, reverse=True)


def level(sizes: Iterable[int], allowed: int) -> int:
    """The highest level such that sizes cut off at it add up to no more than is allowed; 0 where none does."""
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = allowed // (len(ordered) - at)
        if size > share:
            return max(share, 0)
        allowed -= size
    return ordered[-1] if ordered else 0
