"""Events as points: their sides at every place of a space, for searches that do not begin with tokens.

A side is what is compared with lower bounds, or with upper bounds. Both are the coordinate of a value, with two
exceptions: an integer between two floats has the floats around it, and a value that is absent lies below every lower
and above every upper bound. A question about filters (`overlap.py`) has intervals for values.
"""

from collections.abc import Mapping
from math import inf, nextafter

import numpy as np
import numpy.typing as npt

from octopia.language import Value
from octopia.matching.boxes import Axis, string_key
from octopia.matching.columns import Column, Columns
from octopia.matching.space import Attribute, Space
from octopia.matching.tokens import ABSENT, BOOL, CODED, NUMBER

# By side, place and event.
Sides = npt.NDArray[np.float64]

_NUMBER, _STRING, _BOOL, _PRESENT, _EXACT, _ORDER, _ENDING, _ = Axis


def nowhere(size: int, events: int) -> Sides:
    """The sides of events without any attribute."""
    sides = np.empty((2, size, events))
    sides[0], sides[1] = -np.inf, np.inf
    return sides


def point_of(values: Mapping[str, Value], space: Space) -> Sides:
    """One notification; its pieces are left out."""
    sides = nowhere(space.size, 1)
    for attribute, value in space.named(values):
        for place, above, below in attribute.place(value):
            sides[:, place, 0] = above, below
    return sides


def points_of(columns: Columns, space: Space) -> Sides:
    """All events of columns; their pieces are left out."""
    sides = nowhere(space.size, columns.events)
    for attribute, column in columns.of:
        _place(sides, attribute, column)
    return sides


def _place(sides: Sides, attribute: Attribute, column: Column) -> None:
    places = attribute.places
    if places[_PRESENT] >= 0:
        there = slice(None) if isinstance(column.kinds, int) else np.flatnonzero(column.kinds != ABSENT)
        sides[:, places[_PRESENT], there] = 1.0
    for axis, kind in ((_NUMBER, NUMBER), (_BOOL, BOOL), (_STRING, CODED)):
        if places[axis] >= 0:
            events = column.of_kind(kind)
            sides[:, places[axis], events] = column.numbers[events]
    if column.rests is not None and places[_NUMBER] >= 0:
        between = np.flatnonzero(column.rests)
        sides[1, places[_NUMBER], between] = [nextafter(below, inf) for below in column.numbers[between].tolist()]
    if places[_EXACT] >= 0:
        events = np.arange(sides.shape[2])[column.of_kind(NUMBER)]
        sides[:, places[_EXACT], events] = [
            attribute.ladders[_EXACT].place(_number(column, event)) for event in events.tolist()
        ]
    for axis in (_ORDER, _ENDING):
        if places[axis] >= 0 and len(column.strings):
            events = np.arange(sides.shape[2])[column.of_kind(CODED)]
            which = events if column.string_of is None else column.string_of[events]
            distinct, of = np.unique(which, return_inverse=True)
            at = [
                attribute.ladders[axis].place(string_key(str(column.strings[each]), axis)) for each in distinct.tolist()
            ]
            sides[:, places[axis], events] = np.array(at, dtype=np.float64)[of]


def _number(column: Column, event: int) -> float:
    """The number of an event, exactly."""
    number = float(column.numbers[event])
    rest = 0 if column.rests is None else int(column.rests[event])
    return number if not rest else column.longs[event] if event in column.longs else int(number) + rest
