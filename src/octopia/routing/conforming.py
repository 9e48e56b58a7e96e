"""Which of a publisher's advertisements its notifications conform to, for many notifications.

Conformity depends first on a notification's attribute names, and a publisher uses the same few combinations of names
over and over. So the part that the names decide is computed once per combination and cached. A client's cache is
dropped when it advertises or withdraws; a full cache is cleared.
"""

from collections.abc import Sequence

from octopia.language import ALWAYS, Alternatives, all_hold, left_to_test, one_holds
from octopia.routing.clients import Registered, Registrations
from octopia.routing.index import Values

# Cached combinations of attribute names, and names per combination; longer ones are computed each time.
COMBINATIONS_MAX = 4096
COMBINED_NAMES_MAX = 64

# The advertisements that may apply to notifications with certain names, oldest first, and the conditions on values.
Terms = list[tuple[Registered, Alternatives]]
# Some advertisements, and the places of the notifications that satisfy just these; None: all.
Group = tuple[list[Registered], Sequence[int] | None]


class _Combination:
    """Cached facts about a publisher's notifications with the same attribute names."""

    __slots__ = ("advertisements", "terms")

    def __init__(self, names: tuple[str, ...], advertisements: Sequence[Registered]) -> None:
        left = [(own, left_to_test(names, own.filter)) for own in advertisements]
        self.terms: Terms = [(own, tests) for own, tests in left if tests]
        self.advertisements = [own for own, _ in self.terms]

    def all_hold(self, batch: Sequence[Values]) -> bool:
        """Whether all of these are known to conform to all the advertisements."""
        for _, tests in self.terms:
            if tests is not ALWAYS and (len(tests) > 1 or not all_hold(tests[0], batch)):
                return False
        return bool(self.terms)

    def satisfied_by(self, values: Values) -> list[Registered]:
        return [own for own, tests in self.terms if tests is ALWAYS or one_holds(tests, values)]


class Conforming:
    """The checks for all clients of a broker."""

    __slots__ = ("_advertisements", "_by_client", "_combinations", "_own")

    def __init__(self, advertisements: Registrations) -> None:
        self._advertisements = advertisements
        self._by_client: dict[str, dict[tuple[str, ...], _Combination]] = {}
        self._combinations = 0
        self._own: dict[str, list[Registered]] = {}

    def advertised(self, client: str) -> list[Registered]:
        """A client's advertisements, oldest first; the same list until one comes or goes."""
        own = self._own.get(client)
        if own is None:
            own = list(self._advertisements.of(client).values())
            if own:
                self._own[client] = own
        return own

    def forget(self, client: str) -> None:
        """Call this when a client advertises or withdraws an advertisement."""
        self._own.pop(client, None)
        known = self._by_client.pop(client, None)
        if known is not None:
            self._combinations -= len(known)

    def satisfied_by(self, client: str, values: Values) -> list[Registered]:
        """The advertisements of a client that one notification satisfies, oldest first."""
        return self._combination(client, tuple(values)).satisfied_by(values)

    def terms(self, client: str, names: tuple[str, ...]) -> Terms:
        """The conditions for a client's notifications with these names."""
        return self._combination(client, names).terms

    def groups(self, client: str, notifications: Sequence[Values]) -> list[Group]:
        """The advertisements that notifications satisfy, and the places of these notifications.

        Only those before the first that satisfies none are considered.
        """
        names = list(map(tuple, notifications))
        first = self._combination(client, names[0])
        if names.count(names[0]) == len(names) and first.all_hold(notifications):
            # By far the most common case: all have the same names and conform.
            return [(first.advertisements, None)]
        found: dict[tuple[int, ...], tuple[list[Registered], list[int]]] = {}
        for at, (values, named) in enumerate(zip(notifications, names, strict=True)):
            satisfied = self._combination(client, named).satisfied_by(values)
            if not satisfied:
                break
            found.setdefault(tuple(map(id, satisfied)), (satisfied, []))[1].append(at)
        return list(found.values())

    def _combination(self, client: str, names: tuple[str, ...]) -> _Combination:
        known = self._by_client.get(client)
        if known is not None and names in known:
            return known[names]
        made = _Combination(names, self.advertised(client))
        if len(names) <= COMBINED_NAMES_MAX and made.advertisements:
            if self._combinations >= COMBINATIONS_MAX:
                self._by_client.clear()
                self._combinations = 0
            self._combinations += 1
            self._by_client.setdefault(client, {})[names] = made
        return made
