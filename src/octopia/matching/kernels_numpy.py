"""The search of a run in numpy alone, for where numba is not installed. Same signatures and results as `kernels_numba`.

It compares an event with all boxes of a kind at once instead of walking the tree: slower, and as exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching.tree_numpy import plant

__all__ = ["gather", "mark_groups", "plant", "search", "search_many"]

Array = npt.NDArray[Any]


def search(
    local: Array, kinds: Array, intervals: Array, places: Array, cells_low: Array, cells_high: Array, inner_low: Array,
    inner_high: Array, rows: Array, alive: Array, probes: Array, above: Array, below: Array, out: Array, found: int,
    limit: int,
) -> int:  # fmt: skip
    """Rows of the boxes around a point, written to `out` from `found` on; returns the new count."""
    for probe in probes:
        line = local[min(probe, len(local) - 1)]
        if line < 0:
            continue
        (slot, block, cell, place, _), (end_slot, end_block, end_cell, end_place, _) = kinds[line : line + 2]
        bounded, mine = intervals[line], places[place:end_place]
        high_side, low_side = above[mine, None], below[mine, None]
        count = end_slot - slot
        # what lies around the boxes is in the columns after them
        height = (end_cell - cell) // len(mine) if len(mine) else count
        lows = cells_low[cell:end_cell].reshape(len(mine), height)[:, :count]
        highs = cells_high[cell:end_cell].reshape(len(mine), height)[:, :count]
        bits = alive[block:end_block].astype("<u8").view(np.uint8)
        inside = np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)
        inside &= (lows[:bounded] <= high_side[:bounded]).all(axis=0)
        inside &= (highs[:bounded] >= low_side[:bounded]).all(axis=0)
        inside &= ((lows[bounded:] < high_side[bounded:]) | (highs[bounded:] > low_side[bounded:])).all(axis=0)
        hits = rows[slot:end_slot][inside][: len(out) - found]
        out[found : found + len(hits)] = hits
        found += len(hits)
        if found >= limit:
            return found
    return found


def search_many(
    local: Array, kinds: Array, intervals: Array, places: Array, cells_low: Array, cells_high: Array, inner_low: Array,
    inner_high: Array, rows: Array, alive: Array, combination: Array, probes_from: Array, probes: Array, above: Array,
    below: Array, first: int, out: Array, counts: Array,
) -> tuple[int, int]:  # fmt: skip
    """The same for the events from `first` on, until `out` might not hold another event."""
    found = 0
    for event in range(first, len(combination)):
        if found > len(out) - len(rows):
            return event, found
        mine = combination[event]
        before = found
        found = search(
            local, kinds, intervals, places, cells_low, cells_high, inner_low, inner_high, rows, alive,
            probes[probes_from[mine] : probes_from[mine + 1]], above[event], below[event], out, found, len(out),
        )  # fmt: skip
        counts[event] = found - before
    return len(combination), found


def gather(counts: Array, starts: Array, rows: Array, out: Array) -> None:
    """What was found in one run, event after event, to where each event's part of the whole begins."""
    before = np.cumsum(counts) - counts
    out[np.repeat(starts - before, counts) + np.arange(len(rows))] = rows


def mark_groups(counts: Array, groups: Array, masks: Array) -> None:
    """Set in each event's mask the bits of the groups of its matches; -1 is no group."""
    events = np.repeat(np.arange(len(counts)), counts)
    grouped = groups >= 0
    bits = np.uint64(1) << (groups[grouped] & 63).astype(np.uint64)
    np.bitwise_or.at(masks, (events[grouped], groups[grouped] >> 6), bits)
