"""Rows that an event matches more than once: a filter of several boxes may have it in two of them.

Each row of an event is kept once, where it was found first. Rows of a single box are skipped. Nothing is sorted: for
each row there is the number of the event that it was last kept for, and event numbers are never reused.
"""

import numpy as np
import numpy.typing as npt

from octopia.matching.batch import Answers
from octopia.matching.kernels import kernels


class Repeats:
    """Drops repeats from the answers of one matcher."""

    __slots__ = ("_events", "_last_event")

    def __init__(self) -> None:
        self._events = 1
        # per row; created when there is something to drop, and again when there are more rows
        self._last_event: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def drop(self, answers: Answers, repeatable: npt.NDArray[np.bool_]) -> Answers:
        """Answers without repeats of rows that are `repeatable`, in the same memory."""
        counts, rows = answers
        if len(self._last_event) < len(repeatable):
            self._last_event = np.zeros(len(repeatable), dtype=np.int64)
        kept = kernels().drop_repeats(counts, rows, repeatable, self._last_event, self._events)
        self._events += len(counts)
        return Answers(counts, rows[:kept])
