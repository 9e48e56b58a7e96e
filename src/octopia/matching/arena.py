"""Many byte strings in one array, for compiled code. Pieces come and go; nothing is ever moved.

Each piece gets a slot of one of a few sizes, and a freed slot is reused for the next piece of its size. So the cost of
a piece does not depend on the number of pieces, and at most a quarter of the space is wasted.
"""

import numpy as np
import numpy.typing as npt

_BYTES_MIN = 1_024
_MORE_BYTES_MAX = 1 << 20
_LEAST = 8
# Padding after the last piece: code that reads whole words may read past the end of a piece.
_SLACK = 8


class Arena:
    """`data` holds all pieces. `put` may replace it with another array."""

    __slots__ = ("_end", "_free", "data")

    def __init__(self) -> None:
        self.data: npt.NDArray[np.uint8] = np.empty(_BYTES_MIN, dtype=np.uint8)
        self._end = 0
        self._free: dict[int, list[int]] = {}

    def put(self, piece: bytes) -> int:
        """Store a piece; returns its offset."""
        room = _room_for(len(piece))
        free = self._free.get(room)
        if free:
            at = free.pop()
        else:
            at = self._end
            self._end += room
            if self._end + _SLACK > len(self.data):
                # for large arrays the system moves pages, not bytes; new ones are filled, so they come in pieces
                more = len(self.data) + min(len(self.data), _MORE_BYTES_MAX)
                self.data.resize(max(self._end + _SLACK, more), refcheck=False)
        self.data[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
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
