"""Arrays that compiled code reads by their addresses, so that one call can use many: a *sheet* has a line for each.

A call of a compiled function costs about 40 ns for each array that it is given, and a notification needs some fifty. A
sheet passes as one number, and the kernel makes arrays of its lines again (`native/arrays.py`).

**Why no address is ever stale.** A sheet holds a reference to every array in it, so none of them is freed. An array in
a sheet is replaced (`put`) or made longer (`grow`) here and nowhere else, and its line is rewritten in that call.
Nobody else resizes arrays: `tests/test_architecture.py` allows it in this file only. A kernel is given the address of a
sheet, which never changes, and looks up its lines in each call, so it finds the arrays that their owners see. Nothing
is put into a sheet while a kernel reads it: a matcher and an engine belong to one thread.

Where a sheet has the address of another (that of a matcher has those of its runs, `matching/mirror.py`), its owner
keeps both, and `Matcher.ready` brings it up to date before each search. `tests/native/test_engines.py` lets all tables
of matcher, rows and engine grow and shrink between reads, with old arrays full of nonsense.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

# Columns of a sheet: the address, the length (the number of lines if the array has columns), the number of items.
ADDRESS, LENGTH, SIZE = range(3)

Array = npt.NDArray[Any]


class Sheet:
    """Arrays by line. `address` is that of the sheet itself, and never changes."""

    __slots__ = ("_arrays", "_lines", "address")

    def __init__(self, lines: int) -> None:
        self._lines: npt.NDArray[np.int64] = np.zeros((lines, 3), dtype=np.int64)
        self._arrays: list[Array | None] = [None] * lines
        self.address = int(self._lines.ctypes.data)

    def __getstate__(self) -> list[Array | None]:
        return self._arrays

    def __setstate__(self, arrays: list[Array | None]) -> None:
        self.__init__(len(arrays))  # type: ignore[misc]
        for line, array in enumerate(arrays):
            if array is not None:
                # memory of its own, which a pickled array may lack
                self.put(line, array.copy())

    def __getitem__(self, line: int) -> Array:
        found = self._arrays[line]
        assert found is not None, "every line is put before it is used"  # noqa: S101
        return found

    def has(self, line: int) -> bool:
        """Whether there is an array in a line."""
        return self._arrays[line] is not None

    def address_of(self, line: int) -> int:
        """The address of the array of a line, until it is replaced or grows."""
        return int(self._lines[line, ADDRESS])

    def put(self, line: int, array: Array) -> None:
        """Put an array into a line; it must be contiguous."""
        if not array.flags.c_contiguous:
            raise ValueError("a sheet takes contiguous arrays only")
        self._arrays[line] = array
        self._lines[line] = array.ctypes.data, len(array), array.size

    def put_all(self, first: int, *arrays: Array) -> None:
        """Put arrays into consecutive lines."""
        for line, array in enumerate(arrays, first):
            self.put(line, array)

    def grow(self, line: int, length: int) -> Array:
        """Make the array of a line this long; what is new is 0. The system moves large arrays without copying them.

        Returns the array. Arrays and views that were taken from this line before are not valid any longer.
        """
        array = self[line]
        array.resize((length, *array.shape[1:]), refcheck=False)
        self.put(line, array)
        return array
