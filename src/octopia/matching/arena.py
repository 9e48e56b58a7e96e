"""Many byte strings in one array, for compiled code. Pieces come and go; nothing is ever moved.

Each piece gets a slot of one of a few sizes, and a freed slot is reused for the next piece of its size. So the cost of
a piece does not depend on the number of pieces, and at most a quarter of the space is wasted.
"""

import numpy as np
import numpy.typing as npt

from octopia.sheets import Sheet

_BYTES_MIN = 1_024
_MORE_BYTES_MAX = 1 << 20
_LEAST = 8
# Padding after the last piece: code that reads whole words may read past the end of a piece.
_SLACK = 8


class Arena:
    """All pieces are in the array `data`, which is a line of a sheet; `put` may make it longer."""

    __slots__ = ("_end", "_free", "_line", "_sheet")

    def __init__(self, sheet: Sheet | None = None, line: int = 0) -> None:
        """Use this line of a sheet, or a sheet of its own."""
        self._sheet = sheet or Sheet(1)
        self._line = line
        self._sheet.put(line, np.zeros(_BYTES_MIN, dtype=np.uint8))
        self._end = 0
        self._free: dict[int, list[int]] = {}

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        return self._sheet[self._line]

    def put(self, piece: bytes) -> int:
        """Store a piece; returns its offset."""
        room = _room_for(len(piece))
        free = self._free.get(room)
        data = self.data
        if free:
            at = free.pop()
        else:
            at = self._end
            self._end += room
            if self._end + _SLACK > len(data):
                more = len(data) + min(len(data), _MORE_BYTES_MAX)
                data = self._sheet.grow(self._line, max(self._end + _SLACK, more))
        data[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        return at

    def give_back(self, at: int, size: int) -> None:
        """Free the piece of `size` bytes at this offset."""
        self._free.setdefault(_room_for(size), []).append(at)


def _room_for(size: int) -> int:
    """The smallest slot size that holds this many bytes: 8, 10, 12, 14, 16, 20, 24, 28, 32, 40 and so on."""
    if size <= _LEAST:
        return _LEAST
    step = 1 << ((size - 1).bit_length() - 3)
    return -(-size // step) * step
