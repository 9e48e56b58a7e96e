"""Stored filters that may cover a filter: a search with its least and greatest examples (`language.extremes`).

A filter that covers a conjunction matches its examples. A single conjunction made of intervals covers another exactly
where its box contains the other's; and "contains" is the same comparison that the kernels make between a box and a
point, with the least example compared with lower bounds and the greatest with upper bounds. Strings are told apart by
an example. So one search finds the boxes around the whole conjunction.

Filters with strings that few others have are not among the boxes: the example's strings find them (`inverted_index`).

No filter that covers, as `language.covers` says, is missed; candidates still have to be proved with it. A union may
match each example by a different part, so filters of several conjunctions are kept apart and searched with each example
alone. The same goes for all filters that exclude numbers (`x <> 5`), which a box cannot express.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from octopia.language import Extremes, Filter, Notification, Operator, ValueKind, extremes
from octopia.matching.box_run import Rows
from octopia.matching.inverted_index import ByString
from octopia.matching.matcher import Matcher
from octopia.matching.points import point_of

Number = TypeVar("Number", np.int32, np.int64)
Numbers = npt.NDArray[np.int64]

# Up to here a Python set is faster than numpy's intersection.
_FEW = 1_000


class Wider:
    """Filters by number, and which of them may cover another."""

    def __init__(self) -> None:
        self._by_string = ByString()
        self._single = _Boxes()
        self._several = _Boxes()

    def add(self, number: int, filter: Filter) -> None:
        if not self._by_string.take(number, filter):
            self._of(filter).add(number, filter)

    def remove(self, number: int, filter: Filter) -> None:
        if number in self._by_string:
            self._by_string.remove(number)
        else:
            self._of(filter).remove(number)

    def settle(self) -> None:
        """See `Matcher.settle`."""
        self._single.settle()
        self._several.settle()

    def around(self, filter: Filter) -> Numbers:
        """A superset of the filters that cover this one, which has a single conjunction and examples."""
        examples = extremes(filter.conjunctions[0])
        assert examples is not None, "without examples there is nothing to search for"  # noqa: S101
        found = [np.array(self._by_string.matching(distinct(examples)), dtype=np.int64)]
        if len(self._single):
            plain = not _leaves_numbers_out(filter)
            rows = self._single.containing(examples) if plain else _matching(self._single, examples)
            found.append(self._single.numbers_at(rows))
        if len(self._several):
            found.append(self._several.numbers_at(_matching(self._several, examples)))
        return np.concatenate(found)

    def _of(self, filter: Filter) -> "_Boxes":
        return self._single if len(filter.conjunctions) == 1 else self._several


class _Boxes(Matcher[int]):
    """Filters by number."""

    def numbers_at(self, rows: Rows) -> Numbers:
        """The rows, in their own memory."""
        return self._ids_at(rows)

    def containing(self, examples: Extremes) -> Rows:
        """The rows whose box contains both examples and everything between, or may; for filters of one conjunction."""
        seen = distinct(examples)
        waiting = [row for row in self._waiting_rows() if all(self._satisfies(row, example) for example in seen)]
        least, greatest = examples
        sides = point_of(least, self._space)
        sides[1] = point_of(greatest, self._space)[1]
        return np.concatenate([self._rows_around(least, sides), np.array(waiting, dtype=np.int32)])


def _matching(matcher: Matcher[int], examples: Extremes) -> Rows:
    """The rows that match both examples; valid until the next search."""
    least, greatest = examples
    found = matcher.match_rows(Notification.trusted(least))
    if not len(found) or least == greatest:
        return found
    return both(found.copy(), matcher.match_rows(Notification.trusted(greatest)))


def distinct(examples: Extremes) -> list[Notification]:
    """Both examples, or one if they are equal."""
    least, greatest = examples
    return [Notification.trusted(values) for values in ((least,) if least == greatest else examples)]


def both(one: npt.NDArray[Number], other: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The rows in both, in the order of the first."""
    if len(one) + len(other) > _FEW:
        return one[np.isin(one, other)]
    among = frozenset(other.tolist())
    return np.array([number for number in one.tolist() if number in among], dtype=one.dtype)


def _leaves_numbers_out(filter: Filter) -> bool:
    return any(
        p.operator is Operator.NE and p.kind is ValueKind.NUMBER for c in filter.conjunctions for p in c.predicates
    )
