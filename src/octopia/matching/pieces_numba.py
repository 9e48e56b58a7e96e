"""Which pieces a string has, compiled (`pieces.PieceTable`)."""

import numpy as np

from octopia.matching.pieces import (
    ENTRY_COLUMNS,
    FIRST_PIECE,
    FOUND_IN,
    KEY,
    NEXT,
    OFFSET,
    TEXT_AT,
    TEXT_BYTES,
)
from octopia.native import addresses_at, byte_at, float_lines_from, floats_at, int_lines_at, kernel, same_bytes

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_OWNER = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)


@kernel
def window_key(word, attribute, width):  # type: ignore[no-untyped-def]
    """The key of a window, whose bytes are the word, the first highest: a number that is not 0."""
    mixed = (np.uint64(word) ^ np.uint64(16 * attribute + width) * _OWNER) * _SPREAD
    return np.int64((mixed ^ mixed >> _SHIFT) | np.uint64(1 << 63))


@kernel
def find_pieces(sheet_at, first, attribute, widths, text, size, event, hits_at, count):  # type: ignore[no-untyped-def]
    """Write the attribute and the codes of all pieces that a string has to the hits, from `count` on.

    `sheet_at` and `first` are those of the `PieceTable`; returns how many hits there are then.
    """
    sheet, hits = addresses_at(sheet_at, first + 4), float_lines_from(hits_at, count, 2)
    slots, entries = int_lines_at(sheet, first, 2), int_lines_at(sheet, first + 1, ENTRY_COLUMNS)
    codes, texts = floats_at(sheet, first + 2), sheet[first + 3, 0]
    last = len(slots) - 1
    width = 1
    while width <= widths:
        if widths & width and size >= width:
            mask = ~np.uint64(0) >> np.uint64(64 - 8 * width)
            word = np.uint64(0)
            for at in range(size):
                word = word << np.uint64(8) | np.uint64(byte_at(text + at))
                if at + 1 < width:
                    continue
                key = window_key(word & mask, attribute, width)
                slot = key & last
                while slots[slot, KEY] and slots[slot, KEY] != key:
                    slot = (slot + 1) & last
                entry = slots[slot, FIRST_PIECE] if slots[slot, KEY] else -1
                while entry >= 0:
                    start = at + 1 - width - entries[entry, OFFSET]
                    piece_bytes = entries[entry, TEXT_BYTES]
                    if (
                        entries[entry, FOUND_IN] != event
                        and start >= 0
                        and start + piece_bytes <= size
                        and same_bytes(text + start, texts + entries[entry, TEXT_AT], piece_bytes)
                    ):
                        entries[entry, FOUND_IN] = event
                        hits[count, 0], hits[count, 1] = attribute, codes[entry]
                        count += 1
                    entry = entries[entry, NEXT]
        width *= 2
    return count
