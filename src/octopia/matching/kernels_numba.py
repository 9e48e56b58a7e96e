"""The search of a run, compiled. Same signatures and results as `kernels_numpy`.

Rules of this file: plain loops over typed arrays; a set of up to 64 boxes is one 64-bit mask. Compiled code is kept on
disk beside this file (or where NUMBA_CACHE_DIR says), so that it is compiled once per installation.
"""

import numpy as np
from numba import njit

from octopia.matching.run import BLOCK_BOXES, LEVELS_MAX
from octopia.matching.tree_numba import plant

__all__ = ["gather", "mark_groups", "plant", "search", "search_many"]

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
# The top six bits of this number times 2^i differ for every i.
_SPREAD = 0x03F7_9D71_B4CB_0A89
_PLACES = np.zeros(64, dtype=np.uint8)
_PLACES[[(_SPREAD << i) % 2**64 >> 58 for i in range(64)]] = range(64)


@njit(cache=True, nogil=True, error_model="numpy")
def _lowest(mask):  # type: ignore[no-untyped-def]
    """The number of the lowest bit that is set."""
    return np.uint64(_PLACES[((mask & (~mask + _ONE)) * np.uint64(_SPREAD)) >> np.uint64(58)])


@njit(cache=True, nogil=True, error_model="numpy")
def _up_to(bounds, column, count, side):  # type: ignore[no-untyped-def]
    """Which of these lower bounds the value reaches."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64(bounds[at + i] <= side) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy")
def _from(bounds, column, count, side):  # type: ignore[no-untyped-def]
    """Which of these upper bounds the value does not pass."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64(side <= bounds[at + i]) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy")
def _around(lows, highs, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these intervals the value lies in."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((lows[at + i] <= high_side) & (low_side <= highs[at + i])) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy")
def _beside(lows, highs, column, count, high_side, low_side):  # type: ignore[no-untyped-def]
    """Which of these values, or ranges of values, that are left out are not this very value."""
    at = np.uint64(column)
    mask = np.uint64(0)
    for i in range(np.uint64(count)):
        mask |= np.uint64((lows[at + i] < high_side) | (low_side < highs[at + i])) << i
    return mask


@njit(cache=True, nogil=True, error_model="numpy")
def _emit(mask, rows, start, out, found):  # type: ignore[no-untyped-def]
    """Write the rows of a block whose bit is set."""
    at, to = np.uint64(start), np.uint64(found)
    if mask == _ALL:
        for i in range(np.uint64(BLOCK_BOXES)):
            out[to + i] = rows[at + i]
        return found + BLOCK_BOXES
    while mask:
        out[to] = rows[at + _lowest(mask)]
        to += _ONE
        mask &= mask - _ONE
    return np.int64(to)


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(boxes, offsets, sizes):  # type: ignore[no-untyped-def]
    """Per level of a kind where it begins in a column and how many it has; returns the level that is one block."""
    level = 0
    offsets[0], sizes[0] = 0, boxes
    while sizes[level] > BLOCK_BOXES:
        offsets[level + 1] = offsets[level] + sizes[level]
        sizes[level + 1] = (sizes[level] + BLOCK_BOXES - 1) // BLOCK_BOXES
        level += 1
    return level


@njit(cache=True, nogil=True, error_model="numpy")
def _next_open(masks, level, top):  # type: ignore[no-untyped-def]
    """The level, from this one up, that has a block to be opened; one past the top if none has."""
    while level <= top and not masks[level]:
        level += 1
    return level


