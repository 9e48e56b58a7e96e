"""The hash table of codes, compiled (`codes.py`): open addressing, one slot after the other, bytes always compared."""

import numpy as np
from numba import njit

from octopia.matching.codes import AT, BYTES, EMPTY, HASH, LAST, OWNER, SEGMENT_BITS, START, USED
from octopia.native import hash_of, same_bytes

_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_SEGMENT_SHIFT = np.uint64(64 - SEGMENT_BITS)


@njit(cache=True, nogil=True, error_model="numpy")
def key_of(owner, address, size):  # type: ignore[no-untyped-def]
    """The hash of a string of an attribute."""
    return np.int64(hash_of(address, size) ^ np.uint64(owner) * _SPREAD)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _segment_of(key):  # type: ignore[no-untyped-def]
    """The segment that a hash belongs to. The slot in it follows from the lower bits."""
    return np.int64(np.uint64(key) >> _SEGMENT_SHIFT)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def slot_of(slots, segments, base, owner, address, size):  # type: ignore[no-untyped-def]
    """The slot of the string at `address`; -1 if it is not in the table. `base` is the address of its texts."""
    key = key_of(owner, address, size)
    segment = _segment_of(key)
    start, last = segments[segment, START], segments[segment, LAST]
    at = key & last
    while slots[start + at, BYTES] != EMPTY:
        slot = start + at
        if (
            slots[slot, HASH] == key
            and slots[slot, OWNER] == owner
            and slots[slot, BYTES] == size
            and same_bytes(address, base + slots[slot, AT], size)
        ):
            break
        at = (at + 1) & last
    return start + at if slots[start + at, BYTES] != EMPTY else -1


@njit(cache=True, nogil=True, error_model="numpy")
def find(slots, segments, texts, owner, text):  # type: ignore[no-untyped-def]
    """The slot of a string, or -1."""
    return slot_of(slots, segments, np.int64(texts.ctypes.data), owner, np.int64(text.ctypes.data), len(text))


@njit(cache=True, nogil=True, error_model="numpy")
def insert(slots, segments, codes, texts, owner, at, size, code):  # type: ignore[no-untyped-def]
    """Insert a new string, stored at `at` in the texts; returns its segment if that is too full now, otherwise -1."""
    key = key_of(owner, np.int64(texts.ctypes.data) + at, size)
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
    codes[slot] = code
    return segment if 2 * segments[segment, USED] > last else -1


@njit(cache=True, nogil=True, error_model="numpy")
def move(slots, segments, codes, segment, to, size):  # type: ignore[no-untyped-def]
    """Move the strings of a segment to the `size` slots from `to` on."""
    for slot in range(to, to + size):
        slots[slot, BYTES] = EMPTY
    count = 0
    for old in range(segments[segment, START], segments[segment, START] + segments[segment, LAST] + 1):
        if slots[old, BYTES] >= 0:
            place = slots[old, HASH] & (size - 1)
            while slots[to + place, BYTES] != EMPTY:
                place = (place + 1) & (size - 1)
            for column in range(4):
                slots[to + place, column] = slots[old, column]
            codes[to + place] = codes[old]
            count += 1
    segments[segment, START], segments[segment, LAST], segments[segment, USED] = to, size - 1, count
