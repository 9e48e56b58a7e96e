"""One memory bound for all data that a broker keeps for its peers, and the order in which data is dropped.

It covers the queues of clients and links (waiting, and sent but not confirmed), data not yet accepted by sockets,
incomplete frames, and notifications held back for their order. A frame that waits for several clients counts for each,
so the bound errs on the safe side. Tables do not count; they have their own bounds (`octopia.routing.Limits`).

`check` is called at every tick, and adds everything up at every tick or, while less than half of the bound is used, at
every fourth; and whenever `GROWTH_PART` of a bound more waits in queues (`grew`). The bound may be exceeded by what
follows from one read, since one notification may go to thousands of clients. Above the bound, memory is freed down to
15/16 of it, so that this does not happen at every tick. In this order:

1. Deliveries for clients that are away, the oldest of the largest queues first. Their sessions stay, unless more than
   `AWAY_BYTES` of a queue remain (answers, and placeholders of numbered frames); then the session ends, the largest
   first. They also have a separate bound (`away_bytes_max`), which holds at all times.
2. Deliveries for connected clients whose policy is to drop, in the same way. Then clients with more than `LARGE_BYTES`
   in their queue that asked to be disconnected when it is full, the largest first.
3. Incomplete frames: the connection that has waited longest for the rest of one is closed. They also have a separate
   bound (`unfinished_bytes_max`), which holds at all times. Neighbours are exempt.
4. Publishers are not read from until at most 7/8 of the bound is used. If that does not help within `HOLD_S`, or an
   eighth more than the bound is used, connected clients with more than `LARGE_BYTES` in their queue are disconnected,
   the largest first.
5. Then, notifications for links that are down, the oldest of the largest queues first.
6. During step 4, new clients are refused.

The queue of a neighbour that is up is never touched; it has its own bound.

After `FREED_BYTES` less are in use, or were dropped, the memory itself is given back to the system, at most once in
`GIVE_BACK_S`.

No I/O and no clock. "The largest first" means: as if one byte at a time were taken from whichever queue is the largest
at that moment, so that small queues are touched last (`level`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.frame_queue import FrameQueue, Source, memory_bytes_of
from octopia.net.limits import NetLimits

# The session of a client that is away is ended if it cannot be made smaller than this.
AWAY_BYTES = 128 * 1024
# Connected clients are disconnected only if their queue is larger than this.
LARGE_BYTES = 1024 * 1024
# How long to wait for the effect of not reading from publishers.
HOLD_S = 1.0
# Ticks between two sums while less than half of the bound is used.
IDLE_TICKS = 4
# Memory is added up when this part of the smaller bound was put into queues and waits there.
GROWTH_PART = 16
# When freed memory is given back to the system, which takes some milliseconds.
FREED_BYTES = 32 * 1024 * 1024
GIVE_BACK_S = 1.0
# The Goodbye code for a client whose session is ended to free memory. It may reconnect at once with a new session.
MEMORY = "memory"


class Queue(Protocol):
    """The owner of a queue whose contents may be dropped."""

    queue: FrameQueue

    def shed(self, memory_bytes: int) -> int:
        """Drop frames, the oldest first, down to this much memory; returns how many were dropped."""


class SheddableClient(Queue, Protocol):
    """The part of a session used here."""

    @property
    def is_away(self) -> bool: ...
    @property
    def may_shed(self) -> bool: ...
    @property
    def may_end(self) -> bool: ...


class SheddableLink(Queue, Protocol):
    """The part of a link used here."""

    is_up: bool


class Reader(Protocol):
    """The part of a connection used here."""

    unfinished_s: float  # for how long a frame has been incomplete

    @property
    def unfinished_bytes(self) -> int: ...
    def drop_unfinished(self, reason: str) -> None: ...


class Clients(Protocol):
    """The part of the table of sessions used here."""

    @property
    def away(self) -> Sequence[Any]:
        """Those whose clients are away."""

    def values(self) -> Iterable[Any]: ...
    def end(self, session: Any, code: str, reason: str) -> None: ...
    def hold_sources(self, holder: Any) -> None: ...
    def release_sources(self, holder: Any) -> None: ...


class Connections(Protocol):
    """The part of the table of connections used here."""

    kept_bytes: int  # data not yet accepted by sockets, and incomplete frames, at this tick

    @property
    def unfinished(self) -> Sequence[Reader]:
        """Connections with an incomplete frame, except neighbours'."""


