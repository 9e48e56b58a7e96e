"""Boxes that are not in a run yet. Compiled code compares each of them with every notification (`find_numba.py`).

A waiting box costs a few numbers and no object of its own, since a million small objects would keep the garbage
collector busy. Its numbers wait in lists, and move to arrays when those are needed, or when there are many of them. A
box that is withdrawn loses its row, and its numbers stay until all boxes are taken.
"""

from collections.abc import Callable

import numpy as np

from octopia.matching.box_run import Boxes, Floats, chosen, starts_of
from octopia.matching.space import BoxKind
from octopia.sheets import Sheet

# Lines of the sheet: per box its row (-1: withdrawn), its kind, where its bounds begin, how many of them are intervals
# (the others leave out what lies between), its tests in a run, and those while it waits; then the places and the
# bounds; and how many boxes and bounds there are.
ROWS, KINDS, STARTS, INTERVALS, TESTS, CHECKS, PLACES, LOWS, HIGHS, COUNT = range(10)
WAITING_LINES = 10
_TYPES = (np.int32, np.int64, np.int64, np.int64, np.int32, np.int32, np.int32, np.float64, np.float64, np.int64)
# The place of a bound that is not compared: the code of a piece. The box has a test instead.
NOWHERE = -1
_LISTED_MAX = 512


class Waiting:
    """Waiting boxes in order of arrival, by rows. `boxes` includes withdrawn ones."""

    __slots__ = ("_lists", "_packed", "_places", "boxes", "first_of", "sheet", "tests")

    def __init__(self) -> None:
        self.sheet = Sheet(WAITING_LINES)
        for line, kind in enumerate(_TYPES):
            self.sheet.put(line, np.zeros(2, dtype=kind))
        # row -> the number of its first box
        self.first_of: dict[int, int] = {}
        self.tests = 0
        self._start_anew()

    def _start_anew(self) -> None:
        self.boxes = 0
        self._packed = 0
        self._places = 0
        self._lists: list[list[float]] = [[] for _ in range(COUNT)]
        self.sheet[COUNT][:] = 0

    def add(self, row: int, kind: BoxKind, bounds: tuple[list[float], list[float]], tests: int, checks: int) -> None:
        """A box of a row; those of one row come one after the other."""
        number, shape, family, _ = kind
        rows, kinds, starts, intervals, for_tests, for_checks, places, lows, highs = self._lists
        self.first_of.setdefault(row, self.boxes)
        self.boxes += 1
        rows.append(row)
        kinds.append(number)
        starts.append(self._places)
        intervals.append(len(shape.places))
        for_tests.append(tests)
        for_checks.append(checks)
        if family.piece is None:
            places += shape.places
        else:
            # the last interval is that of the piece
            places += shape.places[:-1]
            places.append(NOWHERE)
        places += family.places
        lows += bounds[0]
        highs += bounds[1]
        self._places += len(bounds[0])
        if len(rows) >= _LISTED_MAX:
            self.pack()

    def withdraw(self, row: int) -> list[int]:
        """Take a row out; returns the kinds of its boxes."""
        self.pack()
        first = self.first_of.pop(row)
        rows, kinds = self.sheet[ROWS], self.sheet[KINDS]
        stop = first
        while stop < self.boxes and rows[stop] == row:
            stop += 1
        rows[first:stop] = -1
        left: list[int] = kinds[first:stop].tolist()
        return left

    def take_all(self) -> Boxes:
        """All boxes that still wait, which are gone from here then."""
        self.pack()
        rows, kinds, starts, _, tests, _, _, lows, highs = (self.sheet[line] for line in range(COUNT))
        count = self.boxes
        begins = np.append(starts[:count], self._places)
        all_boxes = Boxes(
            kinds[:count].copy(), rows[:count].copy(), starts_of(np.diff(begins)), lows[: self._places].copy(),
            highs[: self._places].copy(), tests[:count].copy(),
        )  # fmt: skip
        self.first_of = {}
        self.tests = 0
        self._start_anew()
        live = np.flatnonzero(all_boxes.rows >= 0)
        return all_boxes if len(live) == count else chosen(all_boxes, live)

    def map_bounds(self, place: int, new: Callable[[Floats], Floats]) -> None:
        """Replace all bounds in a dimension by new ones in the same order."""
        self.pack()
        at = np.flatnonzero(self.sheet[PLACES][: self._places] == place)
        for line in (LOWS, HIGHS):
            self.sheet[line][at] = new(self.sheet[line][at])

    def pack(self) -> None:
        """Move what is in lists to the arrays."""
        if self._packed == self.boxes:
            return
        places = self._places - len(self._lists[PLACES])
        for line, listed in enumerate(self._lists):
            start = places if line >= PLACES else self._packed
            stop = start + len(listed)
            array = self.sheet[line]
            if stop > len(array):
                array = self.sheet.grow(line, max(stop, 2 * len(array)))
            array[start:stop] = listed
            listed.clear()
        self._packed = self.boxes
        self.sheet[COUNT][:] = self.boxes, self._places
