"""Which of a publisher's advertisements its notifications conform to, for many notifications.

Conformity depends first on a notification's attribute names, and a publisher uses the same few combinations of names
over and over. So the part that the names decide is computed once per combination and cached. A client's cache is
dropped when it advertises or withdraws; a full cache is cleared.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from octopia.language import ALWAYS, Alternatives, Notification, all_hold, left_to_test, one_holds
from octopia.matching import Tokens
from octopia.routing.clients import Registered, Registrations
from octopia.routing.index import Values
from octopia.routing.tests_of_values import TESTED_MAX, satisfied

# Cached combinations of attribute names, and names per combination; longer ones are computed each time.
COMBINATIONS_MAX = 4096
COMBINED_NAMES_MAX = 64

# Groups of advertisements, and the group that each notification of a batch is in; None: all are in the first.
Satisfied = tuple[list[list[Registered]], npt.NDArray[np.int64] | None]


class _Combination:
    """Cached facts about a publisher's notifications with the same attribute names."""

    __slots__ = ("_left", "advertisements", "by_names")

    def __init__(self, names: tuple[str, ...], advertisements: Sequence[Registered]) -> None:
        left = [(own, left_to_test(names, own.filter)) for own in advertisements]
        # The advertisements that may apply, and the conditions on values.
        self._left: list[tuple[Registered, Alternatives]] = [(own, tests) for own, tests in left if tests]
        self.advertisements = [own for own, _ in self._left]
        # those that all notifications with these names satisfy; None if values have a say
        self.by_names = self.advertisements if all(tests is ALWAYS for _, tests in self._left) else None

    def all_hold(self, batch: Sequence[Values]) -> bool:
        """Whether all of these are known to conform to all the advertisements."""
        for _, tests in self._left:
            if tests is not ALWAYS and (len(tests) > 1 or not all_hold(tests[0], batch)):
                return False
        return True

    def satisfied_by(self, values: Values) -> list[Registered]:
        return [own for own, tests in self._left if tests is ALWAYS or one_holds(tests, values)]

    def satisfied_by_tokens(self, tokens: Tokens, seen: Callable[[int], Notification]) -> Satisfied | None:
        """The same for a batch of tokens, for notifications with these names. None: too many conditions."""
        if self.by_names is not None:
            return [self.by_names], None
        left = [(own, tests) for own, tests in self._left if tests is not ALWAYS]
        if len(left) > TESTED_MAX:
            return None
        words = satisfied([tests for _, tests in left], tokens, seen)
        if (words == words[0]).all():
            return [self._chosen(int(words[0]))], None
        distinct, which = np.unique(words, return_inverse=True)
        return [self._chosen(word) for word in distinct.tolist()], which

    def _chosen(self, word: int) -> list[Registered]:
        """The advertisements that need no test, and those whose test has its bit in the word; in their order."""
        chosen, bit = [], 1
        for own, tests in self._left:
            if tests is ALWAYS:
                chosen.append(own)
            else:
                if word & bit:
                    chosen.append(own)
                bit <<= 1
        return chosen


class Conforming:
    """The checks for all clients of a broker."""

    __slots__ = ("_advertisements", "_by_client", "_combinations")

    def __init__(self, advertisements: Registrations) -> None:
        self._advertisements = advertisements
        self._by_client: dict[str, dict[tuple[str, ...], _Combination]] = {}
        self._combinations = 0

    def forget(self, client: str) -> None:
        """Call this when a client advertises or withdraws an advertisement."""
        known = self._by_client.pop(client, None)
        if known is not None:
            self._combinations -= len(known)

    def satisfied_by(self, client: str, values: Values) -> list[Registered]:
        """The advertisements of a client that one notification satisfies, oldest first."""
        return self._combination(client, tuple(values)).satisfied_by(values)

    def satisfied_by_names(self, client: str, names: tuple[str, ...]) -> list[Registered] | None:
        """The advertisements that a client's notifications with these names satisfy; None if values have a say."""
        known = self._by_client.get(client)
        combination = None if known is None else known.get(names)
        return (combination or self._combination(client, names)).by_names

    def groups(
        self, client: str, notifications: Sequence[Values]
    ) -> Iterator[tuple[list[Registered], Sequence[int] | None]]:
        """The advertisements that are satisfied, oldest first, and the indices of those notifications; None: all.

        Each notification is in one group; a group may have no advertisements.
        """
        names = list(map(tuple, notifications))
        first = self._combination(client, names[0])
        if names.count(names[0]) == len(names) and first.all_hold(notifications):
            # By far the most common case: all have the same names and conform.
            yield first.advertisements, None
            return
        found: dict[tuple[int, ...], tuple[list[Registered], list[int]]] = {}
        for at, (values, named) in enumerate(zip(notifications, names, strict=True)):
            satisfied = self._combination(client, named).satisfied_by(values)
            found.setdefault(tuple(map(id, satisfied)), (satisfied, []))[1].append(at)
        yield from found.values()

    def groups_of_tokens(self, client: str, tokens: Tokens, seen: Callable[[int], Notification]) -> Satisfied | None:
        """Like `groups`, for a batch of tokens: each group of advertisements, and the group of each notification.

        The latter is None if there is only one group. None alone: use the ordinary path.
        """
        kinds = []
        for signature in range(tokens.counts.signatures):
            kind = self._combination(client, tokens.names_of(signature)).satisfied_by_tokens(tokens, seen)
            if kind is None:
                return None
            kinds.append(kind)
        if len(kinds) == 1:
            found, of_each = kinds[0]
            return kinds[0] if of_each is None else _in_order(found, of_each)
        groups: list[list[Registered]] = []
        which = np.empty(tokens.counts.notes, dtype=np.int64)
        signatures = tokens.signatures
        for number, (found, of_each) in enumerate(kinds):
            mine = signatures == number
            which[mine] = len(groups) if of_each is None else of_each[mine] + len(groups)
            groups += found
        return _in_order(groups, which)

    def _combination(self, client: str, names: tuple[str, ...]) -> _Combination:
        known = self._by_client.get(client)
        if known is not None and names in known:
            return known[names]
        made = _Combination(names, list(self._advertisements.of(client).values()))
        if len(names) <= COMBINED_NAMES_MAX and made.advertisements:
            if self._combinations >= COMBINATIONS_MAX:
                self._by_client.clear()
                self._combinations = 0
            self._combinations += 1
            self._by_client.setdefault(client, {})[names] = made
        return made


def _in_order(groups: list[list[Registered]], which: npt.NDArray[np.int64]) -> Satisfied:
    """The same groups in order of first occurrence, with equal ones merged, as in `Conforming.groups`."""
    present, firsts = np.unique(which, return_index=True)
    numbers: dict[tuple[int, ...], int] = {}
    renumbered = np.zeros(len(groups), dtype=np.int64)
    kept = []
    for group in present[np.argsort(firsts)].tolist():
        key = tuple(map(id, groups[group]))
        if key not in numbers:
            numbers[key] = len(numbers)
            kept.append(groups[group])
        renumbered[group] = numbers[key]
    return (kept, None) if len(kept) == 1 else (kept, renumbered[which])
