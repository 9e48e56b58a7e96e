"""Overlap as a search: which stored filters can meet a given one.

Two closed intervals meet when each begins before the other ends, which is the same comparison that the kernels make
between a box and a point; so an advertisement is a "point" whose upper side is its upper bound and whose lower side its
lower bound, and the same search finds the boxes it meets.

A question never misses a filter that overlaps. It is exact where one side names an attribute with a single value, or
both have one interval on it, or one of them only its presence: bounds are values that exist, so an interval that is not
empty has one. All other kinds of boxes (an interval against a value that is left out, a prefix against a suffix, boxes
with tests, filters without attributes) are `doubtful`: their results are tested with `octopia.overlaps`.
"""

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum, auto
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from octopia.language import Conjunction, Operator, impossible
from octopia.matching.boxes import Axis, Dimension, Parts, parts_of
from octopia.matching.ladder import Ladder
from octopia.matching.points import Sides
from octopia.matching.space import Attribute, BoxKind, Space
from octopia.matching.tokens import floats_around

_NUMBER, _STRING, _BOOL, _PRESENT, _EXACT, _ORDER, _ENDING, _PIECE = Axis
_ANYTHING = (inf, -inf)
_NOTHING = (-inf, inf)
_NUMBERS = frozenset({_NUMBER, _EXACT})
_STRINGS = frozenset({_STRING, _ORDER, _ENDING, _PIECE})
_TYPES = (_NUMBERS, _STRINGS, frozenset({_BOOL}))
# Of what is left out on these, there is always something that remains.
_SINGLE = frozenset({_NUMBER, _EXACT, _STRING})


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


class _Form(Enum):
    """What a question says about an attribute: any value; one value; an interval of numbers, or of strings in their
    order; something else that has values; something that has none."""

    ANY = auto()
    POINT = auto()
    NUMBERS = auto()
    STRINGS = auto()
    OTHER = auto()
    IMPOSSIBLE = auto()


class _Asked(NamedTuple):
    """One conjunction of the question. Without parts, it contradicts itself."""

    conjunction: Conjunction
    parts: Parts | None
    forms: dict[str, _Form]

    @property
    def likeness(self) -> Hashable:
        """The common key of conjunctions that meet all kinds alike."""
        return self.parts is None, tuple(self.forms.items())

    def value(self, attribute: str) -> Any:
        """The only value of an attribute whose form is POINT."""
        for predicate in self.conjunction.by_attribute[attribute]:
            if predicate.operator is Operator.EQ:
                return predicate.value
        assert self.parts is not None, "a contradiction has no values"  # noqa: S101
        return next(bool(low) if axis is _BOOL else low for name, axis, low, _ in self.parts.spans if name == attribute)


