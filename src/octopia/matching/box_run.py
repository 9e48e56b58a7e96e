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
from octopia.sheets import Sheet

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
    """Boxes of any kinds. The bounds of box i are `lows[starts[i]:starts[i + 1]]`, and the same of `highs`.

    `tests` has the number of the conditions to be tested when a box is found (`space.Tests`), or -1.
    """

    kinds: Ints
    rows: Rows
    starts: Ints
    lows: Floats
    highs: Floats
    tests: Rows


# The columns of `Layout.kinds` and, but for the last two, of `Layout.parts`.
BLOCK, CELL, PLACE, INTERVALS, HEIGHT, FIRST, INNER, TESTED = range(8)
TABLE_COLUMNS = 8


class Layout(NamedTuple):
    """The arrays of a run.

    `local`: for each family, in order, its number and its first part; one more line closes the last. `parts`: some
    kinds of a family, or all: the first block, cell and place; the number of dimensions with intervals (the others
    leave out what lies between the bounds), the length of its columns, and its first kind. `lines`: the kind of each
    block, as a line in `kinds`, or -1 for a block to skip. `kinds`: the same as for parts, with the first slot in place
    of the first kind, the first inner bound, and where its tests begin, or -1. In both, one more line closes the last.
    `places`: the dimensions of each kind, and of each part. `cells`: lower and upper bounds; for a kind those of its
    boxes, a column per dimension; for a part those around its blocks, then those around each 64 blocks, and so on until
    64 are left; after the last column there is room for a block, since blocks are read whole. Around what is left out
    there is what all boxes leave out. `inners`: per kind, dimension and block of boxes the greatest lower and the least
    upper bound: what lies between lies in all its boxes. `rows`: per slot. `alive`: per block, a bit for each slot.
    `tests`: per slot of a kind whose boxes have tests.
    """

    local: Rows
    parts: Ints
    lines: Rows
    kinds: Ints
    places: Rows
    cells: Floats
    inners: Floats
    rows: Rows
    alive: npt.NDArray[np.uint64]
    tests: Rows


# Lines of a run's sheet: the fields of `Layout` in their order, and the ids of slots, if they are integers.
LOCAL, PARTS, LINES, KINDS, PLACES, CELLS, INNERS, ROWS, ALIVE, TESTS, IDS = range(11)
RUN_LINES = 11


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
        layout = self.layout
        np.take(self._boxes.rows, self._order, out=layout.rows)
        if len(layout.tests):
            # numbers of kinds tell which have tests, and slots are in the order of kinds
            layout.tests[:] = self._boxes.tests[self._order[self._boxes.kinds[self._order] % 2 == 1]]
        return Run(layout, self.kinds)

    @property
    def order(self) -> Ints:
        """The number of the box in each slot."""
        return self._order


class Run:
    """Boxes of any kinds, laid out for searching."""

    __slots__ = ("_first_blocks", "_first_slots", "_kinds", "_only", "dead", "layout", "moved", "sheet", "size")

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
        # what kernels read
        self.sheet = Sheet(RUN_LINES)
        self.sheet.put_all(0, *layout, _NO_IDS)
        # runs restricted to some kinds, by kinds; they share the arrays, and so the live slots
        self._only: dict[tuple[int, ...], Searched] = {}
        # slots, including dead ones
        self.size = len(self.layout.rows)
        self.dead = 0
        self.moved = 0

    def __getstate__(self) -> tuple[Any, ...]:
        return self.layout, np.array(self._kinds), self.ids, self.dead, self.moved

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        layout, kinds, ids, dead, moved = state
        self.__init__(layout, kinds)  # type: ignore[misc]
        self.ids, self.dead, self.moved = ids, dead, moved

    @property
    def live(self) -> int:
        return self.size - self.dead

    @property
    def ids(self) -> Ints:
        """The ids of all slots, if ids are integers, so that an answer needs no lookup; otherwise empty."""
        return self.sheet[IDS]

    @ids.setter
    def ids(self, ids: Ints | None) -> None:
        self.sheet.put(IDS, _NO_IDS if ids is None else ids)

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
        first_tests = layout.kinds[line, TESTED]
        tests = np.full(len(slots), -1, dtype=np.int32)
        tested = np.flatnonzero(first_tests >= 0)
        tests[tested] = layout.tests[(first_tests + slots - layout.kinds[line, FIRST])[tested]]
        return slots, Boxes(np.array(self._kinds)[line], layout.rows[slots], starts, lows, highs, tests)

    def is_alive(self, slots: Ints) -> npt.NDArray[np.bool_]:
        """Which of these slots are not cleared."""
        block, bit = self._bits(slots)
        return (self.layout.alive[block] & bit).astype(np.bool_)

    def clear(self, slots: Ints) -> None:
        """Clear slots whose boxes have left their kinds already."""
        block, bit = self._bits(slots)
        np.bitwise_and.at(self.layout.alive, block, ~bit)
        self.dead += len(slots)

    def only(self, kinds: Sequence[int]) -> "Searched":
        """The run with all other kinds skipped. Cached: the next search often names the same kinds."""
        key = tuple(kinds)
        known = self._only.get(key)
        if known is None:
            if len(self._only) >= _ONLY_MAX:
                self._only.clear()
            layout = self.layout._replace(lines=self._lines_of(kinds))
            sheet = Sheet(RUN_LINES)
            sheet.put_all(0, *layout, _NO_IDS)
            known = self._only[key] = Searched(layout, sheet)
        return known

    def whole(self) -> "Searched":
        """The run with all its kinds."""
        return Searched(self.layout, self.sheet)

    def _lines_of(self, kinds: Sequence[int]) -> Rows:
        mine = np.frombuffer(self._kinds, dtype=np.int64)
        asked = np.array(kinds, dtype=np.int64)
        at = np.minimum(np.searchsorted(mine, asked), len(mine) - 1)
        wanted = at[mine[at] == asked]
        firsts, ends = self.layout.kinds[wanted, BLOCK], self.layout.kinds[wanted + 1, BLOCK]
        lines = np.full_like(self.layout.lines, -1)
        # the blocks of each: its first, and so on, in one go
        starts = starts_of(ends - firsts)
        lines[np.repeat(firsts - starts[:-1], ends - firsts) + np.arange(starts[-1])] = np.repeat(wanted, ends - firsts)
        return lines

    def map_bounds(self, place: int, new: Callable[[Floats], Floats]) -> None:
        """Replace all bounds in a dimension by new ones in the same order."""
        layout = self.layout
        columns = np.flatnonzero(layout.places == place)
        of_kinds = columns[columns < layout.kinds[-1, PLACE]]
        _map_columns(layout.cells, layout.kinds, of_kinds, CELL, layout.kinds[:, HEIGHT], new)
        _map_columns(layout.inners, layout.kinds, of_kinds, INNER, np.diff(layout.kinds[:, BLOCK], append=0), new)
        of_parts = columns[columns >= layout.kinds[-1, PLACE]]
        _map_columns(layout.cells, layout.parts, of_parts, CELL, layout.parts[:, HEIGHT], new)

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
        only = sum(some.layout.lines.nbytes for some in self._only.values())
        return self.ids.nbytes + only + sum(array.nbytes for array in self.layout)


