"""The filters of a matcher, by row.

Unpickling a filter checks it again, which takes about 50 µs, and most copies of a matcher that are sent to other
processes never look at one. So filters are pickled in packs of about a hundred, and a pack is opened when one of its
filters is requested.
"""

import pickle
from typing import Any

from octopia.language import Filter

PACK_FILTERS = 256


class Filters:
    """A list of filters; None for a free row."""

    __slots__ = ("_by_row", "_packed")

    def __init__(self) -> None:
        self._by_row: list[Filter | None] = []
        # number of a pack -> its filters; in `_by_row` they are None meanwhile
        self._packed: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._by_row)

    def append(self, filter: Filter) -> None:
        if self._packed:
            self._open(len(self._by_row))
        self._by_row.append(filter)

    def __getitem__(self, row: int) -> Filter | None:
        if self._packed:
            self._open(row)
        return self._by_row[row]

    def __setitem__(self, row: int, filter: Filter | None) -> None:
        if self._packed:
            self._open(row)
        self._by_row[row] = filter

    def take_out(self, row: int) -> Filter:
        """The filter of a row in use, which is then free."""
        filter = self[row]
        assert filter is not None, "a row in use has its filter"  # noqa: S101
        self._by_row[row] = None
        return filter

    def _open(self, row: int) -> None:
        number = row // PACK_FILTERS
        packed = self._packed.pop(number, None)
        if packed is not None:
            filters = pickle.loads(packed)  # noqa: S301 - packed by `__getstate__`, and came in the same pickle as this
            self._by_row[number * PACK_FILTERS : number * PACK_FILTERS + len(filters)] = filters

    def __getstate__(self) -> tuple[int, dict[int, bytes]]:
        packed = {}
        for number in range(-(-len(self._by_row) // PACK_FILTERS)):
            first = number * PACK_FILTERS
            packed[number] = self._packed.get(number) or pickle.dumps(self._by_row[first : first + PACK_FILTERS])
        return len(self._by_row), packed

    def __setstate__(self, state: tuple[int, dict[int, bytes]]) -> None:
        rows, self._packed = state
        self._by_row = [None] * rows

    def __reduce__(self) -> tuple[Any, ...]:
        return Filters, (), self.__getstate__()
