"""What a page opens with: the result in one sentence, and the chart that shows it.

Rules of this file: it compares systems that played one workload by their mean delivery delay, and shows beside it how
the delay went over time. Where nothing was delivered there is nothing to open with.
"""

import re
from collections.abc import Mapping
from html import escape

import pyarrow as pa
from msgspec import Struct

from octopia.errors import OctopiaError
from octopia.experiments.numbers import shown
from octopia.experiments.plots import Line, lead_plot
from octopia.experiments.summary import Summary

# How much longer the others must take for the factor to be worth saying.
_WORTH_SAYING = 1.1
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


class Lead(Struct, frozen=True):
    """The sentence, the chart as `svg` and `png`, and what it shows; without matplotlib there is no chart."""

    sentence: str
    chart: Mapping[str, bytes]
    caption: str

    @property
    def html(self) -> str:
        """The head of a page."""
        if not self.sentence:
            return ""
        svg = ""
        if self.chart:
            svg = self.chart["svg"].decode("utf-8")
            svg = _METADATA.sub("", svg[svg.index("<svg") :])
        figure = f'<figure class="wide">{svg}<figcaption>{escape(self.caption)}</figcaption></figure>'
        return f"<h1>{escape(self.sentence)}</h1>\n{figure}"


def make_lead(summary: Summary, series: pa.Table, caption: str) -> Lead:
    """The result of systems that were run at one point, from their metrics and series (`result.SERIES_SCHEMA`)."""
    delays = mean_delays(summary)
    try:
        chart = lead_plot({system: delays.get(system) for system in summary.systems}, _lines(summary, series))
    except OctopiaError:
        # the page says elsewhere why there are no plots
        chart = {}
    return Lead(lead_sentence(delays), chart if delays else {}, caption)


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
    first = f"{told[0][0]} delivers after {told[0][1]} in the mean"
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


def _lines(summary: Summary, series: pa.Table) -> dict[str, Line]:
    """The greatest delay over time by system, of the first seed."""
    lines: dict[str, tuple[list[float], list[float]]] = {system: ([], []) for system in summary.systems}
    names = ("system", "seed", "metric", "at_s", "value")
    for system, seed, metric, at, value in zip(*(series.column(name).to_pylist() for name in names), strict=True):
        if metric == "max_delay" and seed == min(summary.seeds) and system in lines:
            lines[system][0].append(at)
            lines[system][1].append(value)
    return dict(lines)
