"""Pieces of bytes: are two the same, a hash to look them up by, and how many characters they are."""

import numpy as np
from numba import njit

from octopia.native.words import byte_at, word_at

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_ASCII = np.uint64(0x8080_8080_8080_8080)


@njit(cache=True, nogil=True, error_model="numpy")
def same_bytes(address, other, size):  # type: ignore[no-untyped-def]
    """Whether the `size` bytes at one address equal those at the other."""
    done = 0
    while done + 8 <= size:
        if word_at(address + done) != word_at(other + done):
            return False
        done += 8
    while done < size:
        if byte_at(address + done) != byte_at(other + done):
            return False
        done += 1
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def hash_of(address, size):  # type: ignore[no-untyped-def]
    """A number that is equal for equal bytes. It decides nothing: a lookup also compares the bytes."""
    found = np.uint64(size) * _MULTIPLIER
    done = 0
    while done + 8 <= size:
        found = (found ^ word_at(address + done)) * _MULTIPLIER
        found ^= found >> _SHIFT
        done += 8
    last = 0
    while done < size:
        last = last << 8 | byte_at(address + done)
        done += 1
    found = (found ^ np.uint64(last)) * _MULTIPLIER
    return found ^ found >> _SHIFT


@njit(cache=True, nogil=True, error_model="numpy")
def _chars_beyond_ascii(at, stop):  # type: ignore[no-untyped-def]
    """The number of UTF-8 characters; -1 if the bytes are not UTF-8."""
    chars = 0
    while at < stop:
        first = byte_at(at)
        # `least`: a longer form of a smaller code is not allowed
        if first < 0x80:
            more, code, least = 0, first, 0
        elif 0xC2 <= first < 0xE0:
            more, code, least = 1, first & 0x1F, 0x80
        elif 0xE0 <= first < 0xF0:
            more, code, least = 2, first & 0x0F, 0x800
        elif 0xF0 <= first < 0xF5:
            more, code, least = 3, first & 0x07, 0x10000
        else:
            return -1
        if at + more >= stop:
            return -1
        for i in range(1, more + 1):
            byte = byte_at(at + i)
            if byte & 0xC0 != 0x80:
                return -1
            code = code << 6 | byte & 0x3F
        if code < least or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            return -1
        at += more + 1
        chars += 1
    return chars


@njit(cache=True, nogil=True, error_model="numpy")
def characters(at, size):  # type: ignore[no-untyped-def]
    """The number of characters of a string; -1 if it is not UTF-8."""
    start, stop = at, at + size
    while at + 8 <= stop and not word_at(at) & _ASCII:
        at += 8
    while at < stop and byte_at(at) < 0x80:
        at += 1
    if at == stop:
        return size
    rest = _chars_beyond_ascii(at, stop)
    return at - start + rest if rest >= 0 else -1
