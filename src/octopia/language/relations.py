"""How filters and notifications relate: matches, conforms, overlaps, covers.

Rules of this file: every answer is sound. `overlaps` is never False when a notification exists that conforms to the
advertisement and matches the subscription; `covers` is never True when a notification exists that matches the second
filter and not the first. Where satisfiability is unknown, or `covers` has looked at COVER_WORK_MAX predicates, the
answer is the one that costs traffic and not the one that loses notifications.
"""

from typing import Final

from octopia.language.filter import Conjunction, Filter
from octopia.language.notification import Notification
from octopia.language.parse import FilterLike, NotificationLike, parse_filter, parse_notification
from octopia.language.predicate import Operator, Predicate
from octopia.language.sat import impossible
from octopia.language.union_cover import CoverWork, WorkExhausted, union_covers

# Operators that, by themselves, say no more of a string's place in the order than that it is not the empty one.
_EXCLUDING_EMPTY: Final = frozenset({Operator.NE, Operator.POSTFIX, Operator.CONTAINS})


def matches(subscription: FilterLike, notification: NotificationLike) -> bool:
    """Whether the notification satisfies every predicate of one conjunction of the subscription."""
    wanted = subscription if isinstance(subscription, Filter) else parse_filter(subscription)
    seen = notification if isinstance(notification, Notification) else parse_notification(notification)
    return any(conjunction_matches(conjunction, seen) for conjunction in wanted.conjunctions)


def conforms(notification: NotificationLike, advertisement: FilterLike) -> bool:
    """Whether one conjunction of the advertisement names all attributes of the notification and accepts their values.

    Attributes that are advertised and not there do not matter.
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
    if outer == inner:
        return True
    work, parts = CoverWork(), _Parts(outer)
    try:
        return all(_covered(conjunction, parts, work) for conjunction in inner.conjunctions)
    except WorkExhausted:
        return False


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
    for predicate in conjunction.testing:
        value = notification.get(predicate.attribute)
        if value is not None and not predicate.accepts(value):
            return False
    return True


def conjunctions_overlap(advertisement: Conjunction, subscription: Conjunction) -> bool:
    """`overlaps` for one conjunction of each.

    Attributes are independent, and advertised ones that nobody asks for can be left out. Only a subscription that
    asks for nothing at all needs one of them, since there is no empty notification.
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
    """What covering may conclude `predicate` from: like PADRES, as if the empty string were no special one.

    So `x like '%A'` or `x <> ''` does not give `x > ''`, and `x < ''`, which no string satisfies, gives no more than
    any other upper bound does.
    """
    if predicate.operator is Operator.GT and predicate.value == "":
        known = tuple(p for p in known if p.operator not in _EXCLUDING_EMPTY)
    if predicate.operator not in (Operator.LT, Operator.LE, Operator.NE):
        known = _without_below_empty(known)
    return known


def _without_below_empty(known: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    return tuple(p for p in known if p.operator is not Operator.LT or p.value != "")


class _Parts:
    """The conjunctions of a filter, by a value that they ask for: of a long `in` list only one needs a look."""

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
        """All parts but those that ask for an attribute that `inner` does not name, or for another value of it."""
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
    if any(impossible(_without_below_empty(predicates)) for predicates in inner.by_attribute.values()):
        return True
    return len(meeting) > 1 and union_covers(meeting, inner, work)
