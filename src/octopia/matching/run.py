"""A run: boxes in an order and a form that can be searched quickly, built once and never changed but for removals.

Boxes of one kind lie together, as columns of lower and upper bounds. Within a kind they are in k-d order: split in two
again and again, at the middle of the dimension in which the two halves overlap least, down to blocks of a few
(`tree_numba`, `tree_numpy`). Kinds of one family lie beside each other; what lies around each of their blocks is in
columns in turn, for all dimensions that any of them has, and what lies around 64 of those, until 64 are left: there a
search begins. So it walks flat arrays, and whatever it looks at is compared with plain loops over columns.

Rules of this file: no loop over boxes in Python, and over kinds only to look up what they are. A removal clears a flag;
a run with more removed than live boxes is to be built anew by its owner, a large one piece by piece: `moved` is how far
that has come. How large a run is, is its owner's affair: larger ones are searched faster than many small.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching.kernels import kernels
from octopia.matching.space import BoxKind

BLOCK_BOXES = 64
# Boxes, blocks of them, blocks of blocks and so on, until 64 are left: enough for 2^42 boxes.
LEVELS_MAX = 7
# A kind joins others of its family where their blocks have at most so many dimensions together: they all get a column.
PART_DIMENSIONS_MAX = 8

# What a kind is, by its number.
KindOf = Callable[[int], BoxKind]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class Boxes(NamedTuple):
    """Boxes of any kinds. The bounds of box i are `lows[starts[i]:starts[i + 1]]`, and the same of `highs`."""

    kinds: Ints
    rows: Rows
    starts: Ints
    lows: Floats
    highs: Floats


# The columns of `Layout.kinds` and, but for the last, of `Layout.parts`.
BLOCK, CELL, PLACE, INTERVALS, HEIGHT, FIRST, INNER = range(7)


class Layout(NamedTuple):
    """The arrays of a run, as the kernels take them.

    `local`: family id -> its first part and the one after its last; the last line stands for all ids from there on, and
    has no part. `parts`: some kinds of a family, or all: the first block, cell and place; of how many of its dimensions
    there are intervals (the others leave a value out), how long its columns are, and its first kind. `lines`: the kind
    of each block, as a line in `kinds`, or -1 for a block to be passed by. `kinds`: the same as for parts, with the
    first slot in place of the first kind, and the first inner bound. In both, one more line closes the last. `places`:
    the dimensions of each kind, and of each part. `cells`: lower and upper bounds; for a kind those of its boxes, a
    column per dimension; for a part those around its blocks, then those around each 64 blocks, and so on until 64 are
    left; after the last column there is room for a block, since blocks are read whole. `inners`: per kind, dimension
    and block of boxes the greatest lower and the least upper bound: what lies between lies in all its boxes. `rows`:
    per slot. `alive`: per block, a bit for each slot.
    """

    local: Rows
    parts: Ints
    lines: Rows
    kinds: Ints
    places: Rows
    cells: Floats
    inners: Floats
    rows: npt.NDArray[Any]
    alive: npt.NDArray[np.uint64]


class Run:
    """Boxes of any kinds, laid out for searching."""

    __slots__ = ("_first_blocks", "_first_slots", "_kinds", "dead", "layout", "layout_by_id", "moved", "size")

    def __init__(self, boxes: Boxes, kind_of: KindOf) -> None:
        self.layout, kinds = _lay_out(boxes, kind_of)
        # looked up one by one, in a third of the memory of lists
        self._kinds = array("q", kinds)
        self._first_slots = array("q", self.layout.kinds[:, FIRST])
        self._first_blocks = array("q", self.layout.kinds[:, BLOCK])
        # the same with ids in place of rows, where they are integers: nothing is then to be looked up for an answer
        self.layout_by_id: Layout | None = None
        # slots, dead ones counted
        self.size = len(self.layout.rows)
        self.dead = 0
        self.moved = 0

    @property
    def live(self) -> int:
        return self.size - self.dead

    def remove(self, slot: int) -> int:
        """Clear a slot; the number of the kind that its box is of."""
        line = bisect_right(self._first_slots, slot) - 1
        block, bit = divmod(slot - self._first_slots[line], BLOCK_BOXES)
        self.layout.alive[self._first_blocks[line] + block] &= ~np.uint64(1 << bit)
        self.dead += 1
        return self._kinds[line]

    def boxes(self, stop: int | None = None) -> Boxes:
        """The boxes that are alive, of the slots from `moved` to `stop`."""
        layout = self.layout
        slots = self._alive_slots(self.size if stop is None else stop)
        line = self._lines(slots)
        starts = starts_of(np.diff(layout.kinds[:, PLACE])[line])
        box = np.repeat(np.arange(len(slots)), np.diff(starts))
        # the dimensions of one slot are a column apart
        column = layout.kinds[line[box], HEIGHT] * (np.arange(len(box)) - starts[box])
        at = (layout.kinds[line, CELL] + slots - layout.kinds[line, FIRST])[box] + column
        return Boxes(np.array(self._kinds)[line], layout.rows[slots], starts, layout.cells[0, at], layout.cells[1, at])

    def only(self, kinds: Sequence[int]) -> Layout:
        """The layout with all other kinds passed by."""
        mine = np.frombuffer(self._kinds, dtype=np.int64)
        asked = np.array(kinds, dtype=np.int64)
        at = np.minimum(np.searchsorted(mine, asked), len(mine) - 1)
        wanted = at[mine[at] == asked]
        firsts, ends = self.layout.kinds[wanted, BLOCK], self.layout.kinds[wanted + 1, BLOCK]
        lines = np.full_like(self.layout.lines, -1)
        # the blocks of each: its first, and so on, in one go
        starts = starts_of(ends - firsts)
        lines[np.repeat(firsts - starts[:-1], ends - firsts) + np.arange(starts[-1])] = np.repeat(wanted, ends - firsts)
        return self.layout._replace(lines=lines)

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
        return np.searchsorted(self.layout.kinds[:, FIRST], slots, side="right") - 1

    def _bits(self, slots: Ints) -> tuple[Ints, npt.NDArray[np.uint64]]:
        """The block of each slot, and its bit in there."""
        line = self._lines(slots)
        block, bit = np.divmod(slots - self.layout.kinds[line, FIRST], BLOCK_BOXES)
        return self.layout.kinds[line, BLOCK] + block, np.uint64(1) << bit.astype(np.uint64)

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


def heights(blocks: Ints) -> Ints:
    """How long columns are for so many blocks: what lies around them is in there, too."""
    total, level = blocks.copy(), blocks
    while (level > BLOCK_BOXES).any():
        level = np.where(level > BLOCK_BOXES, blocks_of(level), 0)
        total += level
    return total


class _Part(NamedTuple):
    """Kinds that are searched together: the first of them, their family, and the places of their dimensions."""

    first: int
    family: int
    bounded: dict[int, None]
    without: tuple[int, ...]


def _lay_out(boxes: Boxes, kind_of: KindOf) -> tuple[Layout, Ints]:
    # numbers of kinds in order are families in order
    numbers, kind_of_box, counts = np.unique(boxes.kinds, return_inverse=True, return_counts=True)
    order = np.argsort(kind_of_box, kind="stable")
    ours = [kind_of(number) for number in numbers.tolist()]
    blocks = blocks_of(counts)
    bounded = [len(kind.shape.places) for kind in ours]
    kinds = _table(
        bounded, [n + len(kind.family.places) for n, kind in zip(bounded, ours, strict=True)], blocks, counts
    )
    kinds[1:, FIRST] = np.cumsum(counts)
    kinds[1:, INNER] = np.cumsum(blocks * np.diff(kinds[:, PLACE]))
    grown = _parts(ours)
    firsts = np.array([part.first for part in grown], dtype=np.int64)
    widths = [len(part.bounded) + len(part.without) for part in grown]
    of_parts = np.add.reduceat(blocks, firsts) if grown else blocks
    parts = _table([len(part.bounded) for part in grown], widths, of_parts, heights(of_parts))
    parts[:, CELL] += kinds[-1, CELL]
    parts[:, PLACE] += kinds[-1, PLACE]
    parts[:, FIRST] = [*firsts, len(ours)]
    places = [place for kind in ours for place in (*kind.shape.places, *kind.family.places)]
    layout = Layout(
        local=_local([part.family for part in grown]),
        parts=parts,
        lines=np.repeat(np.arange(len(ours), dtype=np.int32), blocks),
        kinds=kinds,
        places=np.array(places + [place for p in grown for place in (*p.bounded, *p.without)], dtype=np.int32),
        cells=np.zeros((2, int(parts[-1, CELL]) + BLOCK_BOXES)),
        inners=np.empty((2, int(kinds[-1, INNER]))),
        rows=np.empty(len(boxes.rows), dtype=np.int32),
        alive=_all_alive(counts, blocks),
    )
    kernels().plant(*layout[1:7], boxes.starts, boxes.lows, boxes.highs, order)
    np.take(boxes.rows, order, out=layout.rows)
    return layout, numbers


def _parts(kinds: list[BoxKind]) -> list[_Part]:
    parts: list[_Part] = []
    for line, kind in enumerate(kinds):
        bounded = dict.fromkeys(kind.shape.places)
        if parts and parts[-1].family == kind.family.id:
            together = parts[-1].bounded | bounded
            if len(together) <= PART_DIMENSIONS_MAX:
                parts[-1] = parts[-1]._replace(bounded=together)
                continue
        parts.append(_Part(line, kind.family.id, bounded, kind.family.places))
    return parts


def _table(intervals: list[int], widths: list[int], blocks: Ints, tall: Ints) -> Ints:
    """What kinds and parts have in common: where their blocks, cells and places begin, and how many there are."""
    table = np.zeros((len(widths) + 1, INNER + 1), dtype=np.int64)
    table[1:, BLOCK] = np.cumsum(blocks)
    table[1:, CELL] = np.cumsum(tall * np.array(widths, dtype=np.int64))
    table[1:, PLACE] = np.cumsum(widths)
    table[:-1, INTERVALS] = intervals
    table[:-1, HEIGHT] = tall
    return table


def _local(families: list[int]) -> Rows:
    """Parts of a family follow each other."""
    local = np.zeros((max(families, default=-1) + 2, 2), dtype=np.int32)
    for part, family in enumerate(families):
        if not local[family, 1]:
            local[family, 0] = part
        local[family, 1] = part + 1
    return local


def _all_alive(counts: Ints, blocks: Ints) -> npt.NDArray[np.uint64]:
    alive = np.full(blocks.sum(), 0xFFFF_FFFF_FFFF_FFFF, dtype=np.uint64)
    # the last block of a kind may be short
    alive[np.cumsum(blocks) - 1] >>= (blocks * BLOCK_BOXES - counts).astype(np.uint64)
    return alive
