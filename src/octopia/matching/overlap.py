"""Overlap as a search: which stored filters can meet a given one.

Two closed intervals meet when each begins before the other ends, which is the same comparison that the kernels make
between a box and a point; so an advertisement is a "point" whose upper side is its upper bound and whose lower side its
lower bound, and the same search finds the boxes it meets.

A question never misses a filter that overlaps. It is exact where both sides are intervals, codes and presence, and
where one value meets boxes with excluded values. Conditions on strings that all boxes of a family share are tested
against the question once. The remaining cases (an equal string against a prefix, an interval against an excluded value,
a box wider than its predicate, a filter without attributes) are `doubtful`: their results are tested with
`octopia.overlaps`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from math import inf
from typing import NamedTuple

import numpy as np

from octopia.language import Conjunction, Operator, Predicate, impossible
from octopia.matching.boxes import Axis, Box, Dimension, Span, take_apart
from octopia.matching.coordinates import Sides
from octopia.matching.space import BoxKind, Family, Shape, Space

# a tuple: going through an enumeration itself takes longer
_AXES = tuple(Axis)
_PRESENT = Axis.PRESENT
_ANYTHING = (inf, -inf)
_NOTHING = (-inf, inf)


class Stored(Enum):
    """The kind of the stored filters; the question is of the other kind."""

    SUBSCRIPTIONS = auto()
    ADVERTISEMENTS = auto()


class OverlapQuery(NamedTuple):
    """One search: the kinds whose boxes decide alone, and those whose filters must be tested."""

    certain: list[int]
    doubtful: list[int]
    sides: Sides


# Conjunctions that are searched for together: as many points of a space that may have thousands of dimensions.
TOGETHER_MAX = 16


class _Asked(NamedTuple):
    """One conjunction of the question, taken apart."""

    box: Box
    spans: Mapping[Dimension, Span]
    types: Mapping[str, Collection[Axis]]
    meeting: "_Meeting"

    @property
    def contradictory(self) -> bool:
        return self.box.inexact or any(len(typed) > 1 for typed in self.types.values())

    @property
    def likeness(self) -> Hashable:
        """The common key of conjunctions that meet all kinds alike, conditions on strings aside."""
        types = tuple((attribute, tuple(typed)) for attribute, typed in self.types.items())
        return self.meeting.names, types, self.contradictory


class _OpenKind(NamedTuple):
    """A kind decided by an equal string: its atoms, by attribute, that the string must satisfy."""

    number: int
    certain: bool
    atoms: tuple[tuple[str, int], ...]


class Questions:
    """The conjunctions of one advertisement, or of one subscription, as searches among the others.

    The part that names alone decide is computed once for all conjunctions with the same names, and these are searched
    for together; a kind whose boxes were all found is not searched again. Filters may have hundreds of conjunctions,
    and tables thousands of kinds.
    """

    def __init__(self, space: Space, stored: Stored) -> None:
        self._space = space
        self._stored = stored
        # Attributes that the question does not name: subscriptions must not have them, advertisements may.
        self._unnamed = _NOTHING if stored is Stored.SUBSCRIPTIONS else _ANYTHING
        self._found_whole: dict[int, None] = {}

    def ask(self, conjunctions: Iterable[Conjunction]) -> Iterator[OverlapQuery]:
        """All conjunctions as searches, to be run one after the other."""
        alike: dict[Hashable, list[_Asked]] = {}
        for conjunction in conjunctions:
            asked = self._taken_apart(conjunction)
            alike.setdefault(asked.likeness, []).append(asked)
        for group in alike.values():
            yield from self._ask_alike(group)

    def _ask_alike(self, group: list[_Asked]) -> Iterator[OverlapQuery]:
        first = group[0]
        certain, doubtful, open_kinds = self._by_names(first.meeting)
        if first.contradictory:
            certain, doubtful = [], certain + doubtful
        if certain or doubtful:
            for at in range(0, len(group), TOGETHER_MAX):
                yield OverlapQuery(certain, doubtful, self._sides(group[at : at + TOGETHER_MAX]))
        if not open_kinds:
            return
        if first.meeting.is_plain and not first.contradictory:
            waiting = self._open_to_equal_strings(first, open_kinds)
            for asked in group:
                yield from self._ask_open(asked, *self._opened_by_strings(asked, waiting))
        else:
            for asked in group:
                yield from self._ask_open(asked, *self._decided(asked, open_kinds))

    def _ask_open(self, asked: _Asked, certain: list[int], doubtful: list[int]) -> Iterator[OverlapQuery]:
        if certain or doubtful:
            yield OverlapQuery(certain, doubtful, self._sides([asked]))
            for kind in map(self._space.kind, certain):
                if not kind.shape.places and not kind.family.places:
                    self._found_whole[kind.number] = None

    def _taken_apart(self, conjunction: Conjunction) -> _Asked:
        box = take_apart(conjunction, _codes(self._space))
        # the excluded values follow the intervals and cannot be expressed as intervals
        spans = dict(zip(box.dimensions, zip(box.highs, box.lows, strict=True), strict=False))
        with_more = frozenset([*(atom.attribute for atom in box.atoms), *(attribute for attribute, _ in box.without)])
        points = frozenset(
            attribute for (attribute, axis), (high, low) in spans.items() if low == high and axis is not _PRESENT
        )
        return _Asked(box, spans, _types(box), _Meeting(conjunction, with_more, points - with_more, self._stored))

    def _sides(self, group: list[_Asked]) -> Sides:
        sides = np.empty((2, self._space.size, len(group)))
        sides[0], sides[1] = self._unnamed
        for event, asked in enumerate(group):
            for attribute in asked.meeting.asked:
                typed = asked.types.get(attribute, ())
                for axis, place in zip(_AXES, self._space.axes_of(attribute) or (), strict=False):
                    if place is not None:
                        span = asked.spans.get((attribute, axis))
                        sides[:, place, event] = _side(span, axis, typed, wide=asked.box.inexact)
        return sides

    def _by_names(self, meeting: "_Meeting") -> tuple[list[int], list[int], list[BoxKind]]:
        """Kinds that decide alone, kinds to be tested, and kinds where it depends on the conjunction's conditions."""
        space, named = self._space, sorted(meeting.asked)
        # only kinds that the names allow: there can be many others
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

    def _decided(self, asked: _Asked, open_kinds: list[BoxKind]) -> tuple[list[int], list[int]]:
        """The open kinds whose boxes decide alone, and those whose filters must be tested."""
        certain: list[int] = []
        doubtful: list[int] = []
        for kind in open_kinds:
            sure = asked.meeting.decides(kind) if kind.number not in self._found_whole else False
            if sure is not False:
                (doubtful if sure is None or asked.contradictory else certain).append(kind.number)
        return certain, doubtful

    def _open_to_equal_strings(self, first: _Asked, open_kinds: list[BoxKind]) -> list[_OpenKind]:
        """The kinds that conjunctions like this one may meet, if equality is their only condition on strings."""
        equal = {attribute for attribute, typed in first.types.items() if Axis.STRING in typed}
        waiting: list[_OpenKind] = []
        for kind in open_kinds:
            family = kind.family
            sure = first.meeting.decides(kind, besides=equal)
            if sure is not False:
                atoms = zip(family.atoms, family.atom_numbers, strict=True)
                needed = tuple((atom.attribute, number) for atom, number in atoms if atom.attribute in equal)
                waiting.append(_OpenKind(kind.number, sure is True, () if kind.inexact else needed))
        return waiting

    def _opened_by_strings(self, asked: _Asked, waiting: list[_OpenKind]) -> tuple[list[int], list[int]]:
        satisfied: set[tuple[str, int]] = set()
        for attribute, typed in asked.types.items():
            if Axis.STRING in typed:
                text = next(str(p.value) for p in asked.meeting.asked[attribute] if p.operator is Operator.EQ)
                satisfied.update((attribute, number) for number in self._space.atoms_satisfied_by(attribute, text))
        whole = self._found_whole
        opened = [kind for kind in waiting if kind.number not in whole and satisfied.issuperset(kind.atoms)]
        return [k.number for k in opened if k.certain], [k.number for k in opened if not k.certain]


