"""All filters that notifications match, compiled: one call for many notifications (`find_rows`), no Python in between.

A notification becomes a point: each of its tokens has coordinates on the axes of its attribute. It opens families
(`space.py`), whose boxes are searched for in all runs (`search_numba.py`). Waiting boxes are compared one after the
other. Of a row that is found by several of its boxes, one is kept.
"""

import numpy as np

from octopia.matching.box_run import BLOCK_BOXES
from octopia.matching.boxes import Axis
from octopia.matching.codes_numba import code_of
from octopia.matching.ladder_numba import place_ending, place_number, place_string
from octopia.matching.mirror import (
    ALWAYS,
    ANCHORED,
    ATTRIBUTE_COLUMNS,
    ATTRIBUTES,
    CODE_TABLE,
    ENDING_TABLE,
    EVENTS,
    EXACT_TABLE,
    FAMILIES,
    HITS,
    LEVELS,
    MIRROR,
    MIRROR_LINES,
    NEXT,
    ORDER_TABLE,
    PIECE_TABLE,
    PIECE_WIDTHS,
    PIECED,
    PLANS,
    ROWS,
    RUNS,
    SEEN,
    SEVERAL,
    SIDES,
    SIZE,
    STATE,
    TOUCHED,
    VIEW_LINES,
    WAITING,
)
from octopia.matching.pieces_numba import find_pieces
from octopia.matching.row_table import LAST_EVENTS, ROW_LINES, SEVERAL_BOXES
from octopia.matching.search_numba import passes, search_family
from octopia.matching.tokens import (
    ABSENT,
    AT,
    BOOL,
    CODED,
    END,
    FIRST,
    KIND,
    NAME,
    NOTE_COLUMNS,
    NUMBER,
    TOKEN_COLUMNS,
    WIDTH,
)
from octopia.matching.waiting import (
    CHECKS,
    COUNT,
    HIGHS,
    INTERVALS,
    LOWS,
    NOWHERE,
    PLACES,
    STARTS,
    WAITING_LINES,
)
from octopia.matching.waiting import ROWS as WAITING_ROWS
from octopia.native import (
    addresses_at,
    bytes_at,
    float_lines_at,
    floats_at,
    floats_from,
    inlined,
    int_lines_at,
    int_lines_from,
    ints_at,
    ints_from,
    kernel,
    short_int_lines_from,
    short_ints_at,
    short_ints_from,
)

# Numba wants plain numbers of this module.
_ON_NUMBER, _ON_STRING, _ON_BOOL, _ON_PRESENT, _ON_EXACT, _ON_ORDER, _ON_ENDING, _ON_PIECE = range(len(Axis))
_ZERO, _ONE = np.int64(0), np.int64(1)


@inlined
def tokens_from(tokens_at):  # type: ignore[no-untyped-def]
    """The tokens at an address."""
    return short_int_lines_from(tokens_at, _ZERO, TOKEN_COLUMNS)


@inlined
def _put(sides, touched, count, size, place, above, below):  # type: ignore[no-untyped-def]
    """Write the sides of a point at a place; returns how many places it has then."""
    sides[place], sides[size + place] = above, below
    touched[count] = place
    return count + 1


@kernel
def _place_token(mirror_at, attribute, kind, number, at, text, text_bytes, event, count, hits):  # type: ignore[no-untyped-def]
    """Place the value of an attribute; returns how many places the point has then, and how many pieces were found."""
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    plan = int_lines_at(mirror, ATTRIBUTES, ATTRIBUTE_COLUMNS)
    sides, touched, size = floats_at(mirror, SIDES), short_ints_at(mirror, TOUCHED), ints_at(mirror, STATE)[SIZE]
    if plan[attribute, _ON_PRESENT] >= 0:
        count = _put(sides, touched, count, size, plan[attribute, _ON_PRESENT], 1.0, 1.0)
    if kind == NUMBER:
        if plan[attribute, _ON_NUMBER] >= 0:
            above = np.nextafter(number, np.inf) if at else number
            count = _put(sides, touched, count, size, plan[attribute, _ON_NUMBER], number, above)
        if plan[attribute, _ON_EXACT] >= 0:
            coordinate = place_number(plan[attribute, EXACT_TABLE], number, at)
            count = _put(sides, touched, count, size, plan[attribute, _ON_EXACT], coordinate, coordinate)
    elif kind == BOOL:
        if plan[attribute, _ON_BOOL] >= 0:
            count = _put(sides, touched, count, size, plan[attribute, _ON_BOOL], number, number)
    else:
        if plan[attribute, _ON_STRING] >= 0:
            code = number
            if kind != CODED:
                code = code_of(mirror_at, np.int64(CODE_TABLE), attribute, text, text_bytes)
            count = _put(sides, touched, count, size, plan[attribute, _ON_STRING], code, code)
        if plan[attribute, _ON_ORDER] >= 0:
            coordinate = place_string(plan[attribute, ORDER_TABLE], text, text_bytes)
            count = _put(sides, touched, count, size, plan[attribute, _ON_ORDER], coordinate, coordinate)
        if plan[attribute, _ON_ENDING] >= 0:
            coordinate = place_ending(plan[attribute, ENDING_TABLE], text, text_bytes)
            count = _put(sides, touched, count, size, plan[attribute, _ON_ENDING], coordinate, coordinate)
        if plan[attribute, _ON_PIECE] >= 0:
            hits = find_pieces(
                mirror_at, np.int64(PIECE_TABLE), attribute, plan[attribute, PIECE_WIDTHS], text, text_bytes, event,
                mirror[HITS, 0], hits,
            )  # fmt: skip
    return count, hits


