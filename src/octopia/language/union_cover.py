"""Does a union cover a conjunction that none of its parts covers alone? `x <= 10 or x > 5` covers every number x.

Rules of this file: True is a proof, False may be "not found". It looks for a counterexample, a notification that
matches the narrower conjunction and fails every part of the union: from each part one predicate is chosen to fail,
and the choice is dropped as soon as the predicates gathered on some attribute exclude each other. When no choice
survives, there is no counterexample. The search is exponential at worst, so it is stopped after COVER_STEPS_MAX; and
all that one `covers` does is stopped after COVER_WORK_MAX predicates were looked at.
"""

from collections.abc import Iterable, Iterator
from math import inf

from octopia.language.filter import Conjunction, Grouped
from octopia.language.limits import COVER_STEPS_MAX, COVER_WORK_MAX
from octopia.language.predicate import Operator, Predicate
from octopia.language.sat import impossible
from octopia.language.values import Kind


class WorkExhausted(Exception):  # noqa: N818 (not an error: an answer that never leaves the package)
    """`covers` has looked at as many predicates as it may."""


class CoverWork:
    """The predicates that one `covers` may still look at."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = COVER_WORK_MAX

    def spend(self, predicates: int) -> None:
        self._left -= predicates
        if self._left < 0:
            raise WorkExhausted


def union_covers(outer: Iterable[Conjunction], inner: Conjunction, work: CoverWork) -> bool:
    """Whether every notification that matches `inner` is proved to match a part of `outer`."""
    # Parts with few predicates leave few choices: they come first, so that dead ends show early.
    parts = sorted((part for part in outer if _can_match(part, inner, work)), key=len)
    # Each entry: what a counterexample must satisfy so far, and how many parts it is already known to fail.
    open_choices: list[tuple[int, Grouped]] = [(0, inner.by_attribute)]
    steps_left = COVER_STEPS_MAX
    while open_choices:
        failed, demands = open_choices.pop()
        if failed == len(parts):
            return False
        for attribute, failing in _ways_to_fail(parts[failed]):
            if steps_left == 0:
                return False
            steps_left -= 1
            gathered = (*demands[attribute], failing)
            work.spend(len(gathered))
            if not impossible(gathered):
                open_choices.append((failed + 1, {**demands, attribute: gathered}))
    return True


def _can_match(part: Conjunction, inner: Conjunction, work: CoverWork) -> bool:
    """Whether a notification of `inner` with no further attributes may match the part; all others fail it anyway."""
    known = inner.by_attribute
    work.spend(len(part) + sum(len(known.get(name, ())) for name in part.by_attribute))
    return all(
        name in known and not impossible((*known[name], *predicates)) for name, predicates in part.by_attribute.items()
    )


def _ways_to_fail(part: Conjunction) -> Iterator[tuple[str, Predicate]]:
    """Predicates that each make some predicate of the part fail and, together, leave out no way in which it can.

    A value that is there fails a predicate by its value or by its kind, and `is not null` not at all.
    """
    for predicate in part.predicates:
        if predicate.kind is not None:
            yield predicate.attribute, predicate.negated()
            yield from ((predicate.attribute, other) for other in _of_other_kinds(predicate))


def _of_other_kinds(predicate: Predicate) -> Iterator[Predicate]:
    if predicate.kind is not Kind.STRING:
        yield Predicate(predicate.attribute, Operator.PREFIX, "")
    if predicate.kind is not Kind.NUMBER:
        yield Predicate(predicate.attribute, Operator.LE, inf)
    if predicate.kind is not Kind.BOOL:
        yield Predicate(predicate.attribute, Operator.EQ, True)
        yield Predicate(predicate.attribute, Operator.EQ, False)
