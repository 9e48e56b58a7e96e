"""`conforms`, for many notifications of the same advertisement.

Gives the same answers as `conforms`. Whether a notification conforms depends first on its attribute names, and a
publisher uses the same few combinations of names over and over. The part of the answer that the names decide is
computed once per combination and cached. When the cache is full it is cleared.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from octopia.language.filter import Filter
from octopia.language.predicate import Predicate
from octopia.language.values import Value

# Cached combinations of names per advertisement, and names per combination; longer ones are computed each time.
COMBINATIONS_MAX: Final = 256
COMBINED_NAMES_MAX: Final = 64

Alternatives: TypeAlias = tuple[tuple[Predicate, ...], ...]
# Every value conforms: nothing is left to test.
ALWAYS: Final[Alternatives] = ((),)


def left_to_test(names: tuple[str, ...], advertisement: Filter) -> Alternatives:
    """The predicates that values under these names must satisfy: all those of one alternative.

    No alternatives: no values conform. `ALWAYS`: all of them do.
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
    """Whether the values of all these notifications, which share the same names, satisfy every predicate."""
    for predicate in tests:
        attribute = predicate.attribute
        if not predicate.accepts_all([values[attribute] for values in batch]):
            return False
    return True


class Conformity:
    """One advertisement, checked against many notifications."""

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
