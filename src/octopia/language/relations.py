"""How filters and notifications relate: matches, conforms, overlaps, covers.

Every answer is sound. `overlaps` is never False when a notification exists that conforms to the advertisement and
matches the subscription; `covers` is never True when a notification exists that matches the second filter and not the
first. If satisfiability is unknown, or `covers` has examined COVER_WORK_MAX predicates, the answer errs on the side of
traffic and never loses notifications.

A union may cover a conjunction that none of its parts covers alone: `x <= 10 or x > 5` covers every number x. The
search for this (`union_covers`) looks for a counterexample, a notification that matches the narrower conjunction and
fails every part of the union: from each part one predicate is chosen to fail, and the choice is dropped as soon as the
predicates gathered on some attribute exclude each other. When no choice survives, there is no counterexample. The
search is exponential at worst, so it stops after COVER_STEPS_MAX steps.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from octopia.language.filter import Conjunction, Filter, Grouped
from octopia.language.limits import COVER_STEPS_MAX, COVER_WORK_MAX
from octopia.language.notification import Notification
from octopia.language.parse import FilterLike, NotificationLike, parse_filter, parse_notification
from octopia.language.predicate import Operator, Predicate
from octopia.language.sat import impossible
from octopia.language.values import ValueKind


class WorkExhausted(Exception):  # noqa: N818 (not an error: an answer that never leaves the package)
    """`covers` has used up its budget of predicates."""


class CoverWork:
    """The number of predicates that one `covers` may still examine."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = COVER_WORK_MAX

    def spend(self, predicates: int) -> None:
        self._left -= predicates
        if self._left < 0:
            raise WorkExhausted


def union_covers(outer: Iterable[Conjunction], inner: Conjunction, work: CoverWork) -> bool:
    """Whether every notification that matches `inner` is proved to match a part of `outer`."""
    # Parts with few predicates leave few choices; they come first so that dead ends show early.
    parts = sorted((part for part in outer if _can_match(part, inner, work)), key=len)
    # Each entry: the predicates a counterexample must satisfy so far, and how many parts it is known to fail.
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
    """Predicates that each make some predicate of the part fail, and together cover every way it can fail.

    A present value fails a predicate by value or by kind; it never fails `is not null`.
    """
    for predicate in part.predicates:
        if predicate.kind is not None:
            yield predicate.attribute, predicate.negated()
            yield from ((predicate.attribute, other) for other in _of_other_kinds(predicate))


def _of_other_kinds(predicate: Predicate) -> Iterator[Predicate]:
    if predicate.kind is not ValueKind.STRING:
        yield Predicate(predicate.attribute, Operator.PREFIX, "")
    if predicate.kind is not ValueKind.NUMBER:
        yield Predicate(predicate.attribute, Operator.LE, inf)
    if predicate.kind is not ValueKind.BOOL:
        yield Predicate(predicate.attribute, Operator.EQ, True)
        yield Predicate(predicate.attribute, Operator.EQ, False)


# Operators that, by themselves, say of a string's order only that it is not the empty string.
_EXCLUDING_EMPTY: Final = frozenset({Operator.NE, Operator.POSTFIX, Operator.CONTAINS})


def matches(subscription: FilterLike, notification: NotificationLike) -> bool:
    """Whether the notification satisfies every predicate of one conjunction of the subscription."""
    wanted = subscription if isinstance(subscription, Filter) else parse_filter(subscription)
    seen = notification if isinstance(notification, Notification) else parse_notification(notification)
    # a generator would take as long as the test itself
    for conjunction in wanted.conjunctions:  # noqa: SIM110
        if conjunction_matches(conjunction, seen):
            return True
    return False


def conforms(notification: NotificationLike, advertisement: FilterLike) -> bool:
    """Whether one conjunction of the advertisement names all attributes of the notification and accepts their values.

    Advertised attributes that are absent do not matter.
    """
    seen = notification if isinstance(notification, Notification) else parse_notification(notification)
    promised = advertisement if isinstance(advertisement, Filter) else parse_filter(advertisement)
    return any(conjunction_conforms(seen, conjunction) for conjunction in promised.conjunctions)


def overlaps(advertisement: FilterLike, subscription: FilterLike) -> bool:
    """Whether some notification can conform to the advertisement and match the subscription."""
    promised = advertisement if isinstance(advertisement, Filter) else parse_filter(advertisement)
    wanted = subscription if isinstance(subscription, Filter) else parse_filter(subscription)
    return any(conjunctions_overlap(adv, sub) for adv in promised.conjunctions for sub in wanted.conjunctions)


