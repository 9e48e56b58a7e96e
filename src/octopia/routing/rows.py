"""The data a host needs to deliver without looking up subscriptions: a line of numbers per row of the index.

The subscription table reports every entry that comes or goes, immediately, at a cost that does not depend on the number
of entries. Rows are the index's own numbers. A local client's subscription has the number of that client, its order
among all that were registered here, its priority, and its id in wire form, in `ids`. Any other has a *way*: entries
that the routing does not distinguish (`SubscriptionTable.way_of`) share one, represented by an entry of `ways`. Ways
are few, so a notification's remote matches are a small set of bits.
"""

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

from octopia.language import Conjunction, Filter
from octopia.matching import Arena
from octopia.routing.entries import PrtEntry

# Columns of `lines`. CLIENT and WAY are -1 if not set.
CLIENT, WAY, ORDER, PRIORITY, ID_AT, ID_BYTES = range(6)
COLUMNS: Final = 6
NONE: Final = -1
# A row is below 2^26, as memory is bounded, and an order below 2^37: at 10,000 subscriptions a second that lasts for
# five months of one life of a broker.
_LINES_MIN: Final = 64
# Lines are added in pieces: filling them takes time, while the system moves large arrays without copying.
_MORE_LINES_MAX: Final = 32_768


class Rows:
    """Lines by row."""

    __slots__ = (
        "_clients",
        "_encode",
        "_first_serial",
        "_free",
        "_users",
        "_way_of",
        "_ways",
        "ids",
        "lines",
        "names",
        "stand_ins",
    )

    def __init__(self, way_of: Callable[[PrtEntry], Hashable], encode: Callable[[str], bytes]) -> None:
        self._way_of = way_of
        self._encode = encode
        self.lines: npt.NDArray[np.int64] = np.full((_LINES_MIN, COLUMNS), NONE, dtype=np.int64)
        self.ids = Arena()
        # by number, the names of clients and their numbers of subscriptions; numbers are reused
        self.names: list[str] = []
        self._users: list[int] = []
        self._clients: dict[str, int] = {}
        self._free: list[int] = []
        self._first_serial: int | None = None
        # by number of a way, an entry that represents it; numbers are not reused: ways are few
        self.stand_ins: list[PrtEntry] = []
        self._ways: dict[Hashable, int] = {}

    def added(self, row: int, entry: PrtEntry) -> None:
        """Note that an entry is in the index under this row."""
        if row >= len(self.lines):
            self._make_room(row)
        if entry.last_hop is not None:
            self.lines[row] = (NONE, self._way(entry), 0, 0, 0, 0)
            return
        id = self._encode(entry.id)
        if self._first_serial is None:
            self._first_serial = entry.key.serial
        order = entry.key.serial - self._first_serial
        self.lines[row] = (self._client(entry.client), NONE, order, entry.priority, self.ids.put(id), len(id))

    def removed(self, row: int) -> None:
        """Note that the entry under this row is gone."""
        client, _, _, _, at, size = self.lines[row].tolist()
        if client != NONE:
            self.ids.give_back(at, size)
            self._users[client] -= 1
            if not self._users[client]:
                del self._clients[self.names[client]]
                self._free.append(client)
        self.lines[row] = NONE

    def matching(self, ways: int) -> list[PrtEntry]:
        """An entry for each way in a set, as bits."""
        found = []
        while ways:
            found.append(self.stand_ins[(ways & -ways).bit_length() - 1])
            ways &= ways - 1
        return found

    def _way(self, entry: PrtEntry) -> int:
        way = self._way_of(entry)
        number = self._ways.get(way)
        if number is None:
            number = self._ways[way] = len(self.stand_ins)
            self.stand_ins.append(PrtEntry(entry.key, _ANY, entry.last_hop, priority=entry.priority))
        return number

    def _client(self, name: str) -> int:
        number = self._clients.get(name)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.names[number] = name
            else:
                number = len(self.names)
                self.names.append(name)
                self._users.append(0)
            self._clients[name] = number
        self._users[number] += 1
        return number

    def _make_room(self, row: int) -> None:
        before = len(self.lines)
        more = min(before // 4, _MORE_LINES_MAX)
        self.lines.resize((max(row + 1, before + more), COLUMNS), refcheck=False)
        self.lines[before:] = NONE


_ANY: Final = Filter([Conjunction([])])
