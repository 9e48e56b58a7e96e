"""Our numbers compared with the paper's, from rows of metrics and `paper.toml`.

The paper's numbers come from that file and never replace ours. A comparison is made seed by seed (both systems saw the
same workload) and then averaged, with its interval. A system or point that was not run has no number of ours. For a
`trend`, the paper gives a direction without a number: how much larger the lead of one system over another is at the
last point than at the first, in percentage points.
"""

import tomllib
from functools import cache
from importlib import resources
from math import isclose
from typing import Final, Literal

import msgspec
from msgspec import Struct

from octopia.experiments.intervals import Interval, interval
from octopia.experiments.settings import point_text
from octopia.experiments.summary import Summary

PAPER_FILE: Final = "paper.toml"


class PaperResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number of the paper and how it is compared; see the head of `paper.toml`."""

    experiment: str
    metric: str
    part: str
    system: str
    form: Literal["percent", "difference", "value", "trend"]
    says: str
    source: str
    paper: float | None = None
    direction: Literal["", "smaller", "larger"] = ""
    than: str = ""
    points: tuple[float, ...] = ()
    exact: float | None = None
    note: str = ""

    @property
    def words(self) -> str:
        """The paper's statement, and how we read it."""
        return f"{self.says} ({self.note})" if self.note else self.says


class Comparison(Struct, frozen=True, kw_only=True):
    """The paper's number, ours, and the verdict. `unit` is that of both."""

    result: PaperResult
    ours: Interval
    unit: str

    @property
    def verdict(self) -> str:
        """In a few words: exact, the sign, or nothing to compare."""
        mean, result = self.ours.mean, self.result
        if mean is None:
            return "no value" if self.ours.missing else "not run"
        if result.exact is not None:
            return "exact" if isclose(mean, result.exact, rel_tol=1e-9) else "NOT what the structure gives"
        if result.form == "value":
            return "a value, no sign"
        if mean == 0:
            return "no difference"
        grows = result.direction == "larger" if result.paper is None else result.paper > 0
        sign = "same sign" if (mean > 0) == grows else "other sign"
        doubtful = self.ours.half is not None and abs(mean) <= self.ours.half
        return f"{sign}, but 0 is in the interval" if doubtful else sign

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in the same unit (percentage points for per cent)."""
        if self.ours.mean is None or self.result.paper is None:
            return None
        return self.ours.mean - self.result.paper


@cache
def paper_results() -> tuple[PaperResult, ...]:
    """All numbers of the paper."""
    text = (resources.files("octopia.experiments") / PAPER_FILE).read_text(encoding="utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["result"], list[PaperResult]))


def compare(experiment: str, summary: Summary) -> list[Comparison]:
    """The paper's numbers about an experiment compared with those of a summary."""
    found = []
    for result in paper_results():
        if result.experiment == experiment:
            points = [point_text(point) for point in result.points] or summary.points
            found.append(_compared(result, summary, points))
    return found


def compare_at(experiment: str, summary: Summary, point: str) -> list[Comparison]:
    """The same at one point of a summary that varies another setting than the paper; each comparison once."""
    found: dict[tuple[str, str, str, str], Comparison] = {}
    for result in paper_results():
        key = (result.metric, result.part, result.system, result.than)
        if result.experiment == experiment and key not in found and result.form != "trend":
            found[key] = _compared(result, summary, [point])
    return list(found.values())


def _compared(result: PaperResult, summary: Summary, points: list[str]) -> Comparison:
    if result.form == "trend":
        return _trend(result, summary, points)
    unit = "%" if result.form == "percent" else {"share": "%"}.get(_unit(result, summary), _unit(result, summary))
    mine = summary.over_points(result.metric, result.part, result.system, points)
    if result.form == "value":
        scale = 100 if _unit(result, summary) == "share" else 1
        return Comparison(result=result, ours=interval(value * scale for value in mine.values()), unit=unit)
    theirs = summary.over_points(result.metric, result.part, result.than, points)
    values = []
    for seed, value in mine.items():
        if seed in theirs and (result.form == "difference" or theirs[seed]):
            change = value - theirs[seed]
            values.append(change if result.form == "difference" else 100 * change / theirs[seed])
    was_run = {result.system, result.than} <= set(summary.systems) and set(points) <= set(summary.points)
    missing = len(summary.seeds) - len(values) if was_run and summary.has(result.metric) else 0
    found = interval(values)
    return Comparison(result=result, ours=found._replace(missing=missing), unit=unit)


def _trend(result: PaperResult, summary: Summary, points: list[str]) -> Comparison:
    first, last = (
        summary.leads(result.metric, result.part, point, result.system, result.than)
        for point in (points[0], points[-1])
    )
    # a lead is how much less a system has
    grown = [first[seed] - last[seed] for seed in first if seed in last] if points[0] != points[-1] else []
    return Comparison(result=result, ours=interval(grown), unit="points")


def _unit(result: PaperResult, summary: Summary) -> str:
    return summary.unit(result.metric, result.part)
