"""The experiments, one file each, and the code that runs them.

`scenes` and `scenes_report` are those of `octopia scenes`; the others are those of `octopia simulate`. A cell, one
system at one point with one seed, can be run anywhere (`run_cell`); a report is made from rows of metrics
(`make_outcome`), wherever they come from.
"""

from octopia.experiments.bound import BOUND, WHAT_IT_IS
from octopia.experiments.catalogue import EXPERIMENTS, experiment_named
from octopia.experiments.cell import Cell, WorkloadTables, cell_bytes, make_cells
from octopia.experiments.experiment import Experiment, Shown
from octopia.experiments.html import details_html, page_html, plot_html, table_html
from octopia.experiments.intervals import interval
from octopia.experiments.lead import lead_sentence, make_lead
from octopia.experiments.means import mean_rows
from octopia.experiments.numbers import shown as shown_value
from octopia.experiments.numbers import shown_interval
from octopia.experiments.outcome import REPORT_FILE, Outcome, axis_of, make_outcome
from octopia.experiments.page import write_page
from octopia.experiments.plots import bars_plot
from octopia.experiments.result import (
    METRICS_SCHEMA,
    SERIES_SCHEMA,
    MetricRow,
    Result,
    broken_promises,
    metrics_table,
    rows_of_table,
)
from octopia.experiments.run_cell import (
    RESULT_FILE,
    facts_of_cell,
    finished,
    metric_rows,
    play_and_check,
    run_cell,
    save_result,
    series_table,
    workload_of,
)
from octopia.experiments.settings import Settings, changed, parse_value, read_settings, settings_toml, small
from octopia.experiments.sweep import RUNS_FOLDER, Failure, Sweep, sweep
from octopia.experiments.sweep_report import (
    difference_text,
    ours_text,
    paper_text,
    report_body,
    scale_note,
    sensitivity_rows,
    write_report,
)
from octopia.experiments.validation import VALIDATION, Validation, validate
from octopia.experiments.validation_report import HEADS as VALIDATION_HEADS
from octopia.experiments.validation_report import notes as validation_notes
from octopia.experiments.validation_report import rows as validation_rows
from octopia.experiments.validation_report import write_page as write_validation_page

__all__ = [
    "BOUND",
    "EXPERIMENTS",
    "METRICS_SCHEMA",
    "REPORT_FILE",
    "RESULT_FILE",
    "RUNS_FOLDER",
    "SERIES_SCHEMA",
    "VALIDATION",
    "VALIDATION_HEADS",
    "WHAT_IT_IS",
    "Cell",
    "Experiment",
    "Failure",
    "MetricRow",
    "Outcome",
    "Result",
    "Settings",
    "Shown",
    "Sweep",
    "Validation",
    "WorkloadTables",
    "axis_of",
    "bars_plot",
    "broken_promises",
    "cell_bytes",
    "changed",
    "details_html",
    "difference_text",
    "experiment_named",
    "facts_of_cell",
    "finished",
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
    "paper_text",
    "parse_value",
    "play_and_check",
    "plot_html",
    "read_settings",
    "report_body",
    "rows_of_table",
    "run_cell",
    "save_result",
    "scale_note",
    "sensitivity_rows",
    "series_table",
    "settings_toml",
    "shown_interval",
    "shown_value",
    "small",
    "sweep",
    "table_html",
    "validate",
    "validation_notes",
    "validation_rows",
    "workload_of",
    "write_page",
    "write_report",
    "write_validation_page",
]
