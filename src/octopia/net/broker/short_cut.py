"""The short cut: from the bytes of a client's usual read to the queues in one compiled call.

A usual read has new notifications of its client, all with the same attribute names, which conform by these names alone,
for clients of this broker. All that is needed then is the bytes for each queue. One kernel call (`short_cut_numba.py`)
makes them and reports success; Python is involved once per read and once per destination. If anything is unusual, the
kernel reports that instead, and the read takes the ordinary way from the start (`sessions.py`, `express.py`), as if it
had not been examined. The result is the same either way (`tests/net/test_dispatch.py`).

Unusual are: a right that tests notifications, an advertisement that tests values, other names than last time, a
repeated or missing number, filters that must be tested individually or were just added, a subscriber at another broker,
copies for a neighbour, anything out of order. Conditions of the broker are checked before the call. After a failed
call, some reads are not tried, more each time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from octopia.matching import Matcher, Names
from octopia.net.broker.express import ExpressWay
from octopia.net.broker.fan_out import LANES
from octopia.net.broker.intake import Intake
from octopia.net.broker.operations.counters import Counters
from octopia.wire import Haul, Kind

if TYPE_CHECKING:
    from octopia.net.broker.sessions import Session
    from octopia.net.channel import Channel

# Room for one read: values, rows found, bytes for all destinations. A read that needs more takes the ordinary way.
_SIDES_MAX = 1 << 16
_ROWS_MAX = 1 << 16
_BYTES_MAX = 1 << 21
# After a failure, at most this many reads are not tried.
_SKIPPED_MAX = 63
_DELIVER = int(Kind.DELIVER)
# After its length, a plain publication has its kind and an empty header.
_KIND_AT, _PARCEL_AT = 4, 9
_PLAIN_PUBLISH = bytes([Kind.PUBLISH, 0, 0, 0, 0])
# Places in the array of facts, as in `short_cut_numba` and `matching/tokens.py`.
_NOTES, _LAST, _AFTER, _DELIVERIES, _LAST_DELIVERED = 0, 7, 9, 10, 11
_NO_WAYS = bytes(8)
_NOT_NOW = (0, 0)
_NO_NAMES: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class Scratch:
    """The arrays of the kernel. `table` has their addresses, in order."""

    def __init__(self, destinations: int, notes_max: int) -> None:
        from octopia.native import addresses

        self.destinations = destinations
        # a line per destination: which it is, the bytes and frames for it, and where the bytes end in `out`
        self.spans: npt.NDArray[np.int64] = np.empty((destinations, 4), dtype=np.int64)
        self.out: npt.NDArray[np.uint8] = np.empty(_BYTES_MAX, dtype=np.uint8)
        self._arrays: list[npt.NDArray[Any]] = [
            np.empty(notes_max, dtype=np.int64),
            np.empty(_SIDES_MAX),
            np.empty(_ROWS_MAX, dtype=np.int32),
            np.empty(notes_max, dtype=np.int64),
            # those of `fan_out_numba._line_up_deliveries`
            np.zeros(destinations // LANES + 1, dtype=np.int32),
            np.empty(_ROWS_MAX, dtype=np.int64),
            np.empty((_ROWS_MAX, 2), dtype=np.int64),
            np.empty(_ROWS_MAX, dtype=np.int64),
            np.empty(_ROWS_MAX, dtype=np.int32),
            np.empty((_ROWS_MAX, 5), dtype=np.int64),
            # and of `fan_out_numba._measure`
            np.full(destinations, -1, dtype=np.int32),
            self.spans,
            self.out,
            np.zeros(notes_max + 1, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
        ]
        self.table = addresses(*self._arrays)


class ShortCuts:
    """The short cuts of all clients of one broker."""

    def __init__(
        self,
        express: ExpressWay,
        scanner: Any,
        frame_bytes_max: int,
        *,
        intake: Intake,
        counters: Counters,
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        from octopia.native import addresses
        from octopia.net.broker import short_cut_numba as kernels

        self._kernels: Any = kernels
        self._addresses = addresses
        self._express = express
        self._core = express.core
        self._rows = express.core.rows
        self._scanner = scanner
        self._intake = intake
        self._counters = counters
        self._now = now
        self._wall = wall
        self._limits = np.array([frame_bytes_max, *scanner.limits], dtype=np.int64)
        self._room = scanner.make_room()
        self._facts = np.zeros(kernels.FACTS, dtype=np.int64)
        self._read = addresses(*self._room.arrays[:-1], self._facts)
        self._known = scanner.known
        self._known_table = addresses(*self._known.arrays)
        self._make_scratch()

    def _make_scratch(self) -> None:
        destinations = self._express.destinations
        self._scratch = Scratch(destinations + destinations // 4 + LANES, self._scanner.notes_max)
        self._view = self._scratch.out.data

    def open(self, session: "Session", channel: "Channel", data: bytes) -> bytes:
        """A client's read before its first publication, with which it gets a short cut."""
        if channel.connection.unfinished_bytes or data[_KIND_AT:_PARCEL_AT] != _PLAIN_PUBLISH:
            return data
        cut = ShortCut(session, self)
        channel.short_cut = cut.take
        return cut.take(channel, data)

    @property
    def names(self) -> Names:
        """The known attribute names; a new one invalidates their numbers."""
        names: Names = self._scanner.known.names
        return names

    def scan(self, data: bytes) -> Haul | None:
        """The first notifications of a read, as far as they are usual."""
        haul: Haul | None = self._scanner.take(data, 0, _PARCEL_AT - _KIND_AT, False, int(self._limits[0]))[0]
        return haul

    def carry(self, cut: "ShortCut", session: "Session", channel: "Channel", data: bytes) -> tuple[int, int] | None:
        """Take the first notifications of a read to the queues; returns their number and where the next frame begins.

        None if they are unusual, and nothing was done; the same with no notification if the broker is unusual at the
        moment.
        """
        express, core = self._express, self._core
        arguments = core.index.search_arguments(cut.names) if express.is_open else None
        header = None if arguments is None else core.header_of(session.name, cut.combination, self._now())
        if arguments is None or header is None:
            return _NOT_NOW
        decision = core.decide(_NO_WAYS, header, None)
        if decision.copies or decision.dests or decision.missed:
            return _NOT_NOW
        if self._known is not self._scanner.known:
            self._known = self._scanner.known
            self._known_table = self._addresses(*self._known.arrays)
        if express.destinations > self._scratch.destinations:
            self._make_scratch()
        scratch, scanner, rows = self._scratch, self._scanner, self._rows
        found = self._kernels.carry(
            np.frombuffer(data, np.uint8), cut.publisher, cut.expected, self._limits, self._known_table, self._read,
            scratch.table, scanner.scanned, len(cut.names.words), session.last_sequence,
            int(self._wall() * 1000) if session.qos.is_timed else -1, _DELIVER,
            *arguments, rows.lines, rows.ids.data, express.links,
        )  # fmt: skip
        scanner.scanned += scanner.notes_max
        if found < 0:
            return None
        facts = self._facts.tolist()
        count = facts[_NOTES]
        core.index.searched(count)
        session.last_sequence = facts[_LAST]
        session.published += count
        self._counters.notifications += count
        if decision.case:
            express.count_case(decision, count)
        if found:
            express.count_deliveries(session.name, facts[_DELIVERIES], facts[_LAST_DELIVERED])
            self._put(channel, scratch.spans[:found].tolist())
        return count, facts[_AFTER]

    def _put(self, channel: "Channel", spans: list[list[int]]) -> None:
        put, view = self._express.put, self._view
        self._intake.source = channel
        try:
            for to, size, frames, end in spans:
                put(to, bytes(view[end - size : end]), frames)
        finally:
            self._intake.done()


