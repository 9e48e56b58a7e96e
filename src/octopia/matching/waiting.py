"""Filters that are not in a run yet.

A waiting box costs a few numbers and no object of its own, since a million small objects would keep the garbage
collector busy. Numbers wait in lists for a short while and then in arrays: floats that are freed all at once, among ids
that stay, would fragment memory. A row that is withdrawn while it waits is only marked; its number must not be reused
before `take_all`.
"""

import numpy as np

from octopia.matching.box_run import Boxes, chosen, joined, starts_of
from octopia.matching.boxes import Box

_LISTED_MAX = 512


class Waiting:
    """Waiting rows in order of arrival, and their boxes. `boxes` includes withdrawn ones."""

    __slots__ = ("_box_rows", "_highs", "_kinds", "_lows", "_packed", "_widths", "boxes", "rows", "tests", "withdrawn")

    def __init__(self) -> None:
        self.rows: dict[int, None] = {}
        self.boxes = 0
        self.tests = 0
        self.withdrawn: list[int] = []
        self._packed: list[Boxes] = []
        self._start_lists()

    def _start_lists(self) -> None:
        self._kinds: list[int] = []
        self._box_rows: list[int] = []
        self._widths: list[int] = []
        self._lows: list[float] = []
        self._highs: list[float] = []

    def add(self, row: int, kind: int, box: Box) -> None:
        self.rows[row] = None
        self.boxes += 1
        self._kinds.append(kind)
        self._box_rows.append(row)
        self._lows += box.lows
        self._highs += box.highs
        self._widths.append(len(box.lows))
        if len(self._kinds) >= _LISTED_MAX:
            self._pack()

    def withdraw(self, row: int) -> None:
        del self.rows[row]
        self.withdrawn.append(row)

    def take_all(self) -> tuple[Boxes, dict[int, int]]:
        """The boxes of rows that still wait, and the number of boxes, by kind, of withdrawn rows."""
        self._pack()
        boxes = joined(self._packed)
        if not self.withdrawn:
            return boxes, {}
        gone = np.isin(boxes.rows, self.withdrawn)
        kinds, counts = np.unique(boxes.kinds[gone], return_counts=True)
        return chosen(boxes, np.flatnonzero(~gone)), dict(zip(kinds.tolist(), counts.tolist(), strict=True))

    def _pack(self) -> None:
        self._packed.append(
            Boxes(
                np.array(self._kinds, dtype=np.int64),
                np.array(self._box_rows, dtype=np.int32),
                starts_of(np.array(self._widths, dtype=np.int64)),
                np.array(self._lows, dtype=np.float64),
                np.array(self._highs, dtype=np.float64),
            )
        )
        self._start_lists()
