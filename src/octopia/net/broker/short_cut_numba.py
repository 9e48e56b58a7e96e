"""The short cut, compiled: from the bytes of a read to the bytes for each destination in one call (`short_cut.py`).

One kernel that calls those for each step: frames are read (`wire/scan_numba`), placed and searched for
(`matching/place_numba`), and written (`fan_out_numba`). Between them it checks that the read is usual. It changes
nothing outside its own arrays, so that a read that turns out to be unusual can take the ordinary way from the start.
"""

import numpy as np
from numba import njit

from octopia.matching.place_numba import place_and_search
from octopia.native import (
    bytes_at,
    floats_at,
    int_lines_at,
    ints_at,
    same_bytes,
    short_int_lines_at,
    short_ints_at,
)
from octopia.net.broker.fan_out_numba import make_frames
from octopia.wire.scan_numba import BREAKS, FIRST_NUMBER, NOTES, PUBLISHERS, SIGNATURES, TIMED, scan

# The result of `carry` if something is unusual, instead of the number of destinations.
UNUSUAL = -1
# Further lines of the array of facts: where the next frame begins, the number of deliveries, and the sequence number of
# the last delivered notification.
AFTER, DELIVERIES, LAST_DELIVERED = 9, 10, 11
FACTS = 12

# Columns and kinds, as in `matching/tokens.py` and `routing/rows.py`; numba wants plain numbers of this module.
_SEQUENCE, _WIDTH = 3, 5
_WAY = 1
_HEAD_BYTES = 5


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _is_usual(base, last_sequence, name, expected, tokens, notes, publishers, facts):  # type: ignore[no-untyped-def]
    """Whether a read contains only new notifications of one publisher with the expected names."""
    usual = facts[NOTES] > 0 and facts[PUBLISHERS] == 1 and facts[SIGNATURES] == 1 and not facts[TIMED]
    usual = usual and not facts[BREAKS] and facts[FIRST_NUMBER] > last_sequence and publishers[0, 1] == len(name)
    usual = usual and same_bytes(base + publishers[0, 0], np.int64(name.ctypes.data), len(name))
    usual = usual and notes[0, _WIDTH] == len(expected)
    at = 0
    while usual and at < len(expected):
        usual = tokens[at, 0] == expected[at]
        at += 1
    return usual


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _goes_elsewhere(rows, found, lines):  # type: ignore[no-untyped-def]
    """Whether one of the rows found is a subscription of another broker."""
    elsewhere = False
    for place in range(found):
        elsewhere = elsewhere or lines[rows[place], _WAY] >= 0
    return elsewhere


@njit(cache=True, nogil=True, error_model="numpy")
def carry(  # type: ignore[no-untyped-def]
    data, name, expected, limits, known, room, scratch, scanned, name_count, last_sequence, accepted_ms, deliver_kind,
    local, parts, kind_lines, kinds, places, cells, inners, rows, alive, probes_from, probes,
    plans, slots, segments, codes, code_texts, size, opened, lines, ids, links,
):  # fmt: skip
    """Read, match and write a client's notifications. Returns the number of destinations, or `UNUSUAL`.

    `name` is the client's, `expected` the numbers of its notifications' attribute names. `known` and `room` are the
    addresses of the arrays of `wire/scanner.py`, `scratch` those of `short_cut.Scratch`. The arguments after
    `deliver_kind` are passed on to `place_and_search` and `make_frames`.
    """
    names, texts = int_lines_at(known, 0, 2), bytes_at(known, 1)
    last_note, usual = ints_at(known, 2), ints_at(known, 3)
    notes, tokens, numbers = int_lines_at(room, 0, 8), short_int_lines_at(room, 1, 4), floats_at(room, 2)
    heads, publishers, facts = ints_at(room, 3), int_lines_at(room, 4, 2), ints_at(room, 5)
    # not a literal, for which numba would compile each kernel again
    zero = np.int64(0)
    after = scan(
        data, zero, np.int64(_HEAD_BYTES), zero > 0, limits[0], limits[1], limits[2], limits[3], scanned, name_count,
        names, texts, last_note, usual, notes, tokens, numbers, heads, publishers, facts,
    )  # fmt: skip
    base = np.int64(data.ctypes.data)
    if not _is_usual(base, last_sequence, name, expected, tokens, notes, publishers, facts):
        return UNUSUAL
    count = facts[NOTES]
    combination, sides, found, counts = (
        ints_at(scratch, 0),
        floats_at(scratch, 1),
        short_ints_at(scratch, 2),
        ints_at(scratch, 3),
    )
    if 2 * size * count > len(sides):
        return UNUSUAL
    stopped, matches = place_and_search(
        local, parts, kind_lines, kinds, places, cells, inners, rows, alive, probes_from, probes,
        data, notes, tokens, numbers, plans, slots, segments, codes, code_texts, size, count, opened,
        combination, sides, found, counts[:count],
    )  # fmt: skip
    frame_lines = int_lines_at(scratch, 9, 5)
    if stopped < count or matches > len(frame_lines) or _goes_elsewhere(found, matches, lines):
        return UNUSUAL
    zeros, out = ints_at(scratch, 13), bytes_at(scratch, 12)
    # nothing goes to neighbours, and there are no stamps
    none, no_lines, no_bytes = ints_at(scratch, 14), int_lines_at(scratch, 14, 3), bytes_at(scratch, 14)
    deliveries, destinations, written, last = make_frames(
        counts[:count], found, lines, ids, none, zeros, no_lines, no_lines, no_bytes, data, notes, no_bytes, zeros,
        links, zero, 9 if accepted_ms >= 0 else 0, accepted_ms, deliver_kind,
        short_ints_at(scratch, 4), ints_at(scratch, 5), int_lines_at(scratch, 6, 2), ints_at(scratch, 7),
        short_ints_at(scratch, 8), frame_lines, short_ints_at(scratch, 10), int_lines_at(scratch, 11, 4), out,
    )  # fmt: skip
    if written > len(out):
        return UNUSUAL
    facts[AFTER], facts[DELIVERIES] = after, deliveries
    facts[LAST_DELIVERED] = notes[last, _SEQUENCE] if deliveries else -1
    return destinations
