"""Rows of means for tables, in one form everywhere: on the screen and in the documentation.

It formats a summary. A `ranked` metric has two rows, however many points were run: without a fault, and the worst of
all other points, with its name. In a `lead`, the system that others are compared with has no cell.
"""

from collections.abc import Sequence

from octopia.experiments.experiment import LEAD_OVER, Shown
from octopia.experiments.intervals import Interval
from octopia.experiments.losses import described
from octopia.experiments.numbers import shown_interval, signed_interval
from octopia.experiments.summary import Summary
from octopia.experiments.trouble import NONE

Row = tuple[str, list[str]]


def mean_rows(summary: Summary, shown: Shown, points: Sequence[str] | None = None) -> list[Row]:
    """A point in words and a cell per system, for these points or for all."""
    if shown.kind == "ranked":
        return _ranked_rows(summary, shown)
    return [_row(summary, shown, point) for point in (summary.points if points is None else points)]


def ranking(summary: Summary, shown: Shown, system: str) -> list[tuple[str, Interval]]:
    """The points with a fault and their means, the worst first; points without a value are omitted."""
    found = [
        (point, summary.interval(shown.metric, shown.part, point, system)) for point in summary.points if point != NONE
    ]
    worst_is = 1 if described(shown.metric).less_is_better is False else -1
    there = [(point, each) for point, each in found if each.mean is not None]
    return sorted(there, key=lambda one: worst_is * (one[1].mean or 0.0))


def _row(summary: Summary, shown: Shown, point: str) -> Row:
    if shown.kind == "lead":
        leads = (summary.lead(shown.metric, shown.part, point, system, LEAD_OVER) for system in summary.systems)
        cells = zip(summary.systems, leads, strict=True)
        return point, ["–" if system == LEAD_OVER else signed_interval(lead, "%") for system, lead in cells]
    found = (summary.interval(shown.metric, shown.part, point, system) for system in summary.systems)
    return point, [shown_interval(each, summary.unit(shown.metric, shown.part)) for each in found]


def _ranked_rows(summary: Summary, shown: Shown) -> list[Row]:
    rows = [_row(summary, shown, NONE)] if NONE in summary.points else []
    others = sum(point != NONE for point in summary.points)
    if others:
        cells = []
        for system in summary.systems:
            ranked = ranking(summary, shown, system)
            text = shown_interval(ranked[0][1], summary.unit(shown.metric, shown.part)) if ranked else "–"
            cells.append(f"{text}, {ranked[0][0]}" if ranked else text)
        rows.append((f"worst of {others}", cells))
    return rows
