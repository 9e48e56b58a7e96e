"""The index behind a table: filters by entry, and the sets of entries that notifications match.

`match_keys` gives equal keys for notifications that match the same entries, and `entries_of` the entries behind a key;
both are valid only until an entry comes or goes. A table caches its results by key, since notifications are many and
the sets they match are few. `MatcherIndex` searches. A host that knows the matches in advance (as the simulator does)
supplies its own index; everything else stays the same.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from octopia.language import Filter, FilterLike, Notification, Value
from octopia.matching import Matcher

Entry = TypeVar("Entry")
Values = Mapping[str, Value]

# From this many on, matching them together is faster.
MANY_MIN = 5


class RowWatcher(Protocol):
    """An observer that is told the row of each entry."""

    def added(self, row: int, entry: Any, /) -> None: ...
    def removed(self, row: int, entry: Any, /) -> None: ...


class Index(Protocol[Entry]):
    """The interface between a table and its index."""

    def add(self, id: Entry, filter: Filter, /) -> None: ...
    def remove(self, id: Entry, /) -> None: ...
    def match_keys(self, notifications: Sequence[Values], /) -> Iterable[Hashable]:
        """For each of these notifications, with checked values, the key of its set of matches."""

    def match_key(self, notification: Values, /) -> Hashable:
        """The same for one."""

    def entries_of(self, key: Any, /) -> list[Entry]: ...
    def overlapping(self, advertisement: Filter, /) -> list[Entry]: ...
    def overlapped_by(self, subscription: Filter, /) -> list[Entry]: ...


class MatcherIndex(Matcher[Entry]):
    """The index that searches: a matcher whose answers can be cached.

    `watcher` is told which row an entry has as soon as it comes or goes.
    """

    watcher: "RowWatcher | None" = None

    def add(self, id: Entry, filter: FilterLike, group: int = -1) -> None:
        super().add(id, filter, group)
        if self.watcher is not None:
            self.watcher.added(self._row_of[id], id)

    def remove(self, id: Entry) -> None:
        if self.watcher is not None:
            self.watcher.removed(self._row_of[id], id)
        super().remove(id)

    def watch(self, watcher: "RowWatcher") -> None:
        """Register a watcher, and tell it of all current entries first."""
        self.watcher = watcher
        for entry, row in self._row_of.items():
            watcher.added(row, entry)

    def match_keys(self, notifications: Sequence[Values]) -> list[Hashable]:
        # by exact type: testing for Mapping takes longer than wrapping
        if len(notifications) == 1:
            one: Any = notifications[0]
            return [self.match_rows(Notification.trusted(one) if type(one) is dict else one).tobytes()]
        seen: list[Any] = [Notification.trusted(each) if type(each) is dict else each for each in notifications]
        if len(seen) < MANY_MIN:
            return [self.match_rows(each).tobytes() for each in seen]
        counts, rows = self.match_rows_many(seen)
        whole = rows.tobytes()
        ends = (rows.itemsize * np.cumsum(counts)).tolist()
        return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def match_key(self, notification: Values) -> Hashable:
        return self.match_keys((notification,))[0]

    def entries_of(self, key: Any) -> list[Entry]:
        return self.ids_at(np.frombuffer(key, dtype=np.int32))


MakeIndex = Callable[[], Index[Any]]
