"""The opening of a page: the result in one sentence, and the chart that shows it.

It compares systems under one workload by their mean delivery delay, and shows the delay over time. If nothing was
delivered, there is no opening.
"""

from collections.abc import Mapping
from html import escape

import pyarrow as pa
from msgspec import Struct

from octopia.errors import OctopiaError
from octopia.experiments.html import plot_html
from octopia.experiments.numbers import shown
from octopia.experiments.plots import lead_plots
from octopia.experiments.result import NO_LINE, lines_of
from octopia.experiments.summary import Summary

# How much longer the others must take for the factor to be worth saying.
_WORTH_SAYING = 1.1


class Lead(Struct, frozen=True):
    """The sentence, the charts by name as `svg` and `png`, and their caption; without matplotlib there are none."""

    sentence: str
    charts: Mapping[str, Mapping[str, bytes]]
    caption: str

    @property
    def html(self) -> str:
        """The head of a page."""
        if not self.sentence:
            return ""
        # Side by side, or below each other on a phone.
        charts = "".join(f"<div>{plot_html(chart['svg'])}</div>" for chart in self.charts.values())
        caption = f"<figcaption>{escape(self.caption)}</figcaption>"
        return f'<h1>{escape(self.sentence)}</h1>\n<figure><div class="row">{charts}</div>{caption}</figure>'


def make_lead(summary: Summary, series: pa.Table, caption: str) -> Lead:
    """The result of systems that were run at one point, from their metrics and series (`result.SERIES_SCHEMA`)."""
    delays, longest = mean_delays(summary), lines_of(series, "max_delay", "")
    lines = {
        system: longest.get((summary.points[0], min(summary.seeds), system), NO_LINE) for system in summary.systems
    }
    try:
        charts = lead_plots({system: delays.get(system) for system in summary.systems}, lines)
    except OctopiaError:
        # the page says elsewhere why there are no plots
        charts = {}
    return Lead(lead_sentence(delays), charts if delays else {}, caption)


def mean_delays(summary: Summary) -> dict[str, float]:
    """By system the mean delay in seconds, the shortest first."""
    found = {}
    for system in summary.systems:
        mean = summary.interval("notification_delay", "mean", summary.points[0], system).mean
        if mean is not None:
            found[system] = mean
    return dict(sorted(found.items(), key=lambda each: each[1]))


def lead_sentence(delays: Mapping[str, float]) -> str:
    """The result in words, from mean delays in seconds, the shortest first."""
    told = [(system.upper(), shown(delay, "s")) for system, delay in delays.items()]
    if not told:
        return ""
    first = f"{told[0][0]} delivers after {told[0][1]} on average"
    if len(told) == 1:
        return f"{first}."
    others = [f"{name} {'takes ' if not number else ''}{delay}" for number, (name, delay) in enumerate(told[1:])]
    rest = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
    shortest, second = list(delays.values())[:2]
    if not shortest or second / shortest < _WORTH_SAYING:
        return f"{first}; {rest}."
    least = "" if len(others) == 1 else "at least "
    factor = second / shortest
    return f"{first}; {rest}, {least}{factor:,.{1 if factor < 10 else 0}f} times as long."
