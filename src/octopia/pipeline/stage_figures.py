"""Stage 8, figures: plots of the metrics and one page that shows them. It opens with the result.

`octopia.experiments` makes the plots and the page; this stage passes it the rows, and adds the audit and the list of
tables. The result is the table `figures`, one row per file, so that it follows the rules of all tables (unchanged ones
are not made again); `export_report` puts the files into `DIR/report`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import pyarrow as pa
from msgspec import structs

from octopia.experiments import (
    SERIES_SCHEMA,
    Cell,
    MetricRow,
    Outcome,
    Result,
    details_html,
    make_lead,
    make_outcome,
    page_html,
    report_body,
    rows_of_table,
    table_html,
)
from octopia.pipeline import quality
from octopia.pipeline.manifest import read_record, record_of
from octopia.pipeline.spec import PipelineSpec, made_with
from octopia.pipeline.stage_audit import KINDS, WORST_FIRST
from octopia.pipeline.stage_run import results_of_runs
from octopia.pipeline.stages import Outputs, Stage, Work
from octopia.pipeline.storage import Store
from octopia.pipeline.worker_files import read_arrow
from octopia.routing import POLICIES
from octopia.sim import DELIVERY_RULES, Finding

REPORT: Final = "report"
PAGE: Final = "index.html"
FIGURES_SCHEMA: Final = pa.schema([pa.field("file", pa.string()), pa.field("content", pa.binary())])
_QUOTES: Final = ("quotes", "rejects", "inputs")
_LINKS_MARK: Final = "<!-- links -->"
_AUDIT_ROWS_SHOWN: Final = 20
_AUDIT_SHOWN: Final = ("system", "finding", "request", "publisher", "client", "region", "cluster", "copies", "arrived")


def make_figures(work: Work[PipelineSpec]) -> Outputs:
    """The table `figures`."""
    findings = _findings(work)
    runs = [with_audit(one, findings.counts) for one in results_of_runs(work.here("runs"))]
    spec = made_with(work.store, work.spec, "publishers", "runs")
    order = [(name, "ascending") for name in ("system", "metric", "part", "at_s")]
    series = work.here("series").sort_by(order)
    outcome, results = outcome_of(spec, runs, work.here("metrics"), series)
    lead = make_lead(outcome.summary, series, _what_was_run([one.cell for one in runs]))
    # as the audit on disk was made, whatever the settings are now
    late_after_s = record_of(work.store, "audit")["parameters"]["late_after_s"]
    if outcome.no_plots:
        work.notes.append(f"no plots: {outcome.no_plots}")
    body = "\n".join(
        [
            lead.html,
            _LINKS_MARK,
            _audit_html(findings, [one.cell.system for one in runs], late_after_s),
            report_body(outcome, results, "h2" if lead.html else "h1"),
            _tables_html(work.store),
        ]
    )
    files = {PAGE: page_html(outcome.experiment.title, body).encode()}
    quotes = (work.tables[name] if work.rows(name) else None for name in _QUOTES)
    files[quality.PAGE] = quality.quality_page(*quotes).encode()
    plots = {**lead.charts, **outcome.plots}
    files |= {f"figures/{name}.{form}": data for name, forms in plots.items() for form, data in forms.items()}
    return {"figures": pa.table({"file": list(files), "content": list(files.values())}, schema=FIGURES_SCHEMA)}


def outcome_of(
    spec: PipelineSpec, runs: Sequence[Result], metrics: pa.Table, series: pa.Table
) -> tuple[Outcome, list[Result]]:
    """The input of an experiment's page: the runs with their metrics."""
    by_system: dict[str, list[MetricRow]] = {one.cell.system: [] for one in runs}
    for row in rows_of_table(metrics):
        by_system[row.system].append(row)
    results = [structs.replace(one, rows=tuple(by_system[one.cell.system])) for one in runs]
    # in the order of the systems, whatever that of the table
    ordered = [row for result in results for row in result.rows]
    return make_outcome(spec.experiment, spec.settings, ordered, series.cast(SERIES_SCHEMA)), results


def with_audit(one: Result, counts: Mapping[tuple[str, str], int]) -> Result:
    """A run with the audit's findings about its deliveries."""
    promised = POLICIES[one.cell.system].promises.exactly_once
    audited = [Finding(rule, counts.get((one.cell.system, kind), 0), promised) for kind, rule in DELIVERY_RULES.items()]
    return structs.replace(one, findings=(*audited, *one.findings))