class Searched(NamedTuple):
    """What is searched: the arrays of a run, and the same for compiled code."""

    layout: Layout
    sheet: Sheet


_NO_IDS: Ints = np.zeros(0, dtype=np.int64)


def _map_columns(
    bounds: Floats, table: Ints, columns: Ints, first: int, lengths: Ints, new: Callable[[Floats], Floats]
) -> None:
    """Map some columns of bounds: those of `table` that these places stand for."""
    line = np.searchsorted(table[:, PLACE], columns, side="right") - 1
    starts = starts_of(lengths[line])
    begins = table[line, first] + (columns - table[line, PLACE]) * lengths[line]
    at = np.repeat(begins - starts[:-1], lengths[line]) + np.arange(starts[-1])
    bounds[:, at] = new(bounds[:, at])


def joined(parts: list[Boxes]) -> Boxes:
    """The boxes of several, one after the other."""
    if len(parts) == 1:
        return parts[0]
    kinds, rows, starts, *rest = zip(*parts, strict=True)
    widths = np.concatenate([np.diff(part) for part in starts])
    return Boxes(np.concatenate(kinds), np.concatenate(rows), starts_of(widths), *map(np.concatenate, rest))


def chosen(boxes: Boxes, which: Ints) -> Boxes:
    """These boxes alone."""
    starts = starts_of(np.diff(boxes.starts)[which])
    at = np.repeat(boxes.starts[which] - starts[:-1], np.diff(starts)) + np.arange(starts[-1])
    return Boxes(boxes.kinds[which], boxes.rows[which], starts, boxes.lows[at], boxes.highs[at], boxes.tests[which])


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
    tested = np.where(numbers % 2 == 1, counts, 0)
    kinds[:-1, TESTED] = np.where(tested > 0, np.cumsum(tested) - tested, -1)
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
        tests=np.empty(int(tested.sum()), dtype=np.int32),
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
    table = np.zeros((len(widths) + 1, TABLE_COLUMNS), dtype=np.int64)
    table[1:, BLOCK] = np.cumsum(blocks)
    table[1:, CELL] = np.cumsum(tall * np.array(widths, dtype=np.int64))
    table[1:, PLACE] = np.cumsum(widths)
    table[:-1, INTERVALS] = intervals
    table[:-1, HEIGHT] = tall
    return table


def _local(families: list[int]) -> Rows:
    """Parts of a family are adjacent, and families are in order."""
    firsts = [part for part in range(len(families)) if not part or families[part] != families[part - 1]]
    lines = [(families[part], part) for part in firsts]
    return np.array([*lines, (_NO_FAMILY, len(families))], dtype=np.int32)


# More than the number of any family.
_NO_FAMILY = 2**31 - 1


def _all_alive(counts: Ints, blocks: Ints) -> npt.NDArray[np.uint64]:
    alive = np.full(blocks.sum(), 0xFFFF_FFFF_FFFF_FFFF, dtype=np.uint64)
    # the last block of a kind may be short
    alive[np.cumsum(blocks) - 1] >>= (blocks * BLOCK_BOXES - counts).astype(np.uint64)
    return alive
