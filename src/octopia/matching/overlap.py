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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from math import inf
from typing import NamedTuple

import numpy as np

from octopia.language import Conjunction, Operator, Predicate, impossible
from octopia.matching.boxes import Axis, Box, Dimension, Span, take_apart
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


class Questions:
    """The conjunctions of one advertisement, or of one subscription, as searches among the others.

    What names alone decide between a kind and a conjunction is worked out once for all conjunctions that name the same,
    and a kind of which all boxes were found is not asked about again: filters may have hundreds of conjunctions.
    """

    def __init__(self, space: Space, stored: Stored) -> None:
        self._space = space
        self._stored = stored
        # An attribute that the question does not name: subscriptions may not ask for it, advertisements may promise it.
        self._unnamed = _NOTHING if stored is Stored.SUBSCRIPTIONS else _ANYTHING
        self._by_names: dict[tuple[frozenset[str], ...], tuple[list[int], list[int], list[BoxKind]]] = {}
        self._found_whole: dict[int, None] = {}

    def ask(self, conjunction: Conjunction) -> Question:
        """One conjunction as a search."""
        box = take_apart(conjunction, _codes(self._space))
        # the values that it leaves out follow the intervals, and say nothing that an interval could
        spans = dict(zip(box.dimensions, zip(box.highs, box.lows, strict=True), strict=False))
        types = _types(box)
        sides = self._sides(conjunction, spans, types, wide=box.inexact)
        with_more = frozenset([*(atom.attribute for atom in box.atoms), *(attribute for attribute, _ in box.without)])
        points = frozenset(
            attribute for (attribute, axis), (high, low) in spans.items() if low == high and axis is not _PRESENT
        )
        meeting = _Meeting(conjunction, with_more, points - with_more, self._stored)
        certain, doubtful = self._decided(meeting)
        if box.inexact or any(len(typed) > 1 for typed in types.values()):
            return Question([], certain + doubtful, sides)
        return Question(certain, doubtful, sides)

    def found(self, kinds: Iterable[int]) -> None:
        """The boxes of these kinds were searched, and decide alone."""
        for number in kinds:
            kind = self._space.kind(number)
            if not kind.shape.places and not kind.family.places:
                self._found_whole[number] = None

    def _sides(
        self,
        conjunction: Conjunction,
        spans: Mapping[Dimension, Span],
        types: Mapping[str, Collection[Axis]],
        *,
        wide: bool,
    ) -> Sides:
        sides = np.empty((2, self._space.size, 1))
        sides[0], sides[1] = self._unnamed
        for attribute in conjunction.by_attribute:
            typed = types.get(attribute, ())
            for axis, place in zip(_AXES, self._space.axes_of(attribute) or (), strict=False):
                if place is not None:
                    sides[:, place, 0] = _side(spans.get((attribute, axis)), axis, typed, wide=wide)
        return sides

    def _decided(self, meeting: "_Meeting") -> tuple[list[int], list[int]]:
        """The kinds whose boxes decide alone, and those whose filters must be asked."""
        known = self._by_names.get(meeting.names)
        if known is None:
            known = self._by_names[meeting.names] = self._by_names_alone(meeting)
        certain, doubtful = known[0].copy(), known[1].copy()
        for kind in known[2]:
            sure = meeting.decides(kind) if kind.number not in self._found_whole else False
            if sure is not False:
                (doubtful if sure is None else certain).append(kind.number)
        return certain, doubtful

    def _by_names_alone(self, meeting: "_Meeting") -> tuple[list[int], list[int], list[BoxKind]]:
        """Kinds that decide alone, kinds to be asked, and kinds where it depends on what the conjunction says."""
        space, named = self._space, sorted(meeting.named)
        # only kinds that the names may allow: there can be many others
        numbers = (
            space.kinds_naming_only(named) if self._stored is Stored.SUBSCRIPTIONS else space.kinds_naming_all(named)
        )
        certain: list[int] = []
        doubtful: list[int] = []
        open_kinds: list[BoxKind] = []
        for kind in map(space.kind, numbers):
            if not meeting.names_allow(kind.shape, kind.family):
                continue
            if meeting.depends_on_strings(kind.family):
                open_kinds.append(kind)
            else:
                (doubtful if meeting.decides(kind) is None else certain).append(kind.number)
        return certain, doubtful, open_kinds


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

    def __init__(self, asked: Conjunction, with_more: frozenset[str], points: frozenset[str], stored: Stored) -> None:
        self._asked = asked.by_attribute
        self.named = frozenset(asked.by_attribute)
        # conjunctions that have these in common meet all kinds alike, unless strings decide
        self.names = (self.named, with_more, points)
        self._with_more = with_more
        self._points = points
        self._stored = stored
        # by id: there are many more kinds than families
        self._terms: dict[int, _Terms] = {}

    def decides(self, kind: BoxKind) -> bool | None:
        """Whether boxes of a kind that names allow overlap: False, none. True: intervals say. None: filters must."""
        shape, family = kind.shape, kind.family
        if kind.inexact or not self.named or not (shape.attributes or family.attributes):
            return None
        terms = self._terms.get(family.id)
        if terms is None:
            terms = self._terms[family.id] = self._terms_of(family)
        if any(attribute in shape.attributes or attribute in family.attributes for attribute in terms.apart):
            return False
        return True if not terms.mixed and terms.conditioned.isdisjoint(shape.typed) else None

    def names_allow(self, shape: Shape, family: Family) -> bool:
        """PADRES's rule: a subscription may only ask for attributes that the advertisement names."""
        if self._stored is Stored.SUBSCRIPTIONS:
            return shape.attributes <= self.named and family.attributes <= self.named
        return self.named <= shape.attributes | family.attributes

    def depends_on_strings(self, family: Family) -> bool:
        """Whether what the question says of a string, and not only its names, decides about a family."""
        return bool(self._with_more) or any(atom.attribute in self.named for atom in family.atoms)

    def _apart(self, attribute: str, theirs: Sequence[Predicate]) -> bool:
        """Whether no value of the attribute satisfies both sides."""
        asked = self._asked[attribute]
        for predicate in asked:
            if predicate.operator is Operator.EQ and predicate.value is not None:
                value = predicate.value
                return not all(p.accepts(value) for p in theirs) or not all(p.accepts(value) for p in asked)
        return impossible((*asked, *theirs))

    def _terms_of(self, family: Family) -> _Terms:
        theirs: dict[str, list[Predicate]] = {}
        for atom in family.atoms:
            theirs.setdefault(atom.attribute, []).append(atom)
        left_out = {attribute for attribute, _ in family.without}
        # one value is left out or it is not; of an interval something may remain
        conditioned = (self._with_more | theirs.keys() | (left_out - self._points)) & self.named
        apart = (a for a in sorted(conditioned - left_out) if self._apart(a, theirs.get(a, ())))
        return _Terms(frozenset(conditioned), tuple(apart), not conditioned.isdisjoint(left_out))
