"""What a matcher knows of each stored filter, by row: its id, where its box is, its group, if it has several boxes.

Arrays in a sheet, since compiled code reads some of them. They grow in steps, one array after the other, since each may
take a millisecond; large arrays by at most `_MORE_ROWS_MAX` lines, which the system does without copying.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.sheets import Sheet

IDS, RUN_OF, SLOT_OF, GROUP_OF, SEVERAL_BOXES, LAST_EVENTS = range(6)
ROW_LINES = 6
IN_NO_RUN = -1
IN_SEVERAL = -2
# What is in the new lines of the arrays that have one for each row.
_NEW = {IDS: 0, RUN_OF: IN_NO_RUN, SLOT_OF: 0, GROUP_OF: -1, SEVERAL_BOXES: 0}
_MORE_ROWS_MAX = 32_768
_MORE_ROWS_MIN = 64
_INT64_END = 2**63


class RowTable:
    """Lines by row."""

    __slots__ = ("_grown", "_rows_max", "has_integer_ids", "sheet")

    def __init__(self) -> None:
        self.sheet = Sheet(ROW_LINES)
        self.sheet.put(IDS, np.zeros(0, dtype=np.int64))
        for line in (RUN_OF, SLOT_OF, GROUP_OF):
            self.sheet.put(line, np.zeros(0, dtype=np.int32))
        self.sheet.put(SEVERAL_BOXES, np.zeros(0, dtype=np.bool_))
        # the last event that a row with several boxes was found for: made when there is such a row
        self.sheet.put(LAST_EVENTS, np.zeros(0, dtype=np.int64))
        # integers as long as all ids are: selecting many touches no objects, only contiguous memory
        self.has_integer_ids = True
        self._rows_max = 0  # room in all of these
        self._grown = 0  # how many of them have more

    @property
    def ids(self) -> npt.NDArray[Any]:
        return self.sheet[IDS]

    @property
    def run_of(self) -> npt.NDArray[np.int32]:
        """The number of the run that has the box of a row, or one of the constants above."""
        return self.sheet[RUN_OF]

    @property
    def slot_of(self) -> npt.NDArray[np.int32]:
        """The slot of the box in its run."""
        return self.sheet[SLOT_OF]

    @property
    def group_of(self) -> npt.NDArray[np.int32]:
        """The group of a row, or -1."""
        return self.sheet[GROUP_OF]

    @property
    def has_several(self) -> npt.NDArray[np.bool_]:
        """Whether a row has several boxes, and may be found twice."""
        return self.sheet[SEVERAL_BOXES]

    def use(self, row: int, id: Any, group: int) -> None:
        """A row gets an id and a group."""
        if row + len(_NEW) > self._rows_max:
            self._make_room(row)
        if self.has_integer_ids and not (type(id) is int and -_INT64_END <= id < _INT64_END):
            self.has_integer_ids = False
            self.sheet.put(IDS, self.ids.astype(object))
        self.sheet[IDS][row] = id
        self.sheet[GROUP_OF][row] = group

    def remember_events(self) -> None:
        """There are rows with several boxes: make sure that there is a line for the last event of each row."""
        if len(self.sheet[LAST_EVENTS]) < self._rows_max:
            self.sheet.grow(LAST_EVENTS, self._rows_max + min(self._rows_max, _MORE_ROWS_MAX))

    def _make_room(self, row: int) -> None:
        """Let the next array grow, before this row needs it; all of them if it does."""
        while True:
            line = list(_NEW)[self._grown]
            array = self.sheet.grow(
                line, self._rows_max + min(max(_MORE_ROWS_MIN, self._rows_max // 4), _MORE_ROWS_MAX)
            )
            array[self._rows_max :] = _NEW[line]
            self._grown += 1
            if self._grown == len(_NEW):
                self._grown, self._rows_max = 0, len(array)
            if row < self._rows_max:
                return
