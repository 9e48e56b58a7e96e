"""The bounds of one axis in order, each with a label: a whole number, so that bounds compare as their labels do.

Floats cannot express all bounds: an integer of 64 bits, "every string from 'abc' on". A box has the label of such a
bound, and a value has the label of the bound that it equals, or half a step more than that of the bound below it
(`place`). So the kernels compare floats here as everywhere. Bounds are counted, and go with their last user.

A new bound gets a label between those of its neighbours: the middle or, if bounds come one after the other, close to
the one before. At both ends there is room for `_LABEL_MAX / _STEP` bounds. When there is no room, all bounds get new
labels, evenly spaced, and the owner maps the bounds of all boxes on this axis (`Relabelled`), about 10 ns each; their
order does not change. That happens after `_CLOSE` bounds and more that come one after the other, and hardly ever
otherwise: bounds in random order halve their gaps evenly. So it adds less than 1 µs to a filter in all but malicious
orders (every bound in the middle of the last gap), which add about n / 30 × 10 ns for n boxes on the axis.

Bounds lie in blocks, as sorted lists of moderate length, so that inserting one moves few others. `LadderTable` holds
the same for compiled code.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.matching.tokens import pair_of
from octopia.sheets import Sheet

Floats = npt.NDArray[np.float64]
# A number, or a string as bytes. All bounds of a ladder are of one kind.
Key = Any

BLOCK_RUNGS = 128
# Labels and halves of steps between them are floats.
_LABEL_MAX = 1 << 50
_STEP = 1 << 30
# Bounds that follow each other take this part of a gap each.
_CLOSE = 1 << 10


class Relabelled(NamedTuple):
    """All labels of a ladder, in order, before and after."""

    before: Floats
    after: Floats

    def map(self, bounds: Floats) -> Floats:
        """Bounds of boxes in new labels. That of a removed box may have none, and stays between its neighbours."""
        finite = np.isfinite(bounds)
        some = np.where(finite, bounds, 0.0)
        labels = np.ceil(some)
        at = np.searchsorted(self.before, labels)
        known = np.minimum(at, len(self.before) - 1)
        exact = self.before[known] == labels
        around = np.concatenate([[self.after[0] - 1.0], self.after])[at] + 0.5
        mapped = np.where(exact, self.after[known] - (labels - some), around)
        return np.where(finite, mapped, bounds)


class Ladder:
    """Bounds in order. `table` is the same for compiled code, if that was asked for."""

    __slots__ = ("_firsts", "_keys", "_labels", "_last", "_users", "table")

    def __init__(self) -> None:
        # per block: the first bound, all bounds, their labels and their numbers of users
        self._firsts: list[Key] = []
        self._keys: list[list[Key]] = []
        self._labels: list[list[int]] = []
        self._users: list[list[int]] = []
        # the label of the bound that came last
        self._last = 0
        self.table: LadderTable | None = None

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        """The bounds, in order, and their labels."""
        for keys, labels in zip(self._keys, self._labels, strict=True):
            yield from zip(keys, labels, strict=True)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._firsts, self._keys, self._labels, self._users, self._last

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._firsts, self._keys, self._labels, self._users, self._last = state
        self.table = None

    def label(self, key: Key) -> int:
        """The label of a bound."""
        block, at = self._find(key)
        return self._labels[block][at]

    def place(self, key: Key) -> float:
        """The coordinate of a value; bounds must exist."""
        block = bisect_right(self._firsts, key) - 1
        if block < 0:
            return self._labels[0][0] - 0.5
        at = bisect_right(self._keys[block], key) - 1
        label = self._labels[block][at]
        return label if self._keys[block][at] == key else label + 0.5

    def hold(self, key: Key) -> Relabelled | None:
        """Count a user of a bound; the new labels of all bounds, if there was no room for this one."""
        if not self._keys:
            self._firsts, self._keys, self._labels, self._users = [key], [[key]], [[0]], [[1]]
            self._last = 0
            if self.table is not None:
                self.table.fill(self._keys, self._labels)
            return None
        block, at = self._find(key)
        keys = self._keys[block]
        if at < len(keys) and keys[at] == key:
            self._users[block][at] += 1
            return None
        relabelled = None
        label = self._new_label(block, at)
        if label is None:
            relabelled = self._relabel()
            label = self._new_label(block, at)
            assert label is not None, "even gaps have room"  # noqa: S101
        self._insert(block, at, key, label)
        return relabelled

    def release(self, key: Key) -> None:
        """A user of a bound is gone."""
        block, at = self._find(key)
        self._users[block][at] -= 1
        if self._users[block][at]:
            return
        del self._keys[block][at], self._labels[block][at], self._users[block][at]
        if self._keys[block]:
            self._firsts[block] = self._keys[block][0]
        else:
            del self._firsts[block], self._keys[block], self._labels[block], self._users[block]
        if self.table is not None:
            self.table.remove(block, at)

    def _find(self, key: Key) -> tuple[int, int]:
        """The block and the place in it of a bound, or where it would be inserted."""
        block = max(0, bisect_right(self._firsts, key) - 1)
        return block, bisect_left(self._keys[block], key)

    def _insert(self, block: int, at: int, key: Key, label: int) -> None:
        self._last = label
        self._keys[block].insert(at, key)
        self._labels[block].insert(at, label)
        self._users[block].insert(at, 1)
        self._firsts[block] = self._keys[block][0]
        if self.table is not None:
            self.table.insert(block, at, key, label)
        if len(self._keys[block]) == BLOCK_RUNGS:
            half = BLOCK_RUNGS // 2
            for lists in (self._keys, self._labels, self._users):
                lists.insert(block + 1, lists[block][half:])
                del lists[block][half:]
            self._firsts.insert(block + 1, self._keys[block + 1][0])
            if self.table is not None:
                self.table.split(block)

    def _new_label(self, block: int, at: int) -> int | None:
        """A label for a new bound at this place; None if there is no room."""
        labels = self._labels[block]
        below = labels[at - 1] if at else self._labels[block - 1][-1] if block else None
        above = labels[at] if at < len(labels) else self._labels[block + 1][0] if block + 1 < len(self._keys) else None
        if below is None:
            assert above is not None, "there is a bound already"  # noqa: S101
            return above - _STEP if above - _STEP > -_LABEL_MAX else None
        if above is None:
            return below + _STEP if below + _STEP < _LABEL_MAX else None
        gap = above - below
        if gap < 2:
            return None
        if below == self._last:
            return below + max(1, gap // _CLOSE)
        return above - max(1, gap // _CLOSE) if above == self._last else below + gap // 2

    def _relabel(self) -> Relabelled:
        """Space all labels evenly."""
        before = np.array([label for labels in self._labels for label in labels], dtype=np.float64)
        # half of the room is left at the ends
        step = _LABEL_MAX // (len(before) + 1)
        label = -(step * len(before)) // 2
        for labels in self._labels:
            labels[:] = range(label, label + step * len(labels), step)
            label += step * len(labels)
        self._last = 0
        if self.table is not None:
            self.table.fill(self._keys, self._labels)
        after = np.array([label for labels in self._labels for label in labels], dtype=np.float64)
        return Relabelled(before, after)


# Lines of a table's sheet: the number of blocks; the place of each block, in order, and its number of bounds; and of
# each bound its first word, what else it has (columns below), and its label. The last is the bytes of strings.
BLOCKS, ORDER, SIZES, HEADS, TAILS, LABELS, TEXTS = range(7)
TABLE_LINES = 7
# Columns of TAILS: the rest of a number, or where a string begins; and its number of bytes.
TAIL, TAIL_BYTES = range(2)
_BLOCKS_MIN = 4
_HIGH_BIT = 1 << 63


class LadderTable:
    """The bounds of a ladder for compiled code, which finds the place of a value in it (`ladder_numba.py`).

    The first word of a bound is the first eight bytes of a string, the first highest; or the bits of a float, changed
    so that they compare as the float does. Mostly it decides alone.
    """

    __slots__ = ("_free", "_regions", "_strings", "sheet")

    def __init__(self, ladder: Ladder) -> None:
        from octopia.matching.arena import Arena

        self.sheet = Sheet(TABLE_LINES)
        self._strings = Arena(self.sheet, TEXTS)
        # the place of each block, in order, and places that are free
        self._regions: list[int] = []
        self._free: list[int] = []
        self.sheet.put(BLOCKS, np.zeros(1, dtype=np.int64))
        self.sheet.put_all(ORDER, np.zeros(_BLOCKS_MIN, dtype=np.int64), np.zeros(_BLOCKS_MIN, dtype=np.int64))
        rungs = _BLOCKS_MIN * BLOCK_RUNGS
        self.sheet.put_all(
            HEADS, np.zeros(rungs, dtype=np.uint64), np.zeros((rungs, 2), dtype=np.int64), np.zeros(rungs)
        )
        self.fill(*_lists(ladder))

    def fill(self, keys: list[list[Key]], labels: list[list[int]]) -> None:
        """All bounds, block by block."""
        if not self._regions:
            for block, mine in enumerate(keys):
                start = self._add_block(block) * BLOCK_RUNGS
                for at, key in enumerate(mine):
                    self._write(start + at, key)
        for region, mine_too in zip(self._regions, labels, strict=True):
            start = region * BLOCK_RUNGS
            self.sheet[LABELS][start : start + len(mine_too)] = mine_too
            self.sheet[SIZES][region] = len(mine_too)

    def insert(self, block: int, at: int, key: Key, label: int) -> None:
        """A new bound at this place of a block."""
        region = self._regions[block]
        size = int(self.sheet[SIZES][region])
        start = region * BLOCK_RUNGS
        for line in (HEADS, TAILS, LABELS):
            array = self.sheet[line]
            array[start + at + 1 : start + size + 1] = array[start + at : start + size]
        self._write(start + at, key)
        self.sheet[LABELS][start + at] = label
        self.sheet[SIZES][region] = size + 1

    def split(self, block: int) -> None:
        """The second half of a full block becomes a block of its own."""
        region, half = self._regions[block], BLOCK_RUNGS // 2
        other = self._add_block(block + 1)
        start, to = region * BLOCK_RUNGS + half, other * BLOCK_RUNGS
        for line in (HEADS, TAILS, LABELS):
            array = self.sheet[line]
            array[to : to + half] = array[start : start + half]
        self.sheet[SIZES][[region, other]] = half

    def remove(self, block: int, at: int) -> None:
        """The bound at this place of a block is gone."""
        region = self._regions[block]
        size = int(self.sheet[SIZES][region])
        start = region * BLOCK_RUNGS
        text_at, text_bytes = self.sheet[TAILS][start + at].tolist()
        if text_bytes >= 0:
            self._strings.give_back(text_at, text_bytes)
        for line in (HEADS, TAILS, LABELS):
            array = self.sheet[line]
            array[start + at : start + size - 1] = array[start + at + 1 : start + size]
        self.sheet[SIZES][region] = size - 1
        if size == 1:
            count = len(self._regions) - 1
            self._free.append(self._regions.pop(block))
            order = self.sheet[ORDER]
            order[block:count] = order[block + 1 : count + 1]
            self.sheet[BLOCKS][0] = count

    def _add_block(self, block: int) -> int:
        """Make room for a block, which comes at this place among all; returns where it is."""
        count = len(self._regions)
        if self._free:
            region = self._free.pop()
        else:
            region = count
            if region == len(self.sheet[ORDER]):
                for line in (ORDER, SIZES):
                    self.sheet.grow(line, 2 * region)
                for line in (HEADS, TAILS, LABELS):
                    self.sheet.grow(line, 2 * region * BLOCK_RUNGS)
        self._regions.insert(block, region)
        order = self.sheet[ORDER]
        order[block + 1 : count + 1] = order[block:count]
        order[block] = region
        self.sheet[BLOCKS][0] = count + 1
        return region

    def _write(self, rung: int, key: Key) -> None:
        if isinstance(key, bytes):
            self.sheet[HEADS][rung] = int.from_bytes(key[:8].ljust(8, b"\0"), "big")
            self.sheet[TAILS][rung] = self._strings.put(key), len(key)
        else:
            below, rest = pair_of(key)
            bits = int(np.float64(below + 0.0).view(np.uint64))
            self.sheet[HEADS][rung] = bits ^ (2 * _HIGH_BIT - 1 if bits & _HIGH_BIT else _HIGH_BIT)
            self.sheet[TAILS][rung] = rest, -1


def _lists(ladder: Ladder) -> tuple[list[list[Key]], list[list[int]]]:
    return ladder._keys, ladder._labels  # noqa: SLF001 - of this module
