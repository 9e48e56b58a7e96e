"""The search of a run in numpy alone, for where numba is not installed. Same signatures and results as `kernels_numba`.

It compares an event with all boxes of a kind at once instead of walking the tree: slower, and as exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def search(
    local: Array, kinds: Array, places: Array, nodes: Array, bounds: Array, cells_low: Array,
    cells_high: Array, rows: Array, alive: Array, probes: Array, above: Array, below: Array, out: Array, found: int,
    limit: int,
) -> int:  # fmt: skip
    """Rows of the boxes around a point, written to `out` from `found` on; returns the new count."""
    for probe in probes:
        line = local[probe] if probe < len(local) else -1
        if line < 0:
            continue
        (_, slot, cell, place, bound), (_, end_slot, end_cell, end_place, _) = kinds[line : line + 2]
        mine = places[place:end_place]
        width = end_place - place
        # the root of the tree has the bounds of the whole kind
        root = bounds[bound : bound + width]
        if (above[mine] < root[:, 0]).any() or (below[mine] > root[:, 1]).any():
            continue
        shape = (width, end_slot - slot)
        inside = alive[slot:end_slot] == 1
        inside &= (cells_low[cell:end_cell].reshape(shape) <= above[mine][:, None]).all(axis=0)
        inside &= (cells_high[cell:end_cell].reshape(shape) >= below[mine][:, None]).all(axis=0)
        hits = rows[slot:end_slot][inside]
        out[found : found + len(hits)] = hits
        found += len(hits)
        if found >= limit:
            return found
    return found


def search_many(
    local: Array, kinds: Array, places: Array, nodes: Array, bounds: Array, cells_low: Array,
    cells_high: Array, rows: Array, alive: Array, combination: Array, probes_from: Array, probes: Array, above: Array,
    below: Array, first: int, out: Array, counts: Array,
) -> tuple[int, int]:  # fmt: skip
    """The same for the events from `first` on, until `out` might not hold another event."""
    found = 0
    room = len(out) - len(rows)
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


def gather(counts: Array, starts: Array, rows: Array, values: Array, fill: Array, out: Array) -> None:
    """What stands for the rows of one run, event after event, to the place of each event in the whole; `fill` moves."""
    if len(rows):
        before = np.cumsum(counts) - counts
        out[np.repeat(starts + fill - before, counts) + np.arange(len(rows))] = values[rows]
    fill += counts


def mark_groups(counts: Array, groups: Array, masks: Array) -> None:
    """Set in each event's mask the bits of the groups of its matches; -1 is no group."""
    events = np.repeat(np.arange(len(counts)), counts)
    grouped = groups >= 0
    bits = np.uint64(1) << (groups[grouped] & 63).astype(np.uint64)
    np.bitwise_or.at(masks, (events[grouped], groups[grouped] >> 6), bits)
