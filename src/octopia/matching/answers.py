"""The matches of many events, event by event.

Memory is bounded by the answers: rows are collected in chunks of `CHUNK_ROWS`, or of what one event may need if that is
more. A result in one chunk is returned without a copy, which would take half as long as the search.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

CHUNK_ROWS = 1 << 22


class Answers(NamedTuple):
    """The number of matches of each event, and the value for each match, event by event."""

    counts: npt.NDArray[np.int64]
    found: npt.NDArray[Any]


class AnswerRoom:
    """An array to write answers to; only the part written is kept. It is in no sheet, so it may be resized."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        self.array: npt.NDArray[Any] = np.empty(count, dtype=dtype)

    def cut(self, count: int) -> npt.NDArray[Any]:
        """The first part of the array; the rest is freed, so nothing else may refer to it."""
        self.array.resize(count, refcheck=False)
        return self.array
