"""Matches and overlaps worked out before a run: which subscriptions every notification and advertisement meets.

A simulated notification crosses thirty brokers, and most of them hold the same subscriptions; to search at each of them
would be most of the run, and the same goes for a subscription that is held against the advertisements of every broker
of its cluster. So the matcher answers once for the whole workload, and the brokers' tables get an index that knows the
answers. Rules of this file: the index answers by what is in its table at that moment, so a subscription that has not
arrived at a broker yet does not match there; it knows the filters of its workload and no others. Notifications that
match the same filters share one number, their match set.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import LocalProtocolError
from octopia.language import Filter, Notification, Value
from octopia.matching import Matcher

Entry = TypeVar("Entry", bound=Any)
ROWS_PER_BATCH = 16_384


class SimNotification(Notification):
    """A notification of a run: it also knows its match set and the request that published it."""

    __slots__ = ("match_set", "request")
    match_set: int
    request: int

    @classmethod
    def number(cls, values: dict[str, Value], match_set: int, request: int) -> "SimNotification":
        """The notification of values that were checked already."""
        notification = cls.trusted(values)
        _set_match_set(notification, match_set)
        _set_request(notification, request)
        return notification  # type: ignore[return-value]  # `trusted` makes what it is called on


# The slots themselves, since a notification is frozen for all others.
_set_match_set = SimNotification.__dict__["match_set"].__set__
_set_request = SimNotification.__dict__["request"].__set__


class KnownMatches:
    """The filters of a workload by number, and what they meet.

    For every row of a notifications table its match set, for every match set the subscriptions in it, and for each
    subscription the advertisements that it overlaps, and the other way round.
    """

    def __init__(
        self, subscriptions: Iterable[Filter], notifications: pa.Table, advertisements: Iterable[Filter] = ()
    ) -> None:
        wanted, promised = list(dict.fromkeys(subscriptions)), list(dict.fromkeys(advertisements))
        # an advertisement and a subscription may be the same filter, and have one number
        self.numbers = {filter: number for number, filter in enumerate(dict.fromkeys((*wanted, *promised)))}
        self.sets: list[Sequence[int]] = []
        self.set_of_row: npt.NDArray[np.int32] = np.empty(notifications.num_rows, dtype=np.int32)
        self.overlapping: dict[Filter, list[int]] = {filter: [] for filter in promised}
        self.overlapped_by: dict[Filter, list[int]] = {filter: [] for filter in wanted}
        self._find_matches(self._matcher(wanted), notifications)
        self._find_overlaps(self._matcher(promised), wanted, promised)

    def make_index(self) -> "KnownIndex[Any]":
        return KnownIndex(self)

    def _matcher(self, filters: list[Filter]) -> Matcher[int]:
        matcher: Matcher[int] = Matcher()
        for filter in filters:
            matcher.add(self.numbers[filter], filter)
        matcher.settle()
        return matcher

    def _find_matches(self, subscriptions: Matcher[int], notifications: pa.Table) -> None:
        known: dict[bytes, int] = {}
        first = 0
        for batch in notifications.to_batches(max_chunksize=ROWS_PER_BATCH):
            pairs = subscriptions.match_batch(batch)
            events, ids = (pairs.column(name).to_numpy() for name in ("event", "id"))
            ids = ids[np.lexsort((ids, events))].astype(np.int32)
            ends = np.cumsum(np.bincount(events, minlength=batch.num_rows)).tolist()
            start = 0
            for row, end in enumerate(ends, first):
                key = ids[start:end].tobytes()
                number = known.setdefault(key, len(known))
                if number == len(self.sets):
                    self.sets.append(ids[start:end].tolist())
                self.set_of_row[row] = number
                start = end
            first += batch.num_rows

    def _find_overlaps(self, advertisements: Matcher[int], wanted: list[Filter], promised: list[Filter]) -> None:
        by_number = {self.numbers[filter]: filter for filter in promised}
        for filter in wanted:
            met = self.overlapped_by[filter] = sorted(advertisements.overlapped_by(filter))
            for number in met:
                self.overlapping[by_number[number]].append(self.numbers[filter])


class KnownIndex(Generic[Entry]):
    """The `routing.Index` of one table of one broker in a run: of a filter it holds the number and no more."""

    def __init__(self, known: KnownMatches) -> None:
        self._known = known
        self._by_number: dict[int, list[Entry]] = {}
        # of notifications of the run (`SimNotification`); asked for every hop, so without a call of Python's
        self.match_key: Callable[[Any], int] = attrgetter("match_set")
        self.match_keys: Callable[[Sequence[Any]], Iterable[int]] = partial(map, self.match_key)

    def add(self, id: Entry, filter: Filter) -> None:
        self._by_number.setdefault(self._number(filter), []).append(id)

    def remove(self, id: Entry) -> None:
        number = self._number(id.filter)
        entries = self._by_number[number]
        entries.remove(id)
        if not entries:
            del self._by_number[number]

    def entries_of(self, key: int) -> list[Entry]:
        return self._entries(self._known.sets[key])

    def overlapping(self, advertisement: Filter) -> list[Entry]:
        return self._entries(self._known.overlapping[advertisement])

    def overlapped_by(self, subscription: Filter) -> list[Entry]:
        return self._entries(self._known.overlapped_by[subscription])

    def _entries(self, numbers: Sequence[int]) -> list[Entry]:
        by_number = self._by_number
        return [entry for number in numbers for entry in by_number.get(number, ())]

    def _number(self, filter: Filter) -> int:
        number = self._known.numbers.get(filter)
        if number is None:
            raise LocalProtocolError(f"the filter {filter} is not of the workload of this run")
        return number
