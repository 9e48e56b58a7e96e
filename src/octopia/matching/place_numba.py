"""From tokens to points, compiled: the counterpart of `points.py`, which takes notifications as Python objects.

`plans` has a row for each attribute name of the batch: the places of its axes in the space, or -1; the number under
which its strings are coded; and its index among the attributes that decide which families are open, or -1.
"""

import numpy as np
from numba import njit

from octopia.matching.codes_numba import slot_of
from octopia.matching.kernels_numba import search
from octopia.matching.tokens import AT, BOOL, END, FIRST, KIND, NAME, NUMBER, TEXT, WIDTH
from octopia.native import (
    bytes_at,
    float_block,
    float_lines_at,
    floats_at,
    int_lines_at,
    ints_at,
    put_big_endian,
    put_bytes,
    short_int_lines_at,
    short_ints_at,
    words_at,
)

# Columns of `plans`, the first four in the order of `boxes.Axis`.
ON_NUMBER, ON_STRING, ON_BOOL, ON_PRESENT, OWNER, DECIDES = range(6)


@njit(cache=True, nogil=True, error_model="numpy")
def place(data, notes, first, tokens, numbers, plans, slots, segments, codes, texts, sides):  # type: ignore[no-untyped-def]
    """Place the notifications from `first` on; `sides` (`points.Points`) determines how many."""
    base, texts_base = np.int64(data.ctypes.data), np.int64(texts.ctypes.data)
    size, count = sides.shape[1], sides.shape[2]
    for at in range(size):
        for event in range(count):
            sides[0, at, event], sides[1, at, event] = -np.inf, np.inf
    for event in range(count):
        start = notes[first + event, FIRST]
        for token in range(start, start + notes[first + event, WIDTH]):
            name, kind = tokens[token, NAME], tokens[token, KIND]
            there = plans[name, ON_PRESENT]
            if there >= 0:
                sides[0, there, event] = sides[1, there, event] = 1.0
            if kind == NUMBER:
                there = plans[name, ON_NUMBER]
            elif kind == BOOL:
                there = plans[name, ON_BOOL]
            else:
                there = plans[name, ON_STRING]
            if there < 0:
                continue
            value = -1.0
            if kind != TEXT:
                value = numbers[token]
            else:
                text, text_bytes = base + tokens[token, AT], np.int64(tokens[token, END] - tokens[token, AT])
                slot = slot_of(slots, segments, texts_base, plans[name, OWNER], text, text_bytes)
                if slot >= 0:
                    value = codes[slot]
            sides[0, there, event] = sides[1, there, event] = value


@njit(cache=True, nogil=True, error_model="numpy")
def write_opening_keys(data, notes, first, count, tokens, plans, out, ends):  # type: ignore[no-untyped-def]
    """Write, for each notification, the key of the families it opens, as bytes in sequence; `ends` has their ends.

    Per deciding attribute: its number, the length of its string plus 1 (0: not a string), and the string.
    """
    base, to = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    at = to
    for event in range(count):
        start = notes[first + event, FIRST]
        for token in range(start, start + notes[first + event, WIDTH]):
            decides = plans[tokens[token, NAME], DECIDES]
            if decides < 0:
                continue
            put_big_endian(at, decides, 4)
            size = np.int64(-1)
            if tokens[token, KIND] == TEXT:
                size = np.int64(tokens[token, END] - tokens[token, AT])
                put_bytes(at + 8, base + tokens[token, AT], size)
            put_big_endian(at + 4, size + 1, 4)
            at += 8 + size if size > 0 else 8
        ends[event] = at - to


@njit(cache=True, nogil=True, error_model="numpy")
def place_and_search(  # type: ignore[no-untyped-def]
    local, parts, lines, kinds, places, cells, inners, rows, alive, probes_from, probes,
    data, notes, tokens, numbers, plans, slots, segments, codes, texts, size, count, opened, combination, room, out,
    counts,
):  # fmt: skip
    """Place `count` notifications that all open the same families, and search one run for them.

    One call costs less than two. `size` is the number of places, `room` has two numbers for each of them and
    notification, `combination` one per notification. The result is that of `search`.
    """
    for event in range(count):
        combination[event] = opened
    sides = float_block(room, 2, size, count)
    # not a literal, for which numba would compile each kernel again
    zero = np.int64(0)
    place(data, notes, zero, tokens, numbers, plans, slots, segments, codes, texts, sides)
    return search(
        local, parts, lines, kinds, places, cells, inners, rows, alive,
        combination[:count], probes_from, probes, sides, zero, out, zero, counts,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def search_by_table(table, at, data, notes, tokens, numbers, count, combination, room, out, counts):  # type: ignore[no-untyped-def]
    """As `place_and_search`, with the arrays of a `search_table.SearchTable`, whose lines begin at `at`.

    If `room` is too short, it searches for nothing.
    """
    cells, inners, sizes = at + 5, at + 6, ints_at(table, at + 16)
    if 2 * sizes[0] * count > len(room):
        return np.int64(0), np.int64(0)
    return place_and_search(
        short_int_lines_at(table, at, 2), int_lines_at(table, at + 1, 7), short_ints_at(table, at + 2),
        int_lines_at(table, at + 3, 7), short_ints_at(table, at + 4),
        float_lines_at(table, cells, table[cells, 2] // 2), float_lines_at(table, inners, table[inners, 2] // 2),
        short_ints_at(table, at + 7), words_at(table, at + 8), ints_at(table, at + 9), short_ints_at(table, at + 10),
        data, notes, tokens, numbers,
        int_lines_at(table, at + 11, 6), int_lines_at(table, at + 12, 4), int_lines_at(table, at + 13, 3),
        floats_at(table, at + 14), bytes_at(table, at + 15),
        sizes[0], count, sizes[1], combination, room, out, counts,
    )  # fmt: skip
