"""Plots of an experiment with matplotlib: SVG and PNG, a line per system, or a bar where there is one point.

Matplotlib is an extra and is imported when a plot is made. No pyplot: a figure is an object. Equal
numbers give equal bytes: no date, a fixed salt per plot, which also keeps the ids of several plots on one page apart.
A system has its colour and its dash in every plot, so that plots can be read without colour. A long series is drawn
with at most `SERIES_POINTS_MAX` points, each the greatest of its stretch, since what matters are the peaks.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from octopia.experiments.experiment import LEAD_OVER, Shown
from octopia.experiments.intervals import Interval
from octopia.experiments.means import ranking
from octopia.experiments.numbers import digits
from octopia.experiments.result import Line
from octopia.experiments.summary import Summary
from octopia.extras import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES_POINTS_MAX: Final = 600
_SIZE: Final = (4.6, 3.2)
_SINCE: Final = "seconds since the start of publishing"
# Colour, dash and mark; a dash of one's own is lengths of ink and gap.
_STYLES: Final[Mapping[str, tuple[str, Any, str]]] = {
    "snr": ("#4477AA", "-", "o"),
    "idr": ("#C2570C", "-", "s"),
    "fdr": ("#0F766E", "-", "P"),
    "tid": ("#6B7280", "--", "^"),
    "tid-dynamic": ("#88559A", ":", "v"),
    "bound": ("#9A8700", (0, (1, 1)), "_"),
}
_OTHER_STYLE: Final = ("#228833", "-.", "D")
_SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E7EC",
    "axes.edgecolor": "#8793A0",
    "legend.frameon": False,
}
_METADATA: Final[dict[str, dict[str, Any]]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
_CURVES: Final = (("#0F766E", "-"), ("#C2570C", "--"), ("#4477AA", ":"))


@contextmanager
def _plot(name: str, width: float, height: float) -> "Iterator[tuple[Figure, dict[str, bytes]]]":
    """A figure of this size in inches to draw on, and what it looks like afterwards, as `svg` and `png`."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("matplotlib", "plots") from None
    drawn: dict[str, bytes] = {}
    settings: Any = {**_SETTINGS, "svg.hashsalt": name}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, drawn
        for form, metadata in _METADATA.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
            drawn[form] = buffer.getvalue()


def line_plot(shown: Shown, axis: str, summary: Summary) -> dict[str, bytes]:
    """A part of a metric over the points, as `svg` and `png`."""
    with _plot(shown.name, *_SIZE) as (figure, drawn):
        axes = figure.add_subplot()
        unit, factor = _unit(summary.unit(shown.metric, shown.part), _largest(summary, shown))
        places = [summary.x[point] for point in summary.points]
        words = any(place is None for place in places)
        for number, system in enumerate(summary.systems):
            if len(places) == 1:
                _bar(axes, shown, summary, number, factor)
            elif words:
                _bars(axes, shown, summary, number, factor)
            else:
                found = [summary.interval(shown.metric, shown.part, point, system) for point in summary.points]
                _points(axes, places, found, system, factor)
        if len(places) == 1:
            # The names stand where the points would: a legend would say them twice.
            axes.set_xticks(range(len(summary.systems)), [system.upper() for system in summary.systems])
            axes.grid(visible=False, axis="x")
            axes.margins(y=0.1)
        elif words:
            axes.set_xticks(range(len(summary.points)), [point.replace("-", "-\n", 1) for point in summary.points])
            axes.grid(visible=False, axis="x")
        else:
            axes.xaxis.set_major_formatter(_thousands)
        axes.set_ylim(bottom=0)
        if words and len(places) > 1:
            # room for the legend above the bars
            axes.set_ylim(top=axes.get_ylim()[1] * 1.35)
        _whole_ticks(axes, unit)
        _label(axes, shown.title, f"{summary.points[0]} {axis}" if len(places) == 1 else axis, unit)
        if len(places) != 1:
            axes.legend(ncols=3 if words else 1, fontsize="small" if words else None)
    return drawn


def lead_line_plot(shown: Shown, axis: str, summary: Summary) -> dict[str, bytes]:
    """By how many per cent the systems differ from SNR, over the points that are numbers."""
    with _plot(shown.name, *_SIZE) as (figure, drawn):
        axes = figure.add_subplot()
        axes.axhline(0, color=_STYLES[LEAD_OVER][0], linewidth=1.3, label=LEAD_OVER.upper())
        for system in summary.systems:
            if system != LEAD_OVER:
                found = [summary.lead(shown.metric, shown.part, point, system, LEAD_OVER) for point in summary.points]
                _points(axes, [summary.x[point] for point in summary.points], found, system)
        axes.xaxis.set_major_formatter(_thousands)
        axes.yaxis.set_major_formatter(_thousands)
        _label(axes, shown.title, axis, f"% against {LEAD_OVER.upper()}")
        axes.legend()
    return drawn


