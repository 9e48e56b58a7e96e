"""How much may wait for a neighbour before publishers are asked to pause: about a tenth of a second.

A link carries everyone's notifications. What one publisher has in its queue is what all others wait behind, so the
queue is kept short: the mark is what the neighbour confirmed in the last `MARK_S` or so in which something waited for
it, within bounds. How quick a link is shows only while it has something to do; before that it is taken for a quick one.
The least keeps a slow link busy; the most, half of the hard bound, leaves room for what is under way when publishers
are asked.

Rules of this file: no clock; totals and the time come from the caller.
"""

MARK_S = 0.1
MARK_FRAMES_MIN = 1000
MARK_BYTES_MIN = 1024 * 1024
# Of a link that has not yet shown how quick it is.
FRAMES_PER_S_FIRST = 40_000
BYTES_PER_S_FIRST = 40 * 1024 * 1024


class Marks:
    """Of one link: frames and bytes."""

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
        """Below these hard bounds."""
        self._frames_max = max(frames_max // 2, 1)
        self._bytes_max = max(bytes_max // 2, 1)
        self._frames_per_s: float = FRAMES_PER_S_FIRST
        self._bytes_per_s: float = BYTES_PER_S_FIRST
        self._before = (0, 0)
        self._checked_s: float | None = None
        self._set()

    def check(self, frames: int, size: int, now: float, busy: bool) -> None:
        """The neighbour has confirmed so many frames and bytes in all; fewer than before after a new start.

        `busy`: whether something waits for it, so that it had to do all it could.
        """
        before, self._before = self._before, (frames, size)
        checked_s, self._checked_s = self._checked_s, now
        if checked_s is None or now <= checked_s or not busy:
            return
        passed_s = now - checked_s
        # The mean over the last moments, of which the older count for less and less.
        weight = min(passed_s / MARK_S, 1.0)
        self._frames_per_s += weight * (max(frames - before[0], 0) / passed_s - self._frames_per_s)
        self._bytes_per_s += weight * (max(size - before[1], 0) / passed_s - self._bytes_per_s)
        self._set()

    def _set(self) -> None:
        self.frames = min(max(int(self._frames_per_s * MARK_S), MARK_FRAMES_MIN), self._frames_max)
        self.bytes = min(max(int(self._bytes_per_s * MARK_S), MARK_BYTES_MIN), self._bytes_max)
