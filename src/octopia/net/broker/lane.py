"""The notifications of one priority that wait for a client or a neighbour: a queue as dispatch sees it."""

from typing import Protocol


class Queue(Protocol):
    """Where frames of all priorities wait."""

    def put_all(self, frames: list[bytes], lane: int = 0) -> None: ...
    def put_bundle(self, data: bytes, frames: int, lane: int = 0) -> None: ...


class Lane:
    """One priority of a queue. `gathered` are frames of the batch that is being carried out."""

    __slots__ = ("_lane", "_queue", "gathered")

    def __init__(self, queue: Queue, lane: int) -> None:
        self._queue = queue
        self._lane = lane
        self.gathered: list[bytes] = []

    def put_all(self, frames: list[bytes]) -> None:
        self._queue.put_all(frames, self._lane)

    def put_bundle(self, data: bytes, frames: int) -> None:
        """Queue so many frames that lie one after the other."""
        self._queue.put_bundle(data, frames, self._lane)
