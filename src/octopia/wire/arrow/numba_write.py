"""Columns to PUBLISH frames in compiled code: first the size of each row, then one row after the other.

Numbers take the shortest form, like in the ordinary encoder, so both give the same bytes. Keys and numbers are written
a word at a time: what is too much is overwritten by what follows. So there is room for a word after the last frame, and
after each key.
"""

import numpy as np

from octopia.native import (
    byte_at,
    characters,
    inlined,
    kernel,
    put_big_endian,
    put_byte,
    put_bytes,
    put_word,
    turned,
    word_at,
)
from octopia.wire.arrow.numba_msgpack import BOOL, FLOAT, INT, TEXT, UINT
from octopia.wire.kinds import Kind
from octopia.wire.limits import PLAIN_OVERHEAD_BYTES, PREFIX_BYTES

# A line of `columns`: the kind of values; the addresses of the values, or of where texts begin and where they end, of a
# byte for each row that says whether it has a value, of the texts, and of the key; the size of the key.
COLUMN_KIND, COLUMN_FIRST, COLUMN_SECOND, COLUMN_VALID, COLUMN_TEXT, COLUMN_KEY, COLUMN_KEY_BYTES = range(7)

_PUBLISH = int(Kind.PUBLISH)
_HEAD = PLAIN_OVERHEAD_BYTES


@inlined
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


@inlined
def _text_head_bytes(length):  # type: ignore[no-untyped-def]
    size = 5
    if length < 32:
        size = 1
    elif length < 256:
        size = 2
    elif length < 65536:
        size = 3
    return size


@inlined
def _map_head_bytes(count):  # type: ignore[no-untyped-def]
    return 1 if count < 16 else 3


@inlined
def _put_number(at, value, size):  # type: ignore[no-untyped-def]
    """Write an unsigned number of `size` bytes, and something after it up to a word."""
    put_word(at, turned(np.uint64(value) << np.uint64(64 - 8 * size)))


@inlined
def _put_int(at, value):  # type: ignore[no-untyped-def]
    """Write an integer, and something after it; returns where the next value begins."""
    size = _int_bytes(value)
    if size == 1:
        put_byte(at, value & 0xFF)
    else:
        kind = 0xCC if value >= 0 else 0xD0
        if size == 3:
            kind += 1
        elif size == 5:
            kind += 2
        elif size == 9:
            kind += 3
        put_byte(at, kind)
        _put_number(at + 1, value, size - 1)
    return at + size


@inlined
def _put_text_head(at, length):  # type: ignore[no-untyped-def]
    size = _text_head_bytes(length)
    if size == 1:
        put_byte(at, 0xA0 | length)
    else:
        put_byte(at, 0xD9 if size == 2 else (0xDA if size == 3 else 0xDB))
        _put_number(at + 1, length, size - 1)
    return at + size


@inlined
def _value_bytes(kind, first, second):  # type: ignore[no-untyped-def]
    """The number of bytes of a value."""
    size = np.int64(9)
    if kind == BOOL:
        size = np.int64(1)
    elif kind == INT or (kind == UINT and first >= 0):
        size = np.int64(_int_bytes(first))
    elif kind == TEXT:
        size = np.int64(_text_head_bytes(second - first)) + second - first
    return size


@kernel
def place_rows(columns, first_row, sequence, publisher_bytes, counts, starts):  # type: ignore[no-untyped-def]
    """Count the attributes of each row, from `first_row` on, and say where its frame begins.

    The last entry of `starts` is where the last frame ends.
    """
    at = np.int64(0)
    for row in range(len(counts)):
        starts[row] = at
        count = 0
        for column in range(len(columns)):
            if byte_at(columns[column, COLUMN_VALID] + first_row + row):
                place = 8 * (first_row + row)
                first = np.int64(word_at(columns[column, COLUMN_FIRST] + place))
                second = np.int64(word_at(columns[column, COLUMN_SECOND] + place))
                at += columns[column, COLUMN_KEY_BYTES] + _value_bytes(columns[column, COLUMN_KIND], first, second)
                count += 1
        counts[row] = count
        at += _HEAD + 1 + _map_head_bytes(count) + _int_bytes(np.int64(sequence + row)) + publisher_bytes
    starts[len(counts)] = at


@inlined
def _put_head(at, frame_bytes, count):  # type: ignore[no-untyped-def]
    """Write what comes before the attributes; returns where they begin."""
    put_big_endian(at, frame_bytes - PREFIX_BYTES, 4)
    put_byte(at + PREFIX_BYTES, _PUBLISH)
    put_big_endian(at + 5, 0, 4)
    at += _HEAD
    put_byte(at, 0x93)
    if count < 16:
        put_byte(at + 1, 0x80 | count)
    else:
        put_byte(at + 1, 0xDE)
        put_big_endian(at + 2, count, 2)
    return at + 1 + _map_head_bytes(count)


@kernel
def write_rows(columns, first_row, sequence, publisher, counts, starts, out):  # type: ignore[no-untyped-def]
    """Write the frames of as many rows as there are counts; returns the first row whose text is not UTF-8, or -1."""
    to, name = np.int64(out.ctypes.data), np.int64(publisher.ctypes.data)
    for row in range(len(counts)):
        at = _put_head(to + starts[row], starts[row + 1] - starts[row], counts[row])
        for column in range(len(columns)):
            if not byte_at(columns[column, COLUMN_VALID] + first_row + row):
                continue
            for word in range(0, columns[column, COLUMN_KEY_BYTES], 8):
                put_word(at + word, word_at(columns[column, COLUMN_KEY] + word))
            at += columns[column, COLUMN_KEY_BYTES]
            kind = columns[column, COLUMN_KIND]
            value = np.int64(word_at(columns[column, COLUMN_FIRST] + 8 * (first_row + row)))
            if kind == TEXT:
                size = np.int64(word_at(columns[column, COLUMN_SECOND] + 8 * (first_row + row))) - value
                text = columns[column, COLUMN_TEXT] + value
                if characters(text, size) < 0:
                    return row
                at = _put_text_head(at, size)
                put_bytes(at, text, size)
                at += size
            elif kind == INT or (kind == UINT and value >= 0):
                at = _put_int(at, value)
            elif kind == BOOL:
                put_byte(at, 0xC3 if value else 0xC2)
                at += 1
            else:
                put_byte(at, 0xCB if kind == FLOAT else 0xCF)
                put_word(at + 1, turned(np.uint64(value)))
                at += 9
        put_bytes(at, name, len(publisher))
        _put_int(at + len(publisher), np.int64(sequence + row))
    return -1
