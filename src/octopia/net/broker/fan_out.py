"""From matches to the bytes for each destination, many notifications at a time.

A kernel of `fan_out_numba` does this in steps: frame lines for clients and for copies, their sizes, their bytes. This
file provides its arrays. Destinations are numbers: first the links, then the clients (`routing/rows.py`), each with
four lanes, one per priority.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching import Answers, Tokens
from octopia.routing import Rows
from octopia.wire import Heads, Kind

LANES = 4
_LINES_MIN = 2_048
_BYTES_MIN = 64 * 1024
_NO_WAYS = bytes(8)
_NO_STAMPS: npt.NDArray[np.uint8] = np.zeros(1, dtype=np.uint8)
_DELIVER = int(Kind.DELIVER)

Ints = npt.NDArray[np.int64]
# The destinations of a notification's copies, and their heads.
Plan = Sequence[tuple[int, Heads]]
_NO_PLAN: Ints = np.zeros((0, 2), dtype=np.int64)


class Bundle(NamedTuple):
    """All frames of a batch for one destination, joined, and their number."""

    to: int
    data: bytes
    frames: int


class Stamps(NamedTuple):
    """The stamps that precede the parcels in copies; the stamp of notification n ends at `ends[n + 1]`."""

    data: npt.NDArray[np.uint8]
    ends: Ints


class Headers:
    """Headers of copies in the form that compiled code takes. Few distinct ones occur; at the bound all are dropped."""

    HEADERS_MAX = 4_096

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._data = bytearray()
        self._lines: list[tuple[int, int, int]] = []
        self._arrays: tuple[Ints, npt.NDArray[np.uint8]] | None = None

    def number(self, heads: Heads) -> int:
        """The number of the header with these heads."""
        key = (int(heads.kind), heads.header)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._lines)
            self._lines.append((len(self._data), len(heads.header), key[0]))
            self._data += heads.header
            self._arrays = None
        return number

    def forget_if_many(self) -> None:
        """Drop all headers if there are too many. Call it between batches: it invalidates the numbers."""
        if len(self._lines) >= self.HEADERS_MAX:
            self._numbers.clear()
            self._data.clear()
            self._lines.clear()
            self._arrays = None

    @property
    def arrays(self) -> tuple[Ints, npt.NDArray[np.uint8]]:
        if self._arrays is None:
            lines = np.array(self._lines, dtype=np.int64).reshape(len(self._lines), 3)
            # of mutable bytes: to the compiler that is a different type, and the one that other callers use
            self._arrays = lines, np.frombuffer(self._data + b"\x00", dtype=np.uint8)
        return self._arrays


class FanOut:
    """Makes bundles of frames for a broker with `links` links. Results are valid until the next call."""

    def __init__(self, rows: Rows, links: int) -> None:
        from octopia.net.broker import fan_out_numba

        self._kernels: Any = fan_out_numba
        self._rows = rows
        self._links = links
        self.headers = Headers()
        self._out: npt.NDArray[np.uint8] = np.empty(_BYTES_MIN, dtype=np.uint8)
        self._view = self._out.data
        self._zeros: Ints = np.zeros(_LINES_MIN + 1, dtype=np.int64)
        self._clients_max = self._lines_max = 0
        self._make_room(_LINES_MIN)
        self._make_room_for_clients()

    def sets_of_ways(self, answers: Answers, extra: Ints | None) -> tuple[Ints, list[bytes], list[int]]:
        """The set of ways of each notification, by number; the distinct sets; the first notification of each.

        With `extra`, a number per notification, sets with different numbers are distinct.
        """
        counts, rows = answers
        if extra is None and not self._rows.stand_ins:
            # no interest elsewhere
            return self._none(len(counts)), [_NO_WAYS], [0]
        words = -(-len(self._rows.stand_ins) // 64) or 1
        sets = np.zeros((len(counts), words + (extra is not None)), dtype=np.uint64)
        if self._rows.stand_ins:
            self._kernels.mark_ways(counts, rows, self._rows.lines, sets)
        if extra is not None:
            sets[:, words] = extra
        slots = np.full(4 << len(counts).bit_length(), -1, dtype=np.int64)
        numbers, firsts = np.empty(len(counts), dtype=np.int64), np.empty(len(counts), dtype=np.int64)
        found = self._kernels.number_sets(sets, slots, numbers, firsts)
        heads: list[int] = firsts[:found].tolist()
        return numbers, [sets[head, :words].tobytes() for head in heads], heads

    def frames(
        self,
        answers: Answers,
        groups: Ints,
        plans: Sequence[Plan],
        tokens: Tokens,
        first: int,
        accepted_ms: int = -1,
        stamps: Stamps | None = None,
    ) -> tuple[list[Bundle], int, int]:
        """The bytes for each destination; the number of frames for clients; the last notification they get, or -1.

        The answers are those of a batch's notifications from position `first` on. A plan lists the destinations of
        copies and their heads, and `groups` has the number of each notification's plan. `accepted_ms` is the time to
        add to each parcel; -1 for none.
        """
        counts, rows = answers
        events = len(counts)
        starts, plan, most = (self._zeros, _NO_PLAN, 0) if plans == [()] else self._flat(plans)
        if len(rows) + events * most > self._lines_max:
            self._make_room(len(rows) + events * most)
        if LANES * (self._links + len(self._rows.names)) > self._clients_max:
            self._make_room_for_clients()
        if stamps is None:
            stamps = Stamps(_NO_STAMPS, self._none(events + 1))
        timed = 9 if accepted_ms >= 0 else 0
        while True:
            deliveries, found, size, last = self._kernels.make_frames(
                counts, rows, self._rows.lines, self._rows.ids.data, groups, starts, plan, *self.headers.arrays,
                tokens.data, tokens.notes, *stamps, self._links, first, timed, accepted_ms, _DELIVER,
                *self._scratch, self._spans, self._out,
            )  # fmt: skip
            if size <= len(self._out):
                break
            self._out = np.empty(2 * size, dtype=np.uint8)
            self._view = self._out.data
        view, bundles = self._view, []
        for to, size, frames, end in self._spans[:found].tolist():
            bundles.append(Bundle(to, bytes(view[end - size : end]), frames))
        return bundles, deliveries, last

    def _flat(self, plans: Sequence[Plan]) -> tuple[Ints, Ints, int]:
        """Plans in the form that the kernel takes: the start of each, their lines, and the length of the longest."""
        flat = [(to, self.headers.number(heads)) for plan in plans for to, heads in plan]
        if not flat:
            return self._none(len(plans) + 1), _NO_PLAN, 0
        sizes = list(map(len, plans))
        return np.cumsum([0, *sizes]), np.array(flat, dtype=np.int64), max(sizes)

    def _none(self, count: int) -> Ints:
        """An array of zeros, which is never changed."""
        if count > len(self._zeros):
            self._zeros = np.zeros(2 * count, dtype=np.int64)
        return self._zeros[:count]

    def last_delivered(self, count: int, tokens: Tokens, first: int) -> list[int]:
        """For each publisher, the position of its last notification among the `count` frames for clients, or -1."""
        last = np.full(tokens.counts.publishers, -1, dtype=np.int64)
        self._kernels.last_delivered(self._frame_lines, count, tokens.notes, first, last)
        places: list[int] = last.tolist()
        return places

    def _make_room(self, lines: int) -> None:
        self._lines_max = lines = 2 * lines
        # for `_line_up_deliveries`: clients; rows with their clients; keys to sort by; rows of clients, in order
        self._clients: Ints = np.empty(lines, dtype=np.int64)
        self._found: Ints = np.empty((lines, 2), dtype=np.int64)
        self._keys: Ints = np.empty(lines, dtype=np.int64)
        self._of_clients: npt.NDArray[np.int32] = np.empty(lines, dtype=np.int32)
        self._frame_lines: Ints = np.empty((lines, 5), dtype=np.int64)
        self._gather()

    def _make_room_for_clients(self) -> None:
        destinations = LANES * (self._links + len(self._rows.names))
        self._clients_max = destinations = destinations + destinations // 4 + LANES
        self._span_of: npt.NDArray[np.int32] = np.full(destinations, -1, dtype=np.int32)
        self._spans: Ints = np.empty((destinations, 4), dtype=np.int64)
        # where the rows of each client end
        self._ends: npt.NDArray[np.int32] = np.zeros(destinations // LANES + 1, dtype=np.int32)
        self._gather()

    def _gather(self) -> None:
        """The arrays, in the kernel's order."""
        if self._clients_max:
            self._scratch = (
                self._ends, self._clients, self._found, self._keys, self._of_clients, self._frame_lines, self._span_of,
            )  # fmt: skip
