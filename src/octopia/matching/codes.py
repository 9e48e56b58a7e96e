"""The codes of strings as compiled code looks them up: one hash table for all attributes of a space.

`Space` has the same codes in dicts. The table is made when the first batch of tokens is placed; from then on `Space`
tells it of every string that comes or goes. `codes_numba` is the compiled part.

The table consists of segments, by the upper bits of the hash, each with slots of its own. One that is half full moves
to a larger place, so that no string has to wait for more than a small part of the table.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from octopia.matching.arena import Arena

# Columns of `slots`: the hash, the attribute, and the place and length of the string, or one of these for the length.
HASH, OWNER, AT, BYTES = range(4)
EMPTY, REMOVED = -1, -2
# Columns of `segments`: the first slot, the number of slots less one (a power of 2), and how many are not empty.
START, LAST, USED = range(3)
SEGMENT_BITS = 6
_SEGMENT_SLOTS_MIN = 4
# The arrays grow by at most this many slots at a time, about 3 MB.
_MORE_SLOTS_MAX = 65_536


class CodeTable:
    """Codes by attribute, which is a number here, and string. At least half of the slots of a segment are empty."""

    __slots__ = ("_arena", "_end", "_free", "_kernels", "codes", "segments", "slots")

    def __init__(self, known: Iterable[tuple[int, str, float]]) -> None:
        from octopia.matching import codes_numba

        self._kernels = codes_numba
        self._arena = Arena()
        self.segments: npt.NDArray[np.int64] = np.zeros((1 << SEGMENT_BITS, 3), dtype=np.int64)
        self.slots: npt.NDArray[np.int64] = np.full((len(self.segments) * _SEGMENT_SLOTS_MIN, 4), EMPTY, dtype=np.int64)
        self.codes: npt.NDArray[np.float64] = np.empty(len(self.slots), dtype=np.float64)
        self.segments[:, START] = np.arange(0, len(self.slots), _SEGMENT_SLOTS_MIN)
        self.segments[:, LAST] = _SEGMENT_SLOTS_MIN - 1
        self._end = len(self.slots)
        # places that segments left, by their number of slots
        self._free: dict[int, list[int]] = {}
        for owner, text, code in known:
            self.add(owner, text, code)

    @property
    def texts(self) -> npt.NDArray[np.uint8]:
        return self._arena.data

    def add(self, owner: int, text: str, code: float) -> None:
        """Add a string that is not in the table."""
        piece = text.encode()
        at = self._arena.put(piece)
        full = self._kernels.insert(self.slots, self.segments, self.codes, self.texts, owner, at, len(piece), code)
        if full >= 0:
            self._move(full)

    def remove(self, owner: int, text: str) -> None:
        """Remove a string that is in the table."""
        piece = text.encode()
        slot = self._kernels.find(self.slots, self.segments, self.texts, owner, np.frombuffer(piece, dtype=np.uint8))
        self._arena.give_back(int(self.slots[slot, AT]), len(piece))
        self.slots[slot, BYTES] = REMOVED

    def _move(self, segment: int) -> None:
        """Give a segment a new place, of a size that suits the strings that it still has."""
        start, last, _ = self.segments[segment].tolist()
        live = int((self.slots[start : start + last + 1, BYTES] >= 0).sum())
        size = max(_SEGMENT_SLOTS_MIN, 2 << live.bit_length())
        to = self._room(size)
        self._kernels.move(self.slots, self.segments, self.codes, segment, to, size)
        self._free.setdefault(last + 1, []).append(start)

    def _room(self, slots: int) -> int:
        free = self._free.get(slots)
        if free:
            return free.pop()
        start = self._end
        self._end += slots
        if self._end > len(self.slots):
            more = max(self._end, len(self.slots) + min(len(self.slots), _MORE_SLOTS_MAX))
            # the system moves large arrays without copying them
            self.slots.resize((more, 4), refcheck=False)
            self.codes.resize(more, refcheck=False)
        return start
