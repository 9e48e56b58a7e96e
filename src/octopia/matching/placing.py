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
