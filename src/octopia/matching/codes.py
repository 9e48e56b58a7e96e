"""The codes of strings as compiled code looks them up: one hash table for all attributes of a space.

`Space` has the same codes in dicts. `codes_numba` is the compiled part.

The table consists of segments, by the upper bits of the hash, each with slots of its own. One that is half full moves
to a larger place, so that no string has to wait for more than a small part of the table.
"""

import numpy as np

from octopia.matching.arena import Arena
from octopia.sheets import Sheet

# Columns of the slots: the hash, the attribute, and the place and length of the string, or one of these for the length.
HASH, OWNER, AT, BYTES = range(4)
SLOT_COLUMNS = 4
EMPTY, REMOVED = -1, -2
# Columns of the segments: the first slot, the number of slots less one (a power of 2), and how many are not empty.
START, LAST, USED = range(3)
SEGMENT_COLUMNS = 3
SEGMENT_BITS = 6
_SEGMENT_SLOTS_MIN = 4
# The arrays grow by at most this many slots at a time, about 3 MB.
_MORE_SLOTS_MAX = 65_536
# Lines of the sheet, from the first line of the table on.
SLOTS, SEGMENTS, CODES, TEXTS = range(4)
CODE_LINES = 4


class CodeTable:
    """Codes by attribute, which is a number here, and string, in four lines of a sheet from `first` on.

    At least half of the slots of a segment are empty.
    """

    __slots__ = ("_arena", "_end", "_first", "_free", "_kernels", "_sheet")

    def __init__(self, sheet: Sheet, first: int) -> None:
        from octopia.matching import codes_numba

        self._kernels = codes_numba
        self._sheet = sheet
        self._first = first
        segments = np.zeros((1 << SEGMENT_BITS, SEGMENT_COLUMNS), dtype=np.int64)
        slots = np.full((len(segments) * _SEGMENT_SLOTS_MIN, SLOT_COLUMNS), EMPTY, dtype=np.int64)
        segments[:, START] = np.arange(0, len(slots), _SEGMENT_SLOTS_MIN)
        segments[:, LAST] = _SEGMENT_SLOTS_MIN - 1
        sheet.put_all(first, slots, segments, np.zeros(len(slots)))
        self._arena = Arena(sheet, first + TEXTS)
        self._end = len(slots)
        # places that segments left, by their number of slots
        self._free: dict[int, list[int]] = {}

    def add(self, owner: int, text: str, code: float) -> None:
        """Add a string that is not in the table."""
        piece = text.encode()
        at = self._arena.put(piece)
        full = self._kernels.insert(self._sheet.address, self._first, owner, at, len(piece), code)
        if full >= 0:
            self._move(full)

    def remove(self, owner: int, text: str) -> None:
        """Remove a string that is in the table."""
        piece = np.frombuffer(text.encode(), dtype=np.uint8)
        slot = self._kernels.slot_of(self._sheet.address, self._first, owner, int(piece.ctypes.data), len(piece))
        slots = self._sheet[self._first]
        self._arena.give_back(int(slots[slot, AT]), len(piece))
        slots[slot, BYTES] = REMOVED

    def _move(self, segment: int) -> None:
        """Give a segment a new place, of a size that suits the strings that it still has."""
        start, last, _ = self._sheet[self._first + SEGMENTS][segment].tolist()
        live = int((self._sheet[self._first][start : start + last + 1, BYTES] >= 0).sum())
        size = max(_SEGMENT_SLOTS_MIN, 2 << live.bit_length())
        to = self._room(size)
        self._kernels.move(self._sheet.address, self._first, segment, to, size)
        self._free.setdefault(last + 1, []).append(start)

    def _room(self, slots: int) -> int:
        free = self._free.get(slots)
        if free:
            return free.pop()
        start = self._end
        self._end += slots
        length = len(self._sheet[self._first])
        if self._end > length:
            more = max(self._end, length + min(length, _MORE_SLOTS_MAX))
            self._sheet.grow(self._first + SLOTS, more)
            self._sheet.grow(self._first + CODES, more)
        return start
