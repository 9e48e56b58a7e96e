"""The hash table of codes, compiled (`codes.py`): open addressing, one slot after the other, bytes always compared.

The functions take the address of the sheet, and the first of the table's lines in it.
"""

import numpy as np

from octopia.matching.codes import (
    AT,
    BYTES,
    CODE_LINES,
    CODES,
    EMPTY,
    HASH,
    LAST,
    OWNER,
    SEGMENT_BITS,
    SEGMENT_COLUMNS,
    SEGMENTS,
    SLOT_COLUMNS,
    START,
    TEXTS,
    USED,
)
from octopia.native import addresses_at, floats_at, hash_of, inlined, int_lines_at, kernel, same_bytes

_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_SEGMENT_SHIFT = np.uint64(64 - SEGMENT_BITS)


@inlined
def _key_of(owner, address, size):  # type: ignore[no-untyped-def]
    """The hash of a string of an attribute."""
    return np.int64(hash_of(address, size) ^ np.uint64(owner) * _SPREAD)


@inlined
def _segment_of(key):  # type: ignore[no-untyped-def]
    """The segment that a hash belongs to. The slot in it follows from the lower bits."""
    return np.int64(np.uint64(key) >> _SEGMENT_SHIFT)


@kernel
def slot_of(sheet_at, first, owner, address, size):  # type: ignore[no-untyped-def]
    """The slot of the string at `address`; -1 if it is not in the table."""
    sheet = addresses_at(sheet_at, first + CODE_LINES)
    slots, segments = int_lines_at(sheet, first, SLOT_COLUMNS), int_lines_at(sheet, first + SEGMENTS, SEGMENT_COLUMNS)
    texts = sheet[first + TEXTS, 0]
    key = _key_of(owner, address, size)
    segment = _segment_of(key)
    start, last = segments[segment, START], segments[segment, LAST]
    at = key & last
    while slots[start + at, BYTES] != EMPTY:
        slot = start + at
        if (
            slots[slot, HASH] == key
            and slots[slot, OWNER] == owner
            and slots[slot, BYTES] == size
            and same_bytes(address, texts + slots[slot, AT], size)
        ):
            return slot
        at = (at + 1) & last
    return np.int64(-1)


@kernel
def code_of(sheet_at, first, owner, address, size):  # type: ignore[no-untyped-def]
    """The code of the string at `address`; -1 if it is not in the table."""
    slot = slot_of(sheet_at, first, owner, address, size)
    return floats_at(addresses_at(sheet_at, first + CODE_LINES), first + CODES)[slot] if slot >= 0 else -1.0


@kernel
def insert(sheet_at, first, owner, at, size, code):  # type: ignore[no-untyped-def]
    """Insert a new string, stored at `at` in the texts; returns its segment if that is too full now, otherwise -1."""
    sheet = addresses_at(sheet_at, first + CODE_LINES)
    slots, segments = int_lines_at(sheet, first, SLOT_COLUMNS), int_lines_at(sheet, first + SEGMENTS, SEGMENT_COLUMNS)
    key = _key_of(owner, sheet[first + TEXTS, 0] + at, size)
    segment = _segment_of(key)
    start, last = segments[segment, START], segments[segment, LAST]
    place = key & last
    # a removed slot is as good as an empty one
    while slots[start + place, BYTES] >= 0:
        place = (place + 1) & last
    slot = start + place
    if slots[slot, BYTES] == EMPTY:
        segments[segment, USED] += 1
    slots[slot, HASH], slots[slot, OWNER], slots[slot, AT], slots[slot, BYTES] = key, owner, at, size
    floats_at(sheet, first + CODES)[slot] = code
    return segment if 2 * segments[segment, USED] > last else -1


@kernel
def move(sheet_at, first, segment, to, size):  # type: ignore[no-untyped-def]
    """Move the strings of a segment to the `size` slots from `to` on."""
    sheet = addresses_at(sheet_at, first + CODE_LINES)
    slots, segments = int_lines_at(sheet, first, SLOT_COLUMNS), int_lines_at(sheet, first + SEGMENTS, SEGMENT_COLUMNS)
    codes = floats_at(sheet, first + CODES)
    for slot in range(to, to + size):
        slots[slot, BYTES] = EMPTY
    count = 0
    for old in range(segments[segment, START], segments[segment, START] + segments[segment, LAST] + 1):
        if slots[old, BYTES] >= 0:
            place = slots[old, HASH] & (size - 1)
            while slots[to + place, BYTES] != EMPTY:
                place = (place + 1) & (size - 1)
            for column in range(SLOT_COLUMNS):
                slots[to + place, column] = slots[old, column]
            codes[to + place] = codes[old]
            count += 1
    segments[segment, START], segments[segment, LAST], segments[segment, USED] = to, size - 1, count
