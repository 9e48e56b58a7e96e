"""Reads runs of frames into hauls: the arrays for it, and the call of the compiled reader (`scan_numba`).

Loaded when a broker starts to scan, since it needs numpy and a compiler, which clients do not need.
"""

from typing import Any, Final

import numpy as np

from octopia.language import STRING_CHARS_MAX
from octopia.matching import Counts, Names, Tokens, kernels_in_use
from octopia.wire.haul import Haul
from octopia.wire.limits import NAME_CHARS_MAX, WireLimits
from octopia.wire.parcel import ParcelReader

# Room in the arrays of one haul: notifications, attributes of all of them, distinct combinations of names, publishers.
# A larger read becomes several hauls. About 1 MB, of which a broker uses one or two at a time.
NOTES_MAX: Final = 2_048
TOKENS_MAX: Final = 24_576
SIGNATURES_MAX: Final = 64
PUBLISHERS_MAX: Final = 512
# Notifications with more attributes take the ordinary path.
ATTRIBUTES_MAX: Final = 256
# Attribute names that are numbered, and their bytes. With half of either in use all are forgotten before the next read.
NAMES_MAX: Final = 2 * ATTRIBUTES_MAX
NAMES_BYTES_MAX: Final = 64 * 1024
# Arrays kept for the next haul.
_SPARE_MAX: Final = 4


class Room(Tokens):
    """The arrays of one haul. `arrays` are those that a scan fills."""

    __slots__ = ("arrays", "facts")

    def __init__(self) -> None:
        super().__init__(NOTES_MAX, TOKENS_MAX, SIGNATURES_MAX, PUBLISHERS_MAX)
        self.facts = np.empty(len(Counts._fields), dtype=np.int64)
        self.arrays = (self.notes, self.tokens, self.numbers, self.heads, self.publishers, self.facts)


class Known:
    """The attribute names of earlier reads.

    The arrays: where each name begins in their bytes and how many it has; the bytes; the last notification that had it,
    of all that were ever scanned; and, by place, the names of the last read's first notification, to be tried first.
    """

    __slots__ = ("_lines", "_texts", "arrays", "names")

    def __init__(self) -> None:
        self.names = Names()
        self._lines = np.zeros((NAMES_MAX, 2), dtype=np.int64)
        self._texts = np.empty(NAMES_BYTES_MAX + 8, dtype=np.uint8)
        last_note = np.full(NAMES_MAX, -1, dtype=np.int64)
        usual = np.full(ATTRIBUTES_MAX, -1, dtype=np.int64)
        self.arrays = (self._lines, self._texts, last_note, usual)

    def learn(self, count: int) -> None:
        """The last scan met new names: there are `count` now."""
        words = self.names.words
        for at, size in self._lines[len(words) : count].tolist():
            words.append(self._texts[at : at + size].tobytes().decode())

    @property
    def is_crowded(self) -> bool:
        count = len(self.names.words)
        return count > 0 and (2 * count > NAMES_MAX or 2 * int(self._lines[count - 1].sum()) > NAMES_BYTES_MAX)


class Scanner:
    """Reads runs of frames into hauls, within given limits. One for all connections of a broker."""

    __slots__ = ("_reader", "_scan", "_spare", "known", "limits", "make_room", "notes_max", "scanned")

    def __init__(self, limits: WireLimits, reader: ParcelReader) -> None:
        from octopia.wire.scan_numba import scan

        self.limits = (min(limits.attributes_max, ATTRIBUTES_MAX), STRING_CHARS_MAX, NAME_CHARS_MAX)
        self._reader = reader
        self._scan: Any = scan
        self._spare: list[Room] = []
        self.make_room = Room
        self.notes_max = NOTES_MAX
        self.known = Known()
        self.scanned = 0  # at most this many notifications so far; each scan adds `NOTES_MAX`

    def take(
        self, data: bytes, at: int, head_bytes: int, stamped: bool, frame_bytes_max: int
    ) -> tuple[Haul | None, int]:
        """The run of usual frames with the same head from this position, and where the next one begins."""
        room = self._spare.pop() if self._spare else Room()
        known = self.known
        room.raw = data
        room.data = np.frombuffer(data, np.uint8)
        room.names = known.names
        after = self._scan(
            room.data, at, head_bytes, stamped, frame_bytes_max, *self.limits,
            self.scanned, len(known.names.words), *known.arrays, *room.arrays,
        )  # fmt: skip
        self.scanned += NOTES_MAX
        room.counts = counts = Counts._make(room.facts.tolist())
        if counts.names > len(known.names.words):
            known.learn(counts.names)
            if known.is_crowded:
                self.known = Known()
        if not counts.notes:
            self.give_back(room)
            return None, at
        return Haul(room, self._reader, self), after

    def give_back(self, room: Room) -> None:
        if len(self._spare) < _SPARE_MAX:
            self._spare.append(room)


def scanner_for(limits: WireLimits, reader: ParcelReader) -> Scanner | None:
    """A scanner if compiled code is in use; otherwise None, and everything takes the ordinary path."""
    return Scanner(limits, reader) if kernels_in_use() == "numba" else None
