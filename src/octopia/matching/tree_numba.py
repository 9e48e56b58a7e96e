"""The trees of a run, compiled. Same signature as `tree_numpy`; the order of the boxes may differ, the answers do not.

Rules of this file: a tree depends on its boxes and their order alone. Splitting takes time in proportion to the boxes
whatever their bounds are: where to part them is drawn, from numbers that are the same in every run of the program.
"""

import numpy as np
from numba import njit

from octopia.matching.run import BLOCK, BLOCK_BOXES, CELL, FIRST, HEIGHT, INNER, INTERVALS, PLACE

_SAMPLE = 128
# Bounds from here on count as open: the sum of two others is still a number.
_OPEN = 1e300
_DEPTH_MAX = 64


@njit(cache=True, nogil=True, error_model="numpy")
def plant(parts, lines, kinds, places, cells, inners, starts, lows, highs, order):  # type: ignore[no-untyped-def]
    """Put `order`, box numbers kind after kind, in k-d order, and fill `cells` and `inners` of a layout.

    `starts`, `lows` and `highs` are those of the boxes; see `run.Boxes` and `run.Layout`.
    """
    for line in range(len(kinds) - 1):
        mine = order[kinds[line, FIRST] : kinds[line + 1, FIRST]]
        _split_all(mine, starts, lows, highs, kinds[line, INTERVALS])
        blocks, height = kinds[line + 1, BLOCK] - kinds[line, BLOCK], kinds[line, HEIGHT]
        for j in range(kinds[line + 1, PLACE] - kinds[line, PLACE]):
            column, inner = kinds[line, CELL] + j * height, kinds[line, INNER] + j * blocks
            low, high = cells[0, column : column + height], cells[1, column : column + height]
            for i in range(len(mine)):
                low[i], high[i] = lows[starts[mine[i]] + j], highs[starts[mine[i]] + j]
            for block in range(blocks):
                boxes = slice(block * BLOCK_BOXES, min((block + 1) * BLOCK_BOXES, len(mine)))
                inners[0, inner + block], inners[1, inner + block] = low[boxes].max(), high[boxes].min()
    for part in range(len(parts) - 1):
        blocks, height = parts[part + 1, BLOCK] - parts[part, BLOCK], parts[part, HEIGHT]
        for j in range(parts[part + 1, PLACE] - parts[part, PLACE]):
            column = parts[part, CELL] + j * height
            low, high = cells[0, column : column + height], cells[1, column : column + height]
            for block in range(blocks):
                of_kind = _column_of(j, parts[part], kinds, places, lines[parts[part, BLOCK] + block])
                low[block], high[block] = _around(of_kind, parts[part, BLOCK] + block, lines, kinds, cells)
            _surround(low, high, blocks)


@njit(cache=True, nogil=True, error_model="numpy")
def _column_of(j, part, kinds, places, line):  # type: ignore[no-untyped-def]
    """Which column of a kind is column `j` of its part; -1 if it has no interval there."""
    if j >= part[INTERVALS]:
        return kinds[line, INTERVALS] + j - part[INTERVALS]
    for column in range(kinds[line, INTERVALS]):
        if places[kinds[line, PLACE] + column] == places[part[PLACE] + j]:
            return column
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _around(column, block, lines, kinds, cells):  # type: ignore[no-untyped-def]
    """The least lower and the greatest upper bound of the boxes of a block, in a column of its kind."""
    if column < 0:
        return -np.inf, np.inf
    line = lines[block]
    first = (block - kinds[line, BLOCK]) * BLOCK_BOXES
    stop = min(first + BLOCK_BOXES, kinds[line, HEIGHT])
    start = kinds[line, CELL] + column * kinds[line, HEIGHT]
    return cells[0, start + first : start + stop].min(), cells[1, start + first : start + stop].max()


