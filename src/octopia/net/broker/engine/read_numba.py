"""From the bytes of a read to matches, compiled: notifications are read, checked, matched, and put into groups.

The arrays are in sheets: those of the reader (`wire/scanner.py`), of a publisher's programs (`terms.py`), of the
matcher, of rows (`routing/rows.py`), and of the engine (`compiled.py`). Nothing outside of them changes.
"""

import numpy as np

from octopia.matching.find_numba import find_rows
from octopia.matching.predicates_numba import holds
from octopia.matching.tokens import (
    AT,
    END,
    HEADER,
    KIND,
    NOTE_COLUMNS,
    PUBLISHER,
    SEQUENCE,
    SIGNATURE,
    TEXT,
    TOKEN_COLUMNS,
    WIDTH,
)
from octopia.native import (
    addresses_at,
    big_endian,
    byte_at,
    floats_at,
    hash_of,
    inlined,
    int_lines_at,
    ints_at,
    kernel,
    same_bytes,
    short_int_lines_at,
    short_ints_at,
    word_lines_at,
    words_at,
)
from octopia.net.broker.engine.arrays import COUNTS, EXPECTED, FIRSTS, FOUND, GROUPS, MASKS, SET_SLOTS, SETS
from octopia.net.broker.engine.arrays import SHEET_LINES as ENGINE_LINES
from octopia.net.broker.engine.frames_numba import make_frames
from octopia.net.broker.engine.terms import ANYTHING, BY_SIGNATURE, CODE, MEMBERS, PYTHON, UNKNOWN
from octopia.net.broker.engine.terms import SHEET_LINES as TERMS_LINES
from octopia.routing.rows import COLUMNS as ROW_COLUMNS
from octopia.routing.rows import ROWS, WAY
from octopia.routing.rows import SHEET_LINES as ROWS_LINES
from octopia.wire.scan_numba import ENDED, FULL, UNUSUAL, read_note
from octopia.wire.scanner import FOLLOWS, HEADERS, NOTES, NUMBERS, PUBLISHERS, TOKENS
from octopia.wire.scanner import SHEET_LINES as SCAN_LINES

_NOT_MADE = (np.int64(-2), np.int64(0), np.int64(0), np.int64(-1))
# Beside those of `scan_numba`: a signature for which the publisher has no program yet.
NO_PROGRAM = 4
_HEAD_BYTES = 9
# Kinds of frames, as in `wire/kinds.py`; numba takes no enumerations.
_PUBLISH, _NOTIFY, _NOTIFY_ROUTES, _NOTIFY_DESTS = 0x14, 0x38, 0x3A, 0x3D
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@kernel
def hash_of_text(text, size):  # type: ignore[no-untyped-def]
    """The hash by which `MEMBERS` finds a string."""
    return np.int64(hash_of(np.int64(text.ctypes.data), size))


@inlined
def _all_hold(code, at, count, first, predicates_at, base, tokens, numbers):  # type: ignore[no-untyped-def]
    """Whether `count` tests from `at` on hold for the notification whose tokens begin at `first`."""
    good, test = True, 0
    while good and test < count:
        place, line = code[at + 2 * test], np.int64(code[at + 2 * test + 1])
        good = holds(predicates_at, line, base, tokens, numbers, first + place)
        test += 1
    return good


@kernel
def _is_member(code, at, first, predicates_at, base, tokens, numbers):  # type: ignore[no-untyped-def]
    """Whether the attribute at `at` equals one of the strings in the table that follows."""
    token = first + code[at]
    if tokens[token, KIND] != TEXT:
        return False
    last = np.int64(code[at + 1])
    begin, size = base + np.int64(tokens[token, AT]), np.int64(tokens[token, END] - tokens[token, AT])
    slot = np.int64(hash_of(begin, size)) & last
    while code[at + 2 + slot] >= 0:
        if holds(predicates_at, np.int64(code[at + 2 + slot]), base, tokens, numbers, token):
            return True
        slot = (slot + 1) & last
    return False


