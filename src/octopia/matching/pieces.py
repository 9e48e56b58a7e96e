"""Pieces of strings: the constants of `like '%inc%'` on one attribute, each with a code, and those that a string has.

A piece is filed under a *window*: 1, 2, 4 or 8 of its bytes that follow each other, as many as it has. Of its first
windows it is the one under which the fewest other pieces are. A string is read once for each width that occurs, window
by window, and the pieces under a window are compared with the string around it. So its cost does not depend on the
number of pieces, unless they are made for it: thousands that have all windows in common.

`PieceTable` is the same for compiled code, for all attributes of a space; `pieces_numba.py` reads it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching.arena import Arena
from octopia.sheets import Sheet

WIDTHS = (1, 2, 4, 8)
# Windows of a piece that are considered: enough to get past a common beginning.
_WINDOWS_MAX = 64


class Piece(NamedTuple):
    """A piece: its bytes, its code, and which of its windows it is filed under."""

    text: bytes
    code: float
    offset: int
    width: int

    @property
    def window(self) -> bytes:
        return self.text[self.offset : self.offset + self.width]


class Pieces:
    """The pieces that filters name for one attribute, counted. Codes are not used again."""

    __slots__ = ("_known", "_next", "_under", "_users", "_widths")

    def __init__(self) -> None:
        self._known: dict[str, Piece] = {}
        self._users: dict[str, int] = {}
        self._under: dict[bytes, list[Piece]] = {}
        self._widths = dict.fromkeys(WIDTHS, 0)
        self._next = 0.0

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._known.values())

    @property
    def widths(self) -> int:
        """The widths of windows that occur, as a sum."""
        return sum(width for width, pieces in self._widths.items() if pieces)

    def code(self, text: str) -> float:
        """The code of a piece; -1 if no filter has it."""
        known = self._known.get(text)
        return -1.0 if known is None else known.code

    def hold(self, text: str) -> Piece | None:
        """Count a user of a piece; returns it if it is new."""
        if text in self._known:
            self._users[text] += 1
            return None
        data = text.encode()
        width = max(width for width in WIDTHS if width <= len(data))
        windows = (data[at : at + width] for at in range(min(len(data) - width + 1, _WINDOWS_MAX)))
        offset = min(enumerate(windows), key=lambda window: len(self._under.get(window[1], ())))[0]
        piece = self._known[text] = Piece(data, self._next, offset, width)
        self._next += 1.0
        self._users[text] = 1
        self._under.setdefault(piece.window, []).append(piece)
        self._widths[width] += 1
        return piece

    def release(self, text: str) -> Piece | None:
        """A user of a piece is gone; returns the piece if that was the last."""
        self._users[text] -= 1
        if self._users[text]:
            return None
        del self._users[text]
        piece = self._known.pop(text)
        under = self._under[piece.window]
        under.remove(piece)
        if not under:
            del self._under[piece.window]
        self._widths[piece.width] -= 1
        return piece

    def within(self, text: str) -> list[float]:
        """The codes of all pieces that a string has."""
        data = text.encode()
        found: dict[float, None] = {}
        for width, pieces in self._widths.items():
            for at in range(len(data) - width + 1 if pieces else 0):
                for piece in self._under.get(data[at : at + width], ()):
                    if at >= piece.offset and data.startswith(piece.text, at - piece.offset):
                        found[piece.code] = None
        return list(found)


# Columns of the slots: the key of a window (0: none) and the first piece under it, or -1.
KEY, FIRST_PIECE = range(2)
# Columns of the entries: the next piece under the same window, where its bytes begin and how many it has, where in it
# the window is, and the last event that it was found in.
NEXT, TEXT_AT, TEXT_BYTES, OFFSET, FOUND_IN = range(5)
ENTRY_COLUMNS = 5
_SLOTS_MIN, _ENTRIES_MIN = 16, 8


class PieceTable:
    """The pieces of all attributes, in four lines of a sheet from `first` on: slots, entries, codes and bytes.

    Less than half of the slots are in use. Attributes are numbers here.
    """

    __slots__ = ("_end", "_entry_of", "_first", "_free", "_key", "_sheet", "_texts", "_used")

    def __init__(self, sheet: Sheet, first: int) -> None:
        from octopia.matching.pieces_numba import window_key

        self._key = window_key
        self._sheet = sheet
        self._first = first
        sheet.put(first, np.zeros((_SLOTS_MIN, 2), dtype=np.int64))
        sheet.put(first + 1, np.zeros((_ENTRIES_MIN, ENTRY_COLUMNS), dtype=np.int64))
        sheet.put(first + 2, np.zeros(_ENTRIES_MIN))
        self._texts = Arena(sheet, first + 3)
        self._entry_of: dict[tuple[int, bytes], int] = {}
        self._used = 0
        self._end = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._entry_of)

    def add(self, attribute: int, piece: Piece) -> None:
        """Add a piece of an attribute."""
        if self._free:
            entry = self._free.pop()
        else:
            entry = self._end
            self._end += 1
            if self._end > len(self._sheet[self._first + 1]):
                self._sheet.grow(self._first + 1, 2 * entry)
                self._sheet.grow(self._first + 2, 2 * entry)
        slot = self._slot(self._key_of(attribute, piece))
        slots = self._sheet[self._first]
        at = self._texts.put(piece.text)
        self._sheet[self._first + 1][entry] = slots[slot, FIRST_PIECE], at, len(piece.text), piece.offset, 0
        self._sheet[self._first + 2][entry] = piece.code
        slots[slot, FIRST_PIECE] = entry
        self._entry_of[attribute, piece.text] = entry

    def remove(self, attribute: int, piece: Piece) -> None:
        """Remove a piece of an attribute."""
        entry = self._entry_of.pop((attribute, piece.text))
        slots, entries = self._sheet[self._first], self._sheet[self._first + 1]
        slot = self._slot(self._key_of(attribute, piece))
        after, at, size, _, _ = entries[entry].tolist()
        self._texts.give_back(at, size)
        self._free.append(entry)
        before = int(slots[slot, FIRST_PIECE])
        if before == entry:
            slots[slot, FIRST_PIECE] = after
            return
        while entries[before, NEXT] != entry:
            before = int(entries[before, NEXT])
        entries[before, NEXT] = after

    def _key_of(self, attribute: int, piece: Piece) -> int:
        # as compiled code has it: a word of eight bytes may begin with a bit of 1
        word = int.from_bytes(piece.window, "big", signed=piece.width == 8)
        return int(self._key(word, attribute, piece.width))

    def _slot(self, key: int) -> int:
        """The slot of a window, which is made if there is none."""
        slots = self._sheet[self._first]
        slot = _probe(slots, key)
        if not slots[slot, KEY]:
            if 2 * (self._used + 1) > len(slots):
                slots = self._rehash()
                slot = _probe(slots, key)
            slots[slot] = key, -1
            self._used += 1
        return slot

    def _rehash(self) -> npt.NDArray[np.int64]:
        """Twice the room that the windows in use need."""
        old = self._sheet[self._first]
        kept = old[(old[:, KEY] != 0) & (old[:, FIRST_PIECE] >= 0)]
        slots = np.zeros((max(_SLOTS_MIN, 8 << len(kept).bit_length()), 2), dtype=np.int64)
        for line in kept:
            slots[_probe(slots, int(line[KEY]))] = line
        self._used = len(kept)
        self._sheet.put(self._first, slots)
        return slots


def _probe(slots: npt.NDArray[np.int64], key: int) -> int:
    """The slot of a key, or the empty one where it belongs."""
    last = len(slots) - 1
    slot = key & last
    while slots[slot, KEY] and slots[slot, KEY] != key:
        slot = (slot + 1) & last
    return slot
