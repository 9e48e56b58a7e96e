"""The search of a run, compiled.

Plain loops over typed arrays; a set of up to 64 boxes is one 64-bit mask. The kernels take addresses and numbers only:
reference counts of arrays that they hand to each other would be updated with a locking instruction, which takes longer
than comparing a block. Compiled code is cached on disk beside this file (or in NUMBA_CACHE_DIR), so it is compiled once
per installation.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from octopia.matching.box_run import (
    ALIVE,
    BLOCK,
    BLOCK_BOXES,
    CELL,
    CELLS,
    FIRST,
    HEIGHT,
    IDS,
    INNER,
    INNERS,
    INTERVALS,
    KINDS,
    LEVELS_MAX,
    LINES,
    LOCAL,
    PARTS,
    PLACE,
    PLACES,
    ROWS,
    RUN_LINES,
    TABLE_COLUMNS,
    TESTED,
    TESTS,
)
from octopia.matching.mirror import (
    FIRST_TESTS,
    MIRROR_LINES,
    PREDICATES,
    SEEN,
    TEST_ATTRIBUTE,
    TEST_COLUMNS,
    TEST_LINE,
    TEST_NEXT,
    TEST_TABLE,
)
from octopia.matching.predicates_numba import value_holds
from octopia.matching.tokens import AT, CODED, END, KIND, TEXT, TOKEN_COLUMNS
from octopia.native import (
    addresses_at,
    float_block_from,
    float_lines_at,
    floats_from,
    inlined,
    int_lines_at,
    int_lines_from,
    ints_at,
    ints_from,
    kernel,
    short_int_lines_at,
    short_int_lines_from,
    short_ints_at,
    short_ints_from,
    words_at,
)

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_WHOLE, _AT_ONCE = np.uint64(BLOCK_BOXES), np.uint64(8)
# Bit i for i from 0 to 63: for many at once, a table lookup is faster than a shift.
_BITS = _ONE << np.arange(BLOCK_BOXES, dtype=np.uint64)
# Per level of a part, of which the first is its blocks: where it begins in a column, how many it has, the first of up
# to 64 in work, and which of them are still to be opened.
_BEGIN, _SIZE, _IN_WORK, _MASK = range(4)
# Numbers that a search needs for its levels.
LEVEL_NUMBERS = 4 * LEVELS_MAX


def _lowest_bit(typing_context, mask):  # type: ignore[no-untyped-def]
    """The index of the lowest set bit, by the processor's own instruction; at least one must be set."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), emit


def _highest_bit(typing_context, mask):  # type: ignore[no-untyped-def]
    """The highest set bit alone; undefined if none is set."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        above = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.lshr(ir.Constant(word, 1 << 63), builder.and_(above, ir.Constant(word, 63)))

    return types.uint64(types.uint64), emit


def _number_of_bits(typing_context, mask):  # type: ignore[no-untyped-def]
    """How many bits are set."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), emit


_lowest: Any = intrinsic(_lowest_bit)
_highest: Any = intrinsic(_highest_bit)
_count: Any = intrinsic(_number_of_bits)


@inlined
def _up_to(cells, column, side):  # type: ignore[no-untyped-def]
    """Which of 64 lower bounds the value reaches."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(_WHOLE):
        mask |= _BITS[i] & (_NONE - np.uint64(cells[0, at + i] <= side))
    return mask


@inlined
def _from(cells, column, side):  # type: ignore[no-untyped-def]
    """Which of 64 upper bounds the value does not pass."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(_WHOLE):
        mask |= _BITS[i] & (_NONE - np.uint64(side <= cells[1, at + i]))
    return mask


