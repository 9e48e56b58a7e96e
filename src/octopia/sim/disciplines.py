"""Queueing disciplines: for messages in an output queue, and for brokers on a machine.

Each class here is a queue; the simulation (`sim/stepwise.py`) decides when and how long its entries are served.
Invariants: nothing is lost or duplicated, and equals are served in order of arrival.
"""

from collections import deque
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

# By priority, from 0: the most messages of this priority in a row while others wait.
WEIGHTS: Final = (1, 4, 16, 64)


class Lanes(Generic[Item]):
    """An output queue with a lane for each priority, served by weighted round robin; first come, first served in a
    lane.

    A round gives every lane as many turns as its weight, the most urgent first; an empty lane gives up its turns. So a
    lane in which something waits gets at least its weight out of `sum(WEIGHTS)` turns. An item without a priority is a
    fence: everything that waits goes before it, in the order in which it would go if nothing more came, and everything
    that comes later goes after it.
    """

    __slots__ = ("_lanes", "_length", "_settled", "_turns")

    def __init__(self) -> None:
        self._lanes: tuple[deque[Item], ...] = tuple(deque() for _ in WEIGHTS)
        self._turns = list(WEIGHTS)
        # up to the last fence
        self._settled: deque[Item] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, item: Item, priority: int | None = 0) -> None:
        self._length += 1
        if priority is not None:
            self._lanes[priority].append(item)
            return
        while any(self._lanes):
            self._settled.append(self._next())
        self._settled.append(item)

    def pop(self) -> Item:
        """The next entry; raises `IndexError` if nothing waits."""
        if not self._length:
            raise IndexError("nothing waits")
        self._length -= 1
        return self._settled.popleft() if self._settled else self._next()

    def _next(self) -> Item:
        while True:
            for priority in range(len(WEIGHTS) - 1, -1, -1):
                if self._turns[priority] and self._lanes[priority]:
                    self._turns[priority] -= 1
                    return self._lanes[priority].popleft()
            self._turns = list(WEIGHTS)

    def clear(self) -> list[Item]:
        """Empty the queue; returns what waited, in the order in which it would have gone."""
        waited = [self.pop() for _ in range(self._length)]
        self._turns = list(WEIGHTS)
        return waited


class Servers(Generic[Item]):
    """A number of servers (the cores of a machine, its network card) and the line before them, first come, first
    served.

    `join` and `leave` return the entry to serve next; nothing waits while a server is free.
    """

    __slots__ = ("_free", "_line")

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[Item] = deque()

    def join(self, item: Item) -> Item | None:
        """Join the queue: returns the item itself if a server is free, None if it has to wait."""
        if self._free:
            self._free -= 1
            return item
        self._line.append(item)
        return None

    def leave(self) -> Item | None:
        """A service ended: returns the next entry, if any waits."""
        if self._line:
            return self._line.popleft()
        self._free += 1
        return None

    def forget(self, item: Item) -> None:
        """Remove an entry that waits."""
        if item in self._line:
            self._line.remove(item)
