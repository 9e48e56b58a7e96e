"""The index behind a table: a matcher that also names the set of entries a notification matches.

Rules of this file: `match_key` gives equal keys for notifications that match the same entries, and `entries_of` the
entries behind a key; both hold only until an entry comes or goes. A table remembers what it worked out for a key, since
notifications are many and the sets they match are few. A host that knows the matches beforehand (the simulator does)
brings an index of its own with the same two methods; all else stays the broker's.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from octopia.language import Notification
from octopia.matching import Matcher

Entry = TypeVar("Entry")


class Index(Matcher[Entry]):
    """A matcher whose answers can be remembered."""

    def match_key(self, notification: Notification) -> Hashable:
        return self.match_rows(notification).tobytes()

    def entries_of(self, key: Any) -> list[Entry]:
        return self.ids_at(np.frombuffer(key, dtype=np.int32))


MakeIndex = Callable[[], Index[Any]]
