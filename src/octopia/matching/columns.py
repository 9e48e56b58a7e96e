"""Many events as columns, one per attribute that filters name: from notifications here, from Arrow in `arrow_columns`.

Placing one notification costs some microseconds, whatever is searched; many of them share that cost. A column has the
kind of each value (`tokens.py`), the number of a number or boolean or the code of a string, and the strings. Compiled
code gets columns as tokens (`own_tokens.py`), numpy as the sides of points (`points.py`).
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Notification, Value
from octopia.matching.boxes import EXACT_MAX, Axis
from octopia.matching.space import FEW_ATTRIBUTES_MAX, Attribute, Space
from octopia.matching.tokens import ABSENT, BOOL, CODED, NUMBER, REST_MAX, pair_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8]

_NUMBERS = frozenset({int, float})
_KIND_OF = {int: NUMBER, float: NUMBER, str: CODED, bool: BOOL, type(None): ABSENT}
_NO_LONGS: Mapping[int, int] = {}
# The values are read once per attribute: a Python method call each time would cost more than all the rest.
values_of = attrgetter("_values")


class Column(NamedTuple):
    """The values of one attribute. `kinds` is a number if all values are of one kind.

    `rests` is None if no number has one; `longs` are the integers of more than 64 bits, by event. The string of event e
    is `strings[string_of[e]]`, or `strings[e]` if that is None.
    """

    kinds: int | Kinds
    numbers: Floats
    rests: Ints | None = None
    strings: Sequence[str | None] = ()
    string_of: Ints | None = None
    longs: Mapping[int, int] = _NO_LONGS

    def of_kind(self, kind: int) -> slice | Ints:
        """The events whose value is of this kind."""
        if isinstance(self.kinds, int):
            return slice(None) if self.kinds == kind else slice(0)
        return np.flatnonzero(self.kinds == kind)

    def string(self, event: int) -> str | None:
        """The string of an event; None if it has another value, or none."""
        if (self.kinds if isinstance(self.kinds, int) else self.kinds[event]) != CODED:
            return None
        return self.strings[event if self.string_of is None else int(self.string_of[event])]


class Columns(NamedTuple):
    """Events: their number, and a column for each attribute that filters name and some event may have."""

    events: int
    of: list[tuple[Attribute, Column]]

    @property
    def has_longs(self) -> bool:
        """Whether an integer of more than 64 bits lies on an axis where it needs more than its token."""
        return any(column.longs and attribute.places[Axis.EXACT] >= 0 for attribute, column in self.of)


def columns_of(notifications: Sequence[Notification], space: Space) -> Columns:
    """Notifications as columns."""
    values = list(map(values_of, notifications))
    named = space.attributes
    if len(named) > FEW_ATTRIBUTES_MAX:
        there = dict.fromkeys(name for one in values for name in one)
        named = {name: named[name] for name in there if name in named}
    found = []
    for name, attribute in named.items():
        try:
            column = list(map(itemgetter(name), values))
        except KeyError:
            column = [one.get(name) for one in values]
        found.append((attribute, _column(column, attribute)))
    return Columns(len(values), found)


def _column(values: list[Value | None], attribute: Attribute) -> Column:
    types = set(map(type, values))
    if types == {str}:
        lookup = _no_code if attribute.codes is None else attribute.codes.of.lookup
        return Column(CODED, np.array(list(map(lookup, values, repeat(-1.0)))), strings=values)  # type: ignore[arg-type]
    if types <= _NUMBERS:
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            return _mixed(values, attribute)
        if types == {float} or not (np.abs(numbers) >= EXACT_MAX).any():
            return Column(NUMBER, numbers)
    return _mixed(values, attribute)


def _no_code(text: str, otherwise: float) -> float:
    return otherwise


def _mixed(values: list[Value | None], attribute: Attribute) -> Column:
    """A column of any values, one by one."""
    kinds = np.array([_KIND_OF[type(value)] for value in values], dtype=np.int8)
    numbers = np.zeros(len(values))
    rests = np.zeros(len(values), dtype=np.int64)
    strings: list[str | None] = [None] * len(values)
    longs: dict[int, int] = {}
    for event, value in enumerate(values):
        if type(value) is str:
            numbers[event], strings[event] = attribute.code(value), value
        elif type(value) is bool:
            numbers[event] = value
        elif value is not None:
            numbers[event], rests[event] = pair_of(value)  # type: ignore[arg-type]
            if rests[event] == REST_MAX:
                longs[event] = value  # type: ignore[assignment]
    return Column(kinds, numbers, rests, strings, None, longs)
