"""Pieces of bytes: are two the same, and a hash to look them up by."""

import numpy as np
from numba import njit

from octopia.native.words import byte_at, word_at

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


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