class Memory:
    """The memory bound of one broker."""

    def __init__(
        self,
        limits: NetLimits,
        *,
        clients: Clients,
        links: Mapping[Any, SheddableLink],
        connections: Connections,
        ledger: dict[FrameQueue, None],
        held_bytes: Callable[[], int],
        counters: Counters,
        log: Log,
        give_back: Callable[[], None] = lambda: None,
    ) -> None:
        """`held_bytes`: size of notifications held back for their order. `give_back` returns memory to the system."""
        self.bytes_max = limits.memory_bytes_max
        self.used_bytes = 0
        self._away_bytes_max = limits.away_bytes_max
        self._unfinished_bytes_max = limits.unfinished_bytes_max
        self._clients = clients
        self._links = links
        self._connections = connections
        self._ledger = ledger
        self._held_bytes = held_bytes
        self._counters = counters
        self._log = log
        self._held_since: float | None = None
        self._give_back = give_back
        self._given_back_s = 0.0
        self._most_bytes = 0  # in queues since then
        self._dropped_bytes = 0
        self._queue_bytes = 0  # when they were last added up
        self._ticks = 0

    @property
    def is_full(self) -> bool:
        """Whether publishers are not read from and new clients are refused."""
        return self._held_since is not None

    def forget(self, source: Source) -> None:
        """A connection that was held is gone."""

    def check(self, now: float) -> None:
        """Add up the memory used, and free some if it is too much."""
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
            self._ticks = 0  # the rest is added up at the next tick
        self._most_bytes = max(self._most_bytes, self._queue_bytes)
        freed = self._most_bytes - self._queue_bytes + self._dropped_bytes
        if freed >= FREED_BYTES and now - self._given_back_s >= GIVE_BACK_S:
            self._give_back()
            self._given_back_s, self._most_bytes, self._dropped_bytes = now, self._queue_bytes, 0
        if self._held_since is not None:
            if 8 * self.used_bytes <= 7 * self.bytes_max:
                self._held_since = None
                self._clients.release_sources(self)
                self._log.info("memory is free again", used=self.used_bytes)
            else:
                # Also clients that have begun to publish since.
                self._clients.hold_sources(self)

    def grew(self, now: float) -> None:
        """Much more waits in queues than a moment ago."""
        self._ticks = 0
        self.check(now)

    def _sum(self) -> int:
        """The memory of all queues; those that are empty leave the ledger."""
        for queue in [queue for queue in self._ledger if not queue.held]:
            del self._ledger[queue]
        return memory_bytes_of(self._ledger)

    def _bound_away(self) -> None:
        used = memory_bytes_of([client.queue for client in self._clients.away])
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
            self._log.warning("memory is full; publishing clients wait", used=self.used_bytes, bound=self.bytes_max)
        if now - self._held_since > HOLD_S or 8 * self.used_bytes > 9 * self.bytes_max:
            self._end_connected(self.used_bytes - goal)
            if self.used_bytes > self.bytes_max:
                self._shed([link for link in self._links.values() if not link.is_up], self.used_bytes - goal)

    # -- the steps, each of which tries to free this many bytes

    def _shed_away(self, wanted: int) -> None:
        away = self._clients.away
        self._counters.deliveries_dropped_for_memory += self._shed(away, wanted)

    def _end_away(self, wanted: int) -> None:
        self._end(self._clients.away, wanted, AWAY_BYTES)

    def _shed_connected(self, wanted: int) -> None:
        clients = [client for client in self._clients.values() if not client.is_away]
        giving_way = [client for client in clients if client.may_shed]
        before = self.used_bytes
        self._counters.deliveries_dropped_for_memory += self._shed(giving_way, wanted)
        self._end([client for client in clients if client.may_end], wanted - (before - self.used_bytes), LARGE_BYTES)

    def _end_connected(self, wanted: int) -> None:
        self._end([client for client in self._clients.values() if not client.is_away], wanted, LARGE_BYTES)

    def _shed(self, queues: Sequence[Queue], wanted: int) -> int:
        """Drop frames from the largest queues; returns how many."""
        sizes = [queue.queue.memory_bytes for queue in queues]
        to_bytes = level(sizes, sum(sizes) - wanted)
        dropped = 0
        for queue, size in zip(queues, sizes, strict=True):
            if size > to_bytes:
                dropped += queue.shed(to_bytes)
                self._dropped(size - queue.queue.memory_bytes)
        return dropped

    def _end(self, clients: Iterable[SheddableClient], wanted: int, at_least: int) -> None:
        """End the sessions with the largest queues, among those larger than this."""
        for client in largest(clients, lambda client: client.queue.memory_bytes):
            size = client.queue.memory_bytes
            if wanted <= 0 or size <= at_least:
                return
            self._clients.end(client, MEMORY, f"the broker needs the {size:,} bytes of its queue")
            self._dropped(size)
            wanted -= size

    def _dropped(self, size: int) -> None:
        self.used_bytes -= size
        self._dropped_bytes += size

    def _close_unfinished(self, wanted: int) -> None:
        """Close the connections that have waited longest for the rest of a frame; among equals, the largest first."""
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
    """The highest level such that sizes capped at it add up to at most the limit; 0 if there is none."""
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = allowed // (len(ordered) - at)
        if size > share:
            return max(share, 0)
        allowed -= size
    return ordered[-1] if ordered else 0