def ranked_plot(shown: Shown, axis: str, summary: Summary) -> dict[str, bytes]:
    """A part of a metric at all points at which something is wrong: for each system from its worst to its best."""
    with _plot(shown.name, *_SIZE) as (figure, drawn):
        axes = figure.add_subplot()
        unit, factor = _unit(summary.unit(shown.metric, shown.part), _largest(summary, shown))
        for system in summary.systems:
            means = [(each.mean or 0.0) / factor for _, each in ranking(summary, shown, system)]
            _draw(axes, system, (range(1, len(means) + 1), means), 1.3)
        axes.yaxis.set_major_formatter(_thousands)
        axes.set_ylim(bottom=0)
        _label(axes, shown.title, f"{axis}, from each system's worst to its best", unit)
        axes.legend()
    return drawn


def series_plot(
    shown: Shown, unit: str, panels: Mapping[str, Mapping[str, Line]], captions: Mapping[str, str]
) -> dict[str, bytes]:
    """A part of a metric over time: a panel per point, a line per system."""
    across = min(2, max(1, len(panels)))
    down = max(1, -(-len(panels) // across))
    with _plot(shown.name, 4.6 * across, 2.7 * down + 0.3) as (figure, drawn):
        figure.suptitle(shown.title, x=0.01, ha="left", fontsize=10)
        for number, (point, lines) in enumerate(panels.items()):
            axes = figure.add_subplot(down, across, number + 1)
            for system, line in lines.items():
                _draw(axes, system, peaks(*line), 1.2)
            axes.set_title(captions.get(point, point), fontsize=9)
            axes.set_xlabel(_SINCE)
            axes.set_ylabel(unit)
            axes.set_xlim(left=0)
            if shown.log:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
                _round_ticks(axes, unit)
            if number == 0 and lines:
                axes.legend()
    return drawn


def peaks(at: Sequence[float], values: Sequence[float]) -> Line:
    """At most `SERIES_POINTS_MAX` of these points: of every stretch the one with the greatest value."""
    step = -(-len(at) // SERIES_POINTS_MAX) or 1
    kept = [max(range(first, min(first + step, len(at))), key=values.__getitem__) for first in range(0, len(at), step)]
    return [at[place] for place in kept], [values[place] for place in kept]


def _thousands(value: float, _: float) -> str:
    return f"{value:,.6g}"


def _label(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10)


def _draw(axes: "Axes", system: str, line: Line, width: float) -> None:
    colour, dash, _ = _STYLES.get(system, _OTHER_STYLE)
    axes.plot(*line, color=colour, linestyle=dash, linewidth=width, label=system.upper())


def _points(
    axes: "Axes", at: Sequence[float | None], found: Sequence[Interval], system: str, factor: float = 1.0
) -> None:
    """A line through means with their intervals; points without a mean or a numeric position are left out."""
    places, means, halves = [], [], []
    for place, each in zip(at, found, strict=True):
        if each.mean is not None and place is not None:
            places.append(place)
            means.append(each.mean / factor)
            halves.append((each.half or 0.0) / factor)
    colour, dash, marker = _STYLES.get(system, _OTHER_STYLE)
    order: list[Any] = sorted(range(len(places)), key=lambda index: places[index])
    axes.errorbar(
        [places[i] for i in order],
        [means[i] for i in order],
        [halves[i] for i in order],
        color=colour,
        linestyle=dash,
        marker=marker,
        markersize=4,
        linewidth=1.3,
        capsize=3,
        label=system.upper(),
    )


def _bar(axes: "Axes", shown: Shown, summary: Summary, number: int, factor: float) -> None:
    """One system at the only point: a line of one point would be a speck."""
    system = summary.systems[number]
    found = summary.interval(shown.metric, shown.part, summary.points[0], system)
    if found.mean is not None:
        colour, _, _ = _STYLES.get(system, _OTHER_STYLE)
        half = None if found.half is None else found.half / factor
        bar = axes.bar(number, found.mean / factor, 0.6, yerr=half, color=colour, capsize=4)
        axes.bar_label(bar, [digits(found.mean / factor)], padding=2, fontsize=8)


def _bars(axes: "Axes", shown: Shown, summary: Summary, number: int, factor: float) -> None:
    """One system at points that are words: a line between them would mean nothing."""
    system, width = summary.systems[number], 0.8 / len(summary.systems)
    colour, _, _ = _STYLES.get(system, _OTHER_STYLE)
    for place, point in enumerate(summary.points):
        found = summary.interval(shown.metric, shown.part, point, system)
        if found.mean is not None:
            at = place + (number - (len(summary.systems) - 1) / 2) * width
            half = None if found.half is None else found.half / factor
            label = system.upper() if place == 0 else None
            axes.bar(at, found.mean / factor, width, yerr=half, color=colour, capsize=2, label=label)


def _largest(summary: Summary, shown: Shown) -> float:
    means = (
        summary.interval(shown.metric, shown.part, point, system).mean
        for point in summary.points
        for system in summary.systems
    )
    return max((abs(mean) for mean in means if mean is not None), default=0.0)


def _unit(unit: str, largest: float) -> tuple[str, float]:
    """The axis label, and the divisor for values."""
    if unit == "share":
        return "%", 0.01
    if unit == "s" and 0 < largest < 0.1:
        return ("ms", 1e-3) if largest >= 1e-4 else ("µs", 1e-6)
    return unit, 1.0


def _whole_ticks(axes: "Axes", unit: str) -> None:
    """Whole numbers only for counts; thousands separated."""
    from matplotlib.ticker import MaxNLocator

    counts = unit not in ("s", "ms", "µs", "%")
    axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=counts and axes.get_ylim()[1] > 2))
    axes.yaxis.set_major_formatter(_thousands)


def _round_ticks(axes: "Axes", unit: str) -> None:
    """As above, and seconds in ones, twos and fives."""
    from matplotlib.ticker import MaxNLocator

    _whole_ticks(axes, unit)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(_thousands)


def lead_plots(delays: Mapping[str, float | None], lines: Mapping[str, Line]) -> dict[str, dict[str, bytes]]:
    """The two charts that tell the result: the longest delay over time, and mean delays in seconds as bars."""
    with _plot("lead-over-time", 4.8, 3.2) as (figure, over_time):
        axes = figure.add_subplot()
        for system, line in lines.items():
            _draw(axes, system, peaks(*line), 1.6)
        _label(axes, "Longest delay while publishing", _SINCE, "seconds")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        _round_ticks(axes, "s")
        if any(at for at, _ in lines.values()):
            axes.legend()
    with _plot("lead-mean", 4.8, 3.2) as (figure, means):
        axes = figure.add_subplot()
        unit, factor = _unit("s", max((delay for delay in delays.values() if delay is not None), default=0.0))
        for number, (system, delay) in enumerate(delays.items()):
            if delay is not None:
                bar = axes.bar(number, delay / factor, 0.62, color=_STYLES.get(system, _OTHER_STYLE)[0])
                axes.bar_label(bar, [f"{digits(delay / factor)} {unit}"], padding=2, fontweight="bold")
        axes.set_xticks(range(len(delays)), [system.upper() for system in delays])
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.12)
        _label(axes, "Mean delay of a delivery", "", unit)
        _whole_ticks(axes, unit)
    return {"lead-over-time": over_time, "lead-mean": means}


