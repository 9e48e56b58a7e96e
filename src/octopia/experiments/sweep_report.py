"""The page of an experiment: one self-contained HTML file with our numbers beside the paper's, plots and means.

No script, no external addresses, no network. It shows an `Outcome` and computes nothing. Scaling and the checkers'
findings are stated at the top, not at the end.
"""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from octopia.experiments import bound
from octopia.experiments.cell import LIVE
from octopia.experiments.comparison import Comparison
from octopia.experiments.experiment import Experiment
from octopia.experiments.html import details_html, page_html, plot_html, table_html
from octopia.experiments.losses import described
from octopia.experiments.numbers import shown_interval, signed
from octopia.experiments.outcome import REPORT_FILE, Outcome, axis_of, make_outcome, read_series, write_tables
from octopia.experiments.result import Result, broken_promises
from octopia.experiments.settings import Settings, settings_toml
from octopia.experiments.sweep import RUNS_FOLDER


def write_report(experiment: Experiment, settings: Settings, results: Sequence[Result], folder: Path) -> Outcome:
    """The outcome of these cells, whose runs are in a folder; writes the other files of that folder, and the page."""
    series = read_series(results, folder / RUNS_FOLDER)
    outcome = make_outcome(experiment, settings, [row for result in results for row in result.rows], series)
    write_tables(outcome, results, series, folder)
    (folder / REPORT_FILE).write_text(report_html(outcome, results), encoding="utf-8")
    return outcome


def report_html(outcome: Outcome, results: Sequence[Result]) -> str:
    """The page."""
    return page_html(outcome.experiment.title, report_body(outcome, results))


def report_body(outcome: Outcome, results: Sequence[Result], heading: str = "h1") -> str:
    """The content of the page, for a page with several experiments or with a heading already."""
    experiment = outcome.experiment
    parts = [
        f"<{heading}>{escape(f'{experiment.title}: {experiment.question}')}</{heading}>",
        _setting(outcome, results),
        _checks(results),
        _comparisons(outcome.comparisons),
        _goals(outcome),
        _sensitivity(outcome),
        _plots(outcome),
        _means(outcome),
        details_html("Settings", f"<pre>{escape(settings_toml(outcome.settings))}</pre>"),
    ]
    return "\n".join(parts)


def _setting(outcome: Outcome, results: Sequence[Result]) -> str:
    settings = outcome.settings
    seeds = len(outcome.summary.seeds)
    lines = [
        (
            f"Overlay {settings.overlay}, {host_words(settings)}, τ = {settings.tau:g}, "
            f"t_w = {settings.window_s * 1000:g} ms; "
            + (f"means over {seeds} seeds with their 95 % intervals." if seeds > 1 else "one seed.")
        )
    ]
    if results:
        mean = sum(result.selectivity for result in results) / len(results)
        lines.append(f"On average, a subscription matches {mean * 100:.2f} % of the notifications.")
    if bound.BOUND in outcome.summary.systems:
        lines.append(f"{bound.WHAT_IT_IS}.")
    note = scale_note(outcome)
    warning = f"<p class=bad>{escape(note)}</p>" if note else ""
    return f"<p class=soft>{escape(' '.join(lines))}</p>{warning}"


def host_words(settings: Settings) -> str:
    """The host of the brokers."""
    return "live brokers" if settings.host == LIVE else f"model {settings.model}"


def scale_note(outcome: Outcome) -> str:
    """What `--scale` changed; nothing for a full run."""
    if outcome.settings.scale == 1:
        return ""
    names = " and ".join(outcome.experiment.scaled)
    return (
        f"A quick look, not the full experiment: {names} × {outcome.settings.scale:g}; rates and capacities are full."
    )


