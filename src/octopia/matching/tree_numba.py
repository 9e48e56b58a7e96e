"""The trees of a run, compiled. Same interface as `tree_numpy`; the order of the boxes may differ, the answers do not.

A tree depends only on its boxes and their order. Splitting takes time proportional to the number of boxes, whatever
their bounds: pivots are drawn from pseudo-random numbers that are the same in every run of the program.

A tree is planted in pieces, so that a large one does not hold anyone up: the boxes of a kind are split in two again and
again, the pieces to be split waiting on a stack; then columns are filled, one after the other.
"""

from typing import Any

import numpy as np

from octopia.matching.box_run import BLOCK, BLOCK_BOXES, CELL, FIRST, HEIGHT, INNER, INTERVALS, PLACE
from octopia.native import inlined, kernel

_SAMPLE = 128
# Bounds from here on count as open: the sum of two others is still a number.
_OPEN = 1e300
_DEPTH_MAX = 64
# The content of `state`: the phase, the kind or part in work, its column, and the height of the stack.
_PHASE, _LINE, _COLUMN, _DEPTH = range(4)
# The phases, one after the other.
_SPLIT, _FILL, _SURROUND, _DONE = range(4)


def planting(kinds: Any, order: Any) -> tuple[Any, ...]:
    """The arrays in which `plant` keeps its place from call to call: state, stack, ends and keys."""
    intervals = int(kinds[:, INTERVALS].max(initial=0))
    largest = int(np.diff(kinds[:, FIRST]).max(initial=0))
    return (
        np.zeros(4, dtype=np.int64),
        np.empty((_DEPTH_MAX, 2), dtype=np.int64),
        np.empty((intervals, 2), dtype=np.float64),
        np.empty(largest, dtype=np.float64),
    )


@kernel
def plant(  # type: ignore[no-untyped-def]
    parts, lines, kinds, places, cells, inners, starts, lows, highs, order, state, stack, ends, keys, budget
):
    """Put `order`, box numbers kind after kind, in k-d order, and fill `cells` and `inners` of a layout.

    `starts`, `lows` and `highs` are those of the boxes; see `run.Boxes` and `run.Layout`. One call looks at about
    `budget` boxes, each as often as it is split or filled in; returns whether all is done.
    """
    while budget > 0 and state[_PHASE] != _DONE:
        if state[_PHASE] == _SPLIT:
            budget -= _split_next(kinds, starts, lows, highs, order, state, stack, ends, keys)
        elif state[_PHASE] == _FILL:
            budget -= _fill_next(kinds, cells, inners, starts, lows, highs, order, state)
        else:
            budget -= _surround_next(parts, lines, kinds, places, cells, state)
    return state[_PHASE] == _DONE


@kernel
def _next_column(state, columns, last_line):  # type: ignore[no-untyped-def]
    """Continue with the next column, line or phase."""
    state[_COLUMN] += 1
    if state[_COLUMN] >= columns:
        state[_COLUMN] = 0
        state[_LINE] += 1
    if state[_LINE] >= last_line:
        state[_LINE] = 0
        state[_PHASE] += 1


