"""Filters that are in no run yet.

Rules of this file: a box that waits costs a few numbers in flat lists and no object of its own, since a million small
objects would keep the garbage collector busy. A row that is withdrawn while it waits is only crossed out; its number
must not be given out again before `take_all`.
"""

import numpy as np

from octopia.matching.boxes import Box
from octopia.matching.run import Boxes


class _Columns:
    __slots__ = ("highs", "lows", "rows", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[int] = []
        self.lows: list[float] = []
        self.highs: list[float] = []


class Waiting:
    """Rows that wait, in order of arrival, and their boxes by kind. `boxes` counts withdrawn ones, too."""

    __slots__ = ("_by_kind", "boxes", "rows", "tests", "withdrawn")

    def __init__(self) -> None:
        self.rows: dict[int, None] = {}
        self.boxes = 0
        self.tests = 0
        self.withdrawn: list[int] = []
        self._by_kind: dict[int, _Columns] = {}

    def add(self, row: int, kind: int, box: Box) -> None:
        columns = self._by_kind.get(kind)
        if columns is None:
            columns = self._by_kind[kind] = _Columns(len(box.lows))
        columns.rows.append(row)
        columns.lows.extend(box.lows)
        columns.highs.extend(box.highs)
        self.rows[row] = None
        self.boxes += 1

    def withdraw(self, row: int) -> None:
        del self.rows[row]
        self.withdrawn.append(row)

    def take_all(self) -> tuple[dict[int, Boxes], dict[int, Boxes]]:
        """The boxes of rows that still wait, and those of rows that were withdrawn, by kind."""
        staying: dict[int, Boxes] = {}
        going: dict[int, Boxes] = {}
        for kind, columns in self._by_kind.items():
            shape = (len(columns.rows), columns.width)
            boxes = Boxes(
                np.array(columns.rows, dtype=np.int32),
                np.array(columns.lows, dtype=np.float64).reshape(shape).T,
                np.array(columns.highs, dtype=np.float64).reshape(shape).T,
            )
            gone = np.isin(boxes.rows, self.withdrawn) if self.withdrawn else np.zeros(shape[0], dtype=np.bool_)
            for chosen, into in ((~gone, staying), (gone, going)):
                if chosen.all():
                    into[kind] = boxes
                elif chosen.any():
                    into[kind] = Boxes(boxes.rows[chosen], boxes.lows[:, chosen], boxes.highs[:, chosen])
        return staying, going
