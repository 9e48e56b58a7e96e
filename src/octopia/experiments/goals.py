"""Our numbers compared with our own goals, from rows of metrics and `goals.toml`.

A goal is a bound set beforehand. It is evaluated seed by seed (all systems saw the same workload) and then averaged. A
goal whose cells were not run has no number and no verdict.
"""

import tomllib
from functools import cache
from importlib import resources
from typing import Final

import msgspec
from msgspec import Struct

from octopia.experiments.intervals import Interval, interval
from octopia.experiments.numbers import digits
from octopia.experiments.settings import point_text
from octopia.experiments.summary import Summary

GOALS_FILE: Final = "goals.toml"


class Goal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One goal; see the head of `goals.toml`."""

    experiment: str
    metric: str
    part: str
    system: str
    at_most: float
    says: str
    than: str = ""
    points: tuple[float | str, ...] = ()


class Reached(Struct, frozen=True, kw_only=True):
    """A goal and the measured value, in `unit`."""

    goal: Goal
    ours: Interval
    unit: str

    @property
    def verdict(self) -> str:
        if self.ours.mean is None:
            return "no value" if self.ours.missing else "not run"
        return "reached" if self.ours.mean <= self.goal.at_most else "MISSED"

    @property
    def cells(self) -> list[str]:
        """The goal, the bound, ours and the verdict, in words."""
        mean, half = self.ours.mean, self.ours.half
        ours = "–" if mean is None else f"{digits(mean)}{'' if half is None else f' ± {half:.2g}'} {self.unit}".rstrip()
        return [self.goal.says, f"at most {digits(self.goal.at_most)} {self.unit}".rstrip(), ours, self.verdict]


@cache
def all_goals() -> tuple[Goal, ...]:
    """All goals."""
    text = (resources.files("octopia.experiments") / GOALS_FILE).read_text(encoding="utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["goal"], list[Goal]))


def goals_reached(experiment: str, summary: Summary) -> list[Reached]:
    """The goals of an experiment compared with a summary; none if the system they are about was not run."""
    return [
        _reached(goal, summary)
        for goal in all_goals()
        if goal.experiment == experiment and goal.system in summary.systems
    ]


def _reached(goal: Goal, summary: Summary) -> Reached:
    points = [point_text(point) for point in goal.points] or summary.points
    mine = summary.over_points(goal.metric, goal.part, goal.system, points)
    if not goal.than:
        return Reached(goal=goal, ours=interval(mine.values()), unit="")
    theirs = summary.over_points(goal.metric, goal.part, goal.than, points)
    values = [100 * value / theirs[seed] for seed, value in mine.items() if theirs.get(seed)]
    was_run = goal.than in summary.systems and set(points) <= set(summary.points)
    found = interval(values)
    return Reached(goal=goal, ours=found._replace(missing=len(summary.seeds) - len(values) if was_run else 0), unit="%")
