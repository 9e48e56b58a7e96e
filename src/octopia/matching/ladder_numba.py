"""Where a value lies among the bounds of a ladder, compiled (`ladder.LadderTable`): a binary search."""

import numpy as np

from octopia.matching.ladder import (
    BLOCK_RUNGS,
    BLOCKS,
    HEADS,
    LABELS,
    ORDER,
    SIZES,
    TABLE_LINES,
    TAIL,
    TAIL_BYTES,
    TAILS,
    TEXTS,
)
from octopia.native import (
    addresses_at,
    byte_at,
    bytes_order,
    floats_at,
    int_lines_at,
    ints_at,
    kernel,
    turned,
    word_at,
    words_at,
)

# What a ladder has: numbers, strings, or strings from their ends.
NUMBERS, STRINGS, ENDINGS = np.int64(0), np.int64(1), np.int64(2)

_HIGH_BIT = np.uint64(1 << 63)


@kernel
def _head_of_number(number):  # type: ignore[no-untyped-def]
    """The bits of a float, changed so that they compare as the float does."""
    # makes -0.0 equal to 0.0
    bits = np.float64(number + 0.0).view(np.uint64)
    return ~bits if bits & _HIGH_BIT else bits | _HIGH_BIT


@kernel
def _head_of_string(text, size):  # type: ignore[no-untyped-def]
    """The first eight bytes, the first highest, and 0 for those that are missing."""
    if size >= 8:
        return turned(word_at(text))
    head = np.uint64(0)
    for i in range(size):
        head |= np.uint64(byte_at(text + i)) << np.uint64(8 * (7 - i))
    return head


@kernel
def _head_of_ending(text, size):  # type: ignore[no-untyped-def]
    """The last eight bytes, the last highest."""
    if size >= 8:
        return word_at(text + size - 8)
    head = np.uint64(0)
    for i in range(size):
        head |= np.uint64(byte_at(text + size - 1 - i)) << np.uint64(8 * (7 - i))
    return head


@kernel
def _endings_order(text, size, key, key_bytes):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: how a string, read from its end, compares with a key, which is stored in that order."""
    for i in range(min(size, key_bytes)):
        difference = byte_at(text + size - 1 - i) - byte_at(key + i)
        if difference:
            return -1 if difference < 0 else 1
    return -1 if size < key_bytes else 1 if size > key_bytes else 0


@kernel
def _order(kind, head, rest_or_text, size, rung, table_at):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: how a value compares with a bound."""
    table = addresses_at(table_at, TABLE_LINES)
    other = words_at(table, HEADS)[rung]
    if head != other:
        return -1 if head < other else 1
    tails = int_lines_at(table, TAILS, 2)
    if kind == NUMBERS:
        above = rest_or_text - tails[rung, TAIL]
        return -1 if above < 0 else 1 if above > 0 else 0
    key = table[TEXTS, 0] + tails[rung, TAIL]
    if kind == STRINGS:
        return bytes_order(rest_or_text, size, key, tails[rung, TAIL_BYTES])
    return _endings_order(rest_or_text, size, key, tails[rung, TAIL_BYTES])


@kernel
def _place(kind, head, rest_or_text, size, table_at):  # type: ignore[no-untyped-def]
    """The coordinate of a value: see `Ladder.place`."""
    table = addresses_at(table_at, TABLE_LINES)
    order, labels = ints_at(table, ORDER), floats_at(table, LABELS)
    # the last block whose first bound is not above the value
    low, high = np.int64(-1), ints_at(table, BLOCKS)[0] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _order(kind, head, rest_or_text, size, order[middle] * BLOCK_RUNGS, table_at) < 0:
            high = middle - 1
        else:
            low = middle
    if low < 0:
        return labels[order[0] * BLOCK_RUNGS] - 0.5
    # and the last bound in it
    first = order[low] * BLOCK_RUNGS
    low, high = first, first + ints_at(table, SIZES)[order[low]] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _order(kind, head, rest_or_text, size, middle, table_at) < 0:
            high = middle - 1
        else:
            low = middle
    return labels[low] + (0.0 if _order(kind, head, rest_or_text, size, low, table_at) == 0 else 0.5)


@kernel
def place_number(table_at, number, rest):  # type: ignore[no-untyped-def]
    """The coordinate of a number."""
    return _place(NUMBERS, _head_of_number(number), rest, np.int64(0), table_at)


@kernel
def place_string(table_at, text, size):  # type: ignore[no-untyped-def]
    """The coordinate of the string of `size` bytes at `text`."""
    return _place(STRINGS, _head_of_string(text, size), text, size, table_at)


@kernel
def place_ending(table_at, text, size):  # type: ignore[no-untyped-def]
    """The same, by its end."""
    return _place(ENDINGS, _head_of_ending(text, size), text, size, table_at)