def _checks(results: Sequence[Result]) -> str:
    broken = broken_promises(results)
    if not broken:
        return f"<p class=good>All checks passed in all {len(results)} runs.</p>"
    rows = [(result.cell.name, each.rule, f"{each.cases:,}", "; ".join(each.examples)) for result, each in broken]
    return "<p class=bad>Promises were broken:</p>" + table_html(("run", "rule", "#cases", "for example"), rows)


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return ""
    heads = ("the paper says", "#paper", "#ours", "#ours less paper's", "", "where")
    return "<h2>Beside the paper</h2>" + table_html(heads, map(_comparison, comparisons))


def _goals(outcome: Outcome) -> str:
    if not outcome.goals:
        return ""
    styles = {"reached": "good", "MISSED": "bad"}
    rows = [(*each.cells[:3], (each.verdict, styles.get(each.verdict, "soft"))) for each in outcome.goals]
    return "<h2>Our own goals</h2>" + table_html(("goal", "#bound", "#ours", ""), rows)


def _sensitivity(outcome: Outcome) -> str:
    if not outcome.sensitivity:
        return ""
    heads = ("the paper says", "#paper", *(f"#{point}" for point in outcome.sensitivity))
    title = f"The paper's numbers as {escape(outcome.settings.vary)} varies"
    return f"<h2>{title}</h2>{table_html(heads, sensitivity_rows(outcome))}"


def sensitivity_rows(outcome: Outcome) -> list[list[str]]:
    """Per number of the paper: its words, the number, and ours at each point."""
    columns = list(outcome.sensitivity.values())
    return [
        [each.result.words, paper_text(each), *(ours_text(column[number]) for column in columns)]
        for number, each in enumerate(columns[0])
    ]


def _comparison(each: Comparison) -> tuple[Any, ...]:
    verdict = each.verdict
    style = {"exact": "good", "same sign": "good", "other sign": "bad"}.get(
        verdict, "bad" if "NOT" in verdict else "soft"
    )
    numbers = paper_text(each), ours_text(each), difference_text(each)
    return each.result.words, *numbers, (verdict, style), (each.result.source, "soft")


def paper_text(each: Comparison) -> str:
    """The paper's number."""
    if each.result.paper is None:
        return each.result.direction
    return f"{each.result.paper:g} {each.unit}" if each.result.form == "value" else signed(each.result.paper, each.unit)


def ours_text(each: Comparison) -> str:
    """Our number with its interval."""
    found = each.ours
    if found.mean is None:
        return "–"
    text = f"{found.mean:.1f}" if each.result.form == "value" else signed(found.mean, "")
    half = "" if found.half is None else f" ± {found.half:.2g}"
    return f"{text}{half} {each.unit}"


def difference_text(each: Comparison) -> str:
    """Ours less the paper's; of per cents in percentage points."""
    return signed(each.difference, "points" if each.unit == "%" else each.unit)


def _plots(outcome: Outcome) -> str:
    if outcome.no_plots:
        return f"<p class=bad>No plots: {escape(outcome.no_plots)}</p>"
    figures = []
    for each in outcome.experiment.shown:
        svg = plot_html(outcome.plots[each.name]["svg"])
        paper = f" The paper's {each.paper}." if each.paper else ""
        metric = described(each.metric)
        note = f"{metric.title}: {metric.definition}.{paper}"
        wide = " class=wide" if each.kind == "series" and len(outcome.summary.points) > 1 else ""
        figures.append(f"<figure{wide}>{svg}<figcaption>{_with_code(note)}</figcaption></figure>")
    return f'<h2>Plots</h2><div class="row">{"".join(figures)}</div>'


def _with_code(text: str) -> str:
    """Words between backticks are names of the program."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _means(outcome: Outcome) -> str:
    summary = outcome.summary
    rows = []
    for metric, part in dict.fromkeys((key.metric, key.part) for key in summary.by_seed):
        for point in summary.points:
            found = (summary.interval(metric, part, point, system) for system in summary.systems)
            cells = (shown_interval(each, summary.unit(metric, part)) for each in found)
            rows.append((f"{metric} {part}".strip(), point, *cells))
    heads = ("metric", f"#{axis_of(outcome)}", *(f"#{system.upper()}" for system in summary.systems))
    return details_html("All means", table_html(heads, rows))