class OverlapQuestions:
    """The conjunctions of one advertisement, or of one subscription, as searches among the others.

    The part that forms decide is computed once for all conjunctions with the same forms, and these are searched for
    together. Filters may have hundreds of conjunctions, and tables thousands of kinds.
    """

    def __init__(self, space: Space, stored: Stored) -> None:
        self._space = space
        self._stored = stored
        # Attributes that the question does not name: subscriptions must not have them, advertisements may.
        self._unnamed = _NOTHING if stored is Stored.SUBSCRIPTIONS else _ANYTHING

    def ask(self, conjunctions: Iterable[Conjunction]) -> Iterator[OverlapQuery]:
        """All conjunctions as searches, to be run one after the other."""
        alike: dict[Hashable, list[_Asked]] = {}
        for conjunction in conjunctions:
            asked = _asked(conjunction)
            alike.setdefault(asked.likeness, []).append(asked)
        for group in alike.values():
            yield from self._ask_alike(group)

    def _ask_alike(self, group: list[_Asked]) -> Iterator[OverlapQuery]:
        first = group[0]
        # the kinds that pieces of the only string of an attribute find, by that attribute, and all others under None
        kinds: dict[str | None, tuple[list[int], list[int]]] = {}
        for kind in self._kinds_named(first):
            sure = self._decides(first, kind)
            if sure is not False:
                piece = kind.family.piece
                by_piece = piece if piece is not None and first.forms.get(piece) is _Form.POINT else None
                certain, doubtful = kinds.setdefault(by_piece, ([], []))
                (doubtful if sure is None else certain).append(kind.number)
        for by_piece, (certain, doubtful) in kinds.items():
            if by_piece is None:
                for at in range(0, len(group), TOGETHER_MAX):
                    yield OverlapQuery(certain, doubtful, self._sides(group[at : at + TOGETHER_MAX]))
            else:
                for asked in group:
                    for sides in self._sides_of_pieces(asked, self._space.attributes[by_piece]):
                        yield OverlapQuery(certain, doubtful, sides)

    # -- kinds

    def _kinds_named(self, asked: _Asked) -> Iterator[BoxKind]:
        """The kinds that names allow: a subscription may only ask for attributes that the advertisement names."""
        space, named = self._space, asked.forms.keys()
        if self._stored is Stored.SUBSCRIPTIONS:
            for kind in map(space.kind, space.kinds_naming_only(asked.forms)):
                if kind.shape.attributes <= named and kind.family.attributes <= named:
                    yield kind
        else:
            for kind in map(space.kind, space.kinds_naming_all(asked.forms)):
                if named <= kind.shape.attributes | kind.family.attributes:
                    yield kind

    def _decides(self, asked: _Asked, kind: BoxKind) -> bool | None:
        """Whether boxes of a kind that names allow overlap. False: none do. True: bounds decide. None: filters must."""
        conditions = _conditions(kind.shape.dimensions, kind.family.without)
        if asked.parts is None or not asked.forms or not conditions or kind.tested:
            return None
        sure: bool | None = True
        for attribute, intervals, without in conditions:
            form = asked.forms.get(attribute)
            found = True if form is None else _meets(form, intervals, without)
            if found is False:
                return False
            sure = sure and found
        return sure

    # -- sides

    def _sides(self, group: list[_Asked]) -> Sides:
        sides = np.empty((2, self._space.size, len(group)))
        sides[0], sides[1] = self._unnamed
        for event, asked in enumerate(group):
            for name in asked.forms:
                attribute = self._space.attributes.get(name)
                if attribute is not None:
                    for place, above, below in _placed(asked, attribute):
                        sides[:, place, event] = above, below
        return sides

    def _sides_of_pieces(self, asked: _Asked, attribute: Attribute) -> Iterator[Sides]:
        """The sides of a question once for each piece of the only string of an attribute."""
        value = asked.value(attribute.name)
        codes = attribute.pieces.within(value) if attribute.pieces is not None and isinstance(value, str) else []
        for at in range(0, len(codes), TOGETHER_MAX):
            some = codes[at : at + TOGETHER_MAX]
            sides = np.repeat(self._sides([asked]), len(some), axis=2)
            sides[:, attribute.places[_PIECE]] = some
            yield sides


def _asked(conjunction: Conjunction) -> _Asked:
    parts = parts_of(conjunction)
    if parts is None:
        return _Asked(conjunction, None, dict.fromkeys(conjunction.by_attribute, _Form.OTHER))
    forms = {}
    tested = [p.attribute for p in parts.tests]
    for attribute in conjunction.by_attribute:
        spans = [span for span in parts.spans if span[0] == attribute]
        only = spans[0] if len(spans) == 1 and attribute not in tested else None
        if only is None or any(name == attribute for name, *_ in parts.without):
            excluded = impossible(conjunction.by_attribute[attribute])
            forms[attribute] = _Form.IMPOSSIBLE if excluded else _Form.OTHER
        else:
            forms[attribute] = _form(only[1], only[2], only[3])
    return _Asked(conjunction, parts, forms)


