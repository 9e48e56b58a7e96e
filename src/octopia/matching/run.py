"""A run: boxes in an order and a form that can be searched quickly, built once and never changed but for removals.

Boxes of one kind lie together, as columns of lower and upper bounds. Within a kind they are in k-d order: split in two
again and again, at the middle of the dimension in which the two halves overlap least, down to blocks of a few. The
splits form a tree (`tree_numba`, `tree_numpy`); each node knows the bounds of all boxes below it, and where to go on
when an event lies outside of them. So the search walks a flat array, and a block is compared with plain loops over
columns.

Rules of this file: no loop over boxes in Python, and over kinds only to look up what they are. A removal clears a flag;
a run with more removed than live boxes is to be built anew by its owner, a large one piece by piece: `moved` is how far
that has come. How large a run is, is its owner's affair: larger ones are searched faster than many small.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching.kernels import kernels
from octopia.matching.space import BoxKind

BLOCK_BOXES = 64
# Boxes, blocks of them, blocks of blocks and so on, until one block is left: enough for 2^36 boxes.
LEVELS_MAX = 7

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class Boxes(NamedTuple):
    """Boxes of any kinds. The bounds of box i are `lows[starts[i]:starts[i + 1]]`, and the same of `highs`."""

    kinds: Rows
    rows: Rows
    starts: Ints
    lows: Floats
    highs: Floats


class Layout(NamedTuple):
    """The arrays of a run, as the kernels take them.

    `local`: kind id -> line in `kinds`, or -1; the last stands for all ids from there on, and is -1. `kinds`: per kind
    the first slot, block, cell, dimension and inner bound; one more line closes the last. `intervals`: per kind how
    many of its dimensions have an interval; the others leave a value out. `places`: the dimensions of each kind.
    `cells_*`: per kind and dimension a column of bounds: those of the boxes, then those around each block of 64 boxes,
    then those around each 64 blocks, and so on until one block is left. `inner_*`: per kind, dimension and block of
    boxes the greatest lower and the least upper bound: what lies between lies in all its boxes. `rows`: per slot.
    `alive`: per block, a bit for each slot.
    """

    local: Rows
    kinds: Ints
    intervals: Rows
    places: Rows
    cells_low: Floats
    cells_high: Floats
    inner_low: Floats
    inner_high: Floats
    rows: npt.NDArray[Any]
    alive: npt.NDArray[np.uint64]


class Run:
    """Boxes of any kinds, laid out for searching."""

    __slots__ = ("_first_blocks", "_first_slots", "dead", "kind_ids", "layout", "layout_by_id", "moved")

    def __init__(self, boxes: Boxes, kinds: Mapping[int, BoxKind]) -> None:
        self.layout, self.kind_ids = _lay_out(boxes, kinds)
        self._first_slots: list[int] = self.layout.kinds[:, 0].tolist()
        self._first_blocks: list[int] = self.layout.kinds[:, 1].tolist()
        # the same with ids in place of rows, where they are integers: nothing is then to be looked up for an answer
        self.layout_by_id: Layout | None = None
        self.dead = 0
        self.moved = 0

    @property
    def size(self) -> int:
        """Slots, dead ones counted."""
        return len(self.layout.rows)

    @property
    def live(self) -> int:
        return self.size - self.dead

    def remove(self, slot: int) -> int:
        """Clear a slot; the id of the kind that its box is of."""
        line = bisect_right(self._first_slots, slot) - 1
        block, bit = divmod(slot - self._first_slots[line], BLOCK_BOXES)
        self.layout.alive[self._first_blocks[line] + block] &= ~np.uint64(1 << bit)
        self.dead += 1
        return self.kind_ids[line]

    def boxes(self, stop: int | None = None) -> Boxes:
        """The boxes that are alive, of the slots from `moved` to `stop`."""
        layout = self.layout
        slots = self._alive_slots(self.size if stop is None else stop)
        line = self._lines(slots)
        starts = starts_of(np.diff(layout.kinds[:, 3])[line])
        box = np.repeat(np.arange(len(slots)), np.diff(starts))
        # the dimensions of one slot are a column apart
        column = heights(np.diff(layout.kinds[:, 0]))[line[box]] * (np.arange(len(box)) - starts[box])
        at = (layout.kinds[line, 2] + slots - layout.kinds[line, 0])[box] + column
        kinds = np.array(self.kind_ids, dtype=np.int32)[line]
        return Boxes(kinds, layout.rows[slots], starts, layout.cells_low[at], layout.cells_high[at])

    def move_on(self, stop: int) -> None:
        """The slots before `stop` have gone to another run."""
        slots = self._alive_slots(stop)
        block, bit = self._bits(slots)
        np.bitwise_and.at(self.layout.alive, block, ~bit)
        self.dead += len(slots)
        self.moved = stop

    def _alive_slots(self, stop: int) -> Ints:
        slots = np.arange(self.moved, stop)
        block, bit = self._bits(slots)
        return slots[(self.layout.alive[block] & bit).astype(np.bool_)]

    def _lines(self, slots: Ints) -> Ints:
        """The lines in `kinds` of the kinds that the boxes in these slots are of."""
        return np.searchsorted(self.layout.kinds[:, 0], slots, side="right") - 1

    def _bits(self, slots: Ints) -> tuple[Ints, npt.NDArray[np.uint64]]:
        """The block of each slot, and its bit in there."""
        line = self._lines(slots)
        block, bit = np.divmod(slots - self.layout.kinds[line, 0], BLOCK_BOXES)
        return self.layout.kinds[line, 1] + block, np.uint64(1) << bit.astype(np.uint64)

    @property
    def bytes(self) -> int:
        """Memory of the arrays."""
        ids = 0 if self.layout_by_id is None else self.layout_by_id.rows.nbytes
        return ids + sum(array.nbytes for array in self.layout)


def joined(parts: list[Boxes]) -> Boxes:
    """The boxes of several, one after the other."""
    if len(parts) == 1:
        return parts[0]
    kinds, rows, starts, lows, highs = zip(*parts, strict=True)
    widths = np.concatenate([np.diff(part) for part in starts])
    return Boxes(
        np.concatenate(kinds), np.concatenate(rows), starts_of(widths), np.concatenate(lows), np.concatenate(highs)
    )


def chosen(boxes: Boxes, which: Ints) -> Boxes:
    """These boxes alone."""
    starts = starts_of(np.diff(boxes.starts)[which])
    at = np.repeat(boxes.starts[which] - starts[:-1], np.diff(starts)) + np.arange(starts[-1])
    return Boxes(boxes.kinds[which], boxes.rows[which], starts, boxes.lows[at], boxes.highs[at])


def portions(boxes: Boxes, most: int) -> list[Boxes]:
    """Cut into portions of at most so many, kinds kept together."""
    if len(boxes.rows) <= most:
        return [boxes]
    by_kind = np.argsort(boxes.kinds, kind="stable")
    return [chosen(boxes, by_kind[at : at + most]) for at in range(0, len(by_kind), most)]


def starts_of(widths: Ints) -> Ints:
    """Where boxes of so many dimensions begin, one after the other, and where the last ends."""
    starts = np.zeros(len(widths) + 1, dtype=np.int64)
    np.cumsum(widths, out=starts[1:])
    return starts


def blocks_of(boxes: Ints) -> Ints:
    """How many blocks so many boxes fill."""
    return -(-boxes // BLOCK_BOXES)


def heights(counts: Ints) -> Ints:
    """How long the columns are of kinds with so many boxes: what lies around the boxes is in them, too."""
    total, level = counts.copy(), counts
    while (level > BLOCK_BOXES).any():
        level = np.where(level > BLOCK_BOXES, blocks_of(level), 0)
        total += level
    return total


def _lay_out(boxes: Boxes, of: Mapping[int, BoxKind]) -> tuple[Layout, list[int]]:
    order = np.argsort(boxes.kinds, kind="stable")
    numbers, counts = np.unique(boxes.kinds, return_counts=True)
    kind_ids: list[int] = numbers.tolist()
    widths = np.array([len(of[kind].places) for kind in kind_ids], dtype=np.int64)
    blocks = blocks_of(counts)
    kinds = np.zeros((len(kind_ids) + 1, 5), dtype=np.int64)
    sizes = np.stack([counts, blocks, heights(counts) * widths, widths, blocks * widths], axis=1)
    np.cumsum(sizes, axis=0, out=kinds[1:])
    local = np.full(max(kind_ids, default=-1) + 2, -1, dtype=np.int32)
    local[kind_ids] = np.arange(len(kind_ids), dtype=np.int32)
    slots, _, cells, _, inner = kinds[-1].tolist()
    layout = Layout(
        local=local,
        kinds=kinds,
        intervals=np.array([len(of[kind].dimensions) for kind in kind_ids], dtype=np.int32),
        places=np.array([place for kind in kind_ids for place in of[kind].places], dtype=np.int32),
        cells_low=np.empty(cells),
        cells_high=np.empty(cells),
        inner_low=np.empty(inner),
        inner_high=np.empty(inner),
        rows=np.empty(slots, dtype=np.int32),
        alive=_all_alive(counts, blocks),
    )
    kernels().plant(
        kinds,
        layout.intervals,
        boxes.starts,
        boxes.lows,
        boxes.highs,
        order,
        layout.cells_low,
        layout.cells_high,
        layout.inner_low,
        layout.inner_high,
    )
    np.take(boxes.rows, order, out=layout.rows)
    return layout, kind_ids


def _all_alive(counts: Ints, blocks: Ints) -> npt.NDArray[np.uint64]:
    alive = np.full(blocks.sum(), 0xFFFF_FFFF_FFFF_FFFF, dtype=np.uint64)
    # the last block of a kind may be short
    alive[np.cumsum(blocks) - 1] >>= (blocks * BLOCK_BOXES - counts).astype(np.uint64)
    return alive
