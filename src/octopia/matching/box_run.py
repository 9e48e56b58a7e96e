"""A run: boxes laid out for fast search, built once and never changed except for removals.

Boxes of one kind lie together, as columns of lower and upper bounds. Within a kind they are in k-d order: split in two
again and again, at the middle of the dimension in which the two halves overlap least, down to blocks of a few
(`tree_numba`, `tree_numpy`). Kinds of one family are adjacent. The bounds around each of their blocks are columns in
turn, for all dimensions that any of them has, then the bounds around 64 of those, until 64 are left: there a search
begins. So a search walks flat arrays and compares with plain loops over columns.

Python never loops over boxes, and over kinds only to look them up. A removal clears a flag. The owner rebuilds a run
with more removed than live boxes, a large one piece by piece; `moved` is the progress. The owner also decides how large
a run is: one large run is searched faster than many small ones. A large run takes some milliseconds to build; `Build`
does it in as many steps as the owner likes.
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
# A kind joins others of its family if their blocks have at most this many dimensions together: each gets a column.
PART_DIMENSIONS_MAX = 8
# Cached layouts per run that are restricted to some kinds, 4 bytes per block each.
_ONLY_MAX = 16

# A kind, by its number.
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

    `local`: family id -> its first part and the one after its last; the last line stands for all ids from there on,
    without a part. `parts`: some kinds of a family, or all: the first block, cell and place; the number of dimensions
    with intervals (the others exclude a value), the length of its columns, and its first kind. `lines`: the kind of
    each block, as a line in `kinds`, or -1 for a block to skip. `kinds`: the same as for parts, with the first slot in
    place of the first kind, and the first inner bound. In both, one more line closes the last. `places`: the dimensions
    of each kind, and of each part. `cells`: lower and upper bounds; for a kind those of its boxes, a column per
    dimension; for a part those around its blocks, then those around each 64 blocks, and so on until 64 are left; after
    the last column there is room for a block, since blocks are read whole. `inners`: per kind, dimension and block of
    boxes the greatest lower and the least upper bound: what lies between lies in all its boxes. `rows`: per slot.
    `alive`: per block, a bit for each slot.
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


# More than any run takes to build (`Build.work`).
WHOLE_RUN = 1 << 62


class Build:
    """A run in the making: boxes of any kinds."""

    __slots__ = ("_boxes", "_order", "_rest", "kinds", "layout")

    def __init__(self, boxes: Boxes, kind_of: KindOf) -> None:
        self._boxes = boxes
        self.layout, self.kinds, self._order = _lay_out(boxes, kind_of)
        scratch = kernels().planting(self.layout.kinds, self._order)
        self._rest = (*self.layout[1:7], boxes.starts, boxes.lows, boxes.highs, self._order, *scratch)

    def work(self, budget: int) -> bool:
        """Process about `budget` boxes, each as often as sorting needs it; returns whether all is done."""
        done: bool = kernels().plant(*self._rest, budget)
        return done

    def run(self) -> "Run":
        """The run, when all is done; its slots have the boxes in the order of `order`."""
        np.take(self._boxes.rows, self._order, out=self.layout.rows)
        return Run(self.layout, self.kinds)

    @property
    def order(self) -> Ints:
        """The number of the box in each slot."""
        return self._order


class Run:
    """Boxes of any kinds, laid out for searching."""

    __slots__ = ("_first_blocks", "_first_slots", "_kinds", "_only", "dead", "layout", "layout_by_id", "moved", "size")

    @classmethod
    def of(cls, boxes: Boxes, kind_of: KindOf) -> "Run":
        """Built in one go."""
        build = Build(boxes, kind_of)
        build.work(WHOLE_RUN)
        return build.run()

    def __init__(self, layout: Layout, kinds: Ints) -> None:
        self.layout = layout
        # read one by one; takes a third of the memory of lists
        self._kinds = array("q", kinds)
        self._first_slots = array("q", self.layout.kinds[:, FIRST])
        self._first_blocks = array("q", self.layout.kinds[:, BLOCK])
        # the same with ids instead of rows, if they are integers: an answer then needs no lookup
        self.layout_by_id: Layout | None = None
        # layouts restricted to some kinds, by kinds; they share the arrays, and so the live slots
        self._only: dict[tuple[int, ...], Layout] = {}
        # slots, including dead ones
        self.size = len(self.layout.rows)
        self.dead = 0
        self.moved = 0

    @property
    def live(self) -> int:
        return self.size - self.dead

    def remove(self, slot: int) -> int:
        """Clear a slot; returns the number of its box's kind."""
        line = bisect_right(self._first_slots, slot) - 1
        block, bit = divmod(slot - self._first_slots[line], BLOCK_BOXES)
        self.layout.alive[self._first_blocks[line] + block] &= ~np.uint64(1 << bit)
        self.dead += 1
        return self._kinds[line]

    def boxes(self, stop: int | None = None) -> Boxes:
        """The live boxes in the slots from `moved` to `stop`."""
        return self.live_boxes(self.size if stop is None else stop)[1]

    def live_boxes(self, stop: int) -> tuple[Ints, Boxes]:
        """The live slots from `moved` to `stop`, and their boxes."""
        layout = self.layout
        slots, line, starts, lows, highs = kernels().live_boxes(
            layout.kinds, layout.cells, layout.alive, self.moved, stop
        )
        return slots, Boxes(np.array(self._kinds)[line], layout.rows[slots], starts, lows, highs)

    def is_alive(self, slots: Ints) -> npt.NDArray[np.bool_]:
        """Which of these slots are not cleared."""
        block, bit = self._bits(slots)
        return (self.layout.alive[block] & bit).astype(np.bool_)

    def clear(self, slots: Ints) -> None:
        """Clear slots whose boxes have left their kinds already."""
        block, bit = self._bits(slots)
        np.bitwise_and.at(self.layout.alive, block, ~bit)
        self.dead += len(slots)

    def only(self, kinds: Sequence[int]) -> Layout:
        """The layout with all other kinds skipped. Cached: the next search often names the same kinds."""
        key = tuple(kinds)
        known = self._only.get(key)
        if known is None:
            if len(self._only) >= _ONLY_MAX:
                self._only.clear()
            known = self._only[key] = self._make_only(kinds)
        return known

    def _make_only(self, kinds: Sequence[int]) -> Layout:
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
        slots = np.arange(self.moved, stop)
        self.clear(slots[self.is_alive(slots)])
        self.moved = stop

    def _lines(self, slots: Ints) -> Ints:
        """The lines in `kinds` for the boxes in these slots."""
        return np.searchsorted(self.layout.kinds[:, FIRST], slots, side="right") - 1

    def _bits(self, slots: Ints) -> tuple[Ints, npt.NDArray[np.uint64]]:
        """The block of each slot, and its bit in that block."""
        line = self._lines(slots)
        block, bit = np.divmod(slots - self.layout.kinds[line, FIRST], BLOCK_BOXES)
        return self.layout.kinds[line, BLOCK] + block, np.uint64(1) << bit.astype(np.uint64)

    @property
    def bytes(self) -> int:
        """Memory of the arrays."""
        ids = 0 if self.layout_by_id is None else self.layout_by_id.rows.nbytes
        only = sum(layout.lines.nbytes for layout in self._only.values())
        return ids + only + sum(array.nbytes for array in self.layout)


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
    """Cut into portions of bounded size, keeping kinds together."""
    if len(boxes.rows) <= most:
        return [boxes]
    by_kind = np.argsort(boxes.kinds, kind="stable")
    return [chosen(boxes, by_kind[at : at + most]) for at in range(0, len(by_kind), most)]


