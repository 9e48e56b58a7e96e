"""Columns to PUBLISH frames in compiled code: first the size of each row, then one column after another.

Numbers take the shortest form, like in the ordinary encoder, so both give the same bytes.
"""

import numpy as np
from numba import njit

from octopia.wire.arrow.numba_msgpack import BOOL, FLOAT, INT, TEXT, UINT, is_ascii, is_utf8
from octopia.wire.kinds import Kind
from octopia.wire.limits import PLAIN_OVERHEAD_BYTES, PREFIX_BYTES

_PUBLISH = int(Kind.PUBLISH)
_HEAD = PLAIN_OVERHEAD_BYTES


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _int_bytes(value):  # type: ignore[no-untyped-def]
    """The number of bytes of an integer."""
    size = 9
    if value >= 0:
        if value < 128:
            size = 1
        elif value < 256:
            size = 2
        elif value < 65536:
            size = 3
        elif value < 4294967296:
            size = 5
    elif value >= -32:
        size = 1
    elif value >= -128:
        size = 2
    elif value >= -32768:
        size = 3
    elif value >= -2147483648:
        size = 5
    return size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _text_head_bytes(length):  # type: ignore[no-untyped-def]
    size = 5
    if length < 32:
        size = 1
    elif length < 256:
        size = 2
    elif length < 65536:
        size = 3
    return size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _map_head_bytes(count):  # type: ignore[no-untyped-def]
    return 1 if count < 16 else 3


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _put_number(out, at, value, size):  # type: ignore[no-untyped-def]
    """Write an unsigned number of `size` bytes."""
    for i in range(size):
        out[at + i] = np.uint8((value >> np.int64(8 * (size - 1 - i))) & np.int64(0xFF))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _put_int(out, at, value):  # type: ignore[no-untyped-def]
    """Write an integer; returns where the next value begins."""
    size = _int_bytes(value)
    if size == 1:
        out[at] = np.uint8(value & np.int64(0xFF))
    else:
        kind = 0xCC if value >= 0 else 0xD0
        if size == 3:
            kind += 1
        elif size == 5:
            kind += 2
        elif size == 9:
            kind += 3
        out[at] = np.uint8(kind)
        _put_number(out, at + 1, value, size - 1)
    return at + size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _put_text_head(out, at, length):  # type: ignore[no-untyped-def]
    size = _text_head_bytes(length)
    if size == 1:
        out[at] = np.uint8(0xA0 | length)
    else:
        out[at] = np.uint8(0xD9 if size == 2 else (0xDA if size == 3 else 0xDB))
        _put_number(out, at + 1, length, size - 1)
    return at + size


@njit(cache=True, nogil=True, error_model="numpy")
def add_sizes(kind, first, second, valid, key_bytes, sizes, counts):  # type: ignore[no-untyped-def]
    """Add a column's bytes to the size of each row, and count its attributes.

    `first` has the values, or where texts begin; `second` has where texts end.
    """
    for row in range(len(sizes)):
        if not valid[row]:
            continue
        counts[row] += 1
        if kind == BOOL:
            size = np.int64(1)
        elif kind == INT:
            size = np.int64(_int_bytes(first[row]))
        elif kind == TEXT:
            length = second[row] - first[row]
            size = np.int64(_text_head_bytes(length)) + length
        elif kind == UINT and first[row] >= 0:
            size = np.int64(_int_bytes(first[row]))
        else:
            size = np.int64(9)
        sizes[row] += size + key_bytes


@njit(cache=True, nogil=True, error_model="numpy")
def place_rows(sizes, counts, sequence, publisher_bytes, starts):  # type: ignore[no-untyped-def]
    """Where each frame begins, given the size of its attributes; the last entry is where the last frame ends."""
    at = np.int64(0)
    for row in range(len(sizes)):
        starts[row] = at
        around = _HEAD + 1 + _map_head_bytes(counts[row]) + _int_bytes(np.int64(sequence + row))
        at += sizes[row] + np.int64(around) + publisher_bytes
    starts[len(sizes)] = at


@njit(cache=True, nogil=True, error_model="numpy")
def write_heads(out, starts, counts, cursors):  # type: ignore[no-untyped-def]
    """Write the bytes before the attributes of each row; `cursors` is where the attributes begin."""
    for row in range(len(counts)):
        at = starts[row]
        _put_number(out, at, starts[row + 1] - at - np.int64(PREFIX_BYTES), 4)
        out[at + PREFIX_BYTES] = np.uint8(_PUBLISH)
        _put_number(out, at + 5, np.int64(0), 4)
        at += _HEAD
        out[at] = np.uint8(0x93)
        count = counts[row]
        if count < 16:
            out[at + 1] = np.uint8(0x80 | count)
        else:
            out[at + 1] = np.uint8(0xDE)
            _put_number(out, at + 2, count, 2)
        cursors[row] = at + 1 + _map_head_bytes(count)


@njit(cache=True, nogil=True, error_model="numpy")
def write_column(kind, first, second, text, valid, key, out, cursors):  # type: ignore[no-untyped-def]
    """Write the key and value of one column to each row; returns the first row whose text is not UTF-8, or -1."""
    wrong = -1
    for row in range(len(cursors)):
        if not valid[row]:
            continue
        at = cursors[row]
        for i in range(len(key)):
            out[at + i] = key[i]
        at += len(key)
        value = first[row]
        if kind == TEXT:
            stop = second[row]
            at = _put_text_head(out, at, stop - value)
            for i in range(stop - value):
                out[at + i] = text[value + i]
            if wrong < 0 and not is_ascii(text, value, stop) and not is_utf8(text, value, stop):
                wrong = row
            at += stop - value
        elif kind == INT or (kind == UINT and value >= 0):
            at = _put_int(out, at, value)
        elif kind == BOOL:
            out[at] = np.uint8(0xC3 if value else 0xC2)
            at += 1
        else:
            out[at] = np.uint8(0xCB if kind == FLOAT else 0xCF)
            _put_number(out, at + 1, value, 8)
            at += 9
        cursors[row] = at
    return wrong


@njit(cache=True, nogil=True, error_model="numpy")
def write_tails(out, cursors, publisher, sequence):  # type: ignore[no-untyped-def]
    """Write the bytes after the attributes: the publisher and the number."""
    for row in range(len(cursors)):
        at = cursors[row]
        for i in range(len(publisher)):
            out[at + i] = publisher[i]
        _put_int(out, at + len(publisher), np.int64(sequence + row))