def _codes(space: Space) -> Callable[[str, str], float]:
    """Numbers for the strings of a question: strings that are not stored are all different, and equal to no other."""
    unknown: dict[str, float] = {}

    def code_of(attribute: str, text: str) -> float:
        code = space.known_code(attribute, text)
        return code if code >= 0 else unknown.setdefault(text, -1.0 - len(unknown))

    return code_of


def _types(box: Box) -> dict[str, dict[Axis, None]]:
    """The axes that each attribute has conditions on, except presence."""
    types: dict[str, dict[Axis, None]] = {}
    for attribute, axis in (*box.dimensions, *box.without):
        if axis is not _PRESENT:
            types.setdefault(attribute, {})[axis] = None
    for atom in box.atoms:
        types.setdefault(atom.attribute, {})[Axis.STRING] = None
    return types


def _side(span: tuple[float, float] | None, axis: Axis, typed: Collection[Axis], *, wide: bool) -> tuple[float, float]:
    """The effect of a named attribute on one axis."""
    if axis is _PRESENT:
        return 1.0, 1.0
    if span is not None:
        return span
    # no condition of this type: any value fits, unless conditions of another type rule it out
    return _ANYTHING if not typed or axis in typed or wide else _NOTHING


class _Terms(NamedTuple):
    """What decides between a question and the kinds of one family.

    `conditioned`: attributes on which either side has more than an interval. `apart`: those of them where no value
    satisfies both sides. `mixed`: whether the family itself excludes values on one of them.
    """

    conditioned: frozenset[str]
    apart: tuple[str, ...]
    mixed: bool


