"""The streams that begin at one broker: stamps for its clients' notifications, and the log of unconfirmed ones.

The broker numbers the notifications of each publisher, and remembers for each destination the unconfirmed ones, oldest
first. A stamp names the predecessor for each destination: the youngest of these, or 0 if all are confirmed, since then
the destination has them. A publisher whose notifications are all confirmed is forgotten. The next one begins above
every number used so far, so no publisher ever uses a number twice.

Notifications that were published together are one *block* of the log. A block is kept until all of it is confirmed by
all destinations.

**When resent**, a notification gets a stamp for just those destinations. If it is the oldest that a destination has not
confirmed, it has no predecessor: earlier ones are confirmed, or were given up. So a destination that lost its state, or
waits for something that was given up, can continue. For all others the predecessor stays the same: it has not been
confirmed.

**A destination that cannot be reached** is `away`: what it has not confirmed is its backlog, and so is what is sent to
it until it is back. A block that only backlogs wait for does not count as `filled`, so it makes no publisher pause.

Bounds: `ENTRIES_MAX` notifications, and `BYTES_MAX` bytes if the host knows sizes. Beyond that, backlogs of
destinations that are away give way first, oldest first; `missed` counts this, by destination. Then the oldest block is
given up: it is under way, but will not be resent. `given_up` counts these, by notification; one block stays even if it
is larger.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from octopia.language import Notification
from octopia.protocol import Stamp
from octopia.routing.streams import Items, Unconfirmed
from octopia.topology import civ

ENTRIES_MAX = 200_000
BYTES_MAX = 64 << 20

# Publishers for which it is known which destinations missed something, until they ask.
LOSERS_MAX = 10_000
# Above all serial numbers of blocks.
_EVER = 1 << 62

# The places of the bits of a set, ascending: few sets recur again and again.
places = lru_cache(maxsize=1 << 16)(civ.bits)

# To which destinations a notification was last sent on which tree, and whether something was down then, so that it may
# have taken any path.
Sent = tuple[int, int, bool]


class One:
    """A block of one."""

    __slots__ = ("_id", "_notification")

    def __init__(self, id: str, notification: Notification) -> None:
        self._id = id
        self._notification = notification

    def id(self, at: int) -> str:
        return self._id

    def notification(self, at: int) -> Notification:
        return self._notification


class Block:
    """Notifications of one publisher that were sent together, numbered from `first` on, and not all confirmed.

    `dests` are sets of destinations, each with the tree that it is sent on (`trees`) and the priority of its most
    urgent copy (`priorities`); `which` has the number of each notification's set; None: all have the first.
    `before` has for each destination the predecessor of the first notification sent there, 0 if there was none, and
    `last` the last notification sent there; None: the first. `waits`: how many destinations have not confirmed
    everything in it, and `live` how many of these do not have it in their backlog. `again`: for notifications that were
    resent, how each was sent.
    """

    __slots__ = (
        "again", "before", "count", "dests", "first", "items", "last", "live", "priorities", "publisher", "serial",
        "size", "trees", "unsure", "waits", "which",
    )  # fmt: skip

    def __init__(
        self,
        publisher: str,
        first: int,
        items: Items,
        dests: Sequence[int],
        which: Sequence[int] | None,
        before: dict[int, int],
        last: dict[int, int] | None,
        trees: Sequence[int],
        unsure: bool,
        size: int,
        priorities: Sequence[int],
    ) -> None:
        self.publisher = publisher
        self.first = first
        self.items = items
        self.dests = dests
        self.which = which
        self.count = 1 if which is None else len(which)
        self.before = before
        self.last = last
        self.trees = trees
        self.unsure = unsure
        self.size = size
        self.priorities = priorities
        self.serial = 0
        self.waits = self.live = len(before)
        self.again: dict[int, tuple[Sent, ...]] | None = None

    def dests_of(self, at: int) -> int:
        return self.dests[0] if self.which is None else self.dests[self.which[at]]

    def set_of(self, at: int) -> int:
        """The number of the set of a notification's destinations."""
        return 0 if self.which is None else self.which[at]

    def last_for(self, place: int) -> int:
        """The number of its last notification for a destination."""
        return self.first if self.last is None else self.last[place]