@kernel
def _split_next(kinds, starts, lows, highs, order, state, stack, ends, keys):  # type: ignore[no-untyped-def]
    """Split a piece of the current kind in two, or begin with it; returns the number of boxes processed."""
    line = state[_LINE]
    if line == len(kinds) - 1:
        state[_PHASE], state[_LINE] = _FILL, 0
        if not line:
            state[_PHASE] = _DONE
        return 1
    intervals = kinds[line, INTERVALS]
    if not state[_DEPTH]:
        first, stop = kinds[line, FIRST], kinds[line + 1, FIRST]
        if not intervals or stop - first <= BLOCK_BOXES:
            state[_LINE] += 1
            return 1
        _find_ends(order[first:stop], starts, lows, highs, ends[:intervals])
        stack[0] = first, stop
        state[_DEPTH] = 1
        return stop - first
    state[_DEPTH] -= 1
    start, stop = stack[state[_DEPTH]]
    if stop - start > BLOCK_BOXES:
        # blocks, and groups of 64 blocks, are split last: only the last of each is short
        unit = BLOCK_BOXES
        while unit * BLOCK_BOXES < stop - start:
            unit *= BLOCK_BOXES
        middle = ((stop - start) // 2 + unit - 1) // unit * unit
        here = order[start:stop]
        dimension = _best_dimension(here, starts, lows, highs, ends[:intervals]) if intervals > 1 else 0
        _measure(keys, here, starts, lows, highs, ends, dimension)
        _select(keys[: stop - start], here, middle)
        stack[state[_DEPTH]] = start + middle, stop
        stack[state[_DEPTH] + 1] = start, start + middle
        state[_DEPTH] += 2
    elif not state[_DEPTH]:
        state[_LINE] += 1
    return stop - start


@kernel
def _fill_next(kinds, cells, inners, starts, lows, highs, order, state):  # type: ignore[no-untyped-def]
    """Fill a column of a kind; returns how many boxes it has."""
    line, j = state[_LINE], state[_COLUMN]
    columns = kinds[line + 1, PLACE] - kinds[line, PLACE]
    mine = order[kinds[line, FIRST] : kinds[line + 1, FIRST]]
    if j < columns:
        blocks, height = kinds[line + 1, BLOCK] - kinds[line, BLOCK], kinds[line, HEIGHT]
        column, inner = kinds[line, CELL] + j * height, kinds[line, INNER] + j * blocks
        low, high = cells[0, column : column + height], cells[1, column : column + height]
        for i in range(len(mine)):
            low[i], high[i] = lows[starts[mine[i]] + j], highs[starts[mine[i]] + j]
        for block in range(blocks):
            boxes = slice(block * BLOCK_BOXES, min((block + 1) * BLOCK_BOXES, len(mine)))
            inners[0, inner + block], inners[1, inner + block] = low[boxes].max(), high[boxes].min()
    _next_column(state, columns, len(kinds) - 1)
    return len(mine) + 1


@kernel
def _surround_next(parts, lines, kinds, places, cells, state):  # type: ignore[no-untyped-def]
    """Fill a column of a part with the bounds around its blocks; returns how many boxes these have."""
    part, j = state[_LINE], state[_COLUMN]
    columns = parts[part + 1, PLACE] - parts[part, PLACE]
    blocks, height = parts[part + 1, BLOCK] - parts[part, BLOCK], parts[part, HEIGHT]
    if j < columns:
        column = parts[part, CELL] + j * height
        low, high = cells[0, column : column + height], cells[1, column : column + height]
        within = j >= parts[part, INTERVALS]
        for block in range(blocks):
            of_kind = _column_of(j, parts[part], kinds, places, lines[parts[part, BLOCK] + block])
            low[block], high[block] = _around(of_kind, parts[part, BLOCK] + block, lines, kinds, cells, within)
        _surround(low, high, blocks, within)
    _next_column(state, columns, len(parts) - 1)
    return blocks * BLOCK_BOXES + 1


@kernel
def _column_of(j, part, kinds, places, line):  # type: ignore[no-untyped-def]
    """The column of a kind that is column `j` of its part; -1 if the kind does not have an interval there."""
    if j >= part[INTERVALS]:
        return kinds[line, INTERVALS] + j - part[INTERVALS]
    for column in range(kinds[line, INTERVALS]):
        if places[kinds[line, PLACE] + column] == places[part[PLACE] + j]:
            return column
    return -1


@kernel
def _around(column, block, lines, kinds, cells, within):  # type: ignore[no-untyped-def]
    """The bounds around all boxes of a block, in a column of its kind, or `within` all of them."""
    if column < 0:
        return -np.inf, np.inf
    line = lines[block]
    first = (block - kinds[line, BLOCK]) * BLOCK_BOXES
    stop = min(first + BLOCK_BOXES, kinds[line, HEIGHT])
    start = kinds[line, CELL] + column * kinds[line, HEIGHT]
    low, high = cells[0, start + first : start + stop], cells[1, start + first : start + stop]
    return (low.max(), high.min()) if within else (low.min(), high.max())


@kernel
def _surround(low, high, blocks, within):  # type: ignore[no-untyped-def]
    """After the bounds around blocks, write those around each 64 of them, and so on until 64 are left."""
    start, size = 0, blocks
    while size > BLOCK_BOXES:
        above = start + size
        for first in range(0, size, BLOCK_BOXES):
            part = slice(start + first, start + min(first + BLOCK_BOXES, size))
            low[above + first // BLOCK_BOXES] = low[part].max() if within else low[part].min()
            high[above + first // BLOCK_BOXES] = high[part].min() if within else high[part].max()
        start, size = above, (size + BLOCK_BOXES - 1) // BLOCK_BOXES


@kernel
def _find_ends(order, starts, lows, highs, ends):  # type: ignore[no-untyped-def]
    """Per dimension a little less than the least and a little more than the greatest bound that is not open."""
    for j in range(len(ends)):
        least, most = np.inf, -np.inf
        for box in order:
            for bound in (lows[starts[box] + j], highs[starts[box] + j]):
                if -_OPEN < bound < _OPEN:
                    least, most = min(least, bound), max(most, bound)
        ends[j, 0] = least - 1.0 if least <= most else -1.0
        ends[j, 1] = most + 1.0 if least <= most else 1.0


@kernel
def live_boxes(kinds, cells, alive, first, end):  # type: ignore[no-untyped-def]
    """The live boxes of a run in the slots from `first` to `end`: slots, kinds as lines, starts, lows and highs."""
    count = bounds = 0
    for line in range(len(kinds) - 1):
        width = kinds[line + 1, PLACE] - kinds[line, PLACE]
        for slot in range(max(first, kinds[line, FIRST]), min(end, kinds[line + 1, FIRST])):
            at = slot - kinds[line, FIRST]
            if alive[kinds[line, BLOCK] + at // BLOCK_BOXES] >> np.uint64(at % BLOCK_BOXES) & np.uint64(1):
                count += 1
                bounds += width
    slots, of = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, lows, highs = np.zeros(count + 1, np.int64), np.empty(bounds, np.float64), np.empty(bounds, np.float64)
    box = to = 0
    for line in range(len(kinds) - 1):
        width = kinds[line + 1, PLACE] - kinds[line, PLACE]
        for slot in range(max(first, kinds[line, FIRST]), min(end, kinds[line + 1, FIRST])):
            at = slot - kinds[line, FIRST]
            if alive[kinds[line, BLOCK] + at // BLOCK_BOXES] >> np.uint64(at % BLOCK_BOXES) & np.uint64(1):
                slots[box], of[box] = slot, line
                # the dimensions of one slot are a column apart
                cell = kinds[line, CELL] + at
                for _ in range(width):
                    lows[to], highs[to] = cells[0, cell], cells[1, cell]
                    cell += kinds[line, HEIGHT]
                    to += 1
                box += 1
                starts[box] = to
    return slots, of, starts, lows, highs


@inlined
def _measure(keys, order, starts, lows, highs, ends, dimension):  # type: ignore[no-untyped-def]
    """The position of each box in a dimension: twice its middle; an open end lies just past the last finite bound."""
    least, most = ends[dimension]
    for i in range(len(order)):
        at = starts[order[i]] + dimension
        keys[i] = max(lows[at], least) + min(highs[at], most)


@kernel
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
        # a dimension in which all are equal separates nothing
        if whole > 0:
            cost = ((left_high - left_low) + (right_high - right_low)) / whole
            if cost < best_cost:
                best, best_cost = j, cost
    return best


@kernel
def _reach(order, starts, lows, highs, ends, dimension):  # type: ignore[no-untyped-def]
    """The extent of boxes in a dimension."""
    low, high = np.inf, -np.inf
    for box in order:
        at = starts[box] + dimension
        low, high = min(low, max(lows[at], ends[dimension, 0])), max(high, min(highs[at], ends[dimension, 1]))
    return low, high


@kernel
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
