"""Pieces of bytes: are two the same, which comes first, is one in the other, a hash, and how many characters."""

import numpy as np

from octopia.native.kernels import kernel
from octopia.native.words import byte_at, half_at, turned, word_at

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT, _HALF = np.uint64(29), np.uint64(32)
_ASCII = np.uint64(0x8080_8080_8080_8080)


# Of a piece of four bytes or more, the last word may overlap the one before it: no loop over single bytes is needed.


@kernel
def same_bytes(address, other, size):  # type: ignore[no-untyped-def]
    """Whether the `size` bytes at one address equal those at the other."""
    same, done = True, 0
    if size >= 8:
        while same and done < size - 8:
            same = word_at(address + done) == word_at(other + done)
            done += 8
        return same and word_at(address + size - 8) == word_at(other + size - 8)
    if size >= 4:
        return half_at(address) == half_at(other) and half_at(address + size - 4) == half_at(other + size - 4)
    while same and done < size:
        same = byte_at(address + done) == byte_at(other + done)
        done += 1
    return same


@kernel
def bytes_order(address, size, other, other_size):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: the first piece comes before the other, equals it, or comes after it, byte by byte."""
    common = min(size, other_size)
    done = 0
    while done + 8 <= common:
        one, two = turned(word_at(address + done)), turned(word_at(other + done))
        if one != two:
            return -1 if one < two else 1
        done += 8
    while done < common:
        difference = byte_at(address + done) - byte_at(other + done)
        if difference:
            return -1 if difference < 0 else 1
        done += 1
    return -1 if size < other_size else 1 if size > other_size else 0


@kernel
def _greatest_suffix(piece, size, turned_around):  # type: ignore[no-untyped-def]
    """Where the greatest suffix of a piece begins, less one, and its period; with bytes in the opposite order if
    `turned_around`."""
    before, at, ahead, period = -1, 0, 1, 1
    while at + ahead < size:
        difference = byte_at(piece + before + ahead) - byte_at(piece + at + ahead)
        if not difference:
            if ahead == period:
                at += period
                ahead = 1
            else:
                ahead += 1
        elif (difference > 0) != turned_around:
            at += ahead
            ahead = 1
            period = at - before
        else:
            before = at
            at += 1
            ahead = period = 1
    return before, period


@kernel
def contains_bytes(text, text_size, piece, size):  # type: ignore[no-untyped-def]
    """Whether a piece is in a text. The two-way algorithm: linear in both, whatever they are."""
    cut, period = _greatest_suffix(piece, size, False)
    other_cut, other_period = _greatest_suffix(piece, size, True)
    if other_cut > cut:
        cut, period = other_cut, other_period
    # of a piece that repeats itself, what is known to match after a shift by the period
    repeats = 0
    if same_bytes(piece, piece + period, cut + 1):
        repeats = size - period
    else:
        period = max(cut, size - cut - 1) + 1
    known = at = 0
    while at + size <= text_size:
        i = max(cut + 1, known)
        while i < size and byte_at(piece + i) == byte_at(text + at + i):
            i += 1
        if i < size:
            at += i - cut
            known = 0
            continue
        i = cut
        while i >= known and byte_at(piece + i) == byte_at(text + at + i):
            i -= 1
        if i < known:
            return True
        at += period
        known = repeats
    return False


@kernel
def hash_of(address, size):  # type: ignore[no-untyped-def]
    """A number that is equal for equal bytes. It decides nothing: a lookup also compares the bytes."""
    found = np.uint64(size) * _MULTIPLIER
    if size >= 8:
        for done in range(0, size - 8, 8):
            found = (found ^ word_at(address + done)) * _MULTIPLIER
            found ^= found >> _SHIFT
        found ^= word_at(address + size - 8)
    elif size >= 4:
        found ^= half_at(address) | half_at(address + size - 4) << _HALF
    else:
        for done in range(size):
            found = (found ^ np.uint64(byte_at(address + done))) * _MULTIPLIER
    found *= _MULTIPLIER
    return found ^ found >> _SHIFT


@kernel
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


@kernel
def characters(at, size):  # type: ignore[no-untyped-def]
    """The number of characters of a string; -1 if it is not UTF-8."""
    high = np.uint64(0)
    if size >= 8:
        for done in range(0, size - 8, 8):
            high |= word_at(at + done)
        high |= word_at(at + size - 8)
    elif size >= 4:
        high = half_at(at) | half_at(at + size - 4)
    else:
        for done in range(size):
            high |= np.uint64(byte_at(at + done))
    return _chars_beyond_ascii(at, at + size) if high & _ASCII else size
