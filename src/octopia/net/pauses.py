"""Pauses between attempts to connect: exponential backoff with jitter.

The caller sets the longest pause for each attempt: short while something would be lost without a quick reconnection,
longer after that. The module has its own random generator, since the user's program may have seeded `random` and rely
on its sequence.
"""

import random

FIRST_S = 0.05
LONGEST_S = 5.0
_draws = random.Random()  # noqa: S311  not a secret: spreads the attempts


class Pauses:
    """The pauses of one dialler."""

    __slots__ = ("_longest_s",)

    def __init__(self) -> None:
        self._longest_s = FIRST_S

    def reset(self) -> None:
        """After a success: start again with short pauses."""
        self._longest_s = FIRST_S

    def next_s(self, at_most_s: float = LONGEST_S) -> float:
        """The next pause; pauses keep growing if a later call allows longer ones."""
        longest_s = min(self._longest_s, at_most_s)
        self._longest_s = min(2 * longest_s, LONGEST_S)
        return longest_s * _draws.uniform(0.5, 1.0)
