"""`conforms`, for many notifications of the same advertisement.

What an advertisement says of a notification depends first on the names of its attributes, and a publisher uses the same
few combinations of names again and again. Rules of this file: the answers are those of `conforms`. What the names alone
decide is worked out once per combination and remembered, up to a bound, at which all is forgotten and worked out anew.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from octopia.language.filter import Filter
from octopia.language.predicate import Predicate
from octopia.language.values import Value

# Combinations of names remembered per advertisement, and names in one; longer ones are worked out each time.
COMBINATIONS_MAX: Final = 256
COMBINED_NAMES_MAX: Final = 64

Alternatives: TypeAlias = tuple[tuple[Predicate, ...], ...]
# Whatever the values, nothing is left to test.
ALWAYS: Final[Alternatives] = ((),)


def left_to_test(names: tuple[str, ...], advertisement: Filter) -> Alternatives:
    """What the values of attributes with these names must satisfy: all predicates of one of the alternatives.

    Without any alternative no values will do; `ALWAYS` is given where all do.
    """
    named = frozenset(names)
    left = []
    for conjunction in advertisement.conjunctions:
        if named <= conjunction.by_attribute.keys():
            tests = tuple(predicate for predicate in conjunction.testing if predicate.attribute in named)
            if not tests:
                return ALWAYS
            left.append(tests)
    return tuple(left)


def one_holds(alternatives: Alternatives, values: Mapping[str, Value]) -> bool:
    """Whether the values satisfy all predicates of one of the alternatives."""
    for tests in alternatives:
        for predicate in tests:
            if not predicate.accepts(values[predicate.attribute]):
                break
        else:
            return True
    return False


def all_hold(tests: tuple[Predicate, ...], batch: Sequence[Mapping[str, Value]]) -> bool:
    """Whether the values of all these notifications, which have the same names, satisfy all the predicates."""
    for predicate in tests:
        attribute = predicate.attribute
        if not predicate.accepts_all([values[attribute] for values in batch]):
            return False
    return True


class Conformity:
    """One advertisement, to be asked about many notifications."""

    __slots__ = ("_advertisement", "_by_names")

    def __init__(self, advertisement: Filter) -> None:
        self._advertisement = advertisement
        self._by_names: dict[tuple[str, ...], Alternatives] = {}

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether a notification of these (checked) values conforms."""
        names = tuple(values)
        left = self._by_names.get(names)
        if left is None:
            left = left_to_test(names, self._advertisement)
            if len(names) <= COMBINED_NAMES_MAX:
                if len(self._by_names) >= COMBINATIONS_MAX:
                    self._by_names.clear()
                self._by_names[names] = left
        return left is ALWAYS or one_holds(left, values)
