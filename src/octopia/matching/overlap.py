"""Overlap as a search: which stored filters can meet a given one.

Two closed intervals meet when each begins before the other ends, which is the very comparison that the kernels make
between a box and a point; so an advertisement is a "point" whose upper side is its upper bound and whose lower side its
lower bound, and the same search finds the boxes it meets.

Rules of this file: a question never misses a filter that overlaps. It is exact where both sides are intervals, codes
and presence; where strings have other conditions, or an interval is wider than its predicate, the found ones are
`doubtful` and are tested with `octopia.overlaps`; so are filters that name nothing, which no interval can speak for.
"""

from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import NamedTuple

import numpy as np

from octopia.language import Conjunction
from octopia.matching.boxes import Axis, take_apart
from octopia.matching.space import BoxKind, Point, Probes, Space

_ANYTHING = (inf, -inf)
_NOTHING = (-inf, inf)


class Stored(Enum):
    """What the stored filters are; the question is the other."""

    SUBSCRIPTIONS = auto()
    ADVERTISEMENTS = auto()


class Question(NamedTuple):
    """What to search for: the kinds whose boxes decide alone, and those whose filters must be asked."""

    certain: Probes
    doubtful: Probes
    above: Point
    below: Point


def question(space: Space, conjunction: Conjunction, stored: Stored) -> Question:
    """One conjunction of an advertisement, or of a subscription, as a search among the other."""
    box = take_apart(conjunction, _codes(space))
    spans = dict(zip(box.dimensions, zip(box.highs, box.lows, strict=True), strict=True))
    with_atoms = {atom.attribute for atom in box.atoms}
    # An attribute that the question does not name: a subscription may not ask for it, an advertisement may promise it.
    unnamed = _NOTHING if stored is Stored.SUBSCRIPTIONS else _ANYTHING
    sides = [unnamed] * space.size
    impure = box.inexact or bool(box.atoms)
    for attribute in conjunction.by_attribute:
        axes = space.axes_of(attribute)
        typed = [axis for axis in (Axis.NUMBER, Axis.STRING, Axis.BOOL) if (attribute, axis) in spans]
        if attribute in with_atoms:
            typed.append(Axis.STRING)
        impure = impure or len(set(typed)) > 1
        for axis, place in zip(Axis, axes or (), strict=False):
            if place is not None:
                sides[place] = _side(spans.get((attribute, axis)), axis, typed, wide=box.inexact)
    named = frozenset(conjunction.by_attribute)
    certain: list[int] = []
    doubtful: list[int] = []
    for kind in space.kinds.values():
        if _may_meet(kind, named, stored):
            sure = not (impure or kind.atoms or kind.inexact) and named and kind.attributes
            (certain if sure else doubtful).append(kind.id)
    return Question(
        np.array(certain, dtype=np.int32),
        np.array(doubtful, dtype=np.int32),
        np.array([above for above, _ in sides], dtype=np.float64),
        np.array([below for _, below in sides], dtype=np.float64),
    )


def _codes(space: Space) -> Callable[[str, str], float]:
    """Numbers for the strings of a question: strings that are not stored are all different, and equal to no other."""
    unknown: dict[str, float] = {}

    def code_of(attribute: str, text: str) -> float:
        code = space.known_code(attribute, text)
        return code if code >= 0 else unknown.setdefault(text, -1.0 - len(unknown))

    return code_of


def _side(span: tuple[float, float] | None, axis: Axis, typed: list[Axis], *, wide: bool) -> tuple[float, float]:
    """What a named attribute shows on one axis."""
    if axis is Axis.PRESENT:
        return 1.0, 1.0
    if span is not None:
        return span
    # no condition of this type: anything goes, unless conditions of another type rule it out
    return _ANYTHING if not typed or axis in typed or wide else _NOTHING


def _may_meet(kind: BoxKind, named: frozenset[str], stored: Stored) -> bool:
    """PADRES's rule: a subscription may only ask for attributes that the advertisement names."""
    return kind.attributes <= named if stored is Stored.SUBSCRIPTIONS else named <= kind.attributes
