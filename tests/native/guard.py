"""A guard over the arrays that compiled code reads by address: whoever uses an old one is found out.

An array that was replaced, or has become longer, and the arrays of a sheet that is gone are filled with nonsense and
kept, so that a stale address leads to nonsense, and never to memory that another array has by now. Growing always
moves. What is written to an old array is seen by `check`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from octopia.sheets import Sheet

NONSENSE = 0xA5


class Graveyard:
    """Arrays that nobody may use any more."""

    def __init__(self) -> None:
        self.buried = 0
        self._arrays: dict[int, npt.NDArray[np.uint8]] = {}
        self._kept: list[Any] = []

    def bury(self, array: npt.NDArray[Any]) -> None:
        if not array.size or not array.flags.writeable or array.dtype.hasobject:
            return
        view = array.view(np.uint8).reshape(-1) if array.dtype != np.uint8 else array.reshape(-1)
        view[:] = NONSENSE
        self._arrays[view.ctypes.data] = view
        self._kept.append(array)
        self.buried += 1

    def check(self) -> None:
        """Nothing was written to an old array."""
        for view in self._arrays.values():
            assert (view == NONSENSE).all(), "somebody wrote to an array that was replaced"

    def keep(self, thing: Any) -> None:
        self._kept.append(thing)


@contextmanager
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Graveyard]:
    """Sheets that bury what they replace."""
    graveyard = Graveyard()
    put = Sheet.put

    def put_and_bury(self: Sheet, line: int, array: npt.NDArray[Any]) -> None:
        old = self._arrays[line]
        put(self, line, array)
        if old is not None and old is not array:
            graveyard.bury(old)

    def grow_elsewhere(self: Sheet, line: int, length: int) -> npt.NDArray[Any]:
        old = self[line]
        new = np.zeros((length, *old.shape[1:]), dtype=old.dtype)
        new[: len(old)] = old[:length]
        self.put(line, new)
        return new

    def bury_all(self: Sheet) -> None:
        arrays, self._arrays = self._arrays, []
        while arrays:
            array = arrays.pop()
            # 2: this name and the argument; others may go on with an array of their own
            if array is not None and sys.getrefcount(array) == 2:
                graveyard.bury(array)
        # a kernel that is given a sheet that is gone finds arrays without length
        self._lines[:, 1:] = 0
        graveyard.keep(self._lines)

    with monkeypatch.context() as patch:
        patch.setattr(Sheet, "put", put_and_bury)
        patch.setattr(Sheet, "grow", grow_elsewhere)
        patch.setattr(Sheet, "__del__", bury_all, raising=False)
        yield graveyard
        graveyard.check()