# -- additions to the page of experiments


def _what_was_run(cells: Sequence[Cell]) -> str:
    """The workload, and the systems by their full names, for the caption of the first chart."""
    workload = cells[0].workload
    fast = ""
    for burst in cells[0].bursts:
        fast = f"; one more sends {burst.notifications:,} at {burst.rate_per_minute:,.0f} a minute"
    names = "; ".join(f"{cell.system.upper()}: {POLICIES[cell.system].title}" for cell in cells)
    return (
        f"The same workload under each: {workload.publishers:,} publishers with "
        f"{workload.notifications_per_publisher:,} notifications each, {workload.rate_per_minute:g} a minute{fast}; "
        f"{workload.subscribers:,} subscribers. {names}."
    )


@dataclass(frozen=True)
class _Findings:
    """The audit's findings by kind and system, and the first rows, the worst first."""

    counts: Mapping[tuple[str, str], int]
    first: Sequence[Mapping[str, Any]]


def _findings(work: Work[PipelineSpec]) -> _Findings:
    """A passed audit needs no Spark job, and one with many findings is not read completely."""
    if work.rows("audit") == 0:
        return _Findings({}, ())
    audit = work.tables["audit"]
    counts = {(row.system, row.finding): row["count"] for row in audit.groupBy("system", "finding").count().collect()}
    worst_first = audit.selectExpr("*", f"{WORST_FIRST} AS place").orderBy("place", "system", "request", "client")
    first = worst_first.limit(_AUDIT_ROWS_SHOWN).collect()
    return _Findings(counts, [row.asDict() for row in first])


def _audit_html(findings: _Findings, systems: Sequence[str], late_after_s: float | None) -> str:
    counts = findings.counts
    if not counts:
        faults = "lost, duplicated or unwanted"
        if late_after_s is not None:
            faults = f"lost, duplicated, unwanted or late (after more than {late_after_s:g} s)"
        return (
            f"<h2>Audit</h2><p class=good>Passed: no notification was {faults}, "
            f"under {escape(', '.join(system.upper() for system in systems))}.</p>"
        )
    rows = [(system.upper(), *(f"{counts.get((system, kind), 0):,}" for kind in KINDS)) for system in systems]
    first = [[row[name] for name in _AUDIT_SHOWN] for row in findings.first]
    return (
        "<h2>Audit</h2><p class=bad>Not passed.</p>"
        + table_html(("system", *(f"#{kind}" for kind in KINDS)), rows)
        + "<p class=soft>The first rows of the table audit:</p>"
        + table_html(_AUDIT_SHOWN, first)
    )


def _tables_html(store: Store) -> str:
    from octopia.pipeline.whole import STAGES

    rows = []
    for stage in STAGES:
        for table in stage.outputs:
            record = read_record(store, table)
            if record is not None and table != "figures":
                rows.append((table, stage.name, f"{record['rows']:,}", (", ".join(record["columns"]), "soft")))
    return details_html("Tables", table_html(("table", "stage", "#rows", "columns"), rows))


def export_report(store: Store, links: Mapping[str, str] | None = None) -> str:
    """Put the files of the table `figures` into `report`, with links to pages beside it; returns the path."""
    every = {**(links or {}), quality.PAGE: quality.TITLE}
    nav = " · ".join(f'<a href="{escape(file)}">{escape(title)}</a>' for file, title in every.items())
    for row in read_arrow(store.url("").rstrip("/"), "figures").to_pylist():
        content = row["content"]
        if row["file"] == PAGE:
            content = content.replace(_LINKS_MARK.encode(), f"<p>{nav}</p>".encode())
        store.write_bytes(f"{REPORT}/{row['file']}", content)
    return f"{store.place.rstrip('/')}/{REPORT}/{PAGE}"


FIGURES: Final = Stage(
    name="figures",
    about="plots, and one page with everything",
    inputs=("runs", "metrics", "series", "audit", *_QUOTES),
    outputs=("figures",),
    make=make_figures,
    code=("octopia.experiments", "octopia.pipeline.quality", "octopia.pipeline.stage_figures"),
)