@kernel
def _condition(code, at, first, predicates_at, base, tokens, numbers):  # type: ignore[no-untyped-def]
    """Whether the condition at `at` holds, and where the next begins (`terms.py`)."""
    count = np.int64(code[at])
    at += 1
    if count == ANYTHING:
        return True, at
    if count == MEMBERS:
        common = np.int64(code[at])
        good = _all_hold(code, at + 1, common, first, predicates_at, base, tokens, numbers)
        at += 1 + 2 * common
        good = good and _is_member(code, at, first, predicates_at, base, tokens, numbers)
        return good, at + 3 + np.int64(code[at + 1])
    found = False
    for _ in range(count):
        tests = np.int64(code[at])
        found = found or _all_hold(code, at + 1, tests, first, predicates_at, base, tokens, numbers)
        at += 1 + 2 * tests
    return found, at


@kernel
def _mask(code, at, first, predicates_at, base, tokens, numbers):  # type: ignore[no-untyped-def]
    """The advertisements that a notification satisfies, as bits; 0 if there is none, or its right does not allow it."""
    mask = np.int64(0)
    count = np.int64(code[at])
    at += 1
    for _ in range(count):
        bit = np.int64(code[at])
        good, at = _condition(code, at + 1, first, predicates_at, base, tokens, numbers)
        if good:
            mask |= np.int64(1) << bit
    allowed, _ = _condition(code, at, first, predicates_at, base, tokens, numbers)
    return mask if allowed else np.int64(0)


@inlined
def _mark_ways(counts, count, rows, lines, sets):  # type: ignore[no-untyped-def]
    """Set, for each notification, the bits of the ways of its rows."""
    at = 0
    for event in range(count):
        for place in range(at, at + counts[event]):
            way = lines[rows[place], WAY]
            if way >= 0:
                sets[event, way >> 6] |= np.uint64(1) << np.uint64(way & 63)
        at += counts[event]


@inlined
def _number_sets(sets, count, words, slots, numbers, firsts):  # type: ignore[no-untyped-def]
    """Number the distinct lines of `sets`; returns how many there are.

    `numbers` gets the number of each line, `firsts` the first line of each number. `slots` is a hash table with at
    least twice as many slots as lines, a power of 2.
    """
    found, last = np.int64(0), len(slots) - 1
    slots[:] = -1
    for line in range(count):
        key = np.uint64(0)
        for word in range(words):
            key = (key ^ sets[line, word]) * _SPREAD
            key ^= key >> _SHIFT
        slot = np.int64(key) & last
        while slots[slot] >= 0:
            same = True
            for word in range(words):
                same = same and sets[firsts[slots[slot]], word] == sets[line, word]
            if same:
                break
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = found
            firsts[found] = line
            found += 1
        numbers[line] = slots[slot]
    return found


