"""The search in numpy alone, if numba is not installed. Same results as the compiled search.

All events of a batch walk the tree of a family together: a *pair* is an event and a block, or a box, that the event may
lie in. First the pairs of all events and the outermost blocks are tested, then those of what is inside the blocks that
are left, and so on. So the number of calls of numpy does not depend on the number of events.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching.answers import Answers
from octopia.matching.box_run import (
    BLOCK,
    BLOCK_BOXES,
    CELL,
    FIRST,
    HEIGHT,
    INNER,
    INTERVALS,
    PLACE,
    TESTED,
    Layout,
    Rows,
    Searched,
)
from octopia.matching.boxes import Axis
from octopia.matching.columns import Column, Columns
from octopia.matching.pieces import Pieces
from octopia.matching.points import Sides, points_of
from octopia.matching.space import Space
from octopia.matching.tokens import ABSENT, CODED
from octopia.matching.tree_numpy import live_boxes, plant, planting

__all__ = ["RUN_COSTS_TESTS", "live_boxes", "mark_groups", "match", "plant", "planting", "rows_around"]

# How often a waiting filter is tested in the time that it takes to build a run: about 1 µs each.
RUN_COSTS_TESTS = 256
# Pairs that are opened at a time, 64 pairs each.
_TOGETHER_MAX = 4_096
_SIXTY_FOUR = np.arange(BLOCK_BOXES)
_NO_COLUMN = Column(ABSENT, np.zeros(0))

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
# Events and, for each, a block or a slot.
Pairs = tuple[Ints, Ints]


def rows_around(runs: Sequence[Searched], families: Sequence[int], sides: Sides) -> Rows:
    """The rows of all boxes of these families that are around some of the points, with repeats. Tests are not made."""
    found = [
        run.layout.rows[slots] for run in runs for family in families for _, slots in _search(run.layout, family, sides)
    ]
    return np.concatenate([np.zeros(0, dtype=np.int32), *found])


def match(columns: Columns, space: Space, runs: Sequence[Layout], has_several: npt.NDArray[np.bool_]) -> Answers:
    """The rows that each event matches, each once."""
    sides = points_of(columns, space)
    events: list[Ints] = [np.zeros(0, dtype=np.int64)]
    rows: list[Rows] = [np.zeros(0, dtype=np.int32)]
    for family, who, where in _opened(columns, space, sides):
        for layout in runs:
            for mine, slots in _search(layout, family, where):
                mine = mine if who is None else who[mine]
                mine, slots = _tested(layout, mine, slots, columns, space)
                events.append(mine)
                rows.append(layout.rows[slots])
    of, found = np.concatenate(events), np.concatenate(rows)
    several = has_several[found]
    if several.any():
        # nothing else is found twice
        pairs = np.unique(np.stack([of[several], found[several]]), axis=1)
        of = np.concatenate([of[~several], pairs[0]])
        found = np.concatenate([found[~several], pairs[1].astype(np.int32)])
    order = np.argsort(of, kind="stable")
    return Answers(np.bincount(of, minlength=columns.events), found[order])


def _opened(columns: Columns, space: Space, sides: Sides) -> Iterator[tuple[int, Ints | None, Sides]]:
    """The families that events open: each with the events, or None if it is all of them, and their sides."""
    for family in space.always:
        yield family, None, sides
    for attribute, column in columns.of:
        if attribute.anchored:
            there = column.kinds != ABSENT if not isinstance(column.kinds, int) else np.ones(columns.events, np.bool_)
            who = np.flatnonzero(there)
            for family in attribute.anchored if len(who) else ():
                yield family, who, sides[:, :, who]
        if attribute.pieced and attribute.pieces is not None and len(column.strings):
            hits = _hits(attribute.pieces, column, np.arange(columns.events)[column.of_kind(CODED)].tolist())
            if hits:
                who = np.array([event for event, _ in hits])
                where = sides[:, :, who]
                where[:, attribute.places[Axis.PIECE]] = [code for _, code in hits]
                for family in attribute.pieced:
                    yield family, who, where


def _hits(pieces: Pieces, column: Column, events: list[int]) -> list[tuple[int, float]]:
    """The pieces that the strings of events have, as pairs of event and code."""
    known: dict[str | None, list[float]] = {}
    hits = []
    for event in events:
        text = column.string(event)
        if text not in known:
            known[text] = pieces.within(str(text))
        hits += [(event, code) for code in known[text]]
    return hits


def _tested(layout: Layout, events: Ints, slots: Ints, columns: Columns, space: Space) -> Pairs:
    """The pairs that pass the tests of their boxes; all slots are of one kind."""
    line = _line_of(layout, slots)
    first = int(layout.kinds[line, TESTED])
    if first < 0:
        return events, slots
    column_of = {attribute.name: column for attribute, column in columns.of}
    numbers = layout.tests[first + slots - layout.kinds[line, FIRST]]
    keep = []
    for event, number in zip(events.tolist(), numbers.tolist(), strict=True):
        texts = [
            (p, column_of[p.attribute].string(event) if p.attribute in column_of else None) for p in space.tests[number]
        ]
        keep.append(all(text is not None and p.accepts(text) for p, text in texts))
    kept = np.array(keep, dtype=np.bool_)
    return events[kept], slots[kept]


def _line_of(layout: Layout, slots: Ints) -> int:
    return int(np.searchsorted(layout.kinds[:, FIRST], slots[0], side="right")) - 1


# ---- one family


def _search(layout: Layout, family: int, sides: Sides) -> Iterator[Pairs]:
    """The boxes around the points: events and slots, for some boxes of one kind at a time."""
    at = bisect_left(layout.local[:, 0].tolist(), family)
    if layout.local[at, 0] != family:
        return
    for part in range(layout.local[at, 1], layout.local[at + 1, 1]):
        for events, blocks in _blocks_around(layout, part, sides):
            blocks = blocks + layout.parts[part, BLOCK]
            lines = layout.lines[blocks]
            for line in np.unique(lines[lines >= 0]).tolist():
                mine = np.flatnonzero(lines == line)
                yield from _boxes_around(layout, line, sides, events[mine], blocks[mine])


def _blocks_around(layout: Layout, part: int, sides: Sides) -> Iterator[Pairs]:
    """The blocks of a part that events may lie in."""
    table = layout.parts[part : part + 2]
    sizes = [int(table[1, BLOCK] - table[0, BLOCK])]
    while sizes[-1] > BLOCK_BOXES:
        sizes.append(-(-sizes[-1] // BLOCK_BOXES))
    column = int(table[0, CELL]) + sum(sizes) - sizes[-1]
    inside = np.ones((sides.shape[2], sizes[-1]), dtype=np.bool_)
    for place, is_interval in _dimensions(layout, table):
        low, high = layout.cells[:, column : column + sizes[-1]]
        high_side, low_side = sides[0, place, :, None], sides[1, place, :, None]
        inside &= (low <= high_side) & (low_side <= high) if is_interval else (low_side < low) | (high < high_side)
        column += int(table[0, HEIGHT])
    yield from _opened_blocks(layout, table, sides, sizes[:-1], np.nonzero(inside))


def _opened_blocks(layout: Layout, table: Array, sides: Sides, sizes: list[int], pairs: Any) -> Iterator[Pairs]:
    """The innermost blocks in these, which are of the level after the last of `sizes`."""
    events, blocks = pairs
    if not sizes:
        if len(events):
            yield events, blocks
        return
    for first in range(0, len(events), _TOGETHER_MAX):
        mine = events[first : first + _TOGETHER_MAX]
        inner = blocks[first : first + _TOGETHER_MAX, None] * BLOCK_BOXES + _SIXTY_FOUR
        # the last block may be short
        inside = inner < sizes[-1]
        column = int(table[0, CELL]) + sum(sizes[:-1]) + np.minimum(inner, sizes[-1] - 1)
        for place, is_interval in _dimensions(layout, table):
            low, high = layout.cells[0][column], layout.cells[1][column]
            high_side, low_side = sides[0, place, mine, None], sides[1, place, mine, None]
            inside &= (low <= high_side) & (low_side <= high) if is_interval else (low_side < low) | (high < high_side)
            column += int(table[0, HEIGHT])
        at, which = np.nonzero(inside)
        yield from _opened_blocks(layout, table, sides, sizes[:-1], (mine[at], inner[at, which]))


def _dimensions(layout: Layout, table: Array) -> Iterator[tuple[int, bool]]:
    """The places of a part or a kind, and whether it has intervals there."""
    first, end = int(table[0, PLACE]), int(table[1, PLACE])
    for number, place in enumerate(layout.places[first:end].tolist()):
        yield place, number < table[0, INTERVALS]


def _boxes_around(layout: Layout, line: int, sides: Sides, events: Ints, blocks: Ints) -> Iterator[Pairs]:
    """The boxes of a kind, in these blocks, that events lie in."""
    for first in range(0, len(events), _TOGETHER_MAX):
        some = slice(first, first + _TOGETHER_MAX)
        found = _boxes_of(layout, line, sides, events[some], blocks[some])
        if len(found[0]):
            yield found


def _boxes_of(layout: Layout, line: int, sides: Sides, events: Ints, blocks: Ints) -> Pairs:
    table = layout.kinds[line : line + 2]
    of_kind = blocks - int(table[0, BLOCK])
    bits = layout.alive[blocks].astype("<u8").view(np.uint8).reshape(len(blocks), 8)
    inside = np.unpackbits(bits, axis=1, bitorder="little").view(np.bool_)
    pair, box = np.nonzero(inside)
    slots = of_kind[pair] * BLOCK_BOXES + box
    column, inner, height = int(table[0, CELL]), int(table[0, INNER]), int(table[0, HEIGHT])
    for place, is_interval in _dimensions(layout, table):
        above, below = sides[0, place, events], sides[1, place, events]
        if is_interval:
            # a side on which all events lie in all boxes of their blocks is skipped
            if (above < layout.inners[0, inner + of_kind]).any():
                kept = layout.cells[0, column : column + height][slots] <= above[pair]
                pair, slots = pair[kept], slots[kept]
            if (below > layout.inners[1, inner + of_kind]).any():
                kept = below[pair] <= layout.cells[1, column : column + height][slots]
                pair, slots = pair[kept], slots[kept]
        else:
            low, high = layout.cells[:, column : column + height][:, slots]
            kept = (below[pair] < low) | (high < above[pair])
            pair, slots = pair[kept], slots[kept]
        column += height
        inner += int(table[1, BLOCK] - table[0, BLOCK])
    return events[pair], slots + int(table[0, FIRST])


def mark_groups(counts: Array, groups: Array, masks: Array) -> None:
    """Set in each event's mask the bits of the groups of its matches; -1 means without a group."""
    events = np.repeat(np.arange(len(counts)), counts)
    grouped = groups >= 0
    bits = np.uint64(1) << (groups[grouped] & 63).astype(np.uint64)
    np.bitwise_or.at(masks, (events[grouped], groups[grouped] >> 6), bits)
