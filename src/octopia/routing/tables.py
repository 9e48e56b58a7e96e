"""The tables of a broker: advertisements (SRT) and subscriptions (PRT).

Rules of this file: tables store and find; they decide nothing and send nothing. Entries are found by `Key`; a last hop
of None means that a client of this very broker registered the entry. Iteration is in order of arrival. Bounds are kept
by the host broker of each client (`clients.Limits`), so a table never has to turn away what a neighbour already holds.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from octopia.language import Filter, Notification
from octopia.matching import Matcher
from octopia.routing.messages import Key
from octopia.topology import BrokerId


class SrtEntry:
    """An advertisement. `civ` and `interest` are used in SCOT routing only.

    `civ`: at the host broker its own bit (the context bit) and the bits of clusters that want it; at a secondary
    neighbour the host cluster's bit and this cluster's own, ON while `interest` is not 0. `interest` counts the
    subscriptions in this broker's PRT that overlap it.
    """

    __slots__ = ("civ", "filter", "interest", "key", "last_hop")

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, civ: int = 0) -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.civ = civ
        self.interest = 0


class PrtEntry:
    """A subscription. `client` and `id` are set where `last_hop` is None: at its host broker."""

    __slots__ = ("client", "filter", "id", "key", "last_hop")

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, client: str = "", id: str = "") -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.client = client
        self.id = id


Entry = TypeVar("Entry", bound=SrtEntry | PrtEntry)


class Table(Generic[Entry]):
    """Entries by key, with an index of their filters."""

    __slots__ = ("_entries", "_index")

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._index: Matcher[Entry] = Matcher()

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


class Prt(Table[PrtEntry]):
    """The subscription table of SCOT routing."""

    __slots__ = ()

    def match(self, notification: Notification) -> list[PrtEntry]:
        return self._index.match(notification)

    def overlapping(self, advertisement: Filter) -> list[PrtEntry]:
        return self._index.overlapping(advertisement)


def _key(entry: SrtEntry) -> Key:
    return entry.key
