"""Several runs becoming one, a little at a time.

The runs are searched as before until the new one is ready, and boxes may be removed from them meanwhile: those are dead
in the new run from the beginning. No box is added to a run, so nothing else can change. A merge that is dropped
leaves no trace.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from octopia.matching.box_run import Boxes, Build, Ints, KindOf, Run, joined
from octopia.matching.space import BoxKind


class _Source(NamedTuple):
    """A run, up to which slot it is taken, and the slots that were live when it was."""

    number: int
    run: Run
    stop: int
    slots: Ints


class Merge:
    """The runs with these numbers, each up to some slot."""

    __slots__ = ("_build", "_dead_before", "_kind_of", "_kinds", "_parts", "_runs", "_sources")

    def __init__(self, runs: Sequence[tuple[int, Run, int]], kind_of: KindOf) -> None:
        self._runs = runs
        self._kind_of = kind_of
        self._sources: list[_Source] = []
        # their boxes, and the kinds of these, which may be gone before the new run is built
        self._parts: list[Boxes] = []
        self._kinds: dict[int, BoxKind] = {}
        self._dead_before = 0
        self._build: Build | None = None

    def __contains__(self, number: int) -> bool:
        return any(number == mine for mine, _, _ in self._runs)

    @property
    def _dead(self) -> int:
        return sum(source.run.dead for source in self._sources)

    def work(self, budget: int) -> bool:
        """Process about `budget` boxes; returns whether the new run is ready. Taking the boxes is work, too."""
        if len(self._sources) < len(self._runs):
            self._take_some(budget)
            return False
        if self._build is None:
            self._build, self._parts = Build(joined(self._parts), self._kinds.__getitem__), []
            return False
        return self._build.work(budget)

    def _take_some(self, budget: int) -> None:
        """Take the boxes of the next run, and of more if they are small."""
        for number, run, stop in self._runs[len(self._sources) :]:
            slots, boxes = run.live_boxes(stop)
            self._dead_before += run.dead
            self._sources.append(_Source(number, run, stop, slots))
            self._parts.append(boxes)
            # boxes of a kind lie together
            firsts = np.flatnonzero(np.diff(boxes.kinds, prepend=-1))
            for kind in boxes.kinds[firsts].tolist():
                self._kinds.setdefault(kind, self._kind_of(kind))
            budget -= len(slots)
            if budget <= 0:
                break

    def finish(self, runs: dict[int, Run]) -> Run:
        """Take the old runs out of `runs`, as far as their boxes are in the new one, which is returned."""
        assert self._build is not None, "all work is done"  # noqa: S101
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
