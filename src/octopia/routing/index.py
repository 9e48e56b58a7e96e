"""The index behind a table: a matcher that also names the set of entries a notification matches.

Rules of this file: `match_key` gives equal keys for notifications that match the same entries, and `entries_of` the
entries behind a key; both hold only until an entry comes or goes. A table remembers what it worked out for a key, since
notifications are many and the sets they match are few. `match_keys` is for batches. A host that knows the matches
beforehand (the simulator does) brings an index of its own with the same methods, the last only if it hands batches to
its brokers; all else stays the broker's.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from octopia.language import Notification, Value
from octopia.matching import Matcher

Entry = TypeVar("Entry")

# From so many on it is quicker to match them together.
MANY_MIN = 5


class Index(Matcher[Entry]):
    """A matcher whose answers can be remembered."""

    def match_key(self, notification: Notification) -> Hashable:
        return self.match_rows(notification).tobytes()

    def match_keys(self, notifications: Sequence[dict[str, Value]]) -> list[Hashable]:
        """`match_key` for each of these, whose values were checked."""
        seen = list(map(Notification.trusted, notifications))
        if len(seen) < MANY_MIN:
            return list(map(self.match_key, seen))
        counts, rows = self.match_rows_many(seen)
        whole = rows.tobytes()
        ends = (rows.itemsize * np.cumsum(counts)).tolist()
        return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def entries_of(self, key: Any) -> list[Entry]:
        return self.ids_at(np.frombuffer(key, dtype=np.int32))


MakeIndex = Callable[[], Index[Any]]