@inlined
def _place(mirror_at, plans, event, data_at, tokens_at, numbers_at, first, width):  # type: ignore[no-untyped-def]
    """Place a notification; returns the number of places, and of pieces found. -1 places: it has an unplanned name."""
    tokens, numbers = tokens_from(tokens_at), floats_from(numbers_at, _ZERO)
    seen = int_lines_at(addresses_at(mirror_at, MIRROR_LINES), SEEN, 2)
    count = hits = np.int64(0)
    for token in range(first, first + width):
        if tokens[token, NAME] >= len(plans):
            count = np.int64(-1)
    for token in range(first, first + width if count >= 0 else first):
        attribute, kind = plans[tokens[token, NAME]], np.int64(tokens[token, KIND])
        if attribute >= 0 and kind != ABSENT:
            seen[attribute, 0], seen[attribute, 1] = event, token
            at, end = np.int64(tokens[token, AT]), np.int64(tokens[token, END])
            count, hits = _place_token(
                mirror_at, attribute, kind, numbers[token], at, data_at + at, end - at, event, count, hits
            )
    return count, hits


@kernel
def _search_waiting(mirror_at, event, data_at, tokens_at, numbers_at, out_at, room, found):  # type: ignore[no-untyped-def]
    """Compare all waiting boxes with the point; returns as `search_family` does."""
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    waiting = addresses_at(ints_at(mirror, WAITING)[0], WAITING_LINES)
    rows, starts, intervals = (
        short_ints_at(waiting, WAITING_ROWS),
        ints_at(waiting, STARTS),
        ints_at(waiting, INTERVALS),
    )
    places, lows, highs = short_ints_at(waiting, PLACES), floats_at(waiting, LOWS), floats_at(waiting, HIGHS)
    checks, count = short_ints_at(waiting, CHECKS), ints_at(waiting, COUNT)[0]
    sides, size = floats_at(mirror, SIDES), ints_at(mirror, STATE)[SIZE]
    out, bounds = short_ints_from(out_at, room), ints_at(waiting, COUNT)[1]
    for box in range(count):
        if rows[box] < 0:
            continue
        inside, first = True, starts[box]
        stop = starts[box + 1] if box + 1 < count else bounds
        at = first
        while inside and at < stop:
            place = places[at]
            if place != NOWHERE:
                above, below = sides[place], sides[size + place]
                if at < first + intervals[box]:
                    inside = lows[at] <= above and below <= highs[at]
                else:
                    inside = below < lows[at] or highs[at] < above
            at += 1
        check = np.int64(checks[box])
        if inside and (check < 0 or passes(mirror_at, check, event, data_at, tokens_at, numbers_at)):
            if found >= room - BLOCK_BOXES:
                return np.int64(-1)
            out[found] = rows[box]
            found += 1
    return found


@inlined
def _drop_repeats(mirror_at, event, out_at, room, before, found):  # type: ignore[no-untyped-def]
    """Keep each row of an event once; returns where the rows end then."""
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    rows = addresses_at(ints_at(mirror, ROWS)[0], ROW_LINES)
    several, last_events = bytes_at(rows, SEVERAL_BOXES), ints_at(rows, LAST_EVENTS)
    out = short_ints_from(out_at, room)
    kept = before
    for at in range(before, found):
        row = out[at]
        if not several[row] or last_events[row] != event:
            if several[row]:
                last_events[row] = event
            out[kept] = row
            kept += 1
    return kept


