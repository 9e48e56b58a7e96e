"""The search of a run in numpy alone, if numba is not installed. Same signatures and results as `kernels_numba`.

It compares an event with all boxes of a kind at once instead of walking the tree: slower, but equally exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching.box_run import BLOCK, BLOCK_BOXES, FIRST
from octopia.matching.tree_numpy import live_boxes, plant, planting

__all__ = ["drop_repeats", "gather", "live_boxes", "mark_groups", "plant", "planting", "search"]

Array = npt.NDArray[Any]


def search(
    local: Array, parts: Array, lines: Array, kinds: Array, places: Array, cells: Array, inners: Array, rows: Array,
    alive: Array, combination: Array, probes_from: Array, probes: Array, sides: Array, event: int, out: Array,
    found: int, counts: Array,
) -> tuple[int, int]:  # fmt: skip
    """Rows of the boxes around points, written to `out` from `found` on; `counts` says how many each event has.

    Begins with `event` and stops at one whose answer does not fit, with a block of `out` left over; returns its number
    and where the answers before it end.
    """
    limit = len(out) - BLOCK_BOXES
    while event < len(combination):
        before, mine = found, combination[event]
        for family in probes[probes_from[mine] : probes_from[mine + 1]].tolist():
            first, end = local[min(family, len(local) - 1)].tolist()
            for line in range(parts[first, FIRST], parts[end, FIRST]):
                if lines[kinds[line, BLOCK]] < 0:
                    continue
                inside = _inside(kinds[line : line + 2].tolist(), places, cells, alive, sides[:, :, event])
                hits = rows[kinds[line, FIRST] : kinds[line + 1, FIRST]][inside]
                if found + len(hits) >= limit:
                    return event, before
                out[found : found + len(hits)] = hits
                found += len(hits)
        counts[event] = found - before
        event += 1
    return event, found


def _inside(kind: list[list[int]], places: Array, cells: Array, alive: Array, sides: Array) -> Array:
    """Which boxes of a kind are around a point."""
    (block, cell, place, bounded, count, _, _), (end_block, _, end_place, *_) = kind
    mine = places[place:end_place]
    high_side, low_side = sides[0, mine, None], sides[1, mine, None]
    lows, highs = cells[:, cell : cell + len(mine) * count].reshape(2, len(mine), count)
    bits = alive[block:end_block].astype("<u8").view(np.uint8)
    inside = np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)
    inside &= (lows[:bounded] <= high_side[:bounded]).all(axis=0)
    inside &= (highs[:bounded] >= low_side[:bounded]).all(axis=0)
    inside &= ((lows[bounded:] < high_side[bounded:]) | (highs[bounded:] > low_side[bounded:])).all(axis=0)
    return inside


def drop_repeats(counts: Array, rows: Array, repeatable: Array, last_event: Array, first_event: int) -> int:
    """Remove repeated rows of each event, keeping the first; returns how many remain, at the front."""
    events = np.repeat(np.arange(len(counts)), counts)
    keep = ~repeatable[rows]
    places = np.flatnonzero(~keep)
    _, first = np.unique(events[places] * np.int64(len(repeatable)) + rows[places], return_index=True)
    keep[places[first]] = True
    left = rows[keep]
    rows[: len(left)] = left
    counts[:] = np.bincount(events[keep], minlength=len(counts))
    return len(left)


def gather(counts: Array, starts: Array, rows: Array, out: Array) -> None:
    """Copy the rows found by one run, event by event, to each event's place in the whole."""
    before = np.cumsum(counts) - counts
    out[np.repeat(starts - before, counts) + np.arange(len(rows))] = rows


def mark_groups(counts: Array, groups: Array, masks: Array) -> None:
    """Set in each event's mask the bits of the groups of its matches; -1 means without a group."""
    events = np.repeat(np.arange(len(counts)), counts)
    grouped = groups >= 0
    bits = np.uint64(1) << (groups[grouped] & 63).astype(np.uint64)
    np.bitwise_or.at(masks, (events[grouped], groups[grouped] >> 6), bits)