class Entry:
    """One unconfirmed notification. `pending` are the destinations, as bits, that have not confirmed it."""

    __slots__ = ("_at", "block", "pending")

    def __init__(self, block: Block, at: int, pending: int) -> None:
        self.block = block
        self._at = at
        self.pending = pending

    @property
    def key(self) -> tuple[int, int]:
        """In the order of the log."""
        return self.block.serial, self._at

    @property
    def publisher(self) -> str:
        return self.block.publisher

    @property
    def sequence(self) -> int:
        return self.block.first + self._at

    @property
    def id(self) -> str:
        return self.block.items.id(self._at)

    @property
    def notification(self) -> Notification:
        return self.block.items.notification(self._at)

    @property
    def priority(self) -> int:
        """That of the most urgent copy."""
        return self.block.priorities[self.block.set_of(self._at)]

    @property
    def size(self) -> int:
        return self.block.size

    @property
    def ways(self) -> tuple[Sent, ...]:
        """How it was last sent to each destination."""
        block, at = self.block, self._at
        if block.again is not None and at in block.again:
            return block.again[at]
        return ((block.dests_of(at), block.trees[block.set_of(at)], block.unsure),)

    @ways.setter
    def ways(self, ways: tuple[Sent, ...]) -> None:
        if self.block.again is None:
            self.block.again = {}
        self.block.again[self._at] = ways

    def before(self, place: int) -> int:
        """The number of its predecessor for a destination; 0: none."""
        block, bit = self.block, 1 << place
        for at in range(self._at - 1, -1, -1):
            if block.dests_of(at) & bit:
                return block.first + at
        return block.before[place]


class _Publisher:
    __slots__ = ("blocks", "sequence", "to", "upto")

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.blocks = 0
        # by destination (place), unconfirmed blocks sent there, and up to which number it has confirmed part of one
        self.to: dict[int, deque[Block]] = {}
        self.upto: dict[int, int] = {}

    def youngest(self, place: int) -> int:
        """The youngest unconfirmed notification for a destination; 0: none."""
        waiting = self.to.get(place)
        return waiting[-1].last_for(place) if waiting else 0


