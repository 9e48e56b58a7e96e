"""A notification as a point: its values, each at the positions of its attribute's axes.

This runs for every notification that is matched on its own, and used to be a fifth of that time. So everything known in
advance is computed when the dimensions in use change, which leaves one pass over their attributes.
"""

from collections.abc import Callable, Mapping
from math import inf
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Value
from octopia.matching.boxes import EXACT_MAX, floats_around

Sides = npt.NDArray[np.float64]


class Points(NamedTuple):
    """Events as the kernels take them.

    `combination` says for each event which families it opens: `probes[probes_from[c]:probes_from[c + 1]]`; see
    `Openings`. `sides` are the values compared with lower and with upper bounds, by place and event.
    """

    combination: npt.NDArray[np.int64]
    probes_from: npt.NDArray[np.int64]
    probes: npt.NDArray[np.int32]
    sides: Sides


class AttributeAxes(NamedTuple):
    """The axes of an attribute: how to look up the codes of its strings, and the position of each axis or -1."""

    attribute: str
    code_of: Callable[[str, float], float]
    number: int
    string: int
    boolean: int
    present: int


# An attribute, the lookup for codes of its strings, and each of its places twice, once per side.
_Step = tuple[str, Callable[[str, float], float], int, int, int, int, int, int, int, int]


class Coordinates:
    """Computes the points of notifications in a space of a given size, from the axes of its attributes."""

    __slots__ = ("_nowhere", "_point", "_steps", "_write")

    def __init__(self, size: int, plans: list[AttributeAxes]) -> None:
        self._point: Sides = np.empty((2, size, 1))
        self._nowhere = [-inf] * size + [inf] * size
        # twice as fast as making an array from a list
        self._write: Callable[..., None] = Struct(f"{2 * size}d").pack_into
        self._steps: list[_Step] = [
            (name, code_of, number, number + size, text, text + size, flag, flag + size, there, there + size)
            for name, code_of, number, text, flag, there in plans
        ]

    def place(self, values: Mapping[str, Value]) -> Sides:
        """A notification as a point: the values compared with lower bounds, and those compared with upper bounds.

        Both are the value itself, with two exceptions: an integer between two floats becomes the floats around it, and
        an absent value lies below every lower and above every upper bound. Returns the same array every time.
        """
        sides = self._nowhere.copy()
        for name, code_of, number, number_2, text, text_2, flag, flag_2, there, there_2 in self._steps:
            value = values.get(name)
            kind = type(value)
            if kind is float:
                if number >= 0:
                    sides[number] = sides[number_2] = value  # type: ignore[assignment]
            elif kind is str:
                if text >= 0:
                    sides[text] = sides[text_2] = code_of(value, -1.0)  # type: ignore[arg-type]
            elif kind is bool:
                if flag >= 0:
                    sides[flag] = sides[flag_2] = float(value)  # type: ignore[arg-type]
            elif value is None:
                continue
            elif number >= 0:
                if -EXACT_MAX <= value <= EXACT_MAX:  # type: ignore[operator]
                    sides[number] = sides[number_2] = value  # type: ignore[assignment]
                else:
                    sides[number], sides[number_2] = floats_around(value)  # type: ignore[arg-type]
            if there >= 0:
                sides[there] = sides[there_2] = 1.0
        self._write(self._point, 0, *sides)
        return self._point


# The places of an attribute by axis: number, string, boolean, presence.
Axes = Mapping[str, list[int | None]]


class WideCoordinates:
    """The same in a space of many attributes: only those that a notification has are visited.

    It reads the space's own tables, so it stays valid as dimensions come and go.
    """

    __slots__ = ("_axes", "_code_of", "_flat", "_half", "_point", "_touched")

    def __init__(self, axes: Axes, code_of: Callable[[str, str], float]) -> None:
        self._axes = axes
        self._code_of = code_of
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        # twice the size needed: the space grows one dimension at a time
        self._half = 2 * size
        self._point: Sides = np.empty((2, self._half, 1))
        self._point[0], self._point[1] = -inf, inf
        # writing single numbers to an array takes several times as long
        self._flat = self._point.data.cast("B").cast("d") if size else memoryview(b"").cast("d")
        self._touched: list[int] = []

    def place(self, values: Mapping[str, Value], size: int) -> Sides:
        """A notification as a point, see `Coordinates.place`, in a space of this size."""
        if size > self._half:
            self._make_room(size)
        flat, half = self._flat, self._half
        for place in self._touched:
            flat[place], flat[place + half] = -inf, inf
        touched = self._touched = []
        # iterate over the shorter one: a notification may have thousands of attributes that no filter names
        for name in values if len(values) < len(self._axes) else self._axes:
            axes, value = self._axes.get(name), values.get(name)
            if axes is None or value is None:
                continue
            for place, above, below in self._placed(name, value, axes):
                touched.append(place)
                flat[place], flat[place + half] = above, below
        return self._point

    def _placed(self, name: str, value: Value, axes: list[int | None]) -> list[tuple[int, float, float]]:
        number, string, boolean, present = axes
        placed = [] if present is None else [(present, 1.0, 1.0)]
        if type(value) is str:
            if string is not None:
                code = self._code_of(name, value)
                placed.append((string, code, code))
        elif type(value) is bool:
            if boolean is not None:
                placed.append((boolean, float(value), float(value)))
        elif number is not None:
            around = floats_around(value) if isinstance(value, int) else (value, value)
            placed.append((number, *around))  # type: ignore[arg-type]
        return placed
