"""The arrays in which the compiled engine works, by their lines in its sheet, and how they grow.

They grow between two calls of kernels, through the sheet (`octopia/sheets.py`), which tells why no address is stale.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from octopia.sheets import Sheet
from octopia.wire.scanner import NOTES_MAX, PUBLISHERS_MAX

# Of the notifications of a read: the rows that they match, and how many each; the advertisements that each satisfies;
# the group of each, the first of each group, and what groups are made of; whether each is delivered here; the ways of
# the group that is expected (`EXPECTED`).
# Of frames: lines, and what they are made from; a line for each destination (`SPANS`, `CHAINS`), found by destination
# (`SPAN_OF`) and by content (`SPAN_SLOTS`); the bytes. Of groups: whether they are delivered here, where the copies
# that they ask for begin, and a line for each copy; headers of copies, and their bytes.
# Of streams: stamps, and where they end. Of groups: where their destinations begin, these, and the part of a stamp that
# follows from them (`STAMP_SETS`, from `STAMP_SETS_AT` on, and its flags). By destination, the last notification sent
# there; the gaps of one stamp. Of the publishers of a read: the place of the host, or -1 if their copies need Python,
# the last number, and how many were next in order; the copies that need Python.
# Of what is recorded: the number of each notification that is, or -1; these, the frames that carry them, where those of
# each destination begin, the bytes of parcels and of headers of deliveries, and what is known of each publisher
# (`sample_numba.py`).
(
    FOUND, COUNTS, MASKS, GROUPS, FIRSTS, SETS, SET_SLOTS, LOCAL, FRAMES, CLIENT_ENDS, CLIENTS, CLIENT_ROWS, KEYS,
    SORTED_ROWS, SPANS, SPAN_OF, SPAN_SLOTS, OUT, DELIVERS, PLAN_STARTS, PLAN, HEADERS, HEADER_BYTES, STAMPS,
    STAMP_ENDS, DEST_STARTS, DESTS, STAMP_SETS_AT, STAMP_SETS, STAMP_FLAGS, SENT_TO, GAPS, STREAM_HOST, STREAM_LAST,
    STREAM_COUNT, LATE, EXPECTED, CHAINS, CHOSEN, CHOSEN_NOTES, CHOSEN_FRAMES, CHOSEN_STARTS, CHOSEN_BYTES,
    CHOSEN_STATES,
) = range(44)  # fmt: skip
SHEET_LINES: Final = 44

# Columns of `FRAMES`, one line per frame before it has bytes: the notification; the destination; where its rows begin,
# or the number of its header; how many rows, or -1; the bytes of its header; and the next frame for its destination.
EVENT, TO, FROM, IDS, HEADER_SIZE, NEXT = range(6)
FRAME_COLUMNS: Final = 6
# Columns of `SPANS`: the destination, its bytes, its frames, where its bytes end, when its oldest notification was
# accepted, and an earlier span with equal frames, or -1. Of `CHAINS`: its first and last frame, and a hash of them.
SPAN_TO, SPAN_BYTES, SPAN_FRAMES, SPAN_END, SPAN_OLDEST, SPAN_SAME = range(6)
SPAN_COLUMNS: Final = 6
CHAIN_FIRST, CHAIN_LAST, CHAIN_KEY = range(3)
# Columns of `PLAN`: the destination of a copy, and its header.
PLAN_TO, PLAN_HEADER = range(2)
# Columns of `HEADERS`: where it begins in their bytes, its length, and the kind of its frames.
HEADER_AT, HEADER_LENGTH, HEADER_KIND = range(3)
# Lanes of a destination, one per priority. Destinations are numbered: the log of sent notifications, then links, then
# clients, each with its lanes.
LANES: Final = 4
LOG: Final = 0

_LINES_MIN: Final = 4_096
_BYTES_MIN: Final = 256 * 1024


class Arrays:
    """The arrays of one engine. Those with a line per frame grow with the largest read so far."""

    __slots__ = ("_destinations", "_lines", "_set_words", "room", "sheet", "spans", "view")

    def __init__(self, brokers: int) -> None:
        self.sheet = sheet = Sheet(SHEET_LINES)
        for line in (COUNTS, MASKS, GROUPS, FIRSTS, CHOSEN):
            sheet.put(line, np.zeros(NOTES_MAX, dtype=np.int64))
        sheet.put(CHOSEN_NOTES, np.zeros((NOTES_MAX, 5), dtype=np.int64))
        sheet.put(CHOSEN_STATES, np.zeros((PUBLISHERS_MAX, 3), dtype=np.int64))
        sheet.put(CHOSEN_BYTES, np.zeros(_BYTES_MIN, dtype=np.uint8))
        sheet.put(LOCAL, np.ones(NOTES_MAX, dtype=np.int64))
        sheet.put(DELIVERS, np.ones(NOTES_MAX, dtype=np.int64))
        sheet.put(SET_SLOTS, np.zeros(4 * NOTES_MAX, dtype=np.int32))
        sheet.put(PLAN_STARTS, np.zeros(NOTES_MAX + 1, dtype=np.int64))
        sheet.put(PLAN, np.zeros((64, 2), dtype=np.int64))
        sheet.put(HEADERS, np.zeros((64, 3), dtype=np.int64))
        sheet.put(HEADER_BYTES, np.zeros(4_096, dtype=np.uint8))
        sheet.put(STAMPS, np.zeros(64 * 1024, dtype=np.uint8))
        sheet.put(STAMP_ENDS, np.zeros(NOTES_MAX + 1, dtype=np.int64))
        for line in (DEST_STARTS, STAMP_SETS_AT):
            sheet.put(line, np.zeros(NOTES_MAX + 1, dtype=np.int64))
        for line in (STAMP_FLAGS, LATE):
            sheet.put(line, np.zeros(NOTES_MAX, dtype=np.int64))
        sheet.put(DESTS, np.zeros(256, dtype=np.int64))
        sheet.put(STAMP_SETS, np.zeros(1_024, dtype=np.uint8))
        for line in (SENT_TO, GAPS):
            sheet.put(line, np.zeros(max(brokers, 1), dtype=np.int64))
        for line in (STREAM_HOST, STREAM_LAST, STREAM_COUNT):
            sheet.put(line, np.zeros(PUBLISHERS_MAX, dtype=np.int64))
        self._lines = self._destinations = self._set_words = 0
        self.need_rows(_LINES_MIN)
        self.need_lines(_LINES_MIN)
        self.need_destinations(LANES)
        self.need_set_words(4)
        self.need_bytes(_BYTES_MIN)

    def need_rows(self, rows: int) -> None:
        """Make room for so many rows found, and a block more."""
        if not self.sheet.has(FOUND) or rows + 128 > len(self.sheet[FOUND]):
            self.sheet.put(FOUND, np.zeros(2 * rows + 128, dtype=np.int32))

    def need_lines(self, lines: int) -> None:
        """Make room for so many frames."""
        if lines > self._lines:
            self._lines = lines = max(lines, 2 * self._lines)
            put = self.sheet.put
            put(FRAMES, np.zeros((lines, FRAME_COLUMNS), dtype=np.int64))
            put(CLIENTS, np.zeros(lines, dtype=np.int64))
            put(CLIENT_ROWS, np.zeros((lines, 2), dtype=np.int64))
            put(KEYS, np.zeros(lines, dtype=np.int64))
            put(SORTED_ROWS, np.zeros(lines, dtype=np.int32))
            put(CHOSEN_FRAMES, np.zeros((lines, 5), dtype=np.int64))

    def need_destinations(self, destinations: int) -> None:
        if destinations > self._destinations:
            self._destinations = destinations = destinations + destinations // 4 + LANES
            self.sheet.put(SPAN_OF, np.full(destinations, -1, dtype=np.int32))
            self.sheet.put(SPAN_SLOTS, np.full(2 << destinations.bit_length(), -1, dtype=np.int32))
            self.spans: npt.NDArray[np.int64] = np.zeros((destinations, SPAN_COLUMNS), dtype=np.int64)
            self.sheet.put(SPANS, self.spans)
            self.sheet.put(CHAINS, np.zeros((destinations, 3), dtype=np.int64))
            self.sheet.put(CHOSEN_STARTS, np.zeros(destinations + 1, dtype=np.int64))
            self.sheet.put(CLIENT_ENDS, np.zeros(destinations // LANES + 1, dtype=np.int32))

    def need_set_words(self, words: int) -> None:
        """Make room for sets of so many words."""
        if words > self._set_words:
            self._set_words = 2 * words
            self.sheet.put(SETS, np.zeros(NOTES_MAX * 2 * words, dtype=np.uint64))
            self.sheet.put(EXPECTED, np.zeros(2 * words, dtype=np.uint64))

    def fill(self, line: int, values: Any) -> None:
        """Write values to the beginning of an array, which grows with them."""
        if len(values) > len(self.sheet[line]):
            self.sheet.grow(line, 2 * len(values))
        self.sheet[line][: len(values)] = values

    def need_bytes(self, size: int) -> None:
        """Make room for more than so many bytes: words are copied whole, so the last may reach beyond its end."""
        self.sheet.put(OUT, np.zeros(2 * size, dtype=np.uint8))
        self.view = self.sheet[OUT].data
        self.room = 2 * size - 8
