"""Whether a subscriber may make its publishers pause: it must read its deliveries at a minimum rate.

Policy `block` is a privilege. While a queue makes publishers pause, it uses up an allowance of time: initially
`block_s`, and every frame that the subscriber confirms adds the time that it takes at the minimum rate, up to `CREDIT`
times `block_s`. (Confirmations come in batches, as large as one read of the subscriber.) When the allowance is used up,
the subscriber loses the privilege: its publishers continue, and its oldest deliveries are dropped. It regains the
privilege after `block_again_s`, if its queue was empty in between.

So a subscriber that reads nothing, or one frame per second, delays its publishers by at most `block_s` once in
`block_again_s`, and only if it caught up in between. One that steadily reads `block_frames_per_s_min` slows them down
to its own rate for as long as it likes; that is the purpose of the policy.

No clock: the caller says how much time has passed, and should exclude its own pauses, in which no confirmation could be
read.
"""

# Maximum allowance, as a multiple of `block_s`.
CREDIT = 5
# A larger frame counts as several of this size: a subscriber that reads a megabyte per second is not slow.
FRAME_BYTES = 1024


class BlockPrivilege:
    """The privilege of one subscriber."""

    __slots__ = ("_again_s", "_block_s", "_frames_per_s_min", "_lost_s", "_patience_s", "_taken", "_was_empty", "lost")

    def __init__(self, block_s: float, frames_per_s_min: float, again_s: float) -> None:
        self._block_s = block_s
        self._frames_per_s_min = frames_per_s_min
        self._again_s = again_s
        self.lost = False
        self._patience_s: float | None = None  # None while no publisher pauses
        self._taken = (0, 0)  # frames and bytes at the last check
        self._lost_s = 0.0  # for how long
        self._was_empty = False

    @property
    def rests(self) -> bool:
        """Whether there is nothing to check until it makes publishers pause."""
        return not self.lost and self._patience_s is None

    def lose(self) -> None:
        """Take the privilege away for some time."""
        self.lost, self._lost_s, self._was_empty, self._patience_s = True, 0.0, False, None

    def check(self, passed_s: float, holds_up: bool, taken: tuple[int, int], is_empty: bool) -> bool:
        """Account for the time that has passed; returns True if the privilege is lost now.

        `holds_up`: whether its publishers are asked to pause. `taken`: total frames and bytes confirmed by the
        subscriber so far. `is_empty`: whether it has confirmed everything.
        """
        if self.lost:
            self._wait(passed_s, is_empty)
            return False
        before, self._taken = self._taken, taken
        if not holds_up:
            self._patience_s = None
            return False
        if self._patience_s is None:
            # Time counts from here.
            self._patience_s = self._block_s
            return False
        frames, size = taken[0] - before[0], taken[1] - before[1]
        earned_s = max(frames, size / FRAME_BYTES) / self._frames_per_s_min
        self._patience_s = min(self._patience_s - passed_s + earned_s, CREDIT * self._block_s)
        if self._patience_s > 0:
            return False
        self.lose()
        return True

    def _wait(self, passed_s: float, is_empty: bool) -> None:
        self._lost_s += passed_s
        self._was_empty |= is_empty
        if self._was_empty and self._lost_s >= self._again_s:
            self.lost = False
