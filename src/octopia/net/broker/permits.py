"""Whether a publication is within its publisher's right. Every publication is checked, so this is prepared per client.

A right to advertise is a filter that each published notification must match. It is not enough that the right covers the
advertisement: conformity considers one attribute at a time and allows attributes to be missing, so a notification may
conform to a covered advertisement and still not match the right.

The answers are those of `matches`. The part that depends only on attribute names is computed once per combination of
names. Of the remaining conjunctions, an equality (`symbol in ('A', 'B', …)`) selects the few to test.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from octopia.language import (
    ALWAYS,
    Alternatives,
    Filter,
    Notification,
    Operator,
    Predicate,
    Value,
    all_hold,
    one_holds,
    why_not_matches,
)

# Combinations of names cached per client; at the bound all are dropped. Longer ones are computed each time.
COMBINATIONS_MAX = 256
COMBINED_NAMES_MAX = 64
# Up to this many alternatives, testing each is faster than a lookup.
TESTED_MAX = 3

Values = Mapping[str, Value]


class Permit:
    """The publications that one client may make."""

    __slots__ = ("_by_names", "_name", "right")

    def __init__(self, name: str, right: Filter) -> None:
        self._name = name
        self.right = right
        self._by_names: dict[tuple[str, ...], _Choice] = {}

    def allows(self, values: Values) -> bool:
        """Whether a notification of these (checked) values matches the right."""
        return self._choice(tuple(values)).holds(values)

    def allows_first(self, batch: Sequence[Values]) -> int:
        """How many notifications, from the beginning, may be published."""
        names = list(map(tuple, batch))
        if names.count(names[0]) == len(names) and self._choice(names[0]).all_hold(batch):
            # By far the most common case: all have the same names and are within the right.
            return len(batch)
        for at, (values, named) in enumerate(zip(batch, names, strict=True)):
            if not self._choice(named).holds(values):
                return at
        return len(batch)

    def alternatives(self, names: tuple[str, ...]) -> Alternatives:
        """What is left to test of the right for notifications with these names: one alternative must hold."""
        return _alternatives(names, self.right)

    def reason(self, notification: Notification) -> str:
        """Why this may not be published: the attribute and the right."""
        why = why_not_matches(self.right, notification)
        return f"{self._name} may not publish this: {why}; each notification must match its right: {self.right}"

    def _choice(self, names: tuple[str, ...]) -> "_Choice":
        known = self._by_names.get(names)
        if known is None:
            known = _Choice(_alternatives(names, self.right))
            if len(names) <= COMBINED_NAMES_MAX:
                if len(self._by_names) >= COMBINATIONS_MAX:
                    self._by_names.clear()
                self._by_names[names] = known
        return known


class _Choice:
    """The condition on the values of attributes with certain names: all predicates of one of the alternatives."""

    __slots__ = ("_all", "_attribute", "_by_value", "_others")

    def __init__(self, alternatives: Alternatives) -> None:
        self._all = alternatives
        self._attribute = _commonest_equality(alternatives) if len(alternatives) > TESTED_MAX else None
        # Values that are equal in Python (1 and true) share an entry; the tests tell them apart.
        self._by_value: dict[Value, Alternatives] = {}
        others: list[tuple[Predicate, ...]] = []
        for tests in alternatives if self._attribute is not None else ():
            equal = [p for p in tests if p.attribute == self._attribute and p.operator is Operator.EQ]
            if equal and equal[0].value is not None:
                self._by_value[equal[0].value] = (*self._by_value.get(equal[0].value, ()), tests)
            else:
                others.append(tests)
        self._others = tuple(others)

    def holds(self, values: Values) -> bool:
        if self._attribute is None:
            return self._all is ALWAYS or one_holds(self._all, values)
        found = self._by_value.get(values[self._attribute], ())
        return one_holds(found, values) or one_holds(self._others, values)

    def all_hold(self, batch: Sequence[Values]) -> bool:
        """Whether all of these satisfy it by a quick check; False if each must be tested."""
        return self._all is ALWAYS or (len(self._all) == 1 and all_hold(self._all[0], batch))


def _alternatives(names: tuple[str, ...], right: Filter) -> Alternatives:
    named = frozenset(names)
    left = []
    for conjunction in right.conjunctions:
        if conjunction.by_attribute.keys() <= named:
            if not conjunction.testing:
                return ALWAYS
            left.append(conjunction.testing)
    return tuple(left)


def _commonest_equality(alternatives: Alternatives) -> str | None:
    """The attribute whose equalities distinguish most of the alternatives."""
    seen = {(p.attribute, p.value) for tests in alternatives for p in tests if p.operator is Operator.EQ}
    counted = Counter(attribute for attribute, _ in sorted(seen, key=str))
    return counted.most_common(1)[0][0] if counted else None
