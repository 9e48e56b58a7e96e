"""The index behind a table: filters by entry, and the sets of entries that notifications match.

`match_keys` gives equal keys for notifications that match the same entries, and `entries_of` the entries behind a key;
both hold only until an entry comes or goes. A table remembers what it worked out for a key, since notifications are
many and the sets they match are few. `MatcherIndex` searches. A host that knows the matches beforehand (the simulator
does) brings an index of its own; all else stays the broker's.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from octopia.language import Filter, Notification, Value
from octopia.matching import Matcher

Entry = TypeVar("Entry")
Values = Mapping[str, Value]

# From so many on it is quicker to match them together.
MANY_MIN = 5


class Index(Protocol[Entry]):
    """What a table asks of its index."""

    def add(self, id: Entry, filter: Filter, /) -> None: ...
    def remove(self, id: Entry, /) -> None: ...
    def match_keys(self, notifications: Sequence[Values], /) -> Iterable[Hashable]:
        """For each of these notifications, whose values were checked, the key of what it matches."""

    def match_key(self, notification: Values, /) -> Hashable:
        """The same for one."""

    def entries_of(self, key: Any, /) -> list[Entry]: ...
    def overlapping(self, advertisement: Filter, /) -> list[Entry]: ...
    def overlapped_by(self, subscription: Filter, /) -> list[Entry]: ...


class MatcherIndex(Matcher[Entry]):
    """The index that searches: a matcher whose answers can be remembered."""

    def match_keys(self, notifications: Sequence[Values]) -> list[Hashable]:
        # by exact type: to ask whether something is a Mapping takes longer than to wrap it
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