def starts_of(widths: Ints) -> Ints:
    """Offsets of consecutive boxes with these numbers of dimensions, and the end of the last."""
    starts = np.zeros(len(widths) + 1, dtype=np.int64)
    np.cumsum(widths, out=starts[1:])
    return starts


def blocks_of(boxes: Ints) -> Ints:
    """The number of blocks that this many boxes fill."""
    return -(-boxes // BLOCK_BOXES)


def heights(blocks: Ints) -> Ints:
    """The length of columns for this many blocks, including the bounds around them."""
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


def _lay_out(boxes: Boxes, kind_of: KindOf) -> tuple[Layout, Ints, Ints]:
    """The arrays of a run, to be filled by `plant`; the kinds; and the boxes, kind after kind."""
    # numbers of kinds in order are families in order
    # a stable sort of what is mostly in order takes little time
    order = np.argsort(boxes.kinds, kind="stable")
    sorted_kinds = boxes.kinds[order]
    firsts_of_kinds = np.flatnonzero(np.diff(sorted_kinds, prepend=-1))
    numbers, counts = sorted_kinds[firsts_of_kinds], np.diff(firsts_of_kinds, append=len(order))
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
    return layout, numbers, order


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
    """The common columns of kinds and parts: where their blocks, cells and places begin, and their numbers."""
    table = np.zeros((len(widths) + 1, INNER + 1), dtype=np.int64)
    table[1:, BLOCK] = np.cumsum(blocks)
    table[1:, CELL] = np.cumsum(tall * np.array(widths, dtype=np.int64))
    table[1:, PLACE] = np.cumsum(widths)
    table[:-1, INTERVALS] = intervals
    table[:-1, HEIGHT] = tall
    return table


def _local(families: list[int]) -> Rows:
    """Parts of a family are adjacent."""
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
