"""The input of a kernel that searches a matcher by itself, in one array: the addresses of the matcher's own arrays.

Passing that many arrays to a kernel takes longer than a search. A table is valid until the matcher changes
(`Matcher.search_table`); it keeps the arrays alive. `place_numba.search_by_table` reads it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from octopia.matching.box_run import Layout
from octopia.matching.tokens import Names

# The lines of a table: the layout of a run, the openings, the plans of names, the codes of strings, and numbers.
LINES = 17


class SearchTable:
    """The table of one run, for notifications with the names of one reader, as of a number of changes."""

    __slots__ = ("_arrays", "_changes", "_names", "_words", "lines")

    def __init__(
        self, changes: int, names: Names, layout: Layout, space: tuple[npt.NDArray[Any], ...], size: int, opened: int
    ) -> None:
        """`size` is that of a point, `opened` the combination of families that all notifications open."""
        from octopia.native import addresses

        self._changes = changes
        self._names = names
        self._words = len(names.words)
        self._arrays: tuple[npt.NDArray[Any], ...] = (*layout, *space, np.array([size, opened], dtype=np.int64))
        self.lines = addresses(*self._arrays)

    def holds(self, changes: int, names: Names) -> bool:
        """Whether it is still valid, and for these names."""
        return self._changes == changes and self._names is names and self._words == len(names.words)
