"""Pauses between attempts to connect: each about twice the one before, and never quite the same for two who wait.

The draws are its own: the program around us may have seeded `random`, and counts on what comes next from it.
"""

import random

_FIRST_S = 0.05
_MAX_S = 5.0
_draws = random.Random()  # noqa: S311  nothing secret: so that not all dial at once


class Pauses:
    """The pauses of one that dials again and again."""

    __slots__ = ("_longest_s",)

    def __init__(self) -> None:
        self._longest_s = _FIRST_S

    def reset(self) -> None:
        """It worked: next time begin with the short ones."""
        self._longest_s = _FIRST_S

    def next_s(self) -> float:
        """How long to wait this time."""
        longest_s = self._longest_s
        self._longest_s = min(2 * longest_s, _MAX_S)
        return longest_s * _draws.uniform(0.5, 1.0)
