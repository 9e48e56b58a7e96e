"""Whether a subscriber may still hold up its publishers: it must take what waits for it at a minimum rate.

Policy `block` is a privilege. While a queue makes publishers pause, its patience runs out: it has `block_s` at the
beginning, and every frame that the subscriber confirms earns the time that it takes at the minimum rate, up to
`CREDIT` times `block_s`. (Confirmations come in lumps, as large as what the subscriber reads at a time.) A subscriber
without patience loses the privilege: its publishers go on, and its deliveries are dropped from the oldest. It has it
again when `block_again_s` have passed and its queue was empty in between.

So a subscriber that takes nothing, or one frame in a second, holds its publishers up for `block_s` once in
`block_again_s` at most, and only if it took in between all there was. One that takes `block_frames_per_s_min` steadily
holds them to its own rate, as long as it likes: that is what the policy is for.

Rules of this file: no clock. Time is what the caller says has passed, and should leave out pauses of our own, in which
no confirmation could be read.
"""

# The most that may be earned, in times of `block_s`.
CREDIT = 5
# A larger frame counts as so many of this size: whoever takes a megabyte a second is not slow.
FRAME_BYTES = 1024


class BlockPrivilege:
    """Of one subscriber."""

    __slots__ = ("_again_s", "_block_s", "_frames_per_s_min", "_lost_s", "_patience_s", "_taken", "_was_empty", "lost")

    def __init__(self, block_s: float, frames_per_s_min: float, again_s: float) -> None:
        self._block_s = block_s
        self._frames_per_s_min = frames_per_s_min
        self._again_s = again_s
        self.lost = False
        self._patience_s: float | None = None  # None while it holds nobody up
        self._taken = (0, 0)  # frames and bytes, when last looked at
        self._lost_s = 0.0  # for how long
        self._was_empty = False

    @property
    def rests(self) -> bool:
        """Whether there is nothing to check unless it begins to hold someone up."""
        return not self.lost and self._patience_s is None

    def lose(self) -> None:
        """It may not block for some time."""
        self.lost, self._lost_s, self._was_empty, self._patience_s = True, 0.0, False, None

    def check(self, passed_s: float, holds_up: bool, taken: tuple[int, int], is_empty: bool) -> bool:
        """So much time has passed; True where the privilege is lost just now.

        `holds_up`: whether its publishers are asked to pause. `taken`: frames and bytes that the subscriber has
        confirmed so far, in all. `is_empty`: whether there is nothing that it has not confirmed.
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
