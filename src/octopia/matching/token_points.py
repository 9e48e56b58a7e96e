"""Tokens in a space: the same points as `points.py` makes of notifications, without making notifications.

The space is consulted once per attribute name that a reader has met, and the answers are cached by its number.
The values that decide which families are open are written as a byte key, and the families are cached by that key.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from octopia.matching.codes import CodeTable
from octopia.matching.coordinates import Points
from octopia.matching.tokens import Names, Tokens

if TYPE_CHECKING:
    from octopia.matching.box_run import Layout, Rows
    from octopia.matching.space import Space

# Cached keys of openings; a full cache is cleared.
OPENED_REMEMBERED_MAX = 65_536
_COLUMNS = 6
_ROOM_MIN = 256

Plans = npt.NDArray[np.int64]


class TokenPoints:
    """Places the tokens of batches in one space."""

    __slots__ = (
        "_combination",
        "_decides",
        "_kernels",
        "_names",
        "_opened",
        "_planned",
        "_plans",
        "_room",
        "_space",
        "codes",
    )

    def __init__(self, space: "Space") -> None:
        from octopia.matching import place_numba

        self._kernels: Any = place_numba
        self._space = space
        self.codes = CodeTable(space.all_codes())
        # a line per name of this reader, as far as its names are planned
        self._plans: Plans = np.empty((0, _COLUMNS), dtype=np.int64)
        self._planned: Names | None = None
        self._names: list[str] = []
        self._decides: dict[str, int] = {}
        self._opened: dict[bytes, int] = {}
        self._room = np.empty(_ROOM_MIN)
        self._combination: npt.NDArray[np.int64] = np.empty(_ROOM_MIN, dtype=np.int64)

    def dimensions_changed(self) -> None:
        """Call this when an attribute gets or loses a place."""
        self._planned = None

    def openings_changed(self) -> None:
        """Call this when the open families may have changed."""
        # Plans made while nothing decided know of no deciding name, so they go even where nothing else is cached.
        self._opened.clear()
        self._planned = None
        if self._names:
            self._names, self._decides = [], {}

    def points(self, tokens: Tokens, first: int, count: int) -> Points:
        """Place `count` notifications, starting at `first`."""
        space, kernels, codes = self._space, self._kernels, self.codes
        plans = self._plans_for(tokens.names)
        combination = self._combinations(tokens, plans, first, count)
        sides = np.empty((2, space.size, count))
        kernels.place(
            tokens.data, tokens.notes, first, tokens.tokens, tokens.numbers, plans, codes.slots,
            codes.segments, codes.codes, codes.texts, sides,
        )  # fmt: skip
        return Points(combination, space.openings.starts, space.openings.probes, sides)

    def arguments(self, names: Names) -> tuple[Any, ...]:
        """The arguments of `place_and_search` that belong to this space, from `plans` to `opened` without `count`.

        For batches of notifications that all open the same families, with the names of this reader.
        """
        codes, space = self.codes, self._space
        opened = space.openings.number_of(())
        plans = (
            self._plans if names is self._planned and len(names.words) == len(self._plans) else self._plans_for(names)
        )
        return plans, codes.slots, codes.segments, codes.codes, codes.texts, space.size, opened

    def search(self, layout: "Layout", tokens: Tokens, out: "Rows", counts: npt.NDArray[np.int64]) -> tuple[int, int]:
        """Place a batch and search one run, which takes one call, where all notifications open the same families.

        Returns, as the kernel does, the first notification whose answer does not fit into `out`, and how many rows
        those before it have.
        """
        openings, count = self._space.openings, tokens.counts.notes
        *arrays, size, opened = self.arguments(tokens.names)
        if 2 * size * count > len(self._room):
            self._room = np.empty(4 * size * count)
        if count > len(self._combination):
            self._combination = np.empty(2 * count, dtype=np.int64)
        found: tuple[int, int] = self._kernels.place_and_search(
            *layout, openings.starts, openings.probes, tokens.data, tokens.notes, tokens.tokens, tokens.numbers,
            *arrays, size, count, opened, self._combination, self._room, out, counts,
        )  # fmt: skip
        return found

    def _plans_for(self, names: Names) -> Plans:
        if names is not self._planned:
            self._planned, self._plans = names, self._plans[:0]
        known = len(self._plans)
        if len(names.words) > known:
            lines = np.array([self._plan(name) for name in names.words[known:]], dtype=np.int64)
            self._plans = np.concatenate([self._plans, lines])
        return self._plans

    def _plan(self, name: str) -> list[int]:
        axes = self._space.axes_of(name)
        places = [-1] * 4 if axes is None else [-1 if place is None else place for place in axes]
        if not self._names and self._space.something_decides:
            self._names = self._space.deciding()
            self._decides = {each: number for number, each in enumerate(self._names)}
        return [*places, self._space.owner_of(name), self._decides.get(name, -1)]

    def _combinations(self, tokens: Tokens, plans: Plans, first: int, count: int) -> npt.NDArray[np.int64]:
        openings = self._space.openings
        if not self._space.something_decides:
            return np.full(count, openings.numbers_of([()])[0], dtype=np.int64)
        keys = self._keys(tokens, plans, first, count)
        opened = self._opened
        missing = [key for key in dict.fromkeys(keys) if key not in opened]
        if missing:
            generation = openings.generation
            numbers = openings.numbers_of(map(self._key, missing))
            if openings.generation != generation or len(opened) > OPENED_REMEMBERED_MAX:
                # the cache was cleared: start over, with everything this batch needs in one call
                opened.clear()
                missing = list(dict.fromkeys(keys))
                numbers = openings.numbers_of(map(self._key, missing))
            opened.update(zip(missing, numbers, strict=True))
        return np.array([opened[key] for key in keys], dtype=np.int64)

    def _keys(self, tokens: Tokens, plans: Plans, first: int, count: int) -> list[bytes]:
        room = np.empty(len(tokens.data) + 8 * tokens.counts.tokens, dtype=np.uint8)
        ends = np.empty(count, dtype=np.int64)
        self._kernels.write_opening_keys(tokens.data, tokens.notes, first, count, tokens.tokens, plans, room, ends)
        bounds = [0, *ends.tolist()]
        whole = room[: bounds[-1]].tobytes()
        return [whole[start:end] for start, end in pairwise(bounds)]

    def _key(self, key: bytes) -> Any:
        """The index of this key in the space's openings."""
        named: dict[str, str | None] = {}
        at = 0
        while at < len(key):
            name = self._names[int.from_bytes(key[at : at + 4], "big")]
            size = int.from_bytes(key[at + 4 : at + 8], "big") - 1
            named[name] = None if size < 0 else key[at + 8 : at + 8 + size].decode()
            at += 8 + max(size, 0)
        return self._space.opening_key(named)
