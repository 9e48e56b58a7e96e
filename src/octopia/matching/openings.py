"""A cache of the families that each combination of strings opens.

The cache is two arrays in the kernels' format, so that answers for many events need not be assembled; a combination is
identified by its index there. Indices and arrays are valid until the next call of any method. The cache holds up to
`OPENINGS_REMEMBERED_MAX` combinations, plus those of one call, with up to `OPENINGS_WEIGHT_MAX` characters and
families; then it is cleared, and combinations are computed again as they come.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

OPENINGS_REMEMBERED_MAX = 65_536
# About 64 MB: four bytes for a character or a family.
OPENINGS_WEIGHT_MAX = 1 << 24
_STARTS_MIN = 4
_PROBES_MIN = 8

# One string per attribute, or None; or the attributes, each with its string or None.
Key = tuple[str | None, ...] | tuple[tuple[str, str | None], ...]


class Openings:
    """The families that combination c opens are `probes[starts[c]:starts[c + 1]]`."""

    __slots__ = ("_alone", "_number_of", "_weight", "_work_out", "generation", "probes", "starts")

    def __init__(self, work_out: Callable[[Key], Sequence[int]]) -> None:
        self._work_out = work_out
        self._alone: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.generation = 0  # numbers of one generation mean nothing in the next
        self._start_anew()

    def forget(self) -> None:
        """Call this when families come or go."""
        if self._number_of:
            self._start_anew()

    def _start_anew(self) -> None:
        self.generation += 1
        self._number_of: dict[Key, int] = {}
        self._weight = 0
        self.starts: npt.NDArray[np.int64] = np.zeros(_STARTS_MIN, dtype=np.int64)
        self.probes: npt.NDArray[np.int32] = np.empty(_PROBES_MIN, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._number_of)

    def numbers_of(self, combinations: Iterable[Key]) -> list[int]:
        """The indices of combinations, computed if they are not cached."""
        if len(self._number_of) >= OPENINGS_REMEMBERED_MAX or self._weight > OPENINGS_WEIGHT_MAX:
            self.forget()
        known = self._number_of
        return [known[key] if key in known else self._remember(key) for key in combinations]

    def number_of(self, key: Key) -> int:
        """The index of one combination."""
        number = self._number_of.get(key)
        return self.numbers_of((key,))[0] if number is None else number

    def number_alone(self, key: Key) -> npt.NDArray[np.int64]:
        """The index of one combination, in the kernels' format; the same array every time."""
        self._alone[0] = self.number_of(key)
        return self._alone

    def _remember(self, key: Key) -> int:
        families = self._work_out(key)
        self._weight += len(families) + sum(map(_weight, key))
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
        self._number_of[key] = number
        return number


def _weight(part: str | tuple[str, str | None] | None) -> int:
    if part is None:
        return 1
    return len(part) if isinstance(part, str) else len(part[0]) + len(part[1] or "")
