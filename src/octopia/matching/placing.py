"""Where one notification lies: its values, each at the places of its attribute.

Rules of this file: this is done for every notification that comes alone, and was a fifth of matching it; so what can be
known beforehand is worked out when the dimensions in use change, and what is left is one pass over their attributes.
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


class Plan(NamedTuple):
    """What to do with an attribute of a notification: codes of its strings, and the places of its axes or -1."""

    attribute: str
    codes: dict[str, float]
    number: int
    string: int
    boolean: int
    present: int


# An attribute, what gives the codes of its strings, and each of its places twice: on either side.
_Step = tuple[str, Callable[[str, float], float], int, int, int, int, int, int, int, int]


class Placing:
    """How notifications are placed in a space of so many dimensions, by the plans of its attributes."""

    __slots__ = ("_nowhere", "_point", "_steps", "_write")

    def __init__(self, size: int, plans: list[Plan]) -> None:
        self._point: Sides = np.empty((2, size, 1))
        self._nowhere = [-inf] * size + [inf] * size
        # twice as fast as making an array of a list
        self._write: Callable[..., None] = Struct(f"{2 * size}d").pack_into
        self._steps: list[_Step] = [
            (name, codes.get, number, number + size, text, text + size, flag, flag + size, there, there + size)
            for name, codes, number, text, flag, there in plans
        ]

    def place(self, values: Mapping[str, Value]) -> Sides:
        """A notification as a point: what is held against lower bounds, and what against upper bounds.

        Both are the value, but for an integer between two floats, where they are the floats around it, and for what is
        absent, which lies below every lower and above every upper bound. The same array every time.
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


class WidePlacing:
    """The same in a space of many attributes: only those that a notification has are looked at.

    It reads the space's own tables, so that it holds whatever dimensions come and go.
    """

    __slots__ = ("_axes", "_code_of", "_flat", "_half", "_point", "_touched")

    def __init__(self, axes: Axes, code_of: Callable[[str, str], float]) -> None:
        self._axes = axes
        self._code_of = code_of
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        # twice what is needed: the space grows one dimension at a time
        self._half = 2 * size
        self._point: Sides = np.empty((2, self._half, 1))
        self._point[0], self._point[1] = -inf, inf
        # to write single numbers to an array takes several times as long
        self._flat = self._point.data.cast("B").cast("d") if size else memoryview(b"").cast("d")
        self._touched: list[int] = []

    def place(self, values: Mapping[str, Value], size: int) -> Sides:
        """A notification as a point, see `Placing.place`, in a space of this size."""
        if size > self._half:
            self._make_room(size)
        flat, half = self._flat, self._half
        for place in self._touched:
            flat[place], flat[place + half] = -inf, inf
        touched = self._touched = []
        # of the two, what is shorter: a notification may have thousands of attributes that no filter names
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
