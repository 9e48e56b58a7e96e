"""The short cut, compiled: from the bytes of a read to the bytes for each destination in one call (`short_cut.py`).

One kernel that calls those for each step: frames are read (`wire/scan_numba`), placed and searched for
(`matching/place_numba`), and written (`fan_out_numba`). Between them it checks that the read is usual. It changes
nothing outside its own arrays, so that a read that turns out to be unusual can take the ordinary way from the start.
"""

import numpy as np
from numba import njit

from octopia.matching.place_numba import search_by_table
from octopia.native import (
    addresses_at,
    bytes_at,
    floats_at,
    int_lines_at,
    ints_at,
    same_bytes,
    short_int_lines_at,
    short_ints_at,
)
from octopia.net.broker.fan_out_numba import make_frames
from octopia.wire.scan_numba import BREAKS, FIRST_NUMBER, LAST_NUMBER, NOTES, PUBLISHERS, SIGNATURES, TIMED, scan

# The result of `carry` if something is unusual, instead of the number of destinations.
UNUSUAL = -1
# What it says otherwise: how many notifications there are, the number of the last, where the next frame begins, how
# many deliveries, the number of the last notification that somebody gets; and the first line of `spans`.
OUTCOMES = 9
# Where the addresses of each group of arrays begin in the sheet: those of the reader's `Known` and `Room`
# (`wire/scanner.py`), of `short_cut.Scratch`, of a `SearchTable`, and of `routing/rows.py`. The settings are limits of
# frames and of parcels, the kind of deliveries, and the number of links.
KNOWN_AT, ROOM_AT, SCRATCH_AT, OUTCOME_AT, ZEROS_AT, NONE_AT, SETTINGS_AT, SEARCH_AT, ROWS_AT = (
    0, 4, 10, 23, 24, 25, 26, 27, 44,
)  # fmt: skip
SHEET_LINES = 46

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
def carry(data, own_at, sheet_at, scanned, name_count, last_sequence, accepted_ms):  # type: ignore[no-untyped-def]
    """Read, match and write a client's notifications. Returns the number of destinations, or `UNUSUAL`.

    At `own_at` are the addresses of the client's name and of the numbers of the attribute names that its notifications
    have, at `sheet_at` those of all other arrays. The result is in the outcomes.
    """
    own, sheet = addresses_at(own_at, 2), addresses_at(sheet_at, SHEET_LINES)
    names, texts = int_lines_at(sheet, KNOWN_AT, 2), bytes_at(sheet, KNOWN_AT + 1)
    last_note, usual = ints_at(sheet, KNOWN_AT + 2), ints_at(sheet, KNOWN_AT + 3)
    notes, tokens = int_lines_at(sheet, ROOM_AT, 8), short_int_lines_at(sheet, ROOM_AT + 1, 4)
    numbers, heads = floats_at(sheet, ROOM_AT + 2), ints_at(sheet, ROOM_AT + 3)
    publishers, facts = int_lines_at(sheet, ROOM_AT + 4, 2), ints_at(sheet, ROOM_AT + 5)
    settings = ints_at(sheet, SETTINGS_AT)
    # not a literal, for which numba would compile each kernel again
    zero = np.int64(0)
    after = scan(
        data, zero, np.int64(_HEAD_BYTES), zero > 0, settings[0], settings[1], settings[2], settings[3],
        scanned, name_count, names, texts, last_note, usual, notes, tokens, numbers, heads, publishers, facts,
    )  # fmt: skip
    base = np.int64(data.ctypes.data)
    if not _is_usual(base, last_sequence, bytes_at(own, 0), ints_at(own, 1), tokens, notes, publishers, facts):
        return UNUSUAL
    count = facts[NOTES]
    found, counts = short_ints_at(sheet, SCRATCH_AT + 2), ints_at(sheet, SCRATCH_AT + 3)
    stopped, matches = search_by_table(
        sheet, SEARCH_AT, data, notes, tokens, numbers, count, ints_at(sheet, SCRATCH_AT),
        floats_at(sheet, SCRATCH_AT + 1), found, counts[:count],
    )  # fmt: skip
    lines, ids = int_lines_at(sheet, ROWS_AT, 6), bytes_at(sheet, ROWS_AT + 1)
    frame_lines = int_lines_at(sheet, SCRATCH_AT + 9, 5)
    if stopped < count or matches > len(frame_lines) or _goes_elsewhere(found, matches, lines):
        return UNUSUAL
    spans, out = int_lines_at(sheet, SCRATCH_AT + 11, 4), bytes_at(sheet, SCRATCH_AT + 12)
    # nothing goes to neighbours, and there are no stamps
    none, no_lines, no_bytes = ints_at(sheet, NONE_AT), int_lines_at(sheet, NONE_AT, 3), bytes_at(sheet, NONE_AT)
    zeros = ints_at(sheet, ZEROS_AT)
    deliveries, destinations, written, last = make_frames(
        counts[:count], found, lines, ids, none, zeros, no_lines, no_lines, no_bytes, data, notes, no_bytes, zeros,
        settings[5], zero, 9 if accepted_ms >= 0 else 0, accepted_ms, settings[4],
        short_ints_at(sheet, SCRATCH_AT + 4), ints_at(sheet, SCRATCH_AT + 5), int_lines_at(sheet, SCRATCH_AT + 6, 2),
        ints_at(sheet, SCRATCH_AT + 7), short_ints_at(sheet, SCRATCH_AT + 8), frame_lines,
        short_ints_at(sheet, SCRATCH_AT + 10), spans, out,
    )  # fmt: skip
    if written > len(out):
        return UNUSUAL
    outcome = ints_at(sheet, OUTCOME_AT)
    outcome[0], outcome[1], outcome[2], outcome[3] = count, facts[LAST_NUMBER], after, deliveries
    outcome[4] = notes[last, _SEQUENCE] if deliveries else -1
    for column in range(4):
        outcome[5 + column] = spans[0, column]
    return destinations
