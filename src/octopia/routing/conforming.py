"""Which advertisements of a publisher its notifications satisfy, for many notifications.

What an advertisement says of a notification depends first on the names of its attributes, and a publisher uses the same
few combinations of names again and again. So what the names alone decide is worked out once per combination. What is
remembered of a client goes when it advertises or withdraws; at the bound all is forgotten and worked out anew.
"""

from collections.abc import Iterator, Sequence

from octopia.language import ALWAYS, Alternatives, all_hold, left_to_test, one_holds
from octopia.routing.clients import Registered, Registrations
from octopia.routing.index import Values

# Combinations of attribute names remembered, and names in one; longer ones are worked out each time.
COMBINATIONS_MAX = 4096
COMBINED_NAMES_MAX = 64


class _Combination:
    """What is known of a publisher's notifications with the same attribute names."""

    __slots__ = ("_left", "advertisements")

    def __init__(self, names: tuple[str, ...], advertisements: Sequence[Registered]) -> None:
        left = [(own, left_to_test(names, own.filter)) for own in advertisements]
        # The advertisements that may be conformed to, and what their values must satisfy.
        self._left: list[tuple[Registered, Alternatives]] = [(own, tests) for own, tests in left if tests]
        self.advertisements = [own for own, _ in self._left]

    def all_hold(self, batch: Sequence[Values]) -> bool:
        """Whether all of these are known to conform to all the advertisements."""
        for _, tests in self._left:
            if tests is not ALWAYS and (len(tests) > 1 or not all_hold(tests[0], batch)):
                return False
        return True

    def satisfied_by(self, values: Values) -> list[Registered]:
        return [own for own, tests in self._left if tests is ALWAYS or one_holds(tests, values)]


class Conforming:
    """Asks for all clients of a broker."""

    __slots__ = ("_advertisements", "_by_client", "_combinations")

    def __init__(self, advertisements: Registrations) -> None:
        self._advertisements = advertisements
        self._by_client: dict[str, dict[tuple[str, ...], _Combination]] = {}
        self._combinations = 0

    def forget(self, client: str) -> None:
        """To be called when a client advertised or withdrew an advertisement."""
        known = self._by_client.pop(client, None)
        if known is not None:
            self._combinations -= len(known)

    def satisfied_by(self, client: str, values: Values) -> list[Registered]:
        """The advertisements of a client that one notification satisfies, oldest first."""
        return self._combination(client, tuple(values)).satisfied_by(values)

    def groups(
        self, client: str, notifications: Sequence[Values]
    ) -> Iterator[tuple[list[Registered], Sequence[int] | None]]:
        """The advertisements that are satisfied, oldest first, and the places of the notifications that do; None: all.

        Each notification is in one group, of which the advertisements may be none.
        """
        names = list(map(tuple, notifications))
        first = self._combination(client, names[0])
        if names.count(names[0]) == len(names) and first.all_hold(notifications):
            # By far the most common: all are of the same kind and as advertised.
            yield first.advertisements, None
            return
        found: dict[tuple[int, ...], tuple[list[Registered], list[int]]] = {}
        for at, (values, named) in enumerate(zip(notifications, names, strict=True)):
            satisfied = self._combination(client, named).satisfied_by(values)
            found.setdefault(tuple(map(id, satisfied)), (satisfied, []))[1].append(at)
        yield from found.values()

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
