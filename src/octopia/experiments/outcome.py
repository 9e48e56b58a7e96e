"""The output folder of an experiment: tables, plots and one page, from rows of metrics.

    settings.toml            the settings of the run; give it to --file to run it again
    metrics.parquet, .csv    one row per number measured: experiment, system, point, seed, metric, part, unit, value
    series.parquet           metrics over time
    summary.csv, .json       means over seeds with their 95 % intervals
    comparison.json          our numbers compared with the paper's
    goals.json               and with our own goals
    findings.json            findings of the checkers, run by run
    figures/*.svg, *.png     the plots
    report.html              all of it on one page, which needs no network
    runs/…                   a folder per run, see `run_cell.py`

Rows in, files out; where the rows come from does not matter. Files are written whole or not at all.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, structs

from octopia.errors import InputError, OctopiaError
from octopia.experiments.comparison import Comparison, compare, compare_at
from octopia.experiments.experiment import Experiment
from octopia.experiments.goals import Reached, goals_reached
from octopia.experiments.losses import described
from octopia.experiments.plots import lead_line_plot, line_plot, ranked_plot, series_plot
from octopia.experiments.result import NO_LINE, SERIES_SCHEMA, Line, MetricRow, Result, lines_of, metrics_table
from octopia.experiments.run_cell import SERIES_FILE
from octopia.experiments.settings import Settings, settings_toml
from octopia.experiments.summary import Summary
from octopia.experiments.together import together_rows

FIGURES_FOLDER: Final = "figures"
REPORT_FILE: Final = "report.html"


_PLOTS: Final = {"line": line_plot, "ranked": ranked_plot, "lead": lead_line_plot}


class Outcome(Struct, frozen=True, kw_only=True):
    """An experiment that was run, ready to be shown. Without matplotlib there are no plots, and `no_plots` says so.

    `comparisons` and `goals` are filled if the experiment's own setting was varied, `sensitivity`, by point, if another
    was.
    """

    experiment: Experiment
    settings: Settings
    summary: Summary
    comparisons: Sequence[Comparison]
    goals: Sequence[Reached]
    sensitivity: Mapping[str, Sequence[Comparison]]
    plots: Mapping[str, Mapping[str, bytes]]
    no_plots: str


def make_outcome(experiment: Experiment, settings: Settings, rows: Sequence[MetricRow], series: pa.Table) -> Outcome:
    """Means, comparisons and plots of these rows and series (`result.METRICS_SCHEMA`, `result.SERIES_SCHEMA`)."""
    summary = Summary([*rows, *together_rows(rows, series)])
    same = settings.vary == experiment.settings.vary
    if not same:
        # few points of another setting are shown one by one
        shown_so = [
            structs.replace(shown, kind="line") if shown.kind == "ranked" else shown for shown in experiment.shown
        ]
        question = experiment.question_about(settings.vary)
        experiment = structs.replace(experiment, shown=tuple(shown_so), question=question)
    plots: dict[str, Mapping[str, bytes]] = {}
    no_plots = ""
    try:
        axis = experiment.axis if same else settings.vary
        for shown in experiment.shown:
            if shown.kind == "series":
                lines = _lines(series, summary, shown.metric, shown.part)
                captions = {point: _caption(point, axis) for point in summary.points}
                plots[shown.name] = series_plot(shown, described(shown.metric).unit, lines, captions)
            else:
                plots[shown.name] = _PLOTS[shown.kind](shown, axis, summary)
    except OctopiaError as error:
        no_plots = str(error)
    return Outcome(
        experiment=experiment,
        settings=settings,
        summary=summary,
        comparisons=compare(experiment.name, summary) if same else [],
        goals=goals_reached(experiment.name, summary) if same else [],
        sensitivity={} if same or not experiment.paper else _at_points(experiment, summary),
        plots=plots,
        no_plots=no_plots,
    )


def _at_points(experiment: Experiment, summary: Summary) -> dict[str, list[Comparison]]:
    found = {point: compare_at(experiment.name, summary, point) for point in summary.points}
    return found if any(found.values()) else {}


def axis_of(outcome: Outcome) -> str:
    """The meaning of the points, in words."""
    same = outcome.settings.vary == outcome.experiment.settings.vary
    return outcome.experiment.axis if same else outcome.settings.vary


def read_series(results: Sequence[Result], folder: Path) -> pa.Table:
    """The series of all these cells, from their folders."""
    empty = pa.table({name: [] for name in SERIES_SCHEMA.names}, schema=SERIES_SCHEMA)
    return pa.concat_tables([empty, *(pq.read_table(folder / result.cell.name / SERIES_FILE) for result in results)])


def write_tables(outcome: Outcome, results: Sequence[Result], series: pa.Table, folder: Path) -> None:
    """Write all files except the page."""
    rows = [row for result in results for row in result.rows]
    table = metrics_table(rows)
    try:
        _write(folder / "settings.toml", settings_toml(outcome.settings).encode())
        pq.write_table(table, folder / "metrics.parquet", compression="zstd")
        pq.write_table(series, folder / "series.parquet", compression="zstd")
        _write(folder / "metrics.csv", _csv(table.to_pylist()))
        means = outcome.summary.records()
        _write(folder / "summary.csv", _csv(means))
        _write(folder / "summary.json", _json(means))
        _write(folder / "comparison.json", _json([comparison_record(each) for each in outcome.comparisons]))
        _write(folder / "goals.json", _json([_goal_record(each) for each in outcome.goals]))
        _write(folder / "findings.json", _json(_findings(results)))
        (folder / FIGURES_FOLDER).mkdir(exist_ok=True)
        for name, forms in outcome.plots.items():
            for form, content in forms.items():
                _write(folder / FIGURES_FOLDER / f"{name}.{form}", content)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None


def comparison_record(each: Comparison) -> dict[str, Any]:
    """A comparison as plain values."""
    result = each.result
    return {
        "experiment": result.experiment,
        "says": result.says,
        "source": result.source,
        "metric": result.metric,
        "part": result.part,
        "system": result.system,
        "than": result.than,
        "unit": each.unit,
        "paper": result.paper,
        "ours": each.ours.mean,
        "half_95": each.ours.half,
        "seeds": each.ours.runs,
        "difference": each.difference,
        "verdict": each.verdict,
    }


def _goal_record(each: Reached) -> dict[str, Any]:
    ours = {"unit": each.unit, "ours": each.ours.mean, "half_95": each.ours.half, "seeds": each.ours.runs}
    return {**structs.asdict(each.goal), **ours, "verdict": each.verdict}


def _lines(series: pa.Table, summary: Summary, metric: str, part: str) -> dict[str, dict[str, Line]]:
    """The lines of the first seed: point -> system -> line."""
    lines, first = lines_of(series, metric, part), min(summary.seeds, default=0)
    return {
        point: {system: lines.get((point, first, system), NO_LINE) for system in summary.systems}
        for point in summary.points
    }


def _findings(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        {
            "run": result.cell.name,
            "rule": finding.rule,
            "cases": finding.cases,
            "promised": finding.promised,
            "passed": finding.passed,
            "examples": list(finding.examples),
        }
        for result in results
        for finding in result.findings
    ]


def _caption(point: str, axis: str) -> str:
    return f"{int(point):,} {axis}" if point.isdigit() else f"{axis}: {point}"


def _csv(records: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    if records:
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return text.getvalue().encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
