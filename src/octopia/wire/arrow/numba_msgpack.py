"""MessagePack in compiled code: one value, one text, one key at a time.

Every function stays between `at` and `stop`, whatever the bytes say: compiled code has no other bounds check. Anything
that is not a value of our language has the tag `WRONG`. An inlined function (`inline`) has a single return; otherwise
the reference count of each array argument would be updated, which takes longer than reading a number.
"""

import numpy as np
from numba import njit

# Tags of values. INT fits into 64 bits with a sign, UINT only without one, BIG into neither.
ABSENT, BOOL, INT, UINT, FLOAT, TEXT, BIG, WRONG = 0, 1, 2, 3, 4, 5, 6, 7
_BIG_INTEGER = 1  # the extension type of long integers


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def number(data, at, size):  # type: ignore[no-untyped-def]
    """An unsigned number of `size` bytes; one of eight bytes may come out negative."""
    value = np.int64(0)
    for i in range(size):
        value = (value << np.int64(8)) | np.int64(data[at + i])
    return value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def value_at(data, at, stop):  # type: ignore[no-untyped-def]  # noqa: C901  one branch for each form
    """The value that begins at `at`: its tag, its value, and where the next one begins.

    The value of a FLOAT is its 64 bits, that of TEXT and BIG where its bytes begin; they end where the next one begins.
    """
    tag, value, after = WRONG, np.int64(0), np.int64(stop + 1)
    first = np.int64(data[at]) if at < stop else np.int64(0xC1)
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
            value, after = number(data, body, size), body + size
            tag = UINT if value < 0 else INT
    elif 0xD0 <= first <= 0xD3:
        size = np.int64(1) << (first - np.int64(0xD0))
        if size <= left:
            shift = np.int64(64) - np.int64(8) * size
            tag, value, after = INT, (number(data, body, size) << shift) >> shift, body + size
    elif first == 0xCB:
        if left >= 8:
            tag, value, after = FLOAT, number(data, body, 8), body + np.int64(8)
    elif first == 0xCA:
        if left >= 4:
            narrow = np.uint32(number(data, body, 4)).view(np.float32)
            tag, value, after = FLOAT, np.float64(narrow).view(np.int64), body + np.int64(4)
    elif 0xD9 <= first <= 0xDB:
        size = np.int64(1) << (first - np.int64(0xD9))
        if size <= left:
            tag, value = TEXT, body + size
            after = value + number(data, body, size)
    elif 0xD4 <= first <= 0xD8:
        size = np.int64(1) << (first - np.int64(0xD4))
        if left >= 1 and np.int64(data[body]) == _BIG_INTEGER:
            tag, value, after = BIG, body + np.int64(1), body + np.int64(1) + size
    elif 0xC7 <= first <= 0xC9:
        size = np.int64(1) << (first - np.int64(0xC7))
        if size + 1 <= left and np.int64(data[body + size]) == _BIG_INTEGER:
            tag, value = BIG, body + size + np.int64(1)
            after = value + number(data, body, size)
    if after > stop or after < at:
        tag, after = WRONG, np.int64(stop)
    return tag, value, after


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def map_at(data, at, stop):  # type: ignore[no-untyped-def]
    """The number of entries of the map at `at`, or -1 if there is none, and where the first one begins."""
    count, after = np.int64(-1), np.int64(at)
    first = np.int64(data[at]) if at < stop else np.int64(0)
    if 0x80 <= first < 0x90:
        count, after = first & np.int64(15), np.int64(at) + np.int64(1)
    elif first == 0xDE and at + 3 <= stop:
        count, after = number(data, at + 1, 2), np.int64(at) + np.int64(3)
    elif first == 0xDF and at + 5 <= stop:
        count, after = number(data, at + 1, 4), np.int64(at) + np.int64(5)
    return count, after


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def same_bytes(left, at, right, begin, size):  # type: ignore[no-untyped-def]
    """Whether `size` bytes are equal in both places."""
    same = np.int64(0)
    while same < size and left[at + same] == right[begin + same]:
        same += 1
    return same == size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def is_ascii(data, at, stop):  # type: ignore[no-untyped-def]
    """Whether these bytes are ASCII and need no further check."""
    bits = np.uint8(0)
    for i in range(at, stop):
        bits |= data[i]
    return bits < np.uint8(0x80)


@njit(cache=True, nogil=True, error_model="numpy")
def is_utf8(data, at, stop):  # type: ignore[no-untyped-def]  # noqa: C901  one branch for each length
    """Whether these bytes are UTF-8 as Python reads it: shortest forms, no surrogates, nothing beyond U+10FFFF."""
    while at < stop:
        first = np.int64(data[at])
        if first < 0x80:
            at += 1
            continue
        low, high = np.int64(0x80), np.int64(0xBF)
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = np.int64(0xA0)
            elif first == 0xED:
                high = np.int64(0x9F)
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = np.int64(0x90)
            elif first == 0xF4:
                high = np.int64(0x8F)
        else:
            return False
        if at + more >= stop:
            return False
        if not low <= np.int64(data[at + 1]) <= high:
            return False
        for i in range(2, more + 1):
            if not 0x80 <= np.int64(data[at + i]) <= 0xBF:
                return False
        at += more + 1
    return True
