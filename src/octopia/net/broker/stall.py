"""Detect a stalled queue: full, and nothing has left it for too long."""

from octopia.net.outbox import Outbox


class StallWatch:
    """Watches one queue."""

    __slots__ = ("_box", "_confirmed", "_since_s", "_stall_s")

    def __init__(self, box: Outbox, stall_s: float) -> None:
        self._box = box
        self._stall_s = stall_s
        self._since_s = float("inf")
        self._confirmed = -1

    def is_stalled(self, now: float) -> bool:
        """Whether the queue is full or makes sources pause, and nothing in it was confirmed for `stall_s`."""
        box = self._box
        if not (box.is_full or box.holds_up):
            return False
        if box.confirmed != self._confirmed:
            self._since_s, self._confirmed = now, box.confirmed
        return now - self._since_s > self._stall_s
