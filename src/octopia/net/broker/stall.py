"""Detect a stalled queue: full, and nothing has left it for too long."""

from octopia.net.frame_queue import FrameQueue


class StallWatch:
    """Watches one queue."""

    __slots__ = ("_confirmed", "_queue", "_since_s", "_stall_s")

    def __init__(self, queue: FrameQueue, stall_s: float) -> None:
        self._queue = queue
        self._stall_s = stall_s
        self._since_s = float("inf")
        self._confirmed = -1

    def is_stalled(self, now: float) -> bool:
        """Whether the queue is full or makes sources pause, and nothing in it was confirmed for `stall_s`."""
        queue = self._queue
        if not (queue.is_full or queue.holds_up):
            return False
        if queue.confirmed != self._confirmed:
            self._since_s, self._confirmed = now, queue.confirmed
        return now - self._since_s > self._stall_s
