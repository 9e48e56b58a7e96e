"""Matches worked out before a run: which subscriptions every notification of a workload matches.

A simulated notification crosses thirty brokers, and most of them hold the same subscriptions; to search at each of them
would be most of the run. So the batch matcher answers once for the whole workload, and the brokers' tables get an
index that knows the answer. Rules of this file: the index is the brokers' own in everything else (overlap, adding,
removing), and it answers by what is in its table at that moment, so a subscription that has not arrived at a broker
yet does not match there. Notifications that match the same filters share one number, their match set.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Filter, Notification, Value
from octopia.matching import Matcher
from octopia.routing import Index

Entry = TypeVar("Entry")
ROWS_PER_BATCH = 16_384


class SimNotification(Notification):
    """A notification of a run: it also knows its match set and the request that published it."""

    __slots__ = ("match_set", "request")
    match_set: int
    request: int

    @classmethod
    def number(cls, values: Mapping[str, Value], match_set: int, request: int) -> "SimNotification":
        notification = cls.of(values)
        object.__setattr__(notification, "match_set", match_set)
        object.__setattr__(notification, "request", request)
        return notification  # type: ignore[return-value]  # `of` makes what it is called on


class KnownMatches:
    """For every row of a notifications table its match set, and for every match set its filters (by number)."""

    def __init__(self, filters: Iterable[Filter], notifications: pa.Table) -> None:
        self.numbers = {filter: number for number, filter in enumerate(dict.fromkeys(filters))}
        self.sets: list[Sequence[int]] = []
        self.set_of_row: npt.NDArray[np.int32] = np.empty(notifications.num_rows, dtype=np.int32)
        known: dict[bytes, int] = {}
        matcher: Matcher[int] = Matcher()
        for filter, number in self.numbers.items():
            matcher.add(number, filter)
        matcher.settle()
        first = 0
        for batch in notifications.to_batches(max_chunksize=ROWS_PER_BATCH):
            pairs = matcher.match_batch(batch)
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

    def make_index(self) -> "KnownIndex[Any]":
        return KnownIndex(self)


class KnownIndex(Index[Entry]):
    """The index of one table of one broker in a run."""

    def __init__(self, known: KnownMatches) -> None:
        super().__init__()
        self._known = known
        self._by_number: dict[int, dict[Entry, None]] = {}

    def add(self, id: Entry, filter: Any, group: int = -1) -> None:
        super().add(id, filter, group)
        number = self._known.numbers.get(filter)
        if number is not None:
            self._by_number.setdefault(number, {})[id] = None

    def remove(self, id: Entry) -> None:
        number = self._known.numbers.get(self.filter_of(id))
        super().remove(id)
        if number is not None:
            self._by_number[number].pop(id)

    def match_key(self, notification: SimNotification) -> int:  # type: ignore[override]  # a run knows no others
        return notification.match_set

    def entries_of(self, key: int) -> list[Entry]:
        by_number = self._by_number
        return [entry for number in self._known.sets[key] for entry in by_number.get(number, ())]
