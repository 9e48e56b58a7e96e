"""What compiled code does for a matcher, under the names that `kernels_numpy` has, too."""

from collections.abc import Sequence

import numpy as np

from octopia.matching.box_run import BLOCK_BOXES, Rows, Searched
from octopia.matching.find_numba import find
from octopia.matching.points import Sides
from octopia.matching.search_numba import LEVEL_NUMBERS, search
from octopia.matching.tree_numba import live_boxes, plant, planting
from octopia.native import kernel

__all__ = ["RUN_COSTS_TESTS", "find", "live_boxes", "mark_groups", "plant", "planting", "rows_around"]

# How often a waiting box is compared with a notification in the time that it takes to build a run: 3 ns each.
RUN_COSTS_TESTS = 262_144
_ROOM_MIN = 1_024


def rows_around(runs: Sequence[Searched], families: Sequence[int], sides: Sides) -> Rows:
    """The rows of all boxes of these families that are around some of the points, with repeats. Tests are not made."""
    _, size, events = sides.shape
    chosen = np.array(families, dtype=np.int32)
    counts, levels = np.zeros(events, dtype=np.int64), np.zeros(LEVEL_NUMBERS, dtype=np.int64)
    parts = []
    for run in runs:
        event, room = 0, _ROOM_MIN
        while event < events:
            out = np.empty(room, dtype=np.int32)
            event, found = search(
                run.sheet.address, int(chosen.ctypes.data), len(chosen), int(sides.ctypes.data), size, events, event,
                int(levels.ctypes.data), int(out.ctypes.data), room, 0, int(counts.ctypes.data),
            )  # fmt: skip
            if found:
                parts.append(out[:found])
            else:
                # no answer fits so far
                room = min(4 * room, len(run.layout.rows) + 2 * BLOCK_BOXES)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)


@kernel
def mark_groups(counts, groups, masks):  # type: ignore[no-untyped-def]
    """Set in each event's mask the bits of the groups of its matches; -1 means without a group."""
    at = 0
    for event in range(len(counts)):
        for group in groups[at : at + counts[event]]:
            if group >= 0:
                masks[event, group >> 6] |= np.uint64(1) << np.uint64(group & 63)
        at += counts[event]