@kernel
def match(data, count, ways, by_mask, scan_at, match_at, rows_at, engine_at):  # type: ignore[no-untyped-def]
    """Match the notifications that were read last, and put them into groups; returns how many groups there are.

    A group is a set of ways, of which there are `ways`, and the advertisements that are satisfied (`by_mask`) or the
    header of a copy; with -1 ways there are no groups. Returns -1 if there is no room for all rows. `match_at` is what
    `Matcher.ready` returned.
    """
    sheet, engine = addresses_at(scan_at, SCAN_LINES), addresses_at(engine_at, ENGINE_LINES)
    notes, tokens = int_lines_at(sheet, NOTES, NOTE_COLUMNS), short_int_lines_at(sheet, TOKENS, TOKEN_COLUMNS)
    found, counts = short_ints_at(engine, FOUND), ints_at(engine, COUNTS)
    stopped, _ = find_rows(
        match_at, np.int64(data.ctypes.data), notes, tokens, floats_at(sheet, NUMBERS), 0, count, found, counts
    )
    if stopped < count:
        return np.int64(-1)
    if ways < 0:
        return np.int64(0)
    words = (ways + 63) // 64
    groups, masks, firsts = ints_at(engine, GROUPS), ints_at(engine, MASKS), ints_at(engine, FIRSTS)
    # most often nothing goes elsewhere, and all are alike
    alike = words == 0
    for event in range(1, count):
        alike = alike and (masks[event] == masks[0] if by_mask else notes[event, HEADER] == 0)
    if alike:
        for event in range(count):
            groups[event] = 0
        firsts[0] = 0
        return np.int64(1)
    sets = word_lines_at(engine, SETS, words + 1)
    for event in range(count):
        for word in range(words):
            sets[event, word] = np.uint64(0)
        sets[event, words] = np.uint64(masks[event]) if by_mask else np.uint64(notes[event, HEADER])
    if words:
        _mark_ways(counts, count, found, int_lines_at(addresses_at(rows_at, ROWS_LINES), ROWS, ROW_COLUMNS), sets)
    return _number_sets(sets, count, words + 1, short_ints_at(engine, SET_SLOTS), groups, firsts)


@inlined
def _is_expected(engine_at, ways):  # type: ignore[no-untyped-def]
    """Whether the only group of a read has the ways that were expected."""
    engine = addresses_at(engine_at, ENGINE_LINES)
    words = (ways + 63) // 64
    sets, expected = words_at(engine, SETS), words_at(engine, EXPECTED)
    same = True
    for word in range(words):
        same = same and sets[word] == expected[word]
    return same


@kernel
def read_publications(  # type: ignore[no-untyped-def]
    data, at, frame_bytes_max, attributes_max, chars_max, name_chars_max, scan, scan_at, terms_at, predicates_at,
    engine_at, name, last_sequence, ways, match_at, rows_at, expected, links, accepted_ms,
):  # fmt: skip
    """Read a client's plain publications from `at` on: new ones, in its name, that conform and are within its right.

    Then match them. If they are one group, and that has the expected mask and ways, their frames follow at once, by the
    plan that is in the arrays. Returns how many there are, where the next frame begins, what ended them, the number of
    the last, what `match` returns, and what `make_frames` does; -2 destinations if something else was expected.
    """
    base = np.int64(data.ctypes.data)
    name_at, at, end = np.int64(name.ctypes.data), base + at, base + len(data)
    sheet, terms = addresses_at(scan_at, SCAN_LINES), addresses_at(terms_at, TERMS_LINES)
    notes, tokens = int_lines_at(sheet, NOTES, NOTE_COLUMNS), short_int_lines_at(sheet, TOKENS, TOKEN_COLUMNS)
    numbers, follows = floats_at(sheet, NUMBERS), short_ints_at(sheet, FOLLOWS)
    publishers = int_lines_at(sheet, PUBLISHERS, 3)
    by_signature, code = short_ints_at(terms, BY_SIGNATURE), short_ints_at(terms, CODE)
    masks = ints_at(addresses_at(engine_at, ENGINE_LINES), MASKS)
    note = token = np.int64(0)
    why = ENDED
    while at + 4 < end:
        stop = at + 4 + big_endian(at, 4)
        if stop > end or byte_at(at + 4) != _PUBLISH:
            break
        if note == len(notes) or token + attributes_max > len(tokens):
            why = FULL
            break
        why = UNUSUAL
        if stop - at <= _HEAD_BYTES or stop - at - 4 > frame_bytes_max or big_endian(at + 5, 4):
            break
        why = read_note(
            base, at, stop, np.int64(_PUBLISH), at + _HEAD_BYTES, False, attributes_max, chars_max, name_chars_max,
            scan, note, token, np.int64(note > 0), np.int64(note > 0), sheet, tokens, numbers, notes, follows,
        )  # fmt: skip
        if why != ENDED:
            break
        why = UNUSUAL
        own = notes[note, PUBLISHER] == 0 and publishers[0, 1] == len(name)
        own = own and (note > 0 or same_bytes(base + publishers[0, 0], name_at, len(name)))
        if not own or notes[note, SEQUENCE] <= last_sequence or byte_at(at + _HEAD_BYTES) != 0x93:
            break
        signature = notes[note, SIGNATURE]
        program = np.int64(by_signature[signature]) if signature < len(by_signature) else np.int64(UNKNOWN)
        if program == UNKNOWN:
            why = NO_PROGRAM
            break
        if program == PYTHON:
            break
        mask = _mask(code, program, token, predicates_at, base, tokens, numbers)
        if not mask:
            break
        why = ENDED
        masks[note], last_sequence = mask, notes[note, SEQUENCE]
        token, note, at = token + notes[note, WIDTH], note + 1, stop
    groups, made = np.int64(0), _NOT_MADE
    if note:
        groups = match(data, note, ways, True, scan_at, match_at, rows_at, engine_at)
        if groups == 1 and masks[0] == expected and _is_expected(engine_at, ways):
            made = make_frames(data, note, True, links, accepted_ms, False, scan_at, rows_at, engine_at)
    return note, at - base, why, last_sequence, groups, made[0], made[1], made[2], made[3]


