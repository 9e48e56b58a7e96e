"""The streams that begin at one broker: stamps for its clients' notifications, and the log of unconfirmed ones.

The broker numbers the notifications of each publisher, and remembers for each destination the unconfirmed ones, oldest
first. A stamp names the predecessor for each destination: the youngest of these, or 0 if all are confirmed, since then
the destination has them. A publisher whose notifications are all confirmed is forgotten. The next one begins above
every number used so far, so no publisher ever uses a number twice.

**When resent**, an entry gets a stamp for just those destinations. If it is the oldest that a destination has not
confirmed, it has no predecessor: earlier ones are confirmed, or were given up. So a destination that lost its state, or
waits for something that was given up, can continue. For all others the predecessor stays the same: it has not been
confirmed.

Bounds: `ENTRIES_MAX` notifications, and `BYTES_MAX` bytes if the host knows sizes. Beyond that, the oldest is given up:
it is under way, but will not be resent. `given_up` counts these, by notification; one stays even if it is larger.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from functools import lru_cache

from octopia.language import Notification
from octopia.routing.messages import Stamp
from octopia.topology import civ

ENTRIES_MAX = 200_000
BYTES_MAX = 64 << 20


class Entry:
    """A notification that was sent and is unconfirmed. `pending` are the destinations, as bits, that have not confirmed
    it.

    `stamp` is its first stamp. `ways`: to which destinations it was last sent on which tree, and whether something was
    down then, so that it may have taken any path. `priority` is that of the most urgent copy.
    """

    __slots__ = ("id", "notification", "pending", "priority", "publisher", "sequence", "size", "stamp", "ways")

    def __init__(
        self,
        publisher: str,
        id: str,
        notification: Notification,
        sequence: int,
        dests: int,
        tree: int,
        unsure: bool,
        size: int,
        priority: int,
    ) -> None:
        self.publisher = publisher
        self.id = id
        self.notification = notification
        self.stamp: Stamp
        self.sequence = sequence
        self.pending = dests
        self.ways: tuple[tuple[int, int, bool], ...] = ((dests, tree, unsure),)
        self.size = size
        self.priority = priority


class _Publisher:
    __slots__ = ("entries", "sequence", "to")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.entries = 0
        # by destination (place), unconfirmed notifications sent there
        self.to: dict[int, deque[Entry]] = {}


# The places of the bits of a set, ascending: few sets recur again and again.
places = lru_cache(maxsize=1 << 16)(civ.bits)


class Log:
    """The unconfirmed notifications of the clients of the broker at place `host`.

    `first` is at or above all numbers that an earlier life used.
    """

    __slots__ = ("_bytes", "_bytes_max", "_entries", "_entries_max", "_host", "_publishers", "_used", "given_up")

    def __init__(
        self, host: int, first: int = 0, *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self._host = host
        self._used = first
        self._publishers: dict[str, _Publisher] = {}
        # all of all publishers, oldest first
        self._entries: OrderedDict[Entry, None] = OrderedDict()
        self._bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self.given_up = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def filled(self) -> float:
        """The used share of its bounds, from 0 to 1."""
        return max(len(self._entries) / self._entries_max, self._bytes / self._bytes_max)

    def __iter__(self) -> Iterator[Entry]:
        """All unconfirmed notifications, oldest first."""
        return iter(self._entries)

    def add(
        self,
        publisher: str,
        id: str,
        notification: Notification,
        dests: int,
        tree: int,
        unsure: bool,
        size: int = 0,
        priority: int = 0,
    ) -> Stamp:
        """Record a notification for these destinations, at least one, and return its stamp."""
        known = self._publishers.get(publisher)
        if known is None:
            known = self._publishers[publisher] = _Publisher(self._used)
        sequence = known.sequence = known.sequence + 1
        # its stamp follows when the gaps are known: all in one pass, since there may be many destinations
        entry = Entry(publisher, id, notification, sequence, dests, tree, unsure, size, priority)
        to = known.to
        gaps = []
        for place in places(dests):
            before = to.get(place)
            if before:
                gaps.append(sequence - before[-1].sequence)
                before.append(entry)
            else:
                gaps.append(sequence)
                to[place] = deque((entry,))
        entry.stamp = stamp = Stamp(self._host, sequence, dests, tuple(gaps))
        known.entries += 1
        self._entries[entry] = None
        self._bytes += size
        if len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._give_up_oldest()
        return stamp

    def confirm(self, publisher: str, place: int, upto: int) -> None:
        """A destination has all notifications of a publisher for it up to this number."""
        known = self._publishers.get(publisher)
        waiting = None if known is None else known.to.get(place)
        others = ~(1 << place)
        while waiting and waiting[0].sequence <= upto:
            entry = waiting.popleft()
            entry.pending &= others
            if not entry.pending:
                self._forget(entry)

    def write_off(self, dests: int) -> dict[int, int]:
        """Drop everything for these destinations: by place, how many were unconfirmed."""
        lost: dict[int, int] = {}
        for known in list(self._publishers.values()):
            for place in places(dests):
                waiting = known.to.get(place)
                if waiting:
                    lost[place] = lost.get(place, 0) + len(waiting)
                    while waiting:
                        self._done(waiting.popleft(), 1 << place)
        return lost

    def again(self, entry: Entry, dests: int, tree: int = 0, unsure: bool = False) -> Stamp:
        """A stamp for an entry that is resent to these destinations, all of which are pending."""
        others = tuple((to & ~dests, way, was_unsure) for to, way, was_unsure in entry.ways if to & ~dests)
        entry.ways = (*others, (dests, tree, unsure))
        to, sequence, first = self._publishers[entry.publisher].to, entry.sequence, entry.stamp
        gap_of = dict(zip(places(first.dests), first.gaps, strict=True))
        gaps = tuple(sequence if to[place][0] is entry else gap_of[place] for place in places(dests))
        return Stamp(self._host, sequence, dests, gaps)

    def pending_at(self, publisher: str, place: int) -> list[Entry]:
        """A publisher's notifications that a destination has not confirmed, oldest first."""
        known = self._publishers.get(publisher)
        return [] if known is None else list(known.to.get(place, ()))

    def _give_up_oldest(self) -> None:
        while len(self._entries) > 1 and (len(self._entries) > self._entries_max or self._bytes > self._bytes_max):
            oldest = next(iter(self._entries))
            to = self._publishers[oldest.publisher].to
            self.given_up += 1
            for place in places(oldest.pending):
                # the oldest of all is the oldest of each stream it is in
                to[place].popleft()
                self._done(oldest, 1 << place)

    def _done(self, entry: Entry, dest: int) -> None:
        entry.pending &= ~dest
        if not entry.pending:
            self._forget(entry)

    def _forget(self, entry: Entry) -> None:
        del self._entries[entry]
        self._bytes -= entry.size
        known = self._publishers[entry.publisher]
        known.entries -= 1
        if not known.entries:
            del self._publishers[entry.publisher]
            self._used = max(self._used, known.sequence)
