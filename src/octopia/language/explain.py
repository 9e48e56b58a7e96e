"""Why a relation does not hold, in one line.

Each function returns None exactly when the relation of the same name holds, and calls that relation to decide. For a
disjunction it explains the nearest conjunction: the one with the fewest failures, or the first of several.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from octopia.hints import did_you_mean, one_line
from octopia.language.filter import Conjunction
from octopia.language.notification import Notification
from octopia.language.parse import FilterLike, NotificationLike, parse_filter, parse_notification
from octopia.language.predicate import Predicate
from octopia.language.relations import conforms, matches, overlaps
from octopia.language.sat import impossible
from octopia.language.sql_text import name_as_sql, value_as_sql
from octopia.language.values import Value


def why_not_matches(subscription: FilterLike, notification: NotificationLike) -> str | None:
    """The predicate that failed and the value seen; None when the notification matches."""
    wanted, seen = parse_filter(subscription), parse_notification(notification)
    if matches(wanted, seen):
        return None
    return _nearest([_unmatched(conjunction, seen) for conjunction in wanted])


def why_not_conforms(notification: NotificationLike, advertisement: FilterLike) -> str | None:
    """The attribute that is not advertised or the predicate it breaks; None when the notification conforms."""
    seen, promised = parse_notification(notification), parse_filter(advertisement)
    if conforms(seen, promised):
        return None
    return _nearest([_unpromised(seen, conjunction) for conjunction in promised])


def why_not_overlaps(advertisement: FilterLike, subscription: FilterLike) -> str | None:
    """The reason why no notification of the advertisement can match; None when the two overlap."""
    promised, wanted = parse_filter(advertisement), parse_filter(subscription)
    if overlaps(promised, wanted):
        return None
    return _nearest([_apart(adv, sub) for adv in promised for sub in wanted])


def why_subscription_misses(id: str, subscription: FilterLike, notification: NotificationLike) -> str | None:
    """A line about a client's subscription that a notification does not match; None when it does."""
    reason = why_not_matches(subscription, notification)
    return None if reason is None else f"subscription {id} does not match: {reason}"


def why_can_get_nothing(
    subscriptions: Mapping[str, FilterLike], advertised: Mapping[tuple[str, str], FilterLike]
) -> list[str]:
    """A line for each subscription that cannot receive anything: no advertisement in force overlaps it.

    Advertisements are by client and id; without any, the result is empty.
    """
    lines = []
    for id, wanted in subscriptions.items():
        misses = {which: why_not_overlaps(promised, wanted) for which, promised in advertised.items()}
        if misses and None not in misses.values():
            (client, advertisement), reason = next(iter(misses.items()))
            more = f" (nor do the other {len(misses) - 1})" if len(misses) > 1 else ""
            lines.append(
                f"subscription {id} can get nothing: no advertisement in force overlaps it; "
                f"{advertisement} of {client}: {reason}{more}"
            )
    return lines


def _nearest(failures: Sequence[Sequence[str]]) -> str:
    shortest = min(failures, key=len)
    others = f" (and {len(shortest) - 1} more)" if len(shortest) > 1 else ""
    return one_line(f"{shortest[0]}{others}")


def _unmatched(conjunction: Conjunction, seen: Notification) -> list[str]:
    failures = []
    for predicate in conjunction:
        value = seen.get(predicate.attribute)
        if value is None:
            failures.append(_absent(predicate.attribute, seen))
        elif not predicate.accepts(value):
            failures.append(_failed(predicate, value))
    # Two predicates on one absent attribute count as one reason.
    return list(dict.fromkeys(failures))


def _unpromised(seen: Notification, conjunction: Conjunction) -> list[str]:
    failures = []
    for name, value in seen.items():
        predicates = conjunction.by_attribute.get(name)
        if predicates is None:
            failures.append(_unnamed(name, conjunction))
        else:
            failures.extend(_failed(p, value) for p in predicates if not p.accepts(value))
    return failures


def _apart(advertisement: Conjunction, subscription: Conjunction) -> list[str]:
    promised = advertisement.by_attribute
    if not subscription.by_attribute:
        return ["no notification conforms to the advertisement"]
    failures = []
    for name, predicates in subscription.by_attribute.items():
        if name not in promised:
            failures.append(_unnamed(name, advertisement))
        elif impossible((*promised[name], *predicates)):
            failures.append(_excluded(name, (*promised[name], *predicates)))
    return failures


def _absent(name: str, seen: Notification) -> str:
    near = did_you_mean(name, tuple(seen))
    return f"{name_as_sql(name)} is absent{f' ({near})' if near else ''}"


def _unnamed(name: str, advertisement: Conjunction) -> str:
    near = did_you_mean(name, tuple(advertisement.by_attribute))
    return f"the advertisement does not name {name!r}{f' ({near})' if near else ''}"


def _failed(predicate: Predicate, value: Value) -> str:
    return f"{predicate} failed: {name_as_sql(predicate.attribute)} is {value_as_sql(value)}"


def _excluded(name: str, predicates: Sequence[Predicate]) -> str:
    """The smallest group of predicates that shows the conflict: one, a pair, or all of them."""
    for size in (1, 2):
        for group in combinations(dict.fromkeys(predicates), size):
            if impossible(group):
                return _exclusion(name, group)
    return _exclusion(name, predicates)


def _exclusion(name: str, group: Sequence[Predicate]) -> str:
    conditions = " and ".join(_without_name(p) for p in group)
    verb = "exclude each other" if len(group) > 1 else "is never true"
    return f"{name_as_sql(name)}: {conditions} {verb}"


def _without_name(predicate: Predicate) -> str:
    return str(predicate).removeprefix(name_as_sql(predicate.attribute)).strip()
