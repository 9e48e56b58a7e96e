"""Which families a combination of strings opens, remembered.

Rules of this file: what is remembered lies in two arrays, as the kernels take them, so that the answers for many events
need not be put together; a combination is its number in there. Numbers, and the arrays, hold until the next call of any
method. Up to `OPENINGS_REMEMBERED_MAX` combinations are remembered, and as many more as one call brings; then all are
forgotten, and worked out anew as they come.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

OPENINGS_REMEMBERED_MAX = 65_536
_STARTS_MIN = 4
_PROBES_MIN = 8

# one string per attribute, None where there is none
Strings = tuple[str | None, ...]


class Openings:
    """The families that combination c opens are `probes[starts[c]:starts[c + 1]]`."""

    __slots__ = ("_alone", "_number_of", "_work_out", "probes", "starts")

    def __init__(self, work_out: Callable[[Strings], Sequence[int]]) -> None:
        self._work_out = work_out
        self._alone: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._start_anew()

    def forget(self) -> None:
        """To be called when families come or go."""
        if self._number_of:
            self._start_anew()

    def _start_anew(self) -> None:
        self._number_of: dict[Strings, int] = {}
        self.starts: npt.NDArray[np.int64] = np.zeros(_STARTS_MIN, dtype=np.int64)
        self.probes: npt.NDArray[np.int32] = np.empty(_PROBES_MIN, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._number_of)

    def numbers_of(self, combinations: Iterable[Strings]) -> list[int]:
        """The numbers of combinations, which are worked out if they are not known."""
        if len(self._number_of) >= OPENINGS_REMEMBERED_MAX:
            self.forget()
        known = self._number_of
        return [known[strings] if strings in known else self._remember(strings) for strings in combinations]

    def number_alone(self, strings: Strings) -> npt.NDArray[np.int64]:
        """The number of one combination, as the kernels take it; the same array every time."""
        number = self._number_of.get(strings)
        self._alone[0] = self.numbers_of((strings,))[0] if number is None else number
        return self._alone

    def _remember(self, strings: Strings) -> int:
        families = self._work_out(strings)
        number = len(self._number_of)
        start = int(self.starts[number])
        stop = start + len(families)
        if number + 1 == len(self.starts):
            self.starts = np.concatenate([self.starts, np.zeros_like(self.starts)])
        if stop > len(self.probes):
            more = np.empty(max(stop, 2 * len(self.probes)), dtype=np.int32)
            more[:start] = self.probes[:start]
            self.probes = more
        self.starts[number + 1] = stop
        self.probes[start:stop] = families
        self._number_of[strings] = number
        return number
