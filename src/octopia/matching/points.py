"""Notifications as points, many at once: what the kernels search for.

One by one a notification costs a few microseconds whatever the search takes; together they share that. Attribute after
attribute their values become a column of floats, and all columns one array, in one go.

Rules of this file: the same points as `Space.point` gives one by one, and `Space` itself places what holds an integer
that may be no float. Values are those of checked notifications, so there is no NaN among them: until the array is made,
None stands for "absent", and then NaN.
"""

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Notification, Value
from octopia.matching.boxes import EXACT_MAX
from octopia.matching.placing import Plan, Sides
from octopia.matching.space import Space


class Points(NamedTuple):
    """Events as the kernels take them.

    `combination` says for each event which families it opens: `probes[probes_from[c]:probes_from[c + 1]]`; see
    `Openings`. `sides` are what is held against lower and against upper bounds, by place and event.
    """

    combination: npt.NDArray[np.int64]
    probes_from: npt.NDArray[np.int64]
    probes: npt.NDArray[np.int32]
    sides: Sides


# Numbers in the array of notifications that are placed together: one per dimension and notification.
TOGETHER_NUMBERS_MAX = 1 << 18

_Values = dict[str, Value]
_Column = Sequence[Value | None]

# The values themselves are read here as often as there are attributes: a method called each time, in Python, would cost
# more than all the rest.
_values_of = attrgetter("_values")
# The same as calling `Points`, without a function of Python between.
_new_points = tuple.__new__
_NUMBERS = frozenset({int, float, type(None)})
_FIRST = np.zeros(1, dtype=np.int64)


def one_point(families: Sequence[int], sides: Sides) -> Points:
    """One event, or as many as the sides are of, that these families are open to."""
    events = _FIRST if sides.shape[2] == 1 else np.zeros(sides.shape[2], dtype=np.int64)
    return Points(events, np.array([0, len(families)], dtype=np.int64), np.array(families, dtype=np.int32), sides)


def point_of(notification: Notification, space: Space) -> Points:
    """One notification in a space; valid until the next is asked for."""
    values: _Values = _values_of(notification)
    combination, openings = space.opened_by(values), space.openings
    return _new_points(Points, (combination, openings.starts, openings.probes, space.point(values)))


def fit_together(events: int, space: Space) -> bool:
    """Whether so many notifications are worth a common array: past this it is larger than what it saves."""
    return events * space.size <= TOGETHER_NUMBERS_MAX


def points_of(notifications: Sequence[Notification], space: Space) -> Points:
    """Many notifications in a space."""
    values: list[_Values] = list(map(_values_of, notifications))
    combination = np.array(_combinations(values, space), dtype=np.int64)
    return Points(combination, space.openings.starts, space.openings.probes, _sides(values, space))


def nowhere(size: int, events: int) -> Sides:
    """The sides of events that have no attribute at all."""
    sides = np.empty((2, size, events))
    sides[0], sides[1] = -np.inf, np.inf
    return sides


def _combinations(values: list[_Values], space: Space) -> list[int]:
    if space.opens_by_name:
        return space.openings.numbers_of(map(space.named_key, values))
    names = space.atom_attributes
    if not names:
        return space.openings.numbers_of([()]) * len(values)
    strings = [[text if type(text) is str else None for text in _column(name, values)] for name in names]
    return space.openings.numbers_of(zip(*strings, strict=True))


def _sides(values: list[_Values], space: Space) -> Sides:
    nothing: _Column = [None] * len(values)
    columns = [nothing] * space.size
    for plan in space.plan():
        _read(_column(plan.attribute, values), plan, columns)
    flat: list[Value | None] = []
    for column in columns:
        flat += column
    try:
        placed = np.array(flat, dtype=np.float64)
    except OverflowError:
        return _one_by_one(values, space)
    if (np.abs(placed) >= EXACT_MAX).any():
        return _one_by_one(values, space)
    placed = placed.reshape(space.size, len(values))
    sides = np.empty((2, *placed.shape))
    # of NaN and another number, these choose the other: what is absent lies nowhere
    np.fmax(placed, -np.inf, out=sides[0])
    np.fmin(placed, np.inf, out=sides[1])
    return sides


def _column(name: str, values: list[_Values]) -> list[Value | None]:
    try:
        return list(map(itemgetter(name), values))
    except KeyError:
        return [of.get(name) for of in values]


def _one_by_one(values: list[_Values], space: Space) -> Sides:
    return np.concatenate([space.point(of).copy() for of in values], axis=2)


def _read(column: list[Value | None], plan: Plan, columns: list[_Column]) -> None:
    """Put a column where its attribute has places, as numbers; None where an event has nothing to say there."""
    kinds = set(map(type, column))
    if plan.present >= 0:
        columns[plan.present] = [None if value is None else 1.0 for value in column]
    if kinds == {str}:
        if plan.string >= 0:
            columns[plan.string] = list(map(plan.codes.get, column, repeat(-1.0)))  # type: ignore[arg-type]
    elif kinds <= _NUMBERS:
        if plan.number >= 0:
            columns[plan.number] = column
    else:
        if plan.string >= 0:
            columns[plan.string] = [plan.codes.get(v, -1.0) if type(v) is str else None for v in column]
        if plan.number >= 0:
            columns[plan.number] = [v if type(v) is float or type(v) is int else None for v in column]
        if plan.boolean >= 0:
            columns[plan.boolean] = [v if type(v) is bool else None for v in column]
