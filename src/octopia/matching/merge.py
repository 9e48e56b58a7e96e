"""Several runs becoming one, a little at a time.

The runs are searched as before until the new one is ready, and boxes may be removed from them meanwhile: those are dead
in the new run from the beginning. No box is added to a run, so nothing else can change. A merge that is dropped
leaves no trace.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from octopia.matching.box_run import Build, Ints, KindOf, Run, joined


class _Source(NamedTuple):
    """A run, up to which slot it is taken, and the slots that were live when it was."""

    number: int
    run: Run
    stop: int
    slots: Ints


class Merge:
    """The runs with these numbers, each up to some slot."""

    __slots__ = ("_build", "_dead_before", "_sources")

    def __init__(self, runs: Iterable[tuple[int, Run, int]], kind_of: KindOf) -> None:
        self._sources: list[_Source] = []
        parts = []
        for number, run, stop in runs:
            slots, boxes = run.live_boxes(stop)
            self._sources.append(_Source(number, run, stop, slots))
            parts.append(boxes)
        self._dead_before = self._dead
        self._build = Build(joined(parts), kind_of)

    def __contains__(self, number: int) -> bool:
        return any(number == source.number for source in self._sources)

    @property
    def _dead(self) -> int:
        return sum(source.run.dead for source in self._sources)

    def work(self, budget: int) -> bool:
        """Process about `budget` boxes; returns whether the new run is ready."""
        return self._build.work(budget)

    def finish(self, runs: dict[int, Run]) -> Run:
        """Take the old runs out of `runs`, as far as their boxes are in the new one, which is returned."""
        made = self._build.run()
        if self._dead != self._dead_before:
            alive = np.concatenate([source.run.is_alive(source.slots) for source in self._sources])
            made.clear(np.flatnonzero(~alive[self._build.order]))
        for number, run, stop, _ in self._sources:
            if stop == run.size:
                del runs[number]
            else:
                run.move_on(stop)
        return made
