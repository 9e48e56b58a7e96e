"""The trees of a run in numpy alone. Same interface as `tree_numba`; the order of the boxes may differ.

A tree is planted in one go.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching.box_run import BLOCK, BLOCK_BOXES, CELL, FIRST, HEIGHT, INTERVALS, PLACE, starts_of

Array = npt.NDArray[Any]

_SAMPLE = 128
# Bounds from here on count as open: the sum of two others is still a number.
_OPEN = 1e300


def planting(kinds: Array, order: Array) -> tuple[Array, ...]:
    """The arrays in which `plant` keeps its place: none, since it leaves nothing for later."""
    return ()


def plant(
    parts: Array, lines: Array, kinds: Array, places: Array, cells: Array, inners: Array, starts: Array, lows: Array,
    highs: Array, order: Array, budget: int,
) -> bool:  # fmt: skip
    """Put `order`, box numbers kind after kind, in k-d order, and fill `cells` and `inners` of a layout.

    Returns True: all is done.
    """
    around = [
        _plant_kind(kinds[line : line + 2], cells, inners, starts, lows, highs, order) for line in range(len(kinds) - 1)
    ]
    for part in range(len(parts) - 1):
        block, cell, place, intervals, height, first, *_ = parts[part].tolist()
        end_block, _, end_place, _, _, end, *_ = parts[part + 1].tolist()
        column_of = {p: column for column, p in enumerate(places[place : place + intervals].tolist())}
        bounds = np.empty((2, end_place - place, end_block - block))
        bounds[0], bounds[1] = -np.inf, np.inf
        for line in range(first, end):
            blocks = slice(kinds[line, BLOCK] - block, kinds[line + 1, BLOCK] - block)
            own = places[kinds[line, PLACE] : kinds[line, PLACE] + kinds[line, INTERVALS]].tolist()
            columns = [column_of[p] for p in own] + list(range(intervals, end_place - place))
            bounds[0, columns, blocks], bounds[1, columns, blocks] = around[line]
        # around intervals there is what any box has, around what is left out what all boxes leave out
        whole = [
            [_surrounded(np.minimum, bounds[0, :intervals]), _surrounded(np.maximum, bounds[0, intervals:])],
            [_surrounded(np.maximum, bounds[1, :intervals]), _surrounded(np.minimum, bounds[1, intervals:])],
        ]
        cells[:, cell : cell + height * (end_place - place)] = [np.concatenate(side).ravel() for side in whole]
    return True


def live_boxes(
    kinds: Array, cells: Array, alive: Array, first: int, end: int
) -> tuple[Array, Array, Array, Array, Array]:
    """The live boxes of a run in the slots from `first` to `end`: slots, kinds as lines, starts, lows and highs."""
    slots = np.arange(first, end)
    line = np.searchsorted(kinds[:, FIRST], slots, side="right") - 1
    block, bit = np.divmod(slots - kinds[line, FIRST], BLOCK_BOXES)
    is_live = (alive[kinds[line, BLOCK] + block] >> bit.astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    slots, line = slots[is_live], line[is_live]
    starts = starts_of(np.diff(kinds[:, PLACE])[line])
    box = np.repeat(np.arange(len(slots)), np.diff(starts))
    # the dimensions of one slot are a column apart
    column = kinds[line[box], HEIGHT] * (np.arange(len(box)) - starts[box])
    at = (kinds[line, CELL] + slots - kinds[line, FIRST])[box] + column
    return slots, line, starts, cells[0, at], cells[1, at]


def _plant_kind(
    kind: Array, cells: Array, inners: Array, starts: Array, lows: Array, highs: Array, order: Array
) -> tuple[Array, Array]:
    """The same for one kind; returns the bounds around its blocks, lines are dimensions."""
    (_, cell, place, intervals, height, slot, inner, _), (_, _, end_place, _, _, end_slot, end_inner, _) = kind.tolist()
    mine = order[slot:end_slot]
    at = starts[mine] + np.arange(end_place - place)[:, None]
    tree = _Tree(lows[at], highs[at], intervals)
    mine[:] = mine[tree.order]
    low, high = lows[at][:, tree.order], highs[at][:, tree.order]
    cells[:, cell : cell + height * len(at)] = np.stack([low, high]).reshape(2, -1)
    inner_low, inner_high = _by_block(np.maximum, low), _by_block(np.minimum, high)
    inners[0, inner:end_inner], inners[1, inner:end_inner] = inner_low.ravel(), inner_high.ravel()
    lows_around = np.concatenate([_by_block(np.minimum, low[:intervals]), inner_low[intervals:]])
    return lows_around, np.concatenate([_by_block(np.maximum, high[:intervals]), inner_high[intervals:]])


def _by_block(choose: np.ufunc, bounds: Array) -> Array:
    """The least or greatest of each block of columns."""
    of_blocks: Array = choose.reduceat(bounds, np.arange(0, bounds.shape[1], BLOCK_BOXES), axis=1)
    return of_blocks


def _surrounded(choose: np.ufunc, bounds: Array) -> Array:
    """Bounds around blocks, then those around each 64 of them, and so on until 64 are left."""
    levels = [bounds]
    while levels[-1].shape[1] > BLOCK_BOXES:
        levels.append(_by_block(choose, levels[-1]))
    return np.concatenate(levels, axis=1)


class _Tree:
    """The k-d order of boxes of one kind; lines of `lows` are dimensions."""

    def __init__(self, lows: Array, highs: Array, intervals: int) -> None:
        self._finite_low, self._finite_high = _without_infinities(lows[:intervals], highs[:intervals])
        self.order = np.arange(lows.shape[1])
        waiting = [(0, lows.shape[1])] if intervals else []
        while waiting:
            start, stop = waiting.pop()
            if stop - start <= BLOCK_BOXES:
                continue
            # blocks, and groups of 64 blocks, are split last: only the last of each is short
            unit = BLOCK_BOXES
            while unit * BLOCK_BOXES < stop - start:
                unit *= BLOCK_BOXES
            middle = start + -(-((stop - start) // 2) // unit) * unit
            self._split(start, stop, middle)
            waiting += [(middle, stop), (start, middle)]

    def _split(self, start: int, stop: int, middle: int) -> None:
        """Put the boxes that come first in the best dimension before `middle`."""
        here = self.order[start:stop]
        dimension = self._best_dimension(here) if len(self._finite_low) > 1 else 0
        centre = self._finite_low[dimension, here] + self._finite_high[dimension, here]
        self.order[start:stop] = here[np.argpartition(centre, middle - start)]

    def _best_dimension(self, here: Array) -> int:
        """The dimension in which the halves of a sample together reach least beyond the whole."""
        sample = here[:: max(1, len(here) // _SAMPLE)]
        low, high = self._finite_low[:, sample], self._finite_high[:, sample]
        ranked = np.argsort(low + high, axis=1, kind="stable")
        low, high = np.take_along_axis(low, ranked, 1), np.take_along_axis(high, ranked, 1)
        half = low.shape[1] // 2
        reach = (high[:, :half].max(1) - low[:, :half].min(1)) + (high[:, half:].max(1) - low[:, half:].min(1))
        whole = high.max(1) - low.min(1)
        # a dimension in which all are equal separates nothing
        cost = np.where(whole > 0, reach / np.where(whole > 0, whole, 1.0), np.inf)
        return int(np.argmin(cost))


def _without_infinities(lows: Array, highs: Array) -> tuple[Array, Array]:
    """Bounds for measuring: an open end lies just past the last finite one."""
    if not lows.size:
        return lows, highs
    low, high = np.clip(lows, -_OPEN, _OPEN), np.clip(highs, -_OPEN, _OPEN)
    finite = np.where(np.abs(np.concatenate([low, high], axis=1)) < _OPEN, np.concatenate([low, high], axis=1), np.nan)
    none = np.isnan(finite).all(axis=1, keepdims=True)
    finite = np.where(none, 0.0, finite)
    least, most = np.nanmin(finite, axis=1, keepdims=True), np.nanmax(finite, axis=1, keepdims=True)
    return np.clip(low, least - 1, most + 1), np.clip(high, least - 1, most + 1)