def curves_plot(
    name: str, panels: Mapping[str, Mapping[str, Line]], axis: str, unit: str, *, log: bool
) -> dict[str, bytes]:
    """Several lines, each with its name, in panels side by side with the same axes; `log`: of the lower one."""
    with _plot(name, 3.2 * max(1, len(panels)), 2.8) as (figure, drawn):
        last: Axes | None = None
        for number, (title, lines) in enumerate(panels.items()):
            last = axes = figure.add_subplot(1, len(panels), number + 1, sharex=last, sharey=last)
            for (words, (at, values)), (colour, dash) in zip(lines.items(), _CURVES, strict=False):
                axes.plot(at, values, color=colour, linestyle=dash, linewidth=1.5, label=words, drawstyle="steps-post")
            if log:
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(lambda value, _: "")
            axes.xaxis.set_major_formatter(_thousands)
            axes.set_ylim(0, 1.02)
            axes.set_title(title, loc="left", fontsize=10)
            axes.set_xlabel(axis)
            if not number:
                axes.set_ylabel(unit)
        if last is not None:
            last.legend(fontsize="small")
    return drawn


def bars_plot(name: str, panels: Mapping[str, tuple[str, Mapping[str, float]]]) -> dict[str, bytes]:
    """Bars with names below each other, in panels side by side; a panel has a title, a unit and its values."""
    rows = max((len(values) for _, values in panels.values()), default=1)
    with _plot(name, 4.8 * max(1, len(panels)), 0.8 + 0.35 * rows) as (figure, drawn):
        for number, (title, (given, values)) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), number + 1)
            unit, factor = _unit(given, max(values.values(), default=0.0))
            shown = [value / factor for value in values.values()]
            bars = axes.barh(range(len(shown)), shown, 0.62, color=["#6B7280", *["#0F766E"] * (len(shown) - 1)])
            axes.bar_label(bars, [f"{digits(value)} {unit}".rstrip() for value in shown], padding=3)
            axes.set_yticks(range(len(shown)), list(values))
            axes.invert_yaxis()
            axes.grid(visible=False, axis="y")
            axes.margins(x=0.18)
            axes.xaxis.set_major_formatter(_thousands)
            axes.set_title(title, loc="left", fontsize=10)
    return drawn
