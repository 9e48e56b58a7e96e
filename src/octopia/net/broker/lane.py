"""A queue as dispatch sees it: the notifications of one priority for a client or a neighbour."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octopia.net.broker.links import Link
    from octopia.net.broker.sessions import Session


class Lane:
    """One priority of a queue. `gathered` holds frames of the current batch."""

    __slots__ = ("_lane", "_queue", "gathered")

    def __init__(self, queue: "Session | Link", lane: int) -> None:
        self._queue = queue
        self._lane = lane
        self.gathered: list[bytes] = []

    def put_all(self, frames: list[bytes]) -> None:
        self._queue.put_all(frames, self._lane)

    def put_bundle(self, data: bytes, frames: int) -> None:
        """Queue consecutive frames."""
        self._queue.put_bundle(data, frames, self._lane)
