"""How many notifications of a stream are shown, and how many are skipped.

A `Sampler` lets through at most `rate_max` a second, and at most as many as there is credit for, and counts the rest.
Without a rate, nothing is skipped: `take` returns how many may be sent now, and the rest waits. Time is an argument.
"""


class Sampler:
    """The share of one subscription that is sent."""

    def __init__(self, credit: int, rate_max: float | None, now: float) -> None:
        self.credit = credit
        self.rate_max = rate_max
        self.skipped = 0
        self._allowed = _gathered_max(rate_max)
        self._since = now

    @property
    def skips(self) -> bool:
        """Whether what may not be sent is skipped; else it waits."""
        return self.rate_max is not None

    def set_rate(self, rate_max: float | None, now: float) -> None:
        self._refill(now)
        self.rate_max = rate_max
        if rate_max is not None:
            self._allowed = min(self._allowed, _gathered_max(rate_max))

    def take(self, count: int, now: float) -> int:
        """How many of the available notifications to send. The rest is skipped or, without a rate, waits."""
        sent = min(count, self.credit)
        if self.rate_max is not None:
            self._refill(now)
            sent = min(sent, int(self._allowed))
            self._allowed -= sent
            self.skipped += count - sent
        self.credit -= sent
        return sent

    def take_skipped(self) -> int:
        """How many were skipped since this was asked last."""
        skipped, self.skipped = self.skipped, 0
        return skipped

    def _refill(self, now: float) -> None:
        if self.rate_max is not None:
            gained = (now - self._since) * self.rate_max
            self._allowed = min(_gathered_max(self.rate_max), self._allowed + gained)
        self._since = now


def _gathered_max(rate_max: float | None) -> float:
    """A second's worth may gather, and at least one, so that a burst after a quiet moment is seen."""
    return max(rate_max, 1.0) if rate_max else 0.0
