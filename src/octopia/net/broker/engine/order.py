"""Order of one publisher's notifications when dynamic routing changes paths.

Links keep order, so notifications on the same path arrive as they were published. IDR changes the path into a cluster
when a link is overloaded, and notifications on the new path may overtake those that still wait on the old one.

There are two parts:

- `Ways`, at every broker that chooses: the last path for each publisher and cluster. A copy that takes another path
  than an earlier one did a moment ago is stamped with the sequence number of that earlier one and with the time that it
  is worth waiting for it.
- `Reorder`, at the subscriber's broker: a stamped notification waits until the earlier one has arrived or the time is
  up; later ones of the same publisher queue behind it. A subscription that is withdrawn gets what waits for it at
  once, before the answer, unless the client has another subscription that matches.

No I/O and no clock. As long as nothing is diverted, nothing is remembered, stamped or held back: the cost is one test
per message. The earlier notification may not be for this broker at all, which it cannot know; then the time runs out,
so the wait after a change of paths is at most `hold_s`. Order is lost only by a copy that arrives later than that, or
when the buffer is full; it is then delivered late and counted.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from octopia.protocol import Notify
from octopia.routing import Deliver, withdraw_from
from octopia.topology import BrokerId, civ
from octopia.wire import PLAIN, CopyHeader, WireNotification

WAYS_MAX = 100_000
LAST_MAX = 200_000


@dataclass(slots=True)
class _Way:
    """The path into one cluster for one publisher."""

    neighbour: BrokerId
    sequence: int
    sent_s: float
    # The last one on another path, and when.
    other_sequence: int
    other_s: float


class Ways:
    """Recent paths of copies, as long as they may matter."""

    __slots__ = ("_cluster", "_hold_s", "taken")

    def __init__(self, broker: BrokerId, hold_s: float) -> None:
        self._cluster = broker.cluster
        self._hold_s = hold_s
        self.taken: dict[tuple[str, int], _Way] = {}

    def __len__(self) -> int:
        return len(self.taken)

    def header(self, to: BrokerId, message: Notify, now: float) -> CopyHeader:
        """The header of a copy to this neighbour; `PLAIN` if it cannot have overtaken anything."""
        seen = message.notification
        if not isinstance(seen, WireNotification):
            return PLAIN
        came = seen.header or PLAIN
        earlier, hold_s = came.earlier, came.hold_ms / 1000
        carried = served = message.header.civ
        if to.cluster != self._cluster:
            served |= civ.bit(to.cluster)
        for cluster in civ.bits(served):
            way = self._took((message.publisher, cluster), to, carried >> cluster & 1 == 1, seen.sequence, now)
            if way is not None and way.other_s + self._hold_s > now:
                earlier = max(earlier, way.other_sequence)
                hold_s = max(hold_s, way.other_s + self._hold_s - now)
        return CopyHeader(b"", came.traced, earlier, round(hold_s * 1000)) if earlier or came.traced else PLAIN

    def _took(self, key: tuple[str, int], to: BrokerId, diverts: bool, sequence: int, now: float) -> _Way | None:
        way = self.taken.get(key)
        if way is None:
            if diverts and len(self.taken) < WAYS_MAX:
                # Those sent before diverting began are unknown: assume the one before.
                way = self.taken[key] = _Way(to, sequence, now, max(sequence - 1, 0), now)
            return way
        if way.neighbour != to:
            way.other_sequence, way.other_s = way.sequence, way.sent_s
            way.neighbour = to
        way.sequence, way.sent_s = sequence, now
        return way

    def forget_old(self, now: float) -> None:
        """Forget copies sent so long ago that they are not worth waiting for."""
        if self.taken:
            self.taken = {key: way for key, way in self.taken.items() if way.sent_s + self._hold_s > now}


class Reorder:
    """Deliveries that wait for an earlier one, by publisher."""

    def __init__(self, waiting_max: int, bytes_max: int) -> None:
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        self.held_bytes = 0
        self.last: dict[str, int] = {}
        # per publisher, by sequence: (sequence, number of arrival, earlier, until, order)
        self.waiting: dict[str, list[tuple[int, int, int, float, Deliver]]] = {}
        self._arrivals = count()
        self.held_total = 0
        self.late_total = 0
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def take(self, order: Deliver, now: float) -> list[Deliver]:
        """Take a delivery for ordered subscriptions; returns those whose turn it is now."""
        seen = order.notification
        assert isinstance(seen, WireNotification)  # noqa: S101  every notification here came by a wire
        sequence, publisher = seen.sequence, order.publisher
        waiting = self.waiting.get(publisher)
        header = seen.header or PLAIN
        must_wait = header.hold_ms > 0 and self.last.get(publisher, 0) < header.earlier
        if waiting is None and not must_wait:
            return [self._release(order, sequence)]
        released: list[Deliver] = []
        if waiting and sequence < waiting[0][0] and not must_wait:
            # Others wait for this one.
            released.append(self._release(order, sequence))
        else:
            until = now + header.hold_ms / 1000 if must_wait else now
            heappush(
                self.waiting.setdefault(publisher, []),
                (sequence, next(self._arrivals), header.earlier, until, order),
            )
            self._held += 1
            self.held_bytes += len(seen.parcel)
            self.held_total += 1
        self._release_ready(publisher, now, released)
        return released

    def _release(self, order: Deliver, sequence: int) -> Deliver:
        last = self.last.get(order.publisher, 0)
        if sequence < last:
            self.late_total += 1
        else:
            self.last[order.publisher] = sequence
        return order

    def _release_ready(self, publisher: str, now: float, released: list[Deliver]) -> None:
        waiting = self.waiting.get(publisher)
        while waiting:
            sequence, _, earlier, until, order = waiting[0]
            has_room = self._held <= self._waiting_max and self.held_bytes <= self._bytes_max
            if has_room and now < until and self.last.get(publisher, 0) < earlier:
                return
            heappop(waiting)
            self._held -= 1
            self.held_bytes -= len(order.notification.parcel)  # type: ignore[attr-defined]  # it came by a wire
            released.append(self._release(order, sequence))
        self.waiting.pop(publisher, None)

    def withdrawn(self, client: str, subscription: str | None) -> list[Deliver]:
        """A client withdraws a subscription, or all of them (None): the deliveries that wait for nothing else of it."""
        found: list[Deliver] = []
        for waiting in self.waiting.values():
            for at, (*place, order) in enumerate(waiting):
                rest, last = withdraw_from(order.recipients, client, subscription)
                if rest is not order.recipients:
                    publisher, id, seen = order.publisher, order.id, order.notification
                    # in its place for those who wait behind it, even without recipients
                    waiting[at] = (*place, Deliver(publisher, id, seen, rest))  # type: ignore[assignment]
                    if last:
                        found.append(Deliver(publisher, id, seen, last))
        return sorted(found, key=_sequence)

    def release_due(self, now: float) -> list[Deliver]:
        """Take the deliveries that have waited long enough."""
        if len(self.last) >= LAST_MAX:
            self.last.clear()
        released: list[Deliver] = []
        for publisher in list(self.waiting):
            self._release_ready(publisher, now, released)
        return released


def _sequence(order: Deliver) -> int:
    return order.notification.sequence  # type: ignore[attr-defined,no-any-return]  # it came by a wire


class Order:
    """Both parts, at one broker."""

    __slots__ = ("reorder", "ways")

    def __init__(self, broker: BrokerId, hold_s: float, waiting_max: int, bytes_max: int) -> None:
        self.ways = Ways(broker, hold_s)
        self.reorder = Reorder(waiting_max, bytes_max)

    @property
    def is_busy(self) -> bool:
        """Whether anything is out of order, so that notifications need individual treatment."""
        return bool(self.ways.taken) or bool(self.reorder.waiting)