def _form(axis: Axis, low: Any, high: Any) -> _Form:
    """The form of an attribute with a single interval."""
    if axis is _PRESENT:
        return _Form.ANY
    if axis is _ORDER:
        return _Form.STRINGS
    if axis in _NUMBERS and (low is None or low != high):
        return _Form.NUMBERS
    return _Form.OTHER if axis is _ENDING or axis is _PIECE else _Form.POINT


def _meets(form: _Form, intervals: tuple[Axis, ...], without: tuple[Axis, ...]) -> bool | None:
    """Whether a question of this form meets boxes with conditions on these axes: as `OverlapQuestions._decides`."""
    if form is _Form.IMPOSSIBLE:
        return False
    if form is _Form.POINT or not (intervals or without):
        return True
    if form is _Form.ANY:
        one = len(intervals) + len(without) == 1
        return True if one or (not intervals and _SINGLE.issuperset(without)) else None
    if form is _Form.OTHER or without or len(intervals) > 1:
        return None
    # boxes of another type are not met
    return True if form is _Form.NUMBERS or intervals == (_ORDER,) else None


@lru_cache(1_024)
def _conditions(
    dimensions: tuple[Dimension, ...], without: tuple[Dimension, ...]
) -> list[tuple[str, tuple[Axis, ...], tuple[Axis, ...]]]:
    """Each attribute, the axes on which boxes have intervals, besides presence, and those on which they leave out."""
    names = dict.fromkeys(name for name, _ in (*dimensions, *without))
    return [
        (
            name,
            tuple(axis for other, axis in dimensions if other == name and axis is not _PRESENT),
            tuple(axis for other, axis in without if other == name),
        )
        for name in names
    ]


def _placed(asked: _Asked, attribute: Attribute) -> Iterator[tuple[int, float, float]]:
    """Each place of an attribute that the question names, and its sides."""
    name, form = attribute.name, asked.forms[attribute.name]
    spans = [] if asked.parts is None else [span for span in asked.parts.spans if span[0] == name]
    tested = () if asked.parts is None else asked.parts.tests
    axes = [axis for _, axis, _, _ in spans] + [_STRING for p in tested if p.attribute == name]
    axes += [] if asked.parts is None else [axis for other, axis, _, _ in asked.parts.without if other == name]
    # what has a value of one type has none of the others
    fitting = next((each for each in _TYPES if not each.isdisjoint(axes)), frozenset(Axis))
    for axis, place in enumerate(attribute.places):
        if place >= 0:
            yield (place, *(_ANYTHING if axis in fitting else _NOTHING))
    if attribute.places[_PRESENT] >= 0:
        yield attribute.places[_PRESENT], 1.0, 1.0
    if form is _Form.POINT:
        yield from attribute.place(asked.value(name))
        return
    for _, axis, low, high in spans:
        if axis in _NUMBERS:
            yield from _placed_numbers(attribute, low, high)
        elif (axis is _ORDER or axis is _ENDING) and attribute.places[axis] >= 0:
            ladder = attribute.ladders[axis]
            yield attribute.places[axis], inf if high is None else _below(ladder, high), ladder.place(low)


def _placed_numbers(attribute: Attribute, low: Any, high: Any) -> Iterator[tuple[int, float, float]]:
    """An interval of numbers, on both axes that numbers have."""
    if attribute.places[_NUMBER] >= 0:
        above = inf if high is None else _around(high)[0]
        yield attribute.places[_NUMBER], above, -inf if low is None else _around(low)[1]
    if attribute.places[_EXACT] >= 0:
        ladder = attribute.ladders[_EXACT]
        above = inf if high is None else ladder.place(high)
        yield attribute.places[_EXACT], above, -inf if low is None else ladder.place(low)


def _around(number: Any) -> tuple[float, float]:
    return floats_around(number) if isinstance(number, int) else (number, number)


def _below(ladder: Ladder, key: bytes) -> float:
    """The coordinate of what is just below a key: bounds up to it are below the key, too."""
    place = ladder.place(key)
    return place - 0.5 if place == int(place) else place
