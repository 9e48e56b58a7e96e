"""The tables of a broker: advertisements (SRT) and subscriptions (PRT).

Tables store and find entries; they make no decisions and send nothing. Entries are found by `Key`. Iteration is in
order of arrival. The host broker of each client enforces the bounds (`clients.Limits`), so a table never has to refuse
an entry that a neighbour already holds. A subscription table caches the sets of entries that notifications matched, and
with each set its decisions, until an entry comes or goes.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from octopia.errors import LocalProtocolError
from octopia.language import Conjunction, Filter
from octopia.protocol import Key
from octopia.routing.actions import Recipient
from octopia.routing.decision import Decision
from octopia.routing.entries import PrtEntry, SrtEntry, recipients_of
from octopia.routing.index import Index, MakeIndex, MatcherIndex
from octopia.routing.rows import Rows
from octopia.topology import BrokerId

# Cached items per table, about 100 bytes each, 25 MB in all: an entry in a set, a recipient or a copy in a decision. At
# the bound the oldest quarter of the sets is evicted.
REMEMBERED_MAX = 262_144
_SET_WEIGHT = 4
_DECISION_WEIGHT = 2
# Cached sets of ways, about 500 bytes each; at the bound the oldest quarter is evicted.
WAY_SETS_MAX = 16_384

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
        """In order of key, so that messages do not depend on the layout of the index."""
        return sorted(self._index.overlapped_by(subscription), key=_key)


class Matched:
    """A set of subscriptions that notifications match, with the data that the routing derives from it.

    `decisions` are those made for this set (`decide.py`).
    """

    __slots__ = ("decisions", "recipients", "weight")

    def __init__(self, recipients: tuple[Recipient, ...]) -> None:
        self.recipients = recipients
        self.decisions: dict[Hashable, Decision] = {}
        self.weight = 0  # not 0 while a table caches it


class SubscriptionTable(Table[Subscription], Generic[Subscription, Found]):
    """Subscriptions to match notifications with; `Found` is the data that the routing derives from a match.

    `match_keys` gives the key of each notification's matches, and `match_key` that of one. `found` is the cache by that
    key, and `find` computes missing entries. `found` is always the same dict, so the most frequent caller may keep a
    reference.
    """

    __slots__ = ("_weight", "by_ways", "found", "match_key", "match_keys")

    def __init__(self, make_index: MakeIndex) -> None:
        super().__init__(make_index)
        self.match_keys = self._index.match_keys
        self.match_key = self._index.match_key
        self.found: dict[Hashable, Found] = {}
        self.by_ways: dict[bytes, Found] = {}
        self._weight = 0

    def watch(self, encode_id: Callable[[str], bytes]) -> Rows:
        """The rows for a host that delivers by rows, kept up to date from now on."""
        if not isinstance(self._index, MatcherIndex):
            raise LocalProtocolError("rows are those of a matcher")
        rows = Rows(self.way_of, self.stand_in, encode_id, self.by_ways.clear)
        self._index.watch(rows)
        return rows

    @property
    def index(self) -> Index[Subscription]:
        return self._index

    @staticmethod
    @abstractmethod
    def way_of(entry: Any) -> Hashable:
        """What tells a remote entry apart from others, as far as `_find_out` can tell."""

    @staticmethod
    def stand_in(entry: Any) -> PrtEntry:
        """An entry that stands for all of its way."""
        return PrtEntry(entry.key, _ANY, entry.last_hop, priority=entry.priority)

    def find_by_ways(self, key: bytes, entries: list[Subscription]) -> Found:
        """Like `find`, for a set of ways, each represented by an entry. There are no local recipients."""
        if len(self.by_ways) >= WAY_SETS_MAX:
            for oldest in list(islice(self.by_ways, WAY_SETS_MAX // 4)):
                del self.by_ways[oldest]
        made = self.by_ways[key] = self._find_out(entries)
        return made

    def matched_with(self) -> Iterator[Subscription]:
        """All entries that notifications are matched with."""
        return iter(self)

    def find(self, key: Hashable) -> Found:
        """Compute the data of a match that is not cached."""
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
        """Cache the decision for this context, replacing an earlier one."""
        earlier = found.decisions.get(context)
        found.decisions[context] = decision
        weight = len(decision.recipients) + len(decision.copies) + _DECISION_WEIGHT
        if earlier is not None:
            weight -= len(earlier.recipients) + len(earlier.copies) + _DECISION_WEIGHT
        self.remember_more(found, weight)

    def remember_more(self, found: Found, weight: int) -> None:
        """Account for growth of a cached set by this many entries."""
        if found.weight:
            found.weight += weight
            self._weight += weight

    def add(self, entry: Subscription) -> None:
        super().add(entry)
        self._forget_sets()

    def remove(self, key: Key) -> Subscription:
        self._forget_sets()
        return super().remove(key)

    def forget_matches(self) -> None:
        """Call this when something that `_find_out` reads has changed, other than the entries themselves."""
        self.by_ways.clear()
        self._forget_sets()

    def _forget_sets(self) -> None:
        """Clear the cache after an entry came or went; results for sets of ways stay valid."""
        if self.found:
            self.found.clear()
            self._weight = 0

    @abstractmethod
    def _find_out(self, matching: list[Subscription]) -> Found:
        """The data that the routing derives from these entries, regardless of order."""


class ScotMatched(Matched):
    """A match in SCOT routing: `hops` are the neighbours in tree order that lead to matching subscribers.

    `entries` are the matching subscriptions themselves, in no particular order. `urgent` has the priority of hops with
    an urgent one; None if there is none.
    """

    __slots__ = ("entries", "hops", "urgent")

    def __init__(
        self, recipients: tuple[Recipient, ...], hops: tuple[BrokerId, ...], entries: Sequence[PrtEntry]
    ) -> None:
        super().__init__(recipients)
        self.hops = hops
        self.entries = entries
        self.urgent: dict[BrokerId, int] | None = None
        for entry in entries:
            if entry.priority and entry.last_hop is not None:
                self.urgent = self.urgent or {}
                self.urgent[entry.last_hop] = max(entry.priority, self.urgent.get(entry.last_hop, 0))


class Prt(SubscriptionTable[PrtEntry, ScotMatched]):
    """The subscription table of SCOT routing.

    A way is a last hop and a priority. Every notification goes to neighbours that the broker has yet to learn from, as
    if a subscription there matched it.
    """

    __slots__ = ("_a_links", "_unlearnt")

    @staticmethod
    def way_of(entry: PrtEntry) -> Hashable:
        return (entry.last_hop, entry.priority)

    def __init__(self, make_index: MakeIndex, a_links: tuple[BrokerId, ...]) -> None:
        super().__init__(make_index)
        self._a_links = a_links
        self._unlearnt: frozenset[BrokerId] = frozenset()

    def has_yet_to_learn_from(self, unlearnt: Mapping[BrokerId, BrokerId]) -> None:
        """Set the brokers yet to learn from, each with the neighbour that leads there."""
        self._unlearnt = frozenset(unlearnt.values())
        self.forget_matches()

    def overlapping(self, advertisement: Filter) -> list[PrtEntry]:
        return self._index.overlapping(advertisement)

    def _find_out(self, matching: list[PrtEntry]) -> ScotMatched:
        targets = {entry.last_hop for entry in matching} | self._unlearnt
        hops = tuple(neighbour for neighbour in self._a_links if neighbour in targets)
        recipients = recipients_of(entry for entry in matching if entry.last_hop is None)
        return ScotMatched(recipients, hops, matching)


_ANY = Filter([Conjunction([])])


def _key(entry: SrtEntry) -> Key:
    return entry.key