@kernel
def read_copies(  # type: ignore[no-untyped-def]
    data, at, frame_bytes_max, attributes_max, chars_max, name_chars_max, scan, scan_at, engine_at, ways, match_at,
    rows_at, expected, links,
):  # fmt: skip
    """Read copies from a neighbour, of any kind and header, and match them unless there are -2 ways.

    With `expected`, frames follow as in `read_publications` if all copies are plain. Returns as that does; instead of a
    number, how many publishers and headers there are.
    """
    base = np.int64(data.ctypes.data)
    at, end = base + at, base + len(data)
    sheet = addresses_at(scan_at, SCAN_LINES)
    notes, tokens = int_lines_at(sheet, NOTES, NOTE_COLUMNS), short_int_lines_at(sheet, TOKENS, TOKEN_COLUMNS)
    numbers, follows = floats_at(sheet, NUMBERS), short_ints_at(sheet, FOLLOWS)
    note = token = publisher_count = header_count = np.int64(0)
    why = ENDED
    while at + 4 < end:
        stop = at + 4 + big_endian(at, 4)
        kind = byte_at(at + 4)
        if stop > end or not (_NOTIFY <= kind <= _NOTIFY_ROUTES or kind == _NOTIFY_DESTS):
            break
        if note == len(notes) or token + attributes_max > len(tokens):
            why = FULL
            break
        why = UNUSUAL
        if stop - at <= _HEAD_BYTES or stop - at - 4 > frame_bytes_max:
            break
        tail = at + _HEAD_BYTES + big_endian(at + 5, 4)
        if tail >= stop:
            break
        why = read_note(
            base, at, stop, kind, tail, kind == _NOTIFY_DESTS, attributes_max, chars_max, name_chars_max, scan, note,
            token, publisher_count, header_count, sheet, tokens, numbers, notes, follows,
        )  # fmt: skip
        if why != ENDED:
            break
        publisher_count = max(publisher_count, notes[note, PUBLISHER] + 1)
        header_count = max(header_count, notes[note, HEADER] + 1)
        token, note, at = token + notes[note, WIDTH], note + 1, stop
    groups, made = np.int64(0), _NOT_MADE
    if note and ways > -2:
        groups = match(data, note, ways, False, scan_at, match_at, rows_at, engine_at)
        headers = int_lines_at(sheet, HEADERS, 3)
        is_plain = header_count == 1 and headers[0, 1] == 0 and headers[0, 2] == _NOTIFY
        if expected and groups == 1 and is_plain and _is_expected(engine_at, ways):
            made = make_frames(data, note, True, links, np.int64(-1), False, scan_at, rows_at, engine_at)
    return note, at - base, why, publisher_count, header_count, groups, made[0], made[1], made[2], made[3]