def covers(wider: FilterLike, narrower: FilterLike) -> bool:
    """Whether every notification that matches `narrower` is proved to match `wider`."""
    outer = wider if isinstance(wider, Filter) else parse_filter(wider)
    inner = narrower if isinstance(narrower, Filter) else parse_filter(narrower)
    there = frozenset(outer.conjunctions)
    others = [conjunction for conjunction in inner.conjunctions if conjunction not in there]
    if not others:
        return True
    work, parts = CoverWork(), _Parts(outer)
    try:
        return all(_covered(conjunction, parts, work) for conjunction in others)
    except WorkExhausted:
        return False


def contradictory(filter: Filter) -> bool:
    """Whether `covers` considers it proved that nothing matches the filter, so that every filter covers it."""
    return all(_contradicts_itself(conjunction) for conjunction in filter.conjunctions)


# ---- one conjunction at a time


def conjunction_matches(conjunction: Conjunction, notification: Notification) -> bool:
    """`matches` for one conjunction."""
    for predicate in conjunction.predicates:
        value = notification.get(predicate.attribute)
        if value is None or not predicate.accepts(value):
            return False
    return True


def conjunction_conforms(notification: Notification, conjunction: Conjunction) -> bool:
    """`conforms` for one conjunction."""
    if not notification.keys() <= conjunction.by_attribute.keys():
        return False
    for predicate in conjunction.predicates:
        value = notification.get(predicate.attribute)
        if value is not None and not predicate.accepts(value):
            return False
    return True


def conjunctions_overlap(advertisement: Conjunction, subscription: Conjunction) -> bool:
    """`overlaps` for one conjunction of each.

    Attributes are independent, and advertised ones that the subscription does not name can be left out. Only a
    subscription without any condition needs one of them, since a notification cannot be empty.
    """
    promised = advertisement.by_attribute
    wanted = subscription.by_attribute
    if not wanted:
        return any(not impossible(predicates) for predicates in promised.values())
    if not all(name in promised for name in wanted):
        return False
    return not any(impossible((*promised[name], *predicates)) for name, predicates in wanted.items())


def conjunction_covers(wider: Conjunction, narrower: Conjunction, work: CoverWork) -> bool:
    """`covers` for one conjunction of each, where the narrower one can be satisfied."""
    given = narrower.by_attribute
    for predicate in wider.predicates:
        known = given.get(predicate.attribute)
        if known is None:
            return False
        work.spend(len(known))
        if predicate.kind is None or predicate in known:
            continue
        # Present alone, or of another kind: some value of the attribute fails the predicate.
        if all(p.kind is not predicate.kind for p in known):
            return False
        if not impossible((*_evidence(known, predicate), predicate.negated())):
            return False
    return True


def _evidence(known: tuple[Predicate, ...], predicate: Predicate) -> tuple[Predicate, ...]:
    """The predicates from which covering may conclude `predicate`; like PADRES, it does not treat '' as special.

    So `x like '%A'` or `x <> ''` does not imply `x > ''`, and `x < ''`, which no string satisfies, implies no more than
    any other upper bound.
    """
    if predicate.operator is Operator.GT and predicate.value == "":
        known = tuple(p for p in known if p.operator not in _EXCLUDING_EMPTY)
    if predicate.operator not in (Operator.LT, Operator.LE, Operator.NE):
        known = _without_below_empty(known)
    return known


def _without_below_empty(known: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    return tuple(p for p in known if p.operator is not Operator.LT or p.value != "")


def _contradicts_itself(conjunction: Conjunction) -> bool:
    return any(impossible(_without_below_empty(predicates)) for predicates in conjunction.by_attribute.values())


class _Parts:
    """The conjunctions of a filter, by a value that they require: of a long `in` list only one is examined."""

    def __init__(self, filter: Filter) -> None:
        self._others: list[Conjunction] = []
        self._asking: dict[str, list[Conjunction]] = {}
        self._asking_for: dict[Predicate, list[Conjunction]] = {}
        for part in filter.conjunctions:
            value = next((p for p in part.predicates if p.operator is Operator.EQ), None)
            if value is None:
                self._others.append(part)
            else:
                self._asking.setdefault(value.attribute, []).append(part)
                self._asking_for.setdefault(value, []).append(part)

    def meeting(self, inner: Conjunction) -> list[Conjunction]:
        """All parts except those that require an attribute that `inner` does not name, or another value of it."""
        meeting = self._others.copy()
        for attribute, parts in self._asking.items():
            known = inner.by_attribute.get(attribute, ())
            value = next((p for p in known if p.operator is Operator.EQ), None)
            if value is not None:
                meeting += self._asking_for.get(value, ())
            elif known:
                meeting += parts
        return meeting


def _covered(inner: Conjunction, parts: _Parts, work: CoverWork) -> bool:
    meeting = parts.meeting(inner)
    work.spend(len(meeting))
    if any(conjunction_covers(conjunction, inner, work) for conjunction in meeting):
        return True
    # Nothing matches a contradiction, so everything covers it.
    work.spend(len(inner))
    if _contradicts_itself(inner):
        return True
    return len(meeting) > 1 and union_covers(meeting, inner, work)
