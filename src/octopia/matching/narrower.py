"""Stored filters that a filter may cover: a search among their least and greatest examples (`language.extremes`).

A conjunction of intervals lies within another where its least example is not below the other's and its greatest not
above. With all bounds negated that is once more the comparison that the kernels make, so the stored filters are kept as
boxes turned inside out: [-least, -greatest]. A string is a point, the code of its example.

A query filter with strings that few examples have needs no search among boxes (`inverted_index`).

No filter that is covered, as `language.covers` says, is missed. `certain` ones are covered: both sides are exact, and
one conjunction of the query filter contains the only one of the stored filter. All others still have to be proved. A
filter of several conjunctions is kept by the first that has examples: it is covered only if that one is. A condition on
strings tests each distinct string stored for its attribute, at about 0.2 µs each.
"""

from collections.abc import Hashable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from octopia.language import (
    Conjunction,
    Extremes,
    Filter,
    Notification,
    Operator,
    Predicate,
    Value,
    ValueKind,
    extremes,
    matches,
)
from octopia.matching.box_run import Rows
from octopia.matching.boxes import Axis, Parts, Span
from octopia.matching.inverted_index import ByExample
from octopia.matching.matcher import Matcher
from octopia.matching.overlap import TOGETHER_MAX
from octopia.matching.tokens import floats_around
from octopia.matching.wider import distinct

# Strings of a pattern that are searched for one by one; if more satisfy it, `covers` decides about strings.
STRINGS_MAX = 256
_AXIS_OF = {ValueKind.NUMBER: Axis.NUMBER, ValueKind.STRING: Axis.STRING, ValueKind.BOOL: Axis.BOOL, None: Axis.PRESENT}
_Sides = list[tuple[str, Axis, float, float]]


class Inside(NamedTuple):
    """The result: numbers of filters that are covered, and of those that may be."""

    certain: list[int]
    doubtful: list[int]


class Example(NamedTuple):
    """The conjunction that stands for a filter, and its examples."""

    conjunction: Conjunction
    extremes: Extremes


class _Part(NamedTuple):
    """One conjunction of the query filter: the names a stored one needs, and its sides, one list per search.

    `exact` is whether a box that decides alone and lies within the sides is covered.
    """

    dimensions: dict[str, Axis]
    searches: list[_Sides]
    exact: bool


class Narrower(Matcher[int]):
    """Filters by number, and which of them another may cover."""

    def __init__(self) -> None:
        super().__init__()
        self._by_example = ByExample()
        # the examples of waiting rows: a query filter that does not match them covers none of these
        self._waiting_examples: dict[int, list[Notification]] = {}
        # the filters whose boxes say all that they say
        self._exact: dict[int, None] = {}
        self._entering: Example | None = None

    # -- filters come and go

    def enter(self, number: int, filter: Filter, example: Example) -> None:
        """Store a filter by this example of it."""
        self._entering = example
        self.add(number, filter)
        self._entering = None
        row = self._row_of[number]
        if row in self._waiting.first_of:
            self._waiting_examples[row] = distinct(example.extremes)
        if len(filter.conjunctions) == 1 and _is_exact(example):
            self._exact[number] = None
        self._by_example.add(number, example.extremes.least)

    def leave(self, number: int) -> None:
        """Remove a filter."""
        self._by_example.remove(number, _of_stored(self.filter_of(number)).extremes.least)
        self._exact.pop(number, None)
        self.remove(number)

    def _flush(self) -> None:
        super()._flush()
        self._waiting_examples.clear()

    def _parts_of(self, filter: Filter) -> list[Parts | None]:
        conjunction, examples = self._entering or _of_stored(filter)
        spans: list[Span] = []
        for attribute, predicates in conjunction.by_attribute.items():
            least, greatest = examples.least[attribute], examples.greatest[attribute]
            axis = _axis(predicates)
            if axis is Axis.NUMBER:
                spans.append((attribute, axis, -_float(least), -_float(greatest)))
            elif axis is Axis.STRING:
                spans.append((attribute, axis, str(least), str(least)))
            else:
                spans.append((attribute, axis, float(least), float(least)))
        return [Parts(spans, [], None, None, ())]

    # -- search

    def inside(self, filter: Filter) -> Inside:
        """The stored filters that this one covers, or may."""
        asked = [conjunction for conjunction in filter.conjunctions if extremes(conjunction) is not None]
        by_example = self._by_example.inside(filter, asked)
        if by_example is not None:
            return Inside([], by_example)
        certain: list[int] = []
        doubtful: list[int] = []
        waiting = [row for row in self._waiting_rows() if self._accepts(filter, row)]
        doubtful += self.ids_at(np.array(waiting, dtype=np.int32))
        for dimensions, searches, exact in self._alike(filter) if self._runs else ():
            found = self.ids_at(self._among(self._kinds(dimensions), searches))
            certain += (number for number in found if exact and number in self._exact)
            doubtful += (number for number in found if not exact or number not in self._exact)
        sure = dict.fromkeys(certain)
        return Inside(list(sure), [number for number in dict.fromkeys(doubtful) if number not in sure])

    def _alike(self, filter: Filter) -> list[_Part]:
        """The conjunctions of a filter; those with the same names are merged."""
        found = [(conjunction, extremes(conjunction)) for conjunction in filter.conjunctions]
        asked = [(conjunction, examples) for conjunction, examples in found if examples is not None]
        greatest = _common_greatest(asked) if len(asked) > 1 else None
        alike: dict[Hashable, _Part] = {}
        for conjunction, examples in asked:
            part = self._part(conjunction, examples)
            if greatest is not None:
                part = _in_union(part, greatest)
            same = alike.setdefault((tuple(part.dimensions.items()), part.exact), part._replace(searches=[]))
            same.searches.extend(part.searches)
        return list(alike.values())

    def _accepts(self, filter: Filter, row: int) -> bool:
        return all(matches(filter, example) for example in self._waiting_examples[row])

    def _part(self, conjunction: Conjunction, examples: Extremes) -> _Part:
        sides: _Sides = []
        strings: list[_Sides] = [[]]
        exact = True
        for attribute, predicates in conjunction.by_attribute.items():
            axis = _axis(predicates)
            if axis is Axis.NUMBER:
                least, greatest = examples.least[attribute], examples.greatest[attribute]
                sides.append((attribute, axis, -_float(least), -_float(greatest)))
                exact = exact and _float(least) == least and _float(greatest) == greatest and _is_interval(predicates)
            elif axis is Axis.BOOL:
                truth = float(examples.least[attribute])
                sides.append((attribute, axis, truth, truth))
            elif axis is Axis.STRING:
                codes = self._codes(attribute, predicates)
                if len(strings) * len(codes) > STRINGS_MAX:
                    exact = False
                else:
                    strings = [[*before, (attribute, axis, code, code)] for before in strings for code in codes]
        dimensions = {attribute: _axis(predicates) for attribute, predicates in conjunction.by_attribute.items()}
        return _Part(dimensions, [sides + more for more in strings], exact)

    def _codes(self, attribute: str, predicates: Sequence[Predicate]) -> list[float]:
        """The codes of the stored strings that satisfy these."""
        equal = next((p for p in predicates if p.operator is Operator.EQ), None)
        if equal is not None:
            return [self._space.code(attribute, str(equal.value))]
        strings = self._space.strings_of(attribute)
        return sorted(code for text, code in strings if all(p.accepts(text) for p in predicates))

    def _kinds(self, dimensions: dict[str, Axis]) -> list[int]:
        """The kinds that name at least these."""
        typed = [(attribute, axis) for attribute, axis in dimensions.items() if axis is not Axis.PRESENT]
        found: list[int] = []
        for kind in map(self._space.kind, self._space.kinds_naming_all(sorted(dimensions))):
            shape = kind.shape
            if dimensions.keys() <= shape.attributes and all(one in shape.dimensions for one in typed):
                found.append(kind.number)
        return found

    def _among(self, kinds: list[int], searches: list[_Sides]) -> Rows:
        found = [np.zeros(0, dtype=np.int32)]
        for at in range(0, len(searches) if kinds else 0, TOGETHER_MAX):
            together = searches[at : at + TOGETHER_MAX]
            sides = np.empty((2, self._space.size, len(together)))
            sides[0], sides[1] = inf, -inf
            for event, asked in enumerate(together):
                for attribute, axis, low, high in asked:
                    place = self._space.place_of(attribute, axis)
                    if place >= 0:
                        sides[:, place, event] = low, high
            found.append(self._search_kinds(kinds, sides))
        return np.concatenate(found)


