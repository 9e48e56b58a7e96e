"""A queue as dispatch sees it: the notifications of one priority for a client or a neighbour."""

from typing import Protocol


class Queue(Protocol):
    """A queue with frames of all priorities."""

    def put_all(self, frames: list[bytes], lane: int = 0) -> None: ...
    def put_bundle(self, data: bytes, frames: int, lane: int = 0) -> None: ...


class Lane:
    """One priority of a queue. `gathered` holds frames of the current batch."""

    __slots__ = ("_lane", "_queue", "gathered")

    def __init__(self, queue: Queue, lane: int) -> None:
        self._queue = queue
        self._lane = lane
        self.gathered: list[bytes] = []

    def put_all(self, frames: list[bytes]) -> None:
        self._queue.put_all(frames, self._lane)

    def put_bundle(self, data: bytes, frames: int) -> None:
        """Queue consecutive frames."""
        self._queue.put_bundle(data, frames, self._lane)
