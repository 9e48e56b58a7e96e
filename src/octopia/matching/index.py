"""An index of filters for matching one notification at a time, in plain Python.

Each conjunction of a filter is filed under one of its equality predicates, its access predicate, chosen where the
fewest others lie; one without any is kept in a list that every notification scans. A match looks up the notification's
own values and tests only what it finds there.

Rules of this file: results are exact (`language.matches` on every stored filter gives the same); each id comes once,
however many of its conjunctions match; no set is iterated, so equal histories give equal results in equal order. Size
is bounded by what is added: nothing is cached.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from octopia.language import Conjunction, Filter, Notification, Operator, Predicate, Value

Id = TypeVar("Id", bound=Hashable)


class _Filed(Generic[Id]):
    """One conjunction: the id it speaks for, and the predicates left to test once the access predicate holds."""

    __slots__ = ("id", "rest")

    def __init__(self, id: Id, rest: tuple[tuple[str, Callable[[Value], bool]], ...]) -> None:
        self.id = id
        self.rest = rest


class Matcher(Generic[Id]):
    """Stored filters by id; ids are any hashable."""

    __slots__ = ("_access", "_homes", "_scanned")

    def __init__(self) -> None:
        # attribute -> value -> conjunctions, as dicts so that removal is quick and order is that of arrival
        self._access: dict[str, dict[Value, dict[_Filed[Id], None]]] = {}
        self._scanned: dict[_Filed[Id], None] = {}
        self._homes: dict[Id, list[tuple[_Filed[Id], str | None, Value | None]]] = {}

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, id: Id) -> bool:
        return id in self._homes

    def add(self, id: Id, filter: Filter) -> None:
        if id in self._homes:
            raise ValueError(f"id {id!r} is in the index already; remove it first")
        self._homes[id] = [self._file(id, conjunction) for conjunction in filter.conjunctions]

    def remove(self, id: Id) -> None:
        """Take a filter out; an unknown id is a KeyError."""
        for filed, attribute, value in self._homes.pop(id):
            if attribute is None or value is None:
                del self._scanned[filed]
                continue
            by_value = self._access[attribute]
            del by_value[value][filed]
            if not by_value[value]:
                del by_value[value]
                if not by_value:
                    del self._access[attribute]

    def match(self, notification: Notification) -> list[Id]:
        """The ids whose filter the notification satisfies."""
        found: dict[Id, None] = {}
        get = notification.get
        for attribute, by_value in self._access.items():
            value = get(attribute)
            if value is None or value is True or value is False:
                continue
            candidates = by_value.get(value)
            if candidates is not None:
                _test(candidates, get, found)
        if self._scanned:
            _test(self._scanned, get, found)
        return list(found)

    def _file(self, id: Id, conjunction: Conjunction) -> tuple[_Filed[Id], str | None, Value | None]:
        access = min(filter(_may_file_under, conjunction.predicates), key=self._crowd, default=None)
        filed = _Filed(id, tuple((p.attribute, p.accepts) for p in conjunction.predicates if p is not access))
        if access is None or access.value is None:
            self._scanned[filed] = None
            return filed, None, None
        self._access.setdefault(access.attribute, {}).setdefault(access.value, {})[filed] = None
        return filed, access.attribute, access.value

    def _crowd(self, predicate: Predicate) -> int:
        """How many conjunctions are filed under this predicate."""
        by_value = self._access.get(predicate.attribute)
        return 0 if by_value is None or predicate.value is None else len(by_value.get(predicate.value, ()))


def _may_file_under(predicate: Predicate) -> bool:
    # True and 1 are one key of a dict, so bools are never filed under
    return predicate.operator is Operator.EQ and not isinstance(predicate.value, bool)


def _test(candidates: dict[_Filed[Id], None], get: Callable[[str], Value | None], found: dict[Id, None]) -> None:
    for filed in candidates:
        for attribute, accepts in filed.rest:
            value = get(attribute)
            if value is None or not accepts(value):
                break
        else:
            found[filed.id] = None
