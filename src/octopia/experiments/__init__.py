"""Experiments of the paper, one file each, and what runs them.

`scenes` and `scenes_report` are those of `octopia scenes`; the others are those of `octopia simulate`. A cell, one
system at one point with one seed, can be run anywhere (`run_cell`); a report is made from rows of metrics
(`make_outcome`), wherever they come from.
"""

from octopia.experiments.bound import BOUND, WHAT_IT_IS
from octopia.experiments.catalogue import EXPERIMENTS, experiment_named
from octopia.experiments.cell import Cell, cell_bytes, cell_from_bytes, make_cells
from octopia.experiments.comparison import Comparison, PaperResult, compare, paper_results
from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.goals import Goal, Reached, all_goals, goals_reached
from octopia.experiments.intervals import Interval, interval
from octopia.experiments.lead import Lead, lead_sentence, make_lead
from octopia.experiments.losses import JUDGED
from octopia.experiments.means import mean_rows
from octopia.experiments.numbers import shown_interval
from octopia.experiments.outcome import REPORT_FILE, Outcome, axis_of, make_outcome, read_series, write_tables
from octopia.experiments.page import write_page
from octopia.experiments.result import METRICS_SCHEMA, SERIES_SCHEMA, MetricRow, Result, metrics_table, rows_of_table
from octopia.experiments.run_cell import finished, metric_rows, run_cell, series_table, workload_of
from octopia.experiments.settings import Settings, changed, parse_value, read_settings, settings_toml, small
from octopia.experiments.summary import Summary
from octopia.experiments.sweep import RUNS_FOLDER, Failure, Sweep, cores, sweep
from octopia.experiments.sweep_report import (
    difference_text,
    ours_text,
    page_html,
    paper_text,
    report_body,
    report_html,
    scale_note,
    sensitivity_rows,
)

__all__ = [
    "BOUND",
    "EXPERIMENTS",
    "JUDGED",
    "METRICS_SCHEMA",
    "REPORT_FILE",
    "RUNS_FOLDER",
    "SERIES_SCHEMA",
    "WHAT_IT_IS",
    "Cell",
    "Comparison",
    "Experiment",
    "Failure",
    "Goal",
    "Interval",
    "Lead",
    "MetricRow",
    "Outcome",
    "PaperResult",
    "Reached",
    "Result",
    "Settings",
    "Shown",
    "Summary",
    "Sweep",
    "all_goals",
    "axis_of",
    "cell_bytes",
    "cell_from_bytes",
    "changed",
    "compare",
    "cores",
    "difference_text",
    "experiment_named",
    "finished",
    "goals_reached",
    "interval",
    "lead_sentence",
    "make_cells",
    "make_lead",
    "make_outcome",
    "mean_rows",
    "metric_rows",
    "metrics_table",
    "ours_text",
    "page_html",
    "paper_results",
    "paper_text",
    "parse_value",
    "read_series",
    "read_settings",
    "report_body",
    "report_html",
    "rows_of_table",
    "run_cell",
    "scale_note",
    "sensitivity_rows",
    "series_table",
    "settings_toml",
    "shown_interval",
    "small",
    "sweep",
    "workload_of",
    "write_page",
    "write_tables",
]
