"""The tables of a broker: advertisements (SRT) and subscriptions (PRT).

Tables store and find; they decide nothing and send nothing. Entries are found by `Key`. Iteration is in order of
arrival. Bounds are kept by the host broker of each client (`clients.Limits`), so a table never has to turn away what a
neighbour already holds. A subscription table remembers the sets of entries that notifications matched, and with each
set what was decided for it, until an entry comes or goes.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from octopia.language import Filter
from octopia.routing.actions import Recipient
from octopia.routing.decision import Decision
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.index import Index, MakeIndex
from octopia.routing.local import recipients_of
from octopia.routing.messages import Key
from octopia.topology import BrokerId

# What a table remembers, about 100 bytes each, 25 MB in all: an entry in a set, a recipient or a copy in a decision. At
# the bound the oldest sets go, a quarter of all, and are worked out anew should they come again.
REMEMBERED_MAX = 262_144
_SET_WEIGHT = 4
_DECISION_WEIGHT = 2

Entry = TypeVar("Entry", bound=SrtEntry | PrtEntry)
Subscription = TypeVar("Subscription", bound=PrtEntry)
Found = TypeVar("Found", bound="Matched")


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


class Matched:
    """A set of subscriptions that notifications match, and what the routing wants to know of it.

    `decisions` are those made for this set (`decide.py`).
    """

    __slots__ = ("decisions", "recipients", "weight")

    def __init__(self, recipients: tuple[Recipient, ...]) -> None:
        self.recipients = recipients
        self.decisions: dict[Hashable, Decision] = {}
        self.weight = 0  # not 0 while a table remembers it


class SubscriptionTable(Table[Subscription], Generic[Subscription, Found]):
    """Subscriptions that notifications are matched with; `Found` is what the routing wants to know of a match.

    `match_keys` names what each of several notifications matches, and `match_key` what one does. `found` has what is
    remembered of it by that name, and `find` finds out what is not. `found` is always the same dict, so that the one
    who asks most may hold on to it.
    """

    __slots__ = ("_weight", "found", "match_key", "match_keys")

    def __init__(self, make_index: MakeIndex) -> None:
        super().__init__(make_index)
        self.match_keys = self._index.match_keys
        self.match_key = self._index.match_key
        self.found: dict[Hashable, Found] = {}
        self._weight = 0

    def matched_with(self) -> Iterator[Subscription]:
        """All that notifications are matched with."""
        return iter(self)

    def find(self, key: Hashable) -> Found:
        """What is not remembered of a match."""
        matching = self._index.entries_of(key)
        made = self._find_out(matching)
        if self._weight > REMEMBERED_MAX:
            self._forget_oldest()
        self.found[key] = made
        made.weight = len(matching) + _SET_WEIGHT
        self._weight += made.weight
        return made

    def _forget_oldest(self) -> None:
        oldest: list[Hashable] = []
        for key, found in self.found.items():
            oldest.append(key)
            self._weight -= found.weight
            found.weight = 0
            if self._weight <= REMEMBERED_MAX - REMEMBERED_MAX // 4:
                break
        for key in oldest:
            del self.found[key]

    def remember_decision(self, found: Found, context: Hashable, decision: Decision) -> None:
        """Remember what was decided in this context, in place of what was decided earlier."""
        earlier = found.decisions.get(context)
        found.decisions[context] = decision
        weight = len(decision.recipients) + len(decision.copies) + _DECISION_WEIGHT
        if earlier is not None:
            weight -= len(earlier.recipients) + len(earlier.copies) + _DECISION_WEIGHT
        self.remember_more(found, weight)

    def remember_more(self, found: Found, weight: int) -> None:
        """What is remembered with a set has grown by as much as so many entries."""
        if found.weight:
            found.weight += weight
            self._weight += weight

    def add(self, entry: Subscription) -> None:
        super().add(entry)
        self.forget_matches()

    def remove(self, key: Key) -> Subscription:
        self.forget_matches()
        return super().remove(key)

    def forget_matches(self) -> None:
        """To be called whenever something changed that `_find_out` looks at."""
        if self.found:
            self.found.clear()
            self._weight = 0

    @abstractmethod
    def _find_out(self, matching: list[Subscription]) -> Found:
        """What the routing wants to know of these entries, whatever their order."""


class ScotMatched(Matched):
    """A match in SCOT routing: `hops` are the neighbours in tree order that lead to matching subscribers.

    `entries` are the matching subscriptions themselves, in no particular order.
    """

    __slots__ = ("entries", "hops")

    def __init__(
        self, recipients: tuple[Recipient, ...], hops: tuple[BrokerId, ...], entries: Sequence[PrtEntry]
    ) -> None:
        super().__init__(recipients)
        self.hops = hops
        self.entries = entries


class Prt(SubscriptionTable[PrtEntry, ScotMatched]):
    """The subscription table of SCOT routing.

    Towards neighbours it has yet to learn from it lets every notification go, as if a subscription there matched it.
    """

    __slots__ = ("_a_links", "_unlearnt")

    def __init__(self, make_index: MakeIndex, a_links: tuple[BrokerId, ...]) -> None:
        super().__init__(make_index)
        self._a_links = a_links
        self._unlearnt: frozenset[BrokerId] = frozenset()

    def has_yet_to_learn_from(self, unlearnt: Mapping[BrokerId, BrokerId]) -> None:
        """Brokers of the cluster, and the neighbours that lead there."""
        self._unlearnt = frozenset(unlearnt.values())
        self.forget_matches()

    def overlapping(self, advertisement: Filter) -> list[PrtEntry]:
        return self._index.overlapping(advertisement)

    def _find_out(self, matching: list[PrtEntry]) -> ScotMatched:
        targets = {entry.last_hop for entry in matching} | self._unlearnt
        hops = tuple(neighbour for neighbour in self._a_links if neighbour in targets)
        recipients = recipients_of(entry for entry in matching if entry.last_hop is None)
        return ScotMatched(recipients, hops, matching)


def _key(entry: SrtEntry) -> Key:
    return entry.key