def example_of(filter: Filter) -> Example | None:
    """The first conjunction that has examples, with them."""
    found = ((conjunction, extremes(conjunction)) for conjunction in filter.conjunctions)
    return next((Example(conjunction, ends) for conjunction, ends in found if ends is not None), None)


def _of_stored(filter: Filter) -> Example:
    example = example_of(filter)
    assert example is not None, "only filters with examples are stored"  # noqa: S101
    return example


def _in_union(part: _Part, greatest: dict[str, float]) -> _Part:
    """A part wide enough to find boxes that lie in a union of parts but in no single part.

    The least example of such a box lies in one of them. Where all parts have numbers of an attribute, its greatest is
    not above the greatest of all.
    """
    searches = [
        [
            (attribute, axis, low, greatest.get(attribute, -inf) if axis is Axis.NUMBER else high)
            for attribute, axis, low, high in sides
        ]
        for sides in part.searches
    ]
    return _Part(part.dimensions, searches, part.exact and searches == part.searches)


def _common_greatest(asked: list[tuple[Conjunction, Extremes]]) -> dict[str, float]:
    """The greatest of all parts, negated, for attributes that all parts have numbers of."""
    common = [
        attribute
        for attribute in asked[0][0].by_attribute
        if all(
            attribute in part.by_attribute and _axis(part.by_attribute[attribute]) is Axis.NUMBER for part, _ in asked
        )
    ]
    return {attribute: -max(_float(examples.greatest[attribute]) for _, examples in asked) for attribute in common}


def _is_exact(example: Example) -> bool:
    """Whether the box of an example says all that its conjunction says."""
    least, greatest = example.extremes
    return all(
        _is_interval(predicates)
        and (_axis(predicates) is not Axis.NUMBER or all(_float(end) == end for end in (least[name], greatest[name])))
        for name, predicates in example.conjunction.by_attribute.items()
    )


def _axis(predicates: Sequence[Predicate]) -> Axis:
    return _AXIS_OF[next((p.kind for p in predicates if p.kind is not None), None)]


def _is_interval(predicates: Sequence[Predicate]) -> bool:
    """Whether the examples say all that the predicates say."""
    if any(p.operator is Operator.EQ for p in predicates):
        return True
    return all(
        p.kind is not ValueKind.STRING and (p.operator is not Operator.NE or p.kind is ValueKind.BOOL)
        for p in predicates
    )


def _float(number: Value) -> float:
    """The greatest float not above a number: rounding all the same way preserves order."""
    return floats_around(number)[0] if isinstance(number, int) else float(number)