@inlined
def _search(  # type: ignore[no-untyped-def]
    mirror_at, event, hits, data_at, tokens_at, numbers_at, first, width, plans, out_at, room, found, wide
):  # fmt: skip
    """The rows of a notification in all runs: of families that are always open, that its attributes open, and that its
    pieces open; returns as `search_family` does."""
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    state, attributes = ints_at(mirror, STATE), int_lines_at(mirror, ATTRIBUTES, ATTRIBUTE_COLUMNS)
    families, runs, tokens = int_lines_at(mirror, FAMILIES, 2), ints_at(mirror, RUNS), tokens_from(tokens_at)
    pieces, sides, size = float_lines_at(mirror, HITS, 2), floats_at(mirror, SIDES), state[SIZE]
    for opener in range(-1, width + hits):
        family, place = np.int64(-1), np.int64(-1)
        if opener < 0:
            family = state[ALWAYS]
        elif opener < width:
            attribute = plans[tokens[first + opener, NAME]]
            if attribute >= 0 and tokens[first + opener, KIND] != ABSENT:
                family = attributes[attribute, ANCHORED]
        else:
            attribute = np.int64(pieces[opener - width, 0])
            family, place = attributes[attribute, PIECED], attributes[attribute, _ON_PIECE]
            sides[place] = sides[size + place] = pieces[opener - width, 1]
        while family >= 0:
            for run in range(len(runs)):
                if found >= 0:
                    found = search_family(
                        runs[run], family, mirror[SIDES, 0], size, _ONE, _ZERO, mirror[LEVELS, 0], mirror_at, event,
                        data_at, tokens_at, numbers_at, out_at, room, found, wide,
                    )  # fmt: skip
            family = families[family, NEXT]
        if place >= 0:
            sides[place], sides[size + place] = -np.inf, np.inf
    return found


@kernel
def find(  # type: ignore[no-untyped-def]
    view_at, data_at, notes_at, tokens_at, numbers_at, first, count, out_at, room, counts_at, wide
):  # fmt: skip
    """`find_rows` by addresses. If `wide` is not 0, it writes ids, which are integers; no row may have several boxes
    then, and none may wait."""
    view = addresses_at(view_at, VIEW_LINES)
    plans, mirror_at = ints_at(view, PLANS), ints_at(view, MIRROR)[0]
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    waiting = addresses_at(ints_at(mirror, WAITING)[0], WAITING_LINES)
    notes, counts = int_lines_from(notes_at, _ZERO, NOTE_COLUMNS), ints_from(counts_at, _ZERO)
    state, sides, touched = ints_at(mirror, STATE), floats_at(mirror, SIDES), short_ints_at(mirror, TOUCHED)
    size, found, stop = state[SIZE], np.int64(0), first + count
    for note in range(first, stop):
        event, start, width = state[EVENTS], notes[note, FIRST], notes[note, WIDTH]
        places, hits = _place(mirror_at, plans, event, data_at, tokens_at, numbers_at, start, width)
        if places < 0:
            return note, found
        state[EVENTS] = event + 1
        after = _search(
            mirror_at, event, hits, data_at, tokens_at, numbers_at, start, width, plans, out_at, room, found, wide
        )
        if after >= 0 and ints_at(waiting, COUNT)[0]:
            after = _search_waiting(mirror_at, event, data_at, tokens_at, numbers_at, out_at, room, after)
        if after >= 0 and state[SEVERAL]:
            after = _drop_repeats(mirror_at, event, out_at, room, found, after)
        for at in range(places):
            sides[touched[at]], sides[size + touched[at]] = -np.inf, np.inf
        if after < 0:
            return note, found
        counts[note] = after - found
        found = after
    return stop, found


@inlined
def find_rows(view_at, data_at, notes, tokens, numbers, first, count, out, counts):  # type: ignore[no-untyped-def]
    """Write the rows of all filters that notifications match, each once, to `out`, one notification after the other.

    There are `count` of them, from number `first` on; `counts` says how many rows each has, by its number. Returns the
    number of the first that was not searched for, and how many rows were written. It stops at a notification whose rows
    may not fit, and at one with a name that the matcher has not been told of. `view_at` is what `Matcher.ready`
    returned for the names of the tokens, `data_at` the address of their bytes, `out` an array of 32-bit integers with
    more room than two blocks of boxes.
    """
    return find(
        view_at, data_at, np.int64(notes.ctypes.data), np.int64(tokens.ctypes.data), np.int64(numbers.ctypes.data),
        np.int64(first), np.int64(count), np.int64(out.ctypes.data), np.int64(len(out)), np.int64(counts.ctypes.data),
        _ZERO,
    )  # fmt: skip