@njit(cache=True, nogil=True, error_model="numpy")
def _surround(low, high, blocks):  # type: ignore[no-untyped-def]
    """After the bounds around blocks, write those around each 64 of them, and so on until 64 are left."""
    start, size = 0, blocks
    while size > BLOCK_BOXES:
        above = start + size
        for first in range(0, size, BLOCK_BOXES):
            part = slice(start + first, start + min(first + BLOCK_BOXES, size))
            low[above + first // BLOCK_BOXES] = low[part].min()
            high[above + first // BLOCK_BOXES] = high[part].max()
        start, size = above, (size + BLOCK_BOXES - 1) // BLOCK_BOXES


@njit(cache=True, nogil=True, error_model="numpy")
def _split_all(order, starts, lows, highs, intervals):  # type: ignore[no-untyped-def]
    """Put the boxes of one kind in k-d order."""
    if not intervals or len(order) <= BLOCK_BOXES:
        return
    ends = _finite_ends(order, starts, lows, highs, intervals)
    keys = np.empty(len(order))
    stack = np.empty((_DEPTH_MAX, 2), np.int64)
    stack[0] = 0, len(order)
    depth = 1
    while depth:
        depth -= 1
        start, stop = stack[depth]
        if stop - start <= BLOCK_BOXES:
            continue
        # a block and what is around 64 blocks hold what was split last: only the last of each is short
        unit = BLOCK_BOXES
        while unit * BLOCK_BOXES < stop - start:
            unit *= BLOCK_BOXES
        middle = ((stop - start) // 2 + unit - 1) // unit * unit
        here = order[start:stop]
        dimension = _best_dimension(here, starts, lows, highs, ends) if intervals > 1 else 0
        _measure(keys, here, starts, lows, highs, ends, dimension)
        _select(keys[: stop - start], here, middle)
        stack[depth] = start + middle, stop
        stack[depth + 1] = start, start + middle
        depth += 2


@njit(cache=True, nogil=True, error_model="numpy")
def _finite_ends(order, starts, lows, highs, intervals):  # type: ignore[no-untyped-def]
    """Per dimension a little less than the least and a little more than the greatest bound that is not open."""
    ends = np.empty((intervals, 2))
    for j in range(intervals):
        least, most = np.inf, -np.inf
        for box in order:
            for bound in (lows[starts[box] + j], highs[starts[box] + j]):
                if -_OPEN < bound < _OPEN:
                    least, most = min(least, bound), max(most, bound)
        ends[j, 0] = least - 1.0 if least <= most else -1.0
        ends[j, 1] = most + 1.0 if least <= most else 1.0
    return ends


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _measure(keys, order, starts, lows, highs, ends, dimension):  # type: ignore[no-untyped-def]
    """Where each box lies in a dimension: twice its middle; an open end lies just past the last finite bound."""
    least, most = ends[dimension]
    for i in range(len(order)):
        at = starts[order[i]] + dimension
        keys[i] = max(lows[at], least) + min(highs[at], most)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_dimension(order, starts, lows, highs, ends):  # type: ignore[no-untyped-def]
    """The dimension in which the halves of a sample together reach least beyond the whole."""
    step = max(1, len(order) // _SAMPLE)
    sample = order[::step].copy()
    keys = np.empty(len(sample))
    half = len(sample) // 2
    best, best_cost = 0, np.inf
    for j in range(len(ends)):
        _measure(keys, sample, starts, lows, highs, ends, j)
        _select(keys, sample, half)
        left_low, left_high = _reach(sample[:half], starts, lows, highs, ends, j)
        right_low, right_high = _reach(sample[half:], starts, lows, highs, ends, j)
        whole = max(left_high, right_high) - min(left_low, right_low)
        # a dimension in which all are alike separates nothing
        if whole > 0:
            cost = ((left_high - left_low) + (right_high - right_low)) / whole
            if cost < best_cost:
                best, best_cost = j, cost
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _reach(order, starts, lows, highs, ends, dimension):  # type: ignore[no-untyped-def]
    """From where to where boxes reach in a dimension."""
    low, high = np.inf, -np.inf
    for box in order:
        at = starts[box] + dimension
        low, high = min(low, max(lows[at], ends[dimension, 0])), max(high, min(highs[at], ends[dimension, 1]))
    return low, high


@njit(cache=True, nogil=True, error_model="numpy")
def _select(keys, items, middle):  # type: ignore[no-untyped-def]
    """Put the items with the least keys before `middle`, as quickselect does; keys move with their items."""
    low, high = 0, len(keys) - 1
    drawn = 1
    while low < high:
        drawn = (drawn * 1103515245 + 12345) & 0x7FFFFFFF
        pivot = keys[low + drawn % (high - low + 1)]
        left, right = low, high
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while keys[right] > pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                items[left], items[right] = items[right], items[left]
                left += 1
                right -= 1
        if middle <= right:
            high = right
        elif middle >= left:
            low = left
        else:
            return
