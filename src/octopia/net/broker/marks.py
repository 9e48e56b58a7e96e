"""The queue length at which publishers to a neighbour are asked to pause: about a tenth of a second of traffic.

A link carries the notifications of all publishers, and each waits behind the others, so its queue is kept short. The
mark is the amount that the neighbour confirmed in about the last `MARK_S` in which something was queued for it, within
bounds. The speed of a link is known only while it is busy; until then it counts as fast. The lower bound keeps a slow
link busy; the upper one, half of the hard bound, leaves room for notifications in flight when publishers are asked.

No clock; totals and the time come from the caller.
"""

MARK_S = 0.1
MARK_FRAMES_MIN = 1000
MARK_BYTES_MIN = 1024 * 1024
# Assumed speed of a link that has not been busy yet.
FRAMES_PER_S_FIRST = 40_000
BYTES_PER_S_FIRST = 40 * 1024 * 1024


class Marks:
    """The marks of one link, in frames and bytes."""

    __slots__ = (
        "_before",
        "_bytes_max",
        "_bytes_per_s",
        "_checked_s",
        "_frames_max",
        "_frames_per_s",
        "bytes",
        "frames",
    )

    def __init__(self, frames_max: int, bytes_max: int) -> None:
        """The marks stay below these hard bounds."""
        self._frames_max = max(frames_max // 2, 1)
        self._bytes_max = max(bytes_max // 2, 1)
        self._frames_per_s: float = FRAMES_PER_S_FIRST
        self._bytes_per_s: float = BYTES_PER_S_FIRST
        self._before = (0, 0)
        self._checked_s: float | None = None
        self._set()

    def check(self, frames: int, size: int, now: float, busy: bool) -> None:
        """Note the total frames and bytes that the neighbour has confirmed; fewer than before after a restart.

        `busy`: whether something was queued for it, so that it worked at full speed.
        """
        before, self._before = self._before, (frames, size)
        checked_s, self._checked_s = self._checked_s, now
        if checked_s is None or now <= checked_s or not busy:
            return
        passed_s = now - checked_s
        # An average in which older values count less and less.
        weight = min(passed_s / MARK_S, 1.0)
        self._frames_per_s += weight * (max(frames - before[0], 0) / passed_s - self._frames_per_s)
        self._bytes_per_s += weight * (max(size - before[1], 0) / passed_s - self._bytes_per_s)
        self._set()

    def _set(self) -> None:
        self.frames = min(max(int(self._frames_per_s * MARK_S), MARK_FRAMES_MIN), self._frames_max)
        self.bytes = min(max(int(self._bytes_per_s * MARK_S), MARK_BYTES_MIN), self._bytes_max)
