"""Pauses between attempts to connect: each about twice the one before, and never quite the same for two who wait.

Whoever dials says how long a pause may be at this moment: short while something is lost unless the connection is back
soon, longer once that is decided. The draws are its own: the program around us may have seeded `random`, and counts on
what comes next from it.
"""

import random

FIRST_S = 0.05
LONGEST_S = 5.0
_draws = random.Random()  # noqa: S311  nothing secret: so that not all dial at once


class Pauses:
    """The pauses of one that dials again and again."""

    __slots__ = ("_longest_s",)

    def __init__(self) -> None:
        self._longest_s = FIRST_S

    def reset(self) -> None:
        """It worked: next time begin with the short ones."""
        self._longest_s = FIRST_S

    def next_s(self, at_most_s: float = LONGEST_S) -> float:
        """How long to wait this time; they grow from where they are when more is allowed later."""
        longest_s = min(self._longest_s, at_most_s)
        self._longest_s = min(2 * longest_s, LONGEST_S)
        return longest_s * _draws.uniform(0.5, 1.0)
