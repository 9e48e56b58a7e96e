"""The search of a run, compiled. Same signatures and results as `kernels_numpy`.

Plain loops over typed arrays; a set of up to 64 boxes is one 64-bit mask. One function does all the searching, and the
functions it calls are inlined and have a single return: otherwise the reference counts of passed arrays are updated
with a locking instruction, which takes longer than comparing a block. Compiled code is cached on disk beside this file
(or in NUMBA_CACHE_DIR), so it is compiled once per installation.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from octopia.matching.box_run import BLOCK, BLOCK_BOXES, CELL, FIRST, HEIGHT, INNER, INTERVALS, LEVELS_MAX, PLACE
from octopia.matching.tree_numba import live_boxes, plant, planting

__all__ = ["drop_repeats", "gather", "live_boxes", "mark_groups", "plant", "planting", "search"]

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_NONE, _ONE = np.uint64(0), np.uint64(1)
_WHOLE, _AT_ONCE = np.uint64(BLOCK_BOXES), np.uint64(8)
# Bit i for i from 0 to 63: for many at once, a table lookup is faster than a shift.
_BITS = _ONE << np.arange(BLOCK_BOXES, dtype=np.uint64)


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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _up_to(cells, column, side):  # type: ignore[no-untyped-def]
    """Which of 64 lower bounds the value reaches."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(_WHOLE):
        mask |= _BITS[i] & (_NONE - np.uint64(cells[0, at + i] <= side))
    return mask


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _from(cells, column, side):  # type: ignore[no-untyped-def]
    """Which of 64 upper bounds the value does not pass."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(_WHOLE):
        mask |= _BITS[i] & (_NONE - np.uint64(side <= cells[1, at + i]))
    return mask


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _around(cells, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these intervals the value lies in."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((cells[0, at + i] <= high_side) & (low_side <= cells[1, at + i])) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _beside(cells, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these excluded values, or ranges of values, are not this value."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((cells[0, at + i] < high_side) | (low_side < cells[1, at + i])) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _climb(blocks, offsets, sizes):  # type: ignore[no-untyped-def]
    """For each level of a part, where it begins in a column and its length; returns the level with at most 64."""
    level = 0
    offsets[0], sizes[0] = 0, blocks
    while sizes[level] > BLOCK_BOXES:
        offsets[level + 1] = offsets[level] + sizes[level]
        sizes[level + 1] = (sizes[level] + BLOCK_BOXES - 1) // BLOCK_BOXES
        level += 1
    return level


@njit(cache=True, nogil=True, error_model="numpy")
def search(  # type: ignore[no-untyped-def]
    local, parts, lines, kinds, places, cells, inners, rows, alive,
    combination, probes_from, probes, sides, event, out, found, counts,
):  # fmt: skip
    """Rows of the boxes around points, written to `out` from `found` on; `counts` says how many each event has.

    Begins with `event` and stops at one whose answer does not fit, with a block of `out` left over; returns its number
    and where the answers before it end. See `run.Layout` and `points.Points` for the arrays.
    """
    # per level of a part, of which the first is its blocks: where it begins in a column, how many it has, the first of
    # up to 64 in work, and which of them are still to be opened
    offsets, sizes = np.empty(LEVELS_MAX, np.int64), np.empty(LEVELS_MAX, np.int64)
    firsts, masks = np.empty(LEVELS_MAX, np.int64), np.empty(LEVELS_MAX, np.uint64)
    while event < len(combination):
        before = found
        mine = combination[event]
        for probe in range(probes_from[mine], probes_from[mine + 1]):
            family = min(probes[probe], len(local) - 1)
            for part in range(local[family, 0], local[family, 1]):
                top = _climb(parts[part + 1, BLOCK] - parts[part, BLOCK], offsets, sizes)
                level, first = top, 0
                while True:
                    count = min(sizes[level] - first, BLOCK_BOXES)
                    masks[level] = _blocks_around(
                        parts, part, places, cells, sides, event, offsets[level] + first, count
                    )
                    firsts[level] = first
                    while level == 0 and masks[0]:
                        block = parts[part, BLOCK] + firsts[0] + np.int64(_lowest(masks[0]))
                        masks[0] &= masks[0] - _ONE
                        line = lines[block]
                        if line < 0 or not alive[block]:
                            continue
                        inside = _boxes_around(
                            kinds, line, places, cells, inners, sides, event, block - kinds[line, BLOCK], alive[block]
                        )
                        slot = kinds[line, FIRST] + (block - kinds[line, BLOCK]) * BLOCK_BOXES
                        found = _emit(inside, rows, slot, out, found)
                        if found >= len(out) - BLOCK_BOXES:
                            return event, before
                    while level <= top and not masks[level]:
                        level += 1
                    if level > top:
                        break
                    first = (firsts[level] + np.int64(_lowest(masks[level]))) * BLOCK_BOXES
                    masks[level] &= masks[level] - _ONE
                    level -= 1
        counts[event] = found - before
        event += 1
    return event, found


@njit(cache=True, nogil=True, error_model="numpy")
def drop_repeats(counts, rows, repeatable, last_event, first_event):  # type: ignore[no-untyped-def]
    """Remove repeated rows of each event, keeping the first; returns how many remain, at the front.

    `last_event` holds, per row, the last event it was kept for; events are numbered from `first_event`.
    """
    at = kept = 0
    for event in range(len(counts)):
        before, number = kept, first_event + event
        for place in range(at, at + counts[event]):
            row = rows[place]
            if repeatable[row]:
                if last_event[row] == number:
                    continue
                last_event[row] = number
            rows[kept] = row
            kept += 1
        at += counts[event]
        counts[event] = kept - before
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def gather(counts, starts, rows, out):  # type: ignore[no-untyped-def]
    """Copy the rows found by one run, event by event, to each event's place in the whole."""
    at = 0
    for event in range(len(counts)):
        out[starts[event] : starts[event] + counts[event]] = rows[at : at + counts[event]]
        at += counts[event]


@njit(cache=True, nogil=True, error_model="numpy")
def mark_groups(counts, groups, masks):  # type: ignore[no-untyped-def]
    """Set in each event's mask the bits of the groups of its matches; -1 means without a group."""
    at = 0
    for event in range(len(counts)):
        for group in groups[at : at + counts[event]]:
            if group >= 0:
                masks[event, group >> 6] |= np.uint64(1) << np.uint64(group & 63)
        at += counts[event]
