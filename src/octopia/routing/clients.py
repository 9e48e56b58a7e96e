"""The registrations of one broker's clients, and the limits on them.

The client's own ids are used only here; everywhere else a registration is a `Key`. Requests are idempotent: repeating
an id with the same filter is accepted and changes nothing, and withdrawing an unknown id is not an error. A refused
request comes with a reason, one line for the user. The bounds of all tables in the overlay follow from `Limits`, which
only host brokers enforce: a client at its limit is refused, and no one else is affected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from octopia.language import Filter, Notification, pattern_count, why_not_conforms
from octopia.protocol import Key


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds per broker and per client; a request past a bound is refused and names it."""

    clients_max: int = 100_000
    advertisements_per_client_max: int = 10_000
    subscriptions_per_client_max: int = 1_000_000
    # Conjunctions of all advertisements of a client: each of its notifications may be tested against all of them.
    advertised_conjunctions_per_client_max: int = 2_000
    # Patterns (`language.pattern_count`) of all advertisements of a client, and of all its subscriptions: other filters
    # are tested against them one by one.
    patterns_per_client_max: int = 256


class Registered(NamedTuple):
    """One advertisement or subscription of a client: its key in the overlay, its filter and its priority."""

    key: Key
    filter: Filter
    priority: int = 0


_PARTS = ("conjunctions", "conditions on parts or order of strings or huge numbers")


def _parts(filter: Filter) -> tuple[int, int]:
    return len(filter.conjunctions), pattern_count(filter)


_NOTHING: Mapping[str, Registered] = MappingProxyType({})


class Registrations:
    """The advertisements, or the subscriptions, of all clients of a broker. A client without any is not kept."""

    __slots__ = ("_by_client", "_clients_max", "_noun", "_parts_max", "_parts_of", "_per_client_max")

    def __init__(self, noun: str, per_client_max: int, clients_max: int, parts_max: tuple[int, int]) -> None:
        self._noun = noun
        self._per_client_max = per_client_max
        self._clients_max = clients_max
        self._by_client: dict[str, dict[str, Registered]] = {}
        # conjunctions and patterns of all filters of a client, and their limits
        self._parts_max = parts_max
        self._parts_of: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_client.values()))

    def of(self, client: str) -> Mapping[str, Registered]:
        """A client's registrations by its own ids, in order."""
        return self._by_client.get(client, _NOTHING)

    def clients(self) -> list[str]:
        """Clients with a registration, in order."""
        return list(self._by_client)

    def add(self, client: str, id: str, registered: Registered) -> None:
        self._by_client.setdefault(client, {})[id] = registered
        self._parts_of[client] = self._parts_with(client, registered.filter)

    def withdraw(self, client: str, id: str) -> Registered | None:
        own = self._by_client.get(client)
        if own is None:
            return None
        registered = own.pop(id, None)
        if not own:
            del self._by_client[client], self._parts_of[client]
        elif registered is not None:
            conjunctions, patterns = self._parts_of[client]
            less, fewer = _parts(registered.filter)
            self._parts_of[client] = conjunctions - less, patterns - fewer
        return registered

    def _parts_with(self, client: str, filter: Filter) -> tuple[int, int]:
        conjunctions, patterns = self._parts_of.get(client, (0, 0))
        more, further = _parts(filter)
        return conjunctions + more, patterns + further

    def some_of(self, client: str, most: int) -> list[str]:
        """The ids of a client's oldest registrations, at most `most`."""
        return list(islice(self.of(client), most))

    def why_not_add(self, client: str, id: str, filter: Filter, priority: int = 0) -> str | None:
        """The reason to refuse a registration; None if it is fine or exists already."""
        own = self.of(client)
        if id in own:
            if own[id].filter == filter:
                if own[id].priority == priority:
                    return None
                return (
                    f"{self._noun} id {id!r} is in use by {client} with priority {own[id].priority}; withdraw it first"
                )
            return (
                f"{self._noun} id {id!r} is in use by {client} for another filter ({own[id].filter}); withdraw it first"
            )
        if len(own) >= self._per_client_max:
            return (
                f"{client} has the maximum of {self._per_client_max} {self._noun}s for one client; withdraw one first"
            )
        for count, most, what in zip(self._parts_with(client, filter), self._parts_max, _PARTS, strict=True):
            if count > most:
                return (
                    f"with this {self._noun} {client} would have {count} {what} in its {self._noun}s, "
                    f"at most {most} are allowed for one client; withdraw one first"
                )
        if not own and len(self._by_client) >= self._clients_max:
            return f"this broker has its maximum of {self._clients_max} clients with {self._noun}s; use another broker"
        return None


def why_not_publish(client: str, advertisements: Mapping[str, Registered], notification: Notification) -> str:
    """Why a notification conforms to none of its publisher's advertisements, in one line."""
    if not advertisements:
        return f"{client} has no advertisement here; advertise before you publish"
    id, own = next(iter(advertisements.items()))
    others = len(advertisements) - 1
    more = f" (nor to {'its other one' if others == 1 else f'any of its {others} others'})" if others else ""
    return f"{client} did not advertise this: advertisement {id!r}: {why_not_conforms(notification, own.filter)}{more}"
