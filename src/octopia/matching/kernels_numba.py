"""The search of a run, compiled. Same signatures and results as `kernels_numpy`.

Rules of this file: plain loops over typed arrays; no allocation but one block of flags. Compiled code is kept on disk
beside this file (or where NUMBA_CACHE_DIR says), so that it is compiled once per installation.
"""

import numpy as np
from numba import njit

from octopia.matching.run import BLOCK_BOXES


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _narrow(flags, count, lows, highs, column, high_side, low_side):  # type: ignore[no-untyped-def]
    """Clear the flags of boxes that do not reach around the value in one dimension."""
    at = np.uint64(column)
    for i in range(np.uint64(count)):
        flags[i] &= np.uint8((lows[at + i] <= high_side) & (low_side <= highs[at + i]))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _emit(flags, count, rows, start, out, found):  # type: ignore[no-untyped-def]
    """Write the rows whose flag is set, without a branch per row."""
    at, to = np.uint64(start), np.uint64(found)
    for i in range(np.uint64(count)):
        out[to] = rows[at + i]
        to += np.uint64(flags[i])
    return np.int64(to)


@njit(cache=True, nogil=True, error_model="numpy")
def search(  # type: ignore[no-untyped-def]
    local, kinds, places, nodes, bounds, cells_low, cells_high, rows, alive,
    probes, above, below, out, found, limit,
):  # fmt: skip
    """Rows of the boxes around a point, written to `out` from `found` on; returns the new count.

    `out` must have room for all boxes of the run and one block more. Stops early once `limit` are found.
    """
    block = np.empty(BLOCK_BOXES, np.uint8)
    for probe in probes:
        line = local[probe] if probe < len(local) else -1
        if line < 0:
            continue
        first_node, first_slot, cell, first_place, bound = kinds[line]
        end_node, end_slot, _, end_place, _ = kinds[line + 1]
        width = end_place - first_place
        height = end_slot - first_slot
        node = first_node
        while node < end_node:
            at = bound + (node - first_node) * width
            inside = True
            for j in range(width):
                place = places[first_place + j]
                if above[place] < bounds[at + j, 0] or below[place] > bounds[at + j, 1]:
                    inside = False
                    break
            if not inside:
                node = nodes[node, 0]
                continue
            start = nodes[node, 1]
            if start >= 0:
                count = nodes[node, 2] - start
                column = cell + start - first_slot
                for i in range(np.uint64(count)):
                    block[i] = alive[np.uint64(start) + i]
                for j in range(width):
                    high_side, low_side = above[places[first_place + j]], below[places[first_place + j]]
                    # inside of all boxes of the block: no need to look at them one by one
                    if high_side < bounds[at + j, 2] or low_side > bounds[at + j, 3]:
                        _narrow(block, count, cells_low, cells_high, column, high_side, low_side)
                    column += height
                found = _emit(block, count, rows, start, out, found)
                if found >= limit:
                    return found
            node += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def search_many(  # type: ignore[no-untyped-def]
    local, kinds, places, nodes, bounds, cells_low, cells_high, rows, alive,
    combination, probes_from, probes, above, below, first, out, counts,
):  # fmt: skip
    """The same for the events from `first` on, until `out` might not hold another event.

    `combination` says for each event which probes it has: `probes[probes_from[c]:probes_from[c + 1]]`. Writes `counts`
    per event; returns the next event and the number of rows written.
    """
    found = 0
    room = len(out) - len(rows) - BLOCK_BOXES
    for event in range(first, len(combination)):
        if found > room:
            return event, found
        mine = combination[event]
        before = found
        found = search(
            local, kinds, places, nodes, bounds, cells_low, cells_high, rows, alive,
            probes[probes_from[mine] : probes_from[mine + 1]], above[event], below[event], out, found, len(out),
        )  # fmt: skip
        counts[event] = found - before
    return len(combination), found


@njit(cache=True, nogil=True, error_model="numpy")
def gather(counts, starts, rows, values, fill, out):  # type: ignore[no-untyped-def]
    """What stands for the rows of one run, event after event, to the place of each event in the whole; `fill` moves."""
    at = 0
    for event in range(len(counts)):
        count = counts[event]
        into = starts[event] + fill[event]
        mine, place = rows[at : at + count], out[into : into + count]
        for i in range(count):
            place[i] = values[mine[i]]
        at += count
        fill[event] += count


@njit(cache=True, nogil=True, error_model="numpy")
def mark_groups(counts, groups, masks):  # type: ignore[no-untyped-def]
    """Set in each event's mask the bits of the groups of its matches; -1 is no group."""
    at = 0
    for event in range(len(counts)):
        for group in groups[at : at + counts[event]]:
            if group >= 0:
                masks[event, group >> 6] |= np.uint64(1) << np.uint64(group & 63)
        at += counts[event]
