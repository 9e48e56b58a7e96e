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

from octopia.matching import Matcher, Names, SearchTable
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
# After its length, a plain publication has its kind and an empty header.
_KIND_AT, _PARCEL_AT = 4, 9
_PLAIN_PUBLISH = bytes([Kind.PUBLISH, 0, 0, 0, 0])
_NO_WAYS = bytes(8)
_NOT_NOW = (0, 0)
_NO_NAMES: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class Scratch:
    """The arrays that the kernel works in, in the order of their lines in the sheet."""

    def __init__(self, destinations: int, notes_max: int) -> None:
        self.destinations = destinations
        # a line per destination: which it is, the bytes and frames for it, and where the bytes end in `out`
        self.spans: npt.NDArray[np.int64] = np.empty((destinations, 4), dtype=np.int64)
        self.out: npt.NDArray[np.uint8] = np.empty(_BYTES_MAX, dtype=np.uint8)
        self.arrays: list[npt.NDArray[Any]] = [
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
        ]


class Sheet:
    """The addresses of all arrays of the kernel, and what it says."""

    def __init__(self, scanner: Any, frame_bytes_max: int, links: int) -> None:
        from octopia.native import addresses
        from octopia.net.broker import short_cut_numba as kernels

        self._addresses = addresses
        self._kernels: Any = kernels
        self._scanner = scanner
        self._lines: npt.NDArray[np.int64] = np.zeros((kernels.SHEET_LINES, 3), dtype=np.int64)
        self.address = int(self._lines.ctypes.data)
        self.outcome: npt.NDArray[np.int64] = np.zeros(kernels.OUTCOMES, dtype=np.int64)
        self._kept = (
            self.outcome,
            np.zeros(scanner.notes_max + 1, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            np.array([frame_bytes_max, *scanner.limits, int(Kind.DELIVER), links], dtype=np.int64),
        )
        self._room = scanner.make_room()
        self.search: SearchTable | None = None
        self._rows: tuple[npt.NDArray[Any], ...] = ()
        self._write(kernels.OUTCOME_AT, *self._kept)
        self._write(kernels.ROOM_AT, *self._room.arrays)
        self.meet_names()
        self.make_scratch(LANES)

    def _write(self, at: int, *arrays: npt.NDArray[Any]) -> None:
        self._lines[at : at + len(arrays)] = self._addresses(*arrays)

    def meet_names(self) -> None:
        """The scanner has forgotten all attribute names, and begins anew."""
        self.known = self._scanner.known
        self._write(self._kernels.KNOWN_AT, *self.known.arrays)

    def make_scratch(self, destinations: int) -> None:
        """Make room for so many destinations."""
        self.scratch = Scratch(destinations, self._scanner.notes_max)
        self.view = self.scratch.out.data
        self._write(self._kernels.SCRATCH_AT, *self.scratch.arrays)

    def search_by(self, search: SearchTable, lines: npt.NDArray[Any], ids: npt.NDArray[Any]) -> None:
        """The tables have changed: those of the matcher, and those of its rows."""
        self.search, self._rows = search, (lines, ids)
        at = self._kernels.SEARCH_AT
        self._lines[at : at + len(search.lines)] = search.lines
        self._write(self._kernels.ROWS_AT, *self._rows)


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
        from octopia.net.broker import short_cut_numba as kernels

        self._carry: Any = kernels.carry
        self._express = express
        self._core = express.core
        self.scanner = scanner
        self._intake = intake
        self._counters = counters
        self._now = now
        self._wall = wall
        self._frame_bytes_max = frame_bytes_max
        self._sheet = Sheet(scanner, frame_bytes_max, express.links)

    def open(self, session: "Session", channel: "Channel", data: bytes) -> bytes:
        """A client's read before its first publication, with which it gets a short cut."""
        if channel.connection.unfinished_bytes or data[_KIND_AT:_PARCEL_AT] != _PLAIN_PUBLISH:
            return data
        cut = ShortCut(session, self)
        channel.short_cut = cut.take
        return cut.take(channel, data)

    def scan(self, data: bytes) -> Haul | None:
        """The first notifications of a read, as far as they are usual."""
        haul: Haul | None = self.scanner.take(data, 0, _PARCEL_AT - _KIND_AT, False, self._frame_bytes_max)[0]
        return haul

    def carry(self, cut: "ShortCut", session: "Session", channel: "Channel", data: bytes) -> tuple[int, int] | None:
        """Take the first notifications of a read to the queues; returns their number and where the next frame begins.

        None if they are unusual, and nothing was done; the same with no notification if the broker is unusual at the
        moment.
        """
        express, core, sheet = self._express, self._core, self._sheet
        search = core.index.search_table(cut.names) if express.is_open else None
        header = None if search is None else core.header_of(session.name, cut.combination, self._now())
        if search is None or header is None:
            return _NOT_NOW
        decision = core.decide(_NO_WAYS, header, None)
        if decision.copies or decision.dests or decision.missed:
            return _NOT_NOW
        scanner = self.scanner
        if search is not sheet.search:
            sheet.search_by(search, core.rows.lines, core.rows.ids.data)
            if express.destinations > sheet.scratch.destinations:
                sheet.make_scratch(express.destinations + express.destinations // 4 + LANES)
        if sheet.known is not scanner.known:
            sheet.meet_names()
        found = self._carry(
            np.frombuffer(data, np.uint8), cut.own, sheet.address, scanner.scanned, len(cut.names.words),
            session.last_sequence, int(self._wall() * 1000) if session.qos.is_timed else -1,
        )  # fmt: skip
        scanner.scanned += scanner.notes_max
        if found < 0:
            return None
        count, last, after, deliveries, last_delivered, *first = sheet.outcome.tolist()
        core.index.searched(count)
        session.last_sequence = last
        session.published += count
        self._counters.notifications += count
        if decision.case:
            express.count_case(decision, count)
        if found:
            express.count_deliveries(session.name, deliveries, last_delivered)
            view, intake = sheet.view, self._intake
            intake.source = channel
            try:
                for to, size, frames, end in (first,) if found == 1 else sheet.scratch.spans[:found].tolist():
                    express.put(to, bytes(view[end - size : end]), frames)
            finally:
                intake.done()
        return count, after


class ShortCut:
    """The short cut of one publishing client."""

    __slots__ = ("_arrays", "_own", "_session", "_shared", "_skip", "_skipped", "combination", "names", "own")

    def __init__(self, session: "Session", shared: ShortCuts) -> None:
        self._session = session
        self._shared = shared
        self._skip = 0  # so many reads are not tried
        self._skipped = 0  # so many were not, the last time
        # the attribute names of an earlier read, and those that they are of
        self.combination: tuple[str, ...] = ()
        self.names = Names()
        self._expect(_NO_NAMES)

    def _expect(self, numbers: npt.NDArray[np.int64]) -> None:
        """Expect notifications whose attribute names have these numbers."""
        from octopia.native import addresses

        self._arrays = np.frombuffer(self._session.name.encode(), np.uint8), numbers
        self._own = addresses(*self._arrays)
        self.own = int(self._own.ctypes.data)

    def _learn(self, data: bytes) -> None:
        """Expect the names of these notifications next time, if all have the same."""
        haul = self._shared.scan(data)
        if haul is not None:
            tokens = haul.tokens
            if tokens.counts.signatures == 1:
                self.names, self.combination = tokens.names, tokens.names_of(0)
                self._expect(tokens.tokens[: len(self.combination), 0].astype(np.int64))
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
        # numbers of names mean nothing when all names were forgotten
        if self.names is not shared.scanner.known.names:
            self._learn(data)
            if self.names is not shared.scanner.known.names:
                return self._skip_some(data)
        carried = shared.carry(self, session, channel, data)
        if carried is None:
            self._learn(data)
            return self._skip_some(data)
        count, after = carried
        if not count:
            return data
        self._skipped = 0
        channel.took(count)
        return data[after:] if after < len(data) else b""

    def _skip_some(self, data: bytes) -> bytes:
        """This read is unusual, and so may those after it be."""
        self._skip = self._skipped = min(2 * self._skipped + 1, _SKIPPED_MAX)
        return data


def use_short_cut(scanner: Any, matcher: Matcher[int]) -> None:
    """Load or compile the kernel by a call with arguments of the right types and no notifications."""
    from octopia.native import addresses
    from octopia.net.broker import short_cut_numba as kernels

    carry: Any = kernels.carry
    search = matcher.search_table(scanner.known.names)
    if search is not None:
        sheet = Sheet(scanner, 0, 0)
        sheet.search_by(search, np.zeros((0, 6), dtype=np.int64), np.zeros(0, dtype=np.uint8))
        own = addresses(np.frombuffer(b"p", np.uint8), _NO_NAMES)
        carry(np.frombuffer(bytes(_PARCEL_AT), np.uint8), int(own.ctypes.data), sheet.address, 0, 0, 0, -1)