@inlined
def _around(cells, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these intervals the value lies in."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((cells[0, at + i] <= high_side) & (low_side <= cells[1, at + i])) << i
    return mask


@inlined
def _beside(cells, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these intervals the value does not lie in."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((low_side < cells[0, at + i]) | (cells[1, at + i] < high_side)) << i
    return mask


@inlined
def _blocks_around(parts, part, places, cells, sides, event, first, count):  # type: ignore[no-untyped-def]
    """Which of the blocks of a part, or of 64 blocks each, the point lies in; `first` is a number in its columns."""
    mask = _ALL >> np.uint64(BLOCK_BOXES - count)
    # 16 at a time, without a remainder
    compared = (count + 15) & ~15
    column = parts[part, CELL] + first
    with_interval = parts[part, PLACE] + parts[part, INTERVALS]
    for at in range(parts[part, PLACE], with_interval):
        mask &= _around(cells, column, compared, sides[0, places[at], event], sides[1, places[at], event])
        column += parts[part, HEIGHT]
    for at in range(with_interval, parts[part + 1, PLACE]):
        mask &= _beside(cells, column, compared, sides[0, places[at], event], sides[1, places[at], event])
        column += parts[part, HEIGHT]
    return mask


@inlined
def _boxes_around(kinds, line, places, cells, inners, sides, event, block, mask):  # type: ignore[no-untyped-def]
    """Which boxes of a block the point lies in, of those in `mask`; `block` is a number within the kind."""
    column, inner = kinds[line, CELL] + block * BLOCK_BOXES, kinds[line, INNER] + block
    with_interval = kinds[line, PLACE] + kinds[line, INTERVALS]
    for at in range(kinds[line, PLACE], with_interval):
        high_side, low_side = sides[0, places[at], event], sides[1, places[at], event]
        # skip a side on which the point lies in all boxes of the block
        if mask and high_side < inners[0, inner]:
            mask &= _up_to(cells, column, high_side)
        if mask and low_side > inners[1, inner]:
            mask &= _from(cells, column, low_side)
        column += kinds[line, HEIGHT]
        inner += kinds[line + 1, BLOCK] - kinds[line, BLOCK]
    for at in range(with_interval, kinds[line + 1, PLACE]):
        mask &= _beside(cells, column, BLOCK_BOXES, sides[0, places[at], event], sides[1, places[at], event])
        column += kinds[line, HEIGHT]
    return mask


@inlined
def _emit(mask, rows, start, out, found):  # type: ignore[no-untyped-def]
    """Write the rows of a block whose bit is set; returns the new count."""
    slot, to = np.uint64(start), np.uint64(found)
    end, last = to + _count(mask), _highest(mask)
    if mask == _ALL:
        for i in range(_WHOLE):
            out[to + i] = rows[slot + i]
        to += _WHOLE
    # Eight at a time, repeating the last one to fill up; the next block overwrites the surplus. The processor would
    # mispredict the end of a loop that may stop after any of them.
    while to < end:
        for i in range(_AT_ONCE):
            out[to + i] = rows[slot + _lowest(mask | last)]
            mask &= mask - _ONE
        to += _AT_ONCE
    return np.int64(end)


@inlined
def _climb(blocks, levels):  # type: ignore[no-untyped-def]
    """For each level of a part, where it begins in a column and its length; returns the level with at most 64."""
    level = 0
    levels[0, _BEGIN], levels[0, _SIZE] = 0, blocks
    while levels[level, _SIZE] > BLOCK_BOXES:
        levels[level + 1, _BEGIN] = levels[level, _BEGIN] + levels[level, _SIZE]
        levels[level + 1, _SIZE] = (levels[level, _SIZE] + BLOCK_BOXES - 1) // BLOCK_BOXES
        level += 1
    return level


@inlined
def _first_part(local, family):  # type: ignore[no-untyped-def]
    """The line of a family; that of another, if it has no boxes in this run."""
    low, high = np.int64(0), np.int64(len(local) - 1)
    while low < high:
        middle = (low + high) // 2
        if local[middle, 0] < family:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def passes(mirror_at, test, event, data_at, tokens_at, numbers_at):  # type: ignore[no-untyped-def]
    """Whether an event passes a list of tests: see `mirror.Mirror`."""
    mirror = addresses_at(mirror_at, MIRROR_LINES)
    tests, seen = int_lines_at(mirror, TEST_TABLE, TEST_COLUMNS), int_lines_at(mirror, SEEN, 2)
    tokens, table_at = short_int_lines_from(tokens_at, 0, TOKEN_COLUMNS), ints_at(mirror, PREDICATES)[0]
    test = ints_at(mirror, FIRST_TESTS)[test]
    while test >= 0:
        attribute = tests[test, TEST_ATTRIBUTE]
        if seen[attribute, 0] != event:
            return False
        token = seen[attribute, 1]
        kind, at, end = np.int64(tokens[token, KIND]), np.int64(tokens[token, AT]), np.int64(tokens[token, END])
        if kind == CODED:
            kind = np.int64(TEXT)
        number = floats_from(numbers_at, 0)[token]
        if not value_holds(table_at, tests[test, TEST_LINE], kind, number, at, data_at + at, end - at):
            return False
        test = tests[test, TEST_NEXT]
    return True


@kernel
def search_family(  # type: ignore[no-untyped-def]
    run_at, family, sides_at, size, events, event, levels_at, mirror_at, stamp, data_at, tokens_at, numbers_at,
    out_at, room, found, wide,
):  # fmt: skip
    """Write the rows of a family's boxes around a point, from `found` on, or their ids if `wide` is not 0.

    Returns where they end; -1 if they may not fit into the `room`, which leaves a block over. `run_at` is the address
    of a run's sheet. The sides of the point are those of one of the `events` in an array of 2 by `size` by `events`.
    `mirror_at` is 0 if tests do not matter; otherwise `stamp` is the number of the event, and the tokens are its own.
    """
    run, levels = addresses_at(run_at, RUN_LINES), int_lines_from(levels_at, LEVELS_MAX, 4)
    local, parts = short_int_lines_at(run, LOCAL, 2), int_lines_at(run, PARTS, TABLE_COLUMNS)
    at = _first_part(local, family)
    if local[at, 0] != family:
        return found
    lines, kinds, places = (
        short_ints_at(run, LINES),
        int_lines_at(run, KINDS, TABLE_COLUMNS),
        short_ints_at(run, PLACES),
    )
    cells, inners = float_lines_at(run, CELLS, run[CELLS, 2] // 2), float_lines_at(run, INNERS, run[INNERS, 2] // 2)
    rows, ids, alive = short_ints_at(run, ROWS), ints_at(run, IDS), words_at(run, ALIVE)
    out, out_ids = short_ints_from(out_at, room), ints_from(out_at, room)
    sides = float_block_from(sides_at, 2, size, events)
    for part in range(local[at, 1], local[at + 1, 1]):
        top = _climb(parts[part + 1, BLOCK] - parts[part, BLOCK], levels)
        level, first = top, np.int64(0)
        while True:
            count = min(levels[level, _SIZE] - first, BLOCK_BOXES)
            mask = _blocks_around(parts, part, places, cells, sides, event, levels[level, _BEGIN] + first, count)
            while level == 0 and mask:
                block = parts[part, BLOCK] + first + np.int64(_lowest(mask))
                mask &= mask - _ONE
                line = lines[block]
                if line < 0 or not alive[block]:
                    continue
                slot = (block - kinds[line, BLOCK]) * BLOCK_BOXES
                inside = _boxes_around(
                    kinds, line, places, cells, inners, sides, event, block - kinds[line, BLOCK], alive[block]
                )
                if inside and mirror_at and kinds[line, TESTED] >= 0:
                    left, tests = inside, short_ints_at(run, TESTS)
                    while left:
                        i = np.int64(_lowest(left))
                        left &= left - _ONE
                        test = np.int64(tests[kinds[line, TESTED] + slot + i])
                        if not passes(mirror_at, test, stamp, data_at, tokens_at, numbers_at):
                            inside &= ~_BITS[i]
                slot += kinds[line, FIRST]
                found = _emit(inside, ids, slot, out_ids, found) if wide else _emit(inside, rows, slot, out, found)
                if found >= room - BLOCK_BOXES:
                    return np.int64(-1)
            levels[level, _IN_WORK], levels[level, _MASK] = first, np.int64(mask)
            while level <= top and not levels[level, _MASK]:
                level += 1
            if level > top:
                break
            mask = np.uint64(levels[level, _MASK])
            first = (levels[level, _IN_WORK] + np.int64(_lowest(mask))) * BLOCK_BOXES
            levels[level, _MASK] = np.int64(mask & (mask - _ONE))
            level -= 1
    return found


@kernel
def search(  # type: ignore[no-untyped-def]
    run_at, families_at, families, sides_at, size, events, event, levels_at, out_at, room, found, counts_at
):  # fmt: skip
    """Write the rows of the boxes of some families around points, from `found` on; `counts` says how many each has.

    Begins with `event` and stops at one whose answer may not fit; returns its number and where the answers before it
    end. Tests are not made.
    """
    counts, chosen = ints_from(counts_at, events), short_ints_from(families_at, families)
    zero = np.int64(0)
    while event < events:
        before = found
        for at in range(families):
            found = search_family(
                run_at, np.int64(chosen[at]), sides_at, size, events, event, levels_at, zero, zero, zero, zero, zero,
                out_at, room, found, zero,
            )  # fmt: skip
            if found < 0:
                return event, before
        counts[event] = found - before
        event += 1
    return event, found
