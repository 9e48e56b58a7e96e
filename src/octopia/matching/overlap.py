"""Overlap as a search: which stored filters can meet a given one.

Two closed intervals meet when each begins before the other ends, which is the very comparison that the kernels make
between a box and a point; so an advertisement is a "point" whose upper side is its upper bound and whose lower side its
lower bound, and the same search finds the boxes it meets.

Rules of this file: a question never misses a filter that overlaps. It is exact where both sides are intervals, codes
and presence, and where one value meets boxes that leave values out. Conditions on strings that all boxes of a family
share are held against the question once. What is left (a string that is asked for by name against a prefix, an interval
against a value left out, a box wider than its predicate, a filter that names nothing) is `doubtful`: what is found
there is tested with `octopia.overlaps`.
"""

from collections.abc import Callable, Collection
from enum import Enum, auto
from math import inf
from typing import NamedTuple

import numpy as np

from octopia.language import Conjunction, Predicate, impossible
from octopia.matching.boxes import Axis, Box, take_apart
from octopia.matching.placing import Sides
from octopia.matching.space import BoxKind, Family, Shape, Space

# a tuple: going through an enumeration itself takes longer
_AXES = tuple(Axis)
_PRESENT = Axis.PRESENT
_ANYTHING = (inf, -inf)
_NOTHING = (-inf, inf)


class Stored(Enum):
    """What the stored filters are; the question is the other."""

    SUBSCRIPTIONS = auto()
    ADVERTISEMENTS = auto()


class Question(NamedTuple):
    """What to search for: the kinds whose boxes decide alone, and those whose filters must be asked."""

    certain: list[int]
    doubtful: list[int]
    sides: Sides


def question(space: Space, conjunction: Conjunction, stored: Stored) -> Question:
    """One conjunction of an advertisement, or of a subscription, as a search among the other."""
    box = take_apart(conjunction, _codes(space))
    # the values that it leaves out follow the intervals, and say nothing that an interval could
    spans = dict(zip(box.dimensions, zip(box.highs, box.lows, strict=True), strict=False))
    with_more = {atom.attribute for atom in box.atoms} | {attribute for attribute, _ in box.without}
    # An attribute that the question does not name: a subscription may not ask for it, an advertisement may promise it.
    unnamed = _NOTHING if stored is Stored.SUBSCRIPTIONS else _ANYTHING
    sides = np.empty((2, space.size, 1))
    sides[0], sides[1] = unnamed
    types = _types(box)
    for attribute in conjunction.by_attribute:
        typed = types.get(attribute, {})
        for axis, place in zip(_AXES, space.axes_of(attribute) or (), strict=False):
            if place is not None:
                sides[:, place, 0] = _side(spans.get((attribute, axis)), axis, typed, wide=box.inexact)
    contradictory = box.inexact or any(len(typed) > 1 for typed in types.values())
    certain: list[int] = []
    doubtful: list[int] = []
    points = {attribute for (attribute, axis), (high, low) in spans.items() if low == high and axis is not _PRESENT}
    meeting = _Meeting(conjunction, with_more, points - with_more, stored)
    named = conjunction.by_attribute
    # only kinds that the names may allow: there can be many others
    kinds = space.kinds_naming_only(named) if stored is Stored.SUBSCRIPTIONS else space.kinds_naming_all(named)
    for kind in kinds:
        sure = meeting.decides(kind)
        if sure is not False:
            (doubtful if contradictory or sure is None else certain).append(kind.number)
    return Question(certain, doubtful, sides)


def _codes(space: Space) -> Callable[[str, str], float]:
    """Numbers for the strings of a question: strings that are not stored are all different, and equal to no other."""
    unknown: dict[str, float] = {}

    def code_of(attribute: str, text: str) -> float:
        code = space.known_code(attribute, text)
        return code if code >= 0 else unknown.setdefault(text, -1.0 - len(unknown))

    return code_of


def _types(box: Box) -> dict[str, dict[Axis, None]]:
    """The axes that each attribute has conditions on, presence aside."""
    types: dict[str, dict[Axis, None]] = {}
    for attribute, axis in (*box.dimensions, *box.without):
        if axis is not _PRESENT:
            types.setdefault(attribute, {})[axis] = None
    for atom in box.atoms:
        types.setdefault(atom.attribute, {})[Axis.STRING] = None
    return types


def _side(span: tuple[float, float] | None, axis: Axis, typed: Collection[Axis], *, wide: bool) -> tuple[float, float]:
    """What a named attribute shows on one axis."""
    if axis is _PRESENT:
        return 1.0, 1.0
    if span is not None:
        return span
    # no condition of this type: anything goes, unless conditions of another type rule it out
    return _ANYTHING if not typed or axis in typed or wide else _NOTHING


class _Terms(NamedTuple):
    """What decides between a question and the kinds of one family.

    `conditioned`: attributes that one of the two has more to say of than an interval. `apart`: those of them that no
    value satisfies for both. `mixed`: whether the family itself leaves values out on one of them.
    """

    conditioned: frozenset[str]
    apart: tuple[str, ...]
    mixed: bool


class _Meeting:
    """Whether a question and the boxes of a kind meet, as far as names and conditions on strings decide it."""

    def __init__(self, asked: Conjunction, with_more: set[str], points: set[str], stored: Stored) -> None:
        self._asked = asked.by_attribute
        self._named = frozenset(asked.by_attribute)
        self._with_more = with_more
        self._points = points
        self._stored = stored
        # by id: there are many more kinds than families
        self._terms: dict[int, _Terms] = {}

    def decides(self, kind: BoxKind) -> bool | None:
        """False: no box of the kind overlaps. True: the intervals decide. None: the filters must be asked."""
        shape, family = kind.shape, kind.family
        if not self._names_allow(shape, family):
            return False
        if kind.inexact or not self._named or not (shape.attributes or family.attributes):
            return None
        terms = self._terms.get(family.id)
        if terms is None:
            terms = self._terms[family.id] = self._terms_of(family)
        if any(attribute in shape.attributes or attribute in family.attributes for attribute in terms.apart):
            return False
        return True if not terms.mixed and terms.conditioned.isdisjoint(shape.typed) else None

    def _names_allow(self, shape: Shape, family: Family) -> bool:
        """PADRES's rule: a subscription may only ask for attributes that the advertisement names."""
        if self._stored is Stored.SUBSCRIPTIONS:
            return shape.attributes <= self._named and family.attributes <= self._named
        return self._named <= shape.attributes | family.attributes

    def _terms_of(self, family: Family) -> _Terms:
        theirs: dict[str, list[Predicate]] = {}
        for atom in family.atoms:
            theirs.setdefault(atom.attribute, []).append(atom)
        left_out = {attribute for attribute, _ in family.without}
        # one value is left out or it is not; of an interval something may remain
        conditioned = (self._with_more | theirs.keys() | (left_out - self._points)) & self._named
        apart = (a for a in sorted(conditioned - left_out) if impossible((*self._asked[a], *theirs.get(a, ()))))
        return _Terms(frozenset(conditioned), tuple(apart), not conditioned.isdisjoint(left_out))
