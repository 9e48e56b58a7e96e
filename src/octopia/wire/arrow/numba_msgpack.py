"""MessagePack in compiled code: one value or the head of a map at a time.

Places (`at`, `stop`) are addresses. Every function stays between them, whatever the bytes say: compiled code has no
other bounds check. Anything that is not a value of our language has the tag `WRONG`.
"""

import numpy as np

from octopia.native import big_endian, byte_at, inlined

# Tags of values. INT fits into 64 bits with a sign, UINT only without one, BIG into neither.
ABSENT, BOOL, INT, UINT, FLOAT, TEXT, BIG, WRONG = 0, 1, 2, 3, 4, 5, 6, 7
_BIG_INTEGER = 1  # the extension type of long integers


@inlined
def value_at(at, stop):  # type: ignore[no-untyped-def]  # noqa: C901  one branch for each form
    """The value that begins at `at`: its tag, its value, and where the next one begins.

    The value of a FLOAT is its 64 bits, that of TEXT and BIG where its bytes begin; they end where the next one begins.
    """
    tag, value, after = WRONG, np.int64(0), np.int64(stop + 1)
    first = byte_at(at) if at < stop else np.int64(0xC1)
    left = np.int64(stop) - np.int64(at) - np.int64(1)
    body = np.int64(at) + np.int64(1)
    if first < 0x80:
        tag, value, after = INT, first, body
    elif first >= 0xE0:
        tag, value, after = INT, first - np.int64(256), body
    elif 0xA0 <= first < 0xC0:
        tag, value, after = TEXT, body, body + (first & np.int64(31))
    elif first == 0xC2 or first == 0xC3:
        tag, value, after = BOOL, first & np.int64(1), body
    elif 0xCC <= first <= 0xCF:
        size = np.int64(1) << (first - np.int64(0xCC))
        if size <= left:
            value, after = big_endian(body, size), body + size
            tag = UINT if value < 0 else INT
    elif 0xD0 <= first <= 0xD3:
        size = np.int64(1) << (first - np.int64(0xD0))
        if size <= left:
            shift = np.int64(64) - np.int64(8) * size
            tag, value, after = INT, (big_endian(body, size) << shift) >> shift, body + size
    elif first == 0xCB:
        if left >= 8:
            tag, value, after = FLOAT, big_endian(body, 8), body + np.int64(8)
    elif first == 0xCA:
        if left >= 4:
            narrow = np.uint32(big_endian(body, 4)).view(np.float32)
            tag, value, after = FLOAT, np.float64(narrow).view(np.int64), body + np.int64(4)
    elif 0xD9 <= first <= 0xDB:
        size = np.int64(1) << (first - np.int64(0xD9))
        if size <= left:
            tag, value = TEXT, body + size
            after = value + big_endian(body, size)
    elif 0xD4 <= first <= 0xD8:
        size = np.int64(1) << (first - np.int64(0xD4))
        if left >= 1 and byte_at(body) == _BIG_INTEGER:
            tag, value, after = BIG, body + np.int64(1), body + np.int64(1) + size
    elif 0xC7 <= first <= 0xC9:
        size = np.int64(1) << (first - np.int64(0xC7))
        if size + 1 <= left and byte_at(body + size) == _BIG_INTEGER:
            tag, value = BIG, body + size + np.int64(1)
            after = value + big_endian(body, size)
    if after > stop or after < at:
        tag, after = WRONG, np.int64(stop)
    return tag, value, after


@inlined
def map_at(at, stop):  # type: ignore[no-untyped-def]
    """The number of entries of the map at `at`, or -1 if there is none, and where the first one begins."""
    count, after = np.int64(-1), np.int64(at)
    first = byte_at(at) if at < stop else np.int64(0)
    if 0x80 <= first < 0x90:
        count, after = first & np.int64(15), np.int64(at) + np.int64(1)
    elif first == 0xDE and at + 3 <= stop:
        count, after = big_endian(at + 1, 2), np.int64(at) + np.int64(3)
    elif first == 0xDF and at + 5 <= stop:
        count, after = big_endian(at + 1, 4), np.int64(at) + np.int64(5)
    return count, after
