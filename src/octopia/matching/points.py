"""Notifications as points, many at once: what the kernels search for.

Placing one notification costs a few microseconds regardless of the search; a batch shares that cost. Attribute by
attribute, values become a column of floats, and all columns become one array at once.

The points are the same as those of `Space.point`, and `Space` itself places notifications with an integer that may not
be a float. Values come from checked notifications, so NaN is not among them: "absent" is None until the array is made,
and NaN from then on.
"""

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter, itemgetter

import numpy as np

from octopia.language import Notification, Value
from octopia.matching.boxes import EXACT_MAX
from octopia.matching.coordinates import AttributeAxes, Points, Sides
from octopia.matching.space import Space

# Numbers in the array of notifications that are placed together: one per dimension and notification.
TOGETHER_NUMBERS_MAX = 1 << 18

_Values = dict[str, Value]
_Column = Sequence[Value | None]

# The values are read once per attribute: a Python method call each time would cost more than all the rest.
_values_of = attrgetter("_values")
# The same as calling `Points`, without a Python function in between.
_new_points = tuple.__new__
_NUMBERS = frozenset({int, float, type(None)})
_FIRST = np.zeros(1, dtype=np.int64)


def one_point(families: Sequence[int], sides: Sides) -> Points:
    """One event, or as many as `sides` has, to which these families are open."""
    events = _FIRST if sides.shape[2] == 1 else np.zeros(sides.shape[2], dtype=np.int64)
    return Points(events, np.array([0, len(families)], dtype=np.int64), np.array(families, dtype=np.int32), sides)


def point_of(notification: Notification, space: Space) -> Points:
    """One notification in a space; valid until the next is asked for."""
    values: _Values = _values_of(notification)
    combination, openings = space.opened_by(values), space.openings
    return _new_points(Points, (combination, openings.starts, openings.probes, space.point(values)))


def fit_together(events: int, space: Space) -> bool:
    """Whether this many notifications are worth a common array: a larger one costs more than it saves."""
    return events * space.size <= TOGETHER_NUMBERS_MAX


def points_of(notifications: Sequence[Notification], space: Space) -> Points:
    """Many notifications in a space."""
    values: list[_Values] = list(map(_values_of, notifications))
    combination = np.array(_combinations(values, space), dtype=np.int64)
    return Points(combination, space.openings.starts, space.openings.probes, _sides(values, space))


def nowhere(size: int, events: int) -> Sides:
    """The sides of events without any attribute."""
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
    # of NaN and another number these choose the other, so an absent value lies nowhere
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


def _read(column: list[Value | None], plan: AttributeAxes, columns: list[_Column]) -> None:
    """Write a column, as numbers, to the positions of its attribute; None if an event has no such value."""
    kinds = set(map(type, column))
    if plan.present >= 0:
        columns[plan.present] = [None if value is None else 1.0 for value in column]
    if kinds == {str}:
        if plan.string >= 0:
            columns[plan.string] = list(map(plan.code_of, column, repeat(-1.0)))  # type: ignore[arg-type]
    elif kinds <= _NUMBERS:
        if plan.number >= 0:
            columns[plan.number] = column
    else:
        if plan.string >= 0:
            columns[plan.string] = [plan.code_of(v, -1.0) if type(v) is str else None for v in column]
        if plan.number >= 0:
            columns[plan.number] = [v if type(v) is float or type(v) is int else None for v in column]
        if plan.boolean >= 0:
            columns[plan.boolean] = [v if type(v) is bool else None for v in column]
