"""The tables of a broker: advertisements (SRT) and subscriptions (PRT).

Rules of this file: tables store and find; they decide nothing and send nothing. Entries are found by `Key`. Iteration
is in order of arrival. Bounds are kept by the host broker of each client (`clients.Limits`), so a table never has to
turn away what a neighbour already holds. What a subscription table found out about a set of matching entries it
remembers until an entry comes or goes.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from octopia.language import Filter, Notification, Value
from octopia.routing.actions import Recipient
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.index import Index, MakeIndex
from octopia.routing.local import recipients_of
from octopia.routing.messages import Key
from octopia.topology import BrokerId

# Entries in all the sets of matching entries a table remembers, about 20 MB at the bound; when there are more, all sets
# are forgotten and worked out anew as they come.
REMEMBERED_ENTRIES_MAX = 131_072

Entry = TypeVar("Entry", bound=SrtEntry | PrtEntry)
Subscription = TypeVar("Subscription", bound=PrtEntry)
Found = TypeVar("Found")


class Table(Generic[Entry]):
    """Entries by key, with an index of their filters."""

    __slots__ = ("_entries", "_index")

    def __init__(self, make_index: MakeIndex) -> None:
        self._entries: dict[Key, Entry] = {}
        self._index: Index[Entry] = make_index()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def add(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._index.add(entry, entry.filter)

    def remove(self, key: Key) -> Entry:
        entry = self._entries.pop(key)
        self._index.remove(entry)
        return entry


class Srt(Table[SrtEntry]):
    """The advertisement table."""

    __slots__ = ()

    def overlapping(self, subscription: Filter) -> list[SrtEntry]:
        """In order of key, so that what is sent does not depend on how the index is laid out."""
        return sorted(self._index.overlapped_by(subscription), key=_key)


class Onward(dict[BrokerId | None, tuple[BrokerId, ...]]):
    """By the neighbour that a copy came by (None: from a client), the others of `hops`; worked out when first asked."""

    __slots__ = ("_hops",)

    def __init__(self, hops: tuple[BrokerId, ...]) -> None:
        super().__init__()
        self._hops = hops

    def __missing__(self, came_by: BrokerId | None) -> tuple[BrokerId, ...]:
        onward = self[came_by] = tuple(hop for hop in self._hops if hop != came_by)
        return onward


class Directions(dict[tuple[BrokerId, ...], Onward]):
    """One `Onward` for each set of neighbours that was ever a target: many sets of subscriptions share one."""

    __slots__ = ()

    def __missing__(self, hops: tuple[BrokerId, ...]) -> Onward:
        onward = self[hops] = Onward(hops)
        return onward


class SubscriptionTable(Table[Subscription], Generic[Subscription, Found]):
    """Subscriptions that notifications are matched with; `Found` is what the routing wants to know of a match."""

    __slots__ = ("_directions", "_match_key", "_remembered", "_remembered_entries")

    def __init__(self, make_index: MakeIndex) -> None:
        super().__init__(make_index)
        self._match_key = self._index.match_key
        self._remembered: dict[Hashable, Found] = {}
        self._remembered_entries = 0
        self._directions = Directions()

    def match(self, notification: Notification) -> Found:
        key = self._match_key(notification)
        try:
            return self._remembered[key]
        except KeyError:
            return self._remember(key)

    def match_many(self, notifications: Sequence[dict[str, Value]]) -> list[Found]:
        """`match` for each of these, whose values were checked."""
        keys = self._index.match_keys(notifications)
        remembered = self._remembered
        try:
            return [remembered[key] for key in keys]
        except KeyError:
            return [remembered[key] if key in remembered else self._remember(key) for key in keys]

    def _remember(self, key: Hashable) -> Found:
        matching = self._index.entries_of(key)
        if self._remembered_entries > REMEMBERED_ENTRIES_MAX:
            self.forget_matches()
        self._remembered_entries += len(matching) + 1
        found = self._remembered[key] = self._find_out(matching)
        return found

    def add(self, entry: Subscription) -> None:
        super().add(entry)
        self.forget_matches()

    def remove(self, key: Key) -> Subscription:
        self.forget_matches()
        return super().remove(key)

    def forget_matches(self) -> None:
        """To be called whenever something changed that `_find_out` looks at."""
        if self._remembered:
            self._remembered.clear()
            self._remembered_entries = 0
            self._directions.clear()

    def remember_more(self, entries: int) -> None:
        """What was found out about a match has grown by as much as so many entries."""
        self._remembered_entries += entries
        if self._remembered_entries > REMEMBERED_ENTRIES_MAX:
            self.forget_matches()

    @abstractmethod
    def _find_out(self, matching: list[Subscription]) -> Found:
        """What the routing wants to know of these entries, whatever their order."""


class Matched(NamedTuple):
    """Whom a notification goes to from here: clients of this broker, and neighbours in tree order, never back."""

    recipients: tuple[Recipient, ...]
    onward: Onward


class Prt(SubscriptionTable[PrtEntry, Matched]):
    """The subscription table of SCOT routing.

    Towards neighbours it has yet to learn from it lets every notification go, as if a subscription there matched it.
    """

    __slots__ = ("_a_links", "_unlearnt")

    def __init__(self, make_index: MakeIndex, a_links: tuple[BrokerId, ...]) -> None:
        super().__init__(make_index)
        self._a_links = a_links
        self._unlearnt: frozenset[BrokerId] = frozenset()

    def has_yet_to_learn_from(self, neighbours: Iterable[BrokerId]) -> None:
        self._unlearnt = frozenset(neighbours)
        self.forget_matches()

    def overlapping(self, advertisement: Filter) -> list[PrtEntry]:
        return self._index.overlapping(advertisement)

    def _find_out(self, matching: list[PrtEntry]) -> Matched:
        targets = {entry.last_hop for entry in matching} | self._unlearnt
        hops = tuple(neighbour for neighbour in self._a_links if neighbour in targets)
        recipients = recipients_of(entry for entry in matching if entry.last_hop is None)
        return Matched(recipients, self._directions[hops])


def _key(entry: SrtEntry) -> Key:
    return entry.key
