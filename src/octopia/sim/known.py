"""Matches and overlaps computed before a run: the subscriptions of every notification and advertisement.

A simulated notification crosses thirty brokers, most of which hold the same subscriptions. Matching at each of them
would take most of the run, as would comparing a subscription with the advertisements of every broker of its cluster. So
the matcher runs once for the whole workload, and the brokers' tables get an index that knows the answers. The index
answers from the current contents of its table, so a subscription that has not reached a broker yet does not match
there. It knows only the filters of its workload. Notifications that match the same filters share a number, their match
set.
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
    """A notification of a run, with its match set and the request that published it."""

    __slots__ = ("match_set", "request")
    match_set: int
    request: int

    @classmethod
    def number(cls, values: dict[str, Value], match_set: int, request: int) -> "SimNotification":
        """A notification from values that have been checked already."""
        notification = cls.trusted(values)
        _set_match_set(notification, match_set)
        _set_request(notification, request)
        return notification  # type: ignore[return-value]  # `trusted` makes what it is called on


# Sets the slots directly, since a notification is frozen for everyone else.
_set_match_set = SimNotification.__dict__["match_set"].__set__
_set_request = SimNotification.__dict__["request"].__set__


class KnownMatches:
    """The filters of a workload by number, and their matches.

    It has the match set of every row of a notifications table, the subscriptions in every match set, and the
    advertisements that each subscription overlaps, and vice versa.
    """

    def __init__(
        self, subscriptions: Iterable[Filter], notifications: pa.Table, advertisements: Iterable[Filter] = ()
    ) -> None:
        wanted, promised = list(dict.fromkeys(subscriptions)), list(dict.fromkeys(advertisements))
        # an advertisement and a subscription may be the same filter with one number
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
    """The `routing.Index` of one table of one broker in a run: it holds only the number of a filter."""

    def __init__(self, known: KnownMatches) -> None:
        self._known = known
        self._by_number: dict[int, list[Entry]] = {}
        # for notifications of the run (`SimNotification`); called for every hop, so without a Python call
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
