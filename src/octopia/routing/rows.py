"""The data a host needs to deliver without looking up subscriptions: a line of numbers per row of the index.

The subscription table reports every entry that comes or goes, immediately, at a cost that does not depend on the number
of entries. Rows are the index's own numbers. A local client's subscription has the number of that client, its order
among all that were registered here, its priority, and its id in wire form, among `ids`. Any other has a *way*: entries
that the routing does not distinguish (`SubscriptionTable.way_of`) share one, represented by an entry of `stand_ins`. A
notification's remote matches are a set of ways, as bits.

The arrays are in a sheet (`octopia/sheets.py`), where compiled code finds them.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from octopia.matching import Arena
from octopia.routing.entries import PrtEntry
from octopia.sheets import Sheet

# Lines of the sheet.
ROWS, IDS = range(2)
SHEET_LINES: Final = 2
# Columns of `ROWS`. CLIENT and WAY are -1 if not set. ID_KEY is a hash of the id.
CLIENT, WAY, ORDER, PRIORITY, ID_AT, ID_BYTES, ID_KEY = range(7)
COLUMNS: Final = 7
NONE: Final = -1
# A row is below 2^26, as memory is bounded, and an order below 2^37: at 10,000 subscriptions a second that lasts for
# five months of one life of a broker.
ROW_BITS: Final = 26
_LINES_MIN: Final = 64
# Lines are added in pieces: filling them takes time, while the system moves large arrays without copying.
_MORE_LINES_MAX: Final = 32_768


class Numbers:
    """Numbers for things that come and go, each counted; the numbers of those that are gone are given out again."""

    __slots__ = ("_free", "_number_of", "_users", "things")

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._users: list[int] = []
        self._number_of: dict[Hashable, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """One more than the largest number ever given out."""
        return len(self.things)

    def use(self, key: Hashable, thing: Any) -> tuple[int, bool]:
        """The number for a key, and whether it is another than before that has this number."""
        number = self._number_of.get(key)
        if number is not None:
            self._users[number] += 1
            return number, False
        again = bool(self._free)
        if again:
            number = self._free.pop()
            self.things[number], self._users[number] = thing, 1
        else:
            number = len(self.things)
            self.things.append(thing)
            self._users.append(1)
        self._number_of[key] = number
        return number, again

    def release(self, number: int, key: Hashable) -> None:
        self._users[number] -= 1
        if not self._users[number]:
            del self._number_of[key]
            self._free.append(number)


class Rows:
    """Lines by row. `names` has the clients by number, `stand_ins` an entry for each way."""

    __slots__ = (
        "_encode",
        "_first_serial",
        "_forget",
        "_ids",
        "_names",
        "_stand_in",
        "_way_of",
        "_ways",
        "names",
        "sheet",
    )

    def __init__(
        self,
        way_of: Callable[[Any], Hashable],
        stand_in: Callable[[Any], PrtEntry],
        encode: Callable[[str], bytes],
        forget: Callable[[], None],
    ) -> None:
        """`forget`: called when the number of a way changes its meaning."""
        self._way_of = way_of
        self._stand_in = stand_in
        self._encode = encode
        self._forget = forget
        self.sheet = Sheet(SHEET_LINES)
        self.sheet.put(ROWS, np.full((_LINES_MIN, COLUMNS), NONE, dtype=np.int64))
        self._ids = Arena(self.sheet, IDS)
        self._names = Numbers()
        self.names: list[str] = self._names.things
        self._ways = Numbers()
        self._first_serial: int | None = None

    @property
    def stand_ins(self) -> list[PrtEntry]:
        return self._ways.things

    @property
    def lines(self) -> npt.NDArray[np.int64]:
        return self.sheet[ROWS]

    def added(self, row: int, entry: PrtEntry) -> None:
        """Note that an entry is in the index under this row."""
        if row >= len(self.lines):
            self._make_room(row)
        if entry.last_hop is not None:
            way, again = self._ways.use(self._way_of(entry), self._stand_in(entry))
            if again:
                self._forget()
            self.lines[row] = (NONE, way, 0, 0, 0, 0, 0)
            return
        id = self._encode(entry.id)
        if self._first_serial is None:
            self._first_serial = entry.key.serial
        order = entry.key.serial - self._first_serial
        client, _ = self._names.use(entry.client, entry.client)
        self.lines[row] = (client, NONE, order, entry.priority, self._ids.put(id), len(id), crc32(id))

    def removed(self, row: int, entry: PrtEntry) -> None:
        """Note that the entry under this row is gone."""
        client, way, _, _, at, size, _ = self.lines[row].tolist()
        if client != NONE:
            self._ids.give_back(at, size)
            self._names.release(client, entry.client)
        elif way != NONE:
            self._ways.release(way, self._way_of(entry))
        self.lines[row] = NONE

    def matching(self, ways: int) -> list[PrtEntry]:
        """An entry for each way in a set, as bits."""
        found = []
        while ways:
            found.append(self.stand_ins[(ways & -ways).bit_length() - 1])
            ways &= ways - 1
        return found

    def _make_room(self, row: int) -> None:
        before = len(self.lines)
        more = min(before // 4, _MORE_LINES_MAX)
        self.sheet.grow(ROWS, max(row + 1, before + more))[before:] = NONE