class StreamLog:
    """The unconfirmed notifications of the clients of the broker at place `host`.

    `first` is at or above all numbers that an earlier life used. `away` are the destinations that cannot be reached, as
    bits. `lost` has by publisher those for which something was dropped or given up.
    """

    __slots__ = (
        "_backlogs", "_behind", "_blocks", "_bytes", "_bytes_max", "_count", "_entries_max", "_host", "_live_bytes",
        "_live_count", "_publishers", "_serial", "_used", "away", "given_up", "lost", "missed",
    )  # fmt: skip

    def __init__(
        self, host: int, first: int = 0, *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self._host = host
        self._used = first
        self._publishers: dict[str, _Publisher] = {}
        # all of all publishers by serial number, oldest first
        self._blocks: dict[int, Block] = {}
        self._serial = 0
        self._count = 0
        self._bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        # of these, in blocks that not only backlogs wait for
        self._live_count = 0
        self._live_bytes = 0
        self.away = 0
        # by destination (place), up to which block everything unconfirmed is its backlog
        self._backlogs: dict[int, int] = {}
        # by serial number, oldest first: all blocks that destinations wait for that are away, and perhaps others
        self._behind: dict[int, Block] = {}
        self.given_up = 0
        self.missed: dict[int, int] = {}
        self.lost: dict[str, int] = {}

    def __len__(self) -> int:
        """Notifications in blocks that are not confirmed as a whole."""
        return self._count

    @property
    def unconfirmed_bytes(self) -> int:
        return self._bytes

    @property
    def filled(self) -> float:
        """The share of its bounds that is used for more than backlogs, from 0 to 1."""
        return max(self._live_count / self._entries_max, self._live_bytes / self._bytes_max)

    @property
    def serial(self) -> int:
        """The number of the last block."""
        return self._serial

    def __iter__(self) -> Iterator[Entry]:
        """All unconfirmed notifications, oldest first."""
        for block in list(self._blocks.values()):
            yield from self._entries(block)

    def _entries(self, block: Block) -> Iterator[Entry]:
        known = self._publishers[block.publisher]
        upto, to = known.upto, known.to
        # a destination that confirmed the whole block, or missed it, waits for it no longer
        open_at = 0
        for place in block.before:
            waiting = to.get(place)
            if waiting and waiting[0].serial <= block.serial:
                open_at |= 1 << place
        for at in range(block.count):
            pending = block.dests_of(at) & open_at
            if pending and upto:
                for place in places(pending):
                    if upto.get(place, 0) >= block.first + at:
                        pending &= ~(1 << place)
            if pending:
                yield Entry(block, at, pending)

    # -- notifications are sent

    def _known(self, publisher: str) -> _Publisher:
        known = self._publishers.get(publisher)
        if known is None:
            known = self._publishers[publisher] = _Publisher(self._used)
        return known

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
        known = self._known(publisher)
        sequence = known.sequence = known.sequence + 1
        return self._add(known, sequence, publisher, id, notification, dests, tree, unsure, size, priority)

    def take_up(self, sent: Unconfirmed, size: int) -> None:
        """Record a notification of the previous life; nobody knows which way it took. Call this in order, and first."""
        publisher, id, notification, sequence, dests, priority = sent
        known = self._known(publisher)
        known.sequence = max(known.sequence, sequence)
        self._add(known, sequence, publisher, id, notification, dests, 0, True, size, priority)

    def _add(
        self,
        known: _Publisher,
        sequence: int,
        publisher: str,
        id: str,
        notification: Notification,
        dests: int,
        tree: int,
        unsure: bool,
        size: int,
        priority: int,
    ) -> Stamp:
        to, before, gaps = known.to, dict[int, int](), []
        block = Block(
            publisher, sequence, One(id, notification), (dests,), None, before, None, (tree,), unsure, size, (priority,)
        )
        for place in places(dests):
            waiting = to.get(place)
            if waiting:
                last = waiting[-1].last_for(place)
                waiting.append(block)
            else:
                last = 0
                to[place] = deque((block,))
            before[place] = last
            gaps.append(sequence - last)
        block.waits = block.live = len(before)
        self._keep(known, block)
        return Stamp(self._host, sequence, dests, tuple(gaps))

    def begin(self, publisher: str, dests: int) -> tuple[int, dict[int, int]]:
        """For a host that stamps many notifications itself: the last number used, and for each of these destinations
        the youngest unconfirmed notification."""
        known = self._publishers.get(publisher)
        if known is None:
            return self._used, dict.fromkeys(places(dests), 0)
        return known.sequence, {place: known.youngest(place) for place in places(dests)}

    def add_block(self, block: Block) -> None:
        """Record notifications that were stamped by what `begin` said."""
        known = self._known(block.publisher)
        known.sequence = block.first + block.count - 1
        for place in block.before:
            waiting = known.to.get(place)
            if waiting:
                waiting.append(block)
            else:
                known.to[place] = deque((block,))
        self._keep(known, block)

    def _keep(self, known: _Publisher, block: Block) -> None:
        self._serial += 1
        block.serial = self._serial
        known.blocks += 1
        self._blocks[block.serial] = block
        self._count += block.count
        self._bytes += block.size
        self._live_count += block.count
        self._live_bytes += block.size
        if self.away:
            away = sum(self.away >> place & 1 for place in block.before)
            if away:
                self._behind[block.serial] = block
                self._fall_behind(block, away)
        if self._is_too_full:
            self._make_room()

    @property
    def _is_too_full(self) -> bool:
        return self._count > self._entries_max or self._bytes > self._bytes_max

    # -- destinations that are away

    def leave_behind(self, gone: int) -> None:
        """These destinations cannot be reached any more: all that they have not confirmed is their backlog."""
        behind = dict(self._behind)
        for serial, block in self._blocks.items():
            to, fresh = self._publishers[block.publisher].to, 0
            for place in places(gone):
                waiting = to.get(place)
                if place in block.before and waiting and waiting[0].serial <= serial:
                    behind[serial] = block
                    fresh += serial > self._backlogs.get(place, 0)
            self._fall_behind(block, fresh)
        self._behind = dict(sorted(behind.items()))
        self.away |= gone
        self._backlogs.update(dict.fromkeys(places(gone), _EVER))

    def catch_up(self, back: int) -> None:
        """These destinations can be reached again: their backlogs grow no more."""
        self.away &= ~back
        self._backlogs.update(dict.fromkeys(places(back), self._serial))

    def _fall_behind(self, block: Block, count: int) -> None:
        """So many more destinations have a block in their backlog, or all of it."""
        if count:
            block.live -= count
            if not block.live:
                self._live_count -= block.count
                self._live_bytes -= block.size

    def drop(self, place: int, upto: int) -> None:
        """Nothing up to this block is wanted by a destination any more."""
        for publisher, known in list(self._publishers.items()):
            waiting = known.to.get(place)
            while waiting and waiting[0].serial <= upto:
                self._miss(publisher, known, place)

    def _miss(self, publisher: str, known: _Publisher, place: int) -> None:
        """Drop the oldest block that a destination waits for."""
        block, confirmed = known.to[place].popleft(), known.upto.pop(place, 0)
        count = sum(block.dests_of(at) >> place & 1 for at in range(block.count) if block.first + at > confirmed)
        self.missed[place] = self.missed.get(place, 0) + count
        self._note_lost(publisher, place)
        self._done(block, place)

    def _note_lost(self, publisher: str, place: int) -> None:
        self.lost[publisher] = self.lost.get(publisher, 0) | 1 << place
        if len(self.lost) > LOSERS_MAX:
            del self.lost[next(iter(self.lost))]

    def _make_room(self) -> None:
        while self._behind and self._is_too_full:
            oldest = self._behind.pop(next(iter(self._behind)))
            known = self._publishers[oldest.publisher]
            for place in oldest.before:
                waiting = known.to.get(place)
                # the oldest that is behind is the oldest that each destination which is away waits for
                if self.away >> place & 1 and waiting and waiting[0] is oldest:
                    self._miss(oldest.publisher, known, place)
        self._give_up_oldest()

    # -- and confirmed

    def confirm(self, publisher: str, place: int, upto: int) -> None:
        """A destination has all notifications of a publisher for it up to this number."""
        known = self._publishers.get(publisher)
        waiting = None if known is None else known.to.get(place)
        if known is None or not waiting:
            return
        while waiting and waiting[0].last_for(place) <= upto:
            self._done(waiting.popleft(), place)
        if waiting and waiting[0].first <= upto:
            known.upto[place] = max(upto, known.upto.get(place, 0))
        else:
            known.upto.pop(place, None)

    def _give_up_oldest(self) -> None:
        while len(self._blocks) > 1 and self._is_too_full:
            oldest = next(iter(self._blocks.values()))
            self.given_up += sum(1 for _ in self._entries(oldest))
            known = self._publishers[oldest.publisher]
            for place in oldest.before:
                waiting = known.to.get(place)
                # the oldest of all is the oldest of each stream it is in
                if waiting and waiting[0] is oldest:
                    waiting.popleft()
                    known.upto.pop(place, None)
                    self._note_lost(oldest.publisher, place)
                    self._done(oldest, place)

    def _done(self, block: Block, place: int) -> None:
        """One more destination has all of a block, or is given up."""
        block.waits -= 1
        if block.serial > self._backlogs.get(place, 0):
            self._fall_behind(block, 1)
        if block.waits:
            return
        del self._blocks[block.serial]
        self._behind.pop(block.serial, None)
        self._count -= block.count
        self._bytes -= block.size
        known = self._publishers[block.publisher]
        known.blocks -= 1
        if not known.blocks:
            del self._publishers[block.publisher]
            self._used = max(self._used, known.sequence)

    def unconfirmed(self, publishers: Iterable[str] | None = None) -> dict[int, dict[str, int]]:
        """By destination (place) and publisher, the last notification that is not confirmed; None: of all."""
        found: dict[int, dict[str, int]] = {}
        for publisher in list(self._publishers) if publishers is None else publishers:
            known = self._publishers.get(publisher)
            for place, waiting in () if known is None else known.to.items():
                if waiting:
                    found.setdefault(place, {})[publisher] = waiting[-1].last_for(place)
        return found

    def has_unconfirmed(self, publisher: str, place: int) -> bool:
        known = self._publishers.get(publisher)
        return known is not None and bool(known.to.get(place))

    def sent_upto(self, publisher: str) -> int:
        """The number of a publisher's last notification; 0 if all are confirmed."""
        known = self._publishers.get(publisher)
        return 0 if known is None else known.sequence

    def waits_for(self, publisher: str, upto: int) -> int:
        """The destinations, as bits, that have not confirmed everything up to a number that was the last once."""
        known, waits = self._publishers.get(publisher), 0
        for place, waiting in () if known is None else known.to.items():
            if waiting and waiting[0].first <= upto:
                waits |= 1 << place
        return waits

    # -- and sent again

    def again(self, entry: Entry, dests: int, tree: int = 0, unsure: bool = False) -> Stamp:
        """A stamp for an entry that is resent to these destinations, all of which are pending."""
        others = tuple((to & ~dests, way, was_unsure) for to, way, was_unsure in entry.ways if to & ~dests)
        entry.ways = (*others, (dests, tree, unsure))
        known, sequence = self._publishers[entry.publisher], entry.sequence
        gaps = []
        for place in places(dests):
            before = entry.before(place)
            oldest = known.to[place][0]
            # confirmed, or given up
            confirmed = before < oldest.first or before <= known.upto.get(place, 0)
            gaps.append(sequence if confirmed else sequence - before)
        return Stamp(self._host, sequence, dests, tuple(gaps))

    def pending_at(self, publisher: str, place: int) -> list[Entry]:
        """A publisher's notifications that a destination has not confirmed, oldest first."""
        known = self._publishers.get(publisher)
        if known is None:
            return []
        blocks = list(known.to.get(place, ()))
        return [entry for block in blocks for entry in self._entries(block) if entry.pending >> place & 1]

    def pending(self, entry: Entry) -> int:
        """The destinations, as bits, that have not confirmed an entry by now."""
        known, block = self._publishers.get(entry.publisher), entry.block
        if known is None or block.serial not in self._blocks:
            return 0
        pending = 0
        for place in places(entry.pending):
            waiting = known.to.get(place)
            if waiting and waiting[0].serial <= block.serial and known.upto.get(place, 0) < entry.sequence:
                pending |= 1 << place
        return pending
