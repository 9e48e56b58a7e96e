"""Filters that are in no run yet.

Rules of this file: a box that waits costs a few numbers in flat lists and no object of its own, since a million small
objects would keep the garbage collector busy. A row that is withdrawn while it waits is only crossed out; its number
must not be given out again before `take_all`.
"""

import numpy as np

from octopia.matching.boxes import Box
from octopia.matching.run import Boxes, chosen, starts_of


class Waiting:
    """Rows that wait, in order of arrival, and their boxes. `boxes` counts withdrawn ones, too."""

    __slots__ = ("_box_rows", "_highs", "_kinds", "_lows", "_widths", "rows", "tests", "withdrawn")

    def __init__(self) -> None:
        self.rows: dict[int, None] = {}
        self.tests = 0
        self.withdrawn: list[int] = []
        self._kinds: list[int] = []
        self._box_rows: list[int] = []
        self._widths: list[int] = []
        self._lows: list[float] = []
        self._highs: list[float] = []

    @property
    def boxes(self) -> int:
        return len(self._box_rows)

    def add(self, row: int, kind: int, box: Box) -> None:
        self.rows[row] = None
        self._kinds.append(kind)
        self._box_rows.append(row)
        self._lows += box.lows
        self._highs += box.highs
        self._widths.append(len(box.lows))

    def withdraw(self, row: int) -> None:
        del self.rows[row]
        self.withdrawn.append(row)

    def take_all(self) -> tuple[Boxes, dict[int, int]]:
        """The boxes of rows that still wait; and how many boxes, by kind, the rows had that were withdrawn."""
        boxes = Boxes(
            np.array(self._kinds, dtype=np.int32),
            np.array(self._box_rows, dtype=np.int32),
            starts_of(np.array(self._widths, dtype=np.int64)),
            np.array(self._lows, dtype=np.float64),
            np.array(self._highs, dtype=np.float64),
        )
        if not self.withdrawn:
            return boxes, {}
        gone = np.isin(boxes.rows, self.withdrawn)
        kinds, counts = np.unique(boxes.kinds[gone], return_counts=True)
        return chosen(boxes, np.flatnonzero(~gone)), dict(zip(kinds.tolist(), counts.tolist(), strict=True))