@njit(cache=True, nogil=True, error_model="numpy")
def search(  # type: ignore[no-untyped-def]
    local, kinds, intervals, places, cells_low, cells_high, inner_low, inner_high, rows, alive,
    probes, above, below, out, found, limit,
):  # fmt: skip
    """Rows of the boxes around a point, written to `out` from `found` on; returns the new count.

    Stops once `limit` are found; `out` must have room for so many and one block more.
    """
    # per level the first of up to 64 blocks in work, and which of them are still to be opened
    levels = np.empty((3, LEVELS_MAX), np.int64)
    offsets, sizes, firsts = levels[0], levels[1], levels[2]
    masks = np.empty(LEVELS_MAX, np.uint64)
    for probe in probes:
        line = local[min(probe, len(local) - 1)]
        if line < 0:
            continue
        first_slot, first_block, cell, first_place, inner = kinds[line]
        end_slot, end_block, _, end_place, _ = kinds[line + 1]
        with_interval = first_place + intervals[line]
        top = _climb(end_slot - first_slot, offsets, sizes)
        height = offsets[top] + sizes[top]
        level, first = top, 0
        while level <= top:
            # the boxes of a block, or what lies around each block of the level below
            count = min(sizes[level] - first, BLOCK_BOXES)
            column = cell + offsets[level] + first
            block = inner + first // BLOCK_BOXES
            mask = _ALL >> np.uint64(BLOCK_BOXES - count)
            at = first_place
            while at < end_place and mask:
                high_side, low_side = above[places[at]], below[places[at]]
                if at >= with_interval:
                    mask &= _beside(cells_low, cells_high, column, count, high_side, low_side)
                elif level:
                    mask &= _around(cells_low, cells_high, column, count, high_side, low_side)
                else:
                    # a side on which the point lies in all boxes of the block is not looked at
                    if high_side < inner_low[block]:
                        mask &= _up_to(cells_low, column, count, high_side)
                    if low_side > inner_high[block]:
                        mask &= _from(cells_high, column, count, low_side)
                at += 1
                column += height
                block += end_block - first_block
            masks[level], firsts[level] = mask, first
            if level == 0:
                mask &= alive[first_block + first // BLOCK_BOXES]
                found = _emit(mask, rows, first_slot + first, out, found)
                if found >= limit:
                    return found
                level = 1
            level = _next_open(masks, level, top)
            if level <= top:
                first = (firsts[level] + np.int64(_lowest(masks[level]))) * BLOCK_BOXES
                masks[level] &= masks[level] - _ONE
                level -= 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def search_many(  # type: ignore[no-untyped-def]
    local, kinds, intervals, places, cells_low, cells_high, inner_low, inner_high, rows, alive,
    combination, probes_from, probes, above, below, first, out, counts,
):  # fmt: skip
    """The same for the events from `first` on, until `out` might not hold another event.

    `out` must have room for all boxes of the run and one block more. `combination` says for each event which probes it
    has: `probes[probes_from[c]:probes_from[c + 1]]`. Writes `counts` per event; returns the next event and the number
    of rows written.
    """
    found = 0
    limit = len(out) - BLOCK_BOXES
    for event in range(first, len(combination)):
        if found > limit - len(rows):
            return event, found
        mine = combination[event]
        before = found
        found = search(
            local, kinds, intervals, places, cells_low, cells_high, inner_low, inner_high, rows, alive,
            probes[probes_from[mine] : probes_from[mine + 1]], above[event], below[event], out, found, limit,
        )  # fmt: skip
        counts[event] = found - before
    return len(combination), found


@njit(cache=True, nogil=True, error_model="numpy")
def gather(counts, starts, rows, out):  # type: ignore[no-untyped-def]
    """What was found in one run, event after event, to where each event's part of the whole begins."""
    at = 0
    for event in range(len(counts)):
        out[starts[event] : starts[event] + counts[event]] = rows[at : at + counts[event]]
        at += counts[event]


@njit(cache=True, nogil=True, error_model="numpy")
def mark_groups(counts, groups, masks):  # type: ignore[no-untyped-def]
    """Set in each event's mask the bits of the groups of its matches; -1 is no group."""
    at = 0
    for event in range(len(counts)):
        for group in groups[at : at + counts[event]]:
            if group >= 0:
                masks[event, group >> 6] |= np.uint64(1) << np.uint64(group & 63)
        at += counts[event]