class ShortCut:
    """The short cut of one publishing client."""

    __slots__ = ("_session", "_shared", "_skip", "_skipped", "combination", "expected", "names", "publisher")

    def __init__(self, session: "Session", shared: ShortCuts) -> None:
        self._session = session
        self._shared = shared
        self._skip = 0  # so many reads are not tried
        self._skipped = 0  # so many were not, the last time
        self.publisher: npt.NDArray[np.uint8] = np.frombuffer(session.name.encode(), np.uint8)
        # the attribute names of an earlier read, their numbers, and those that these are of
        self.names = Names()
        self.combination: tuple[str, ...] = ()
        self.expected: npt.NDArray[np.int64] = _NO_NAMES

    def _learn(self, data: bytes) -> None:
        """Expect the names of these notifications next time, if all have the same."""
        haul = self._shared.scan(data)
        if haul is not None:
            tokens = haul.tokens
            if tokens.counts.signatures == 1:
                self.names, self.combination = tokens.names, tokens.names_of(0)
                self.expected = tokens.tokens[: len(self.combination), 0].astype(np.int64)
            haul.done()

    def take(self, channel: "Channel", data: bytes) -> bytes:
        """Take the usual part of a read to the queues; returns the rest, including an incomplete frame."""
        at_hand = channel.connection.joined_with_rest(data)
        if at_hand is None:
            return b""
        data = at_hand
        if data[_KIND_AT:_PARCEL_AT] != _PLAIN_PUBLISH:
            return data
        session = self._session
        if self._skip:
            self._skip -= 1
            return data
        if session.permit is not None:
            return data
        shared = self._shared
        if self.names is not shared.names:
            self._learn(data)
        carried = shared.carry(self, session, channel, data) if self.names is shared.names else None
        if carried is None:
            self._learn(data)
            self._skip = self._skipped = min(2 * self._skipped + 1, _SKIPPED_MAX)
            return data
        count, after = carried
        if not count:
            return data
        self._skipped = 0
        channel.took(count)
        return data[after:] if after < len(data) else b""


def use_short_cut(scanner: Any, matcher: Matcher[int]) -> None:
    """Load or compile the kernel by a call with arguments of the right types and no notifications."""
    from octopia.native import addresses
    from octopia.net.broker import short_cut_numba as kernels

    carry: Any = kernels.carry
    facts = np.zeros(kernels.FACTS, dtype=np.int64)
    arguments = matcher.search_arguments(scanner.known.names)
    if arguments is not None:
        carry(
            np.frombuffer(bytes(_PARCEL_AT), np.uint8), np.frombuffer(b"p", np.uint8), _NO_NAMES,
            np.array([0, *scanner.limits], dtype=np.int64), addresses(*scanner.known.arrays),
            addresses(*scanner.make_room().arrays[:-1], facts), Scratch(LANES, scanner.notes_max).table,
            0, 0, 0, -1, _DELIVER,
            *arguments, np.zeros((0, 6), dtype=np.int64), np.zeros(0, dtype=np.uint8), 0,
        )  # fmt: skip