class _Meeting:
    """Whether a question and the boxes of a kind meet, as far as names and conditions on strings decide."""

    def __init__(self, asked: Conjunction, with_more: frozenset[str], points: frozenset[str], stored: Stored) -> None:
        self.asked = asked.by_attribute
        self.named = frozenset(asked.by_attribute)
        self.names = (self.named, with_more, points)
        self._with_more = with_more
        self._points = points
        self._stored = stored
        # by id: there are many more kinds than families
        self._terms: dict[int, _Terms] = {}

    @property
    def is_plain(self) -> bool:
        """Whether the question has only intervals, equal strings and presence."""
        return not self._with_more

    def decides(self, kind: BoxKind, besides: Collection[str] = ()) -> bool | None:
        """Whether boxes of a kind that names allow overlap. False: none do. True: intervals decide. None: filters must.

        Conditions on attributes `besides` these are ignored.
        """
        shape, family = kind.shape, kind.family
        if kind.inexact or not self.named or not (shape.attributes or family.attributes):
            return None
        terms = self._terms.get(family.id)
        if terms is None:
            terms = self._terms[family.id] = self._terms_of(family)
        apart = (attribute for attribute in terms.apart if attribute not in besides)
        if any(attribute in shape.attributes or attribute in family.attributes for attribute in apart):
            return False
        return True if not terms.mixed and terms.conditioned.isdisjoint(shape.typed) else None

    def names_allow(self, shape: Shape, family: Family) -> bool:
        """PADRES's rule: a subscription may only ask for attributes that the advertisement names."""
        if self._stored is Stored.SUBSCRIPTIONS:
            return shape.attributes <= self.named and family.attributes <= self.named
        return self.named <= shape.attributes | family.attributes

    def depends_on_strings(self, family: Family) -> bool:
        """Whether the question's conditions on strings, and not only its names, decide about a family."""
        return bool(self._with_more) or any(atom.attribute in self.named for atom in family.atoms)

    def _apart(self, attribute: str, theirs: Sequence[Predicate]) -> bool:
        """Whether no value of the attribute satisfies both sides."""
        asked = self.asked[attribute]
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
        # a single value is excluded or not; of an interval something may remain
        conditioned = (self._with_more | theirs.keys() | (left_out - self._points)) & self.named
        apart = (a for a in sorted(conditioned - left_out) if self._apart(a, theirs.get(a, ())))
        return _Terms(frozenset(conditioned), tuple(apart), not conditioned.isdisjoint(left_out))
