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
)
from octopia.pipeline import quality
from octopia.pipeline.manifest import Parameters, read_record
from octopia.pipeline.spec import PipelineSpec, made_with
from octopia.pipeline.stage_audit import KINDS
from octopia.pipeline.stage_run import results_of_runs
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.storage import AnyStore
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
    if outcome.no_plots:
        work.notes.append(f"no plots: {outcome.no_plots}")
    body = "\n".join(
        [
            lead.html,
            _LINKS_MARK,
            _audit_html(findings, [one.cell.system for one in runs], _late_after_s(work.store)),
            report_body(outcome, results, "h2" if lead.html else "h1"),
            _tables_html(work.store),
        ]
    )
    files = {PAGE: page_html(outcome.experiment.title, body).encode()}
    quotes = (work.tables[name] if work.rows(name) else None for name in _QUOTES)
    files[quality.PAGE] = quality.quality_page(*quotes).encode()
    plots = {**lead.charts, **outcome.plots}
    files |= {f"figures/{name}.{form}": data for name, forms in plots.items() for form, data in forms.items()}
    columns = [list(files), list(files.values())]
    return {
        "figures": pa.Table.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, FIGURES_SCHEMA.types, strict=True)], schema=FIGURES_SCHEMA
        )
    }


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


def _late_after_s(store: AnyStore) -> float | None:
    """The parameters of the audit on disk, whatever the settings are now."""
    record = read_record(store, "audit")
    given: float | None = None if record is None else record["parameters"]["late_after_s"]
    return given


@dataclass(frozen=True)
class _Findings:
    """The audit's findings by kind and system, and the first rows."""

    counts: Mapping[tuple[str, str], int]
    first: Sequence[Mapping[str, Any]]


def _findings(work: Work[PipelineSpec]) -> _Findings:
    """A passed audit needs no Spark job, and one with many findings is not read completely."""
    if work.rows("audit") == 0:
        return _Findings({}, ())
    audit = work.tables["audit"]
    counts = {(row.system, row.finding): row["count"] for row in audit.groupBy("system", "finding").count().collect()}
    first = audit.orderBy("system", "finding", "request", "client").limit(_AUDIT_ROWS_SHOWN).collect()
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
    rows = "".join(
        f"<tr><td>{escape(system.upper())}</td>"
        + "".join(f"<td class=n>{counts.get((system, kind), 0):,}</td>" for kind in KINDS)
        + "</tr>"
        for system in systems
    )
    head = "".join(f"<th class=n>{kind}</th>" for kind in KINDS)
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row[name]))}</td>" for name in _AUDIT_SHOWN) + "</tr>"
        for row in findings.first
    )
    heads = "".join(f"<th>{name}</th>" for name in _AUDIT_SHOWN)
    return (
        "<h2>Audit</h2><p class=bad>Not passed.</p>"
        f"<div class=wide><table><thead><tr><th>system</th>{head}</tr></thead>{rows}</table></div>"
        f"<p class=soft>The first rows of the table audit:</p><div class=wide><table><thead><tr>{heads}</tr></thead>"
        f"{shown}</table></div>"
    )


def _tables_html(store: AnyStore) -> str:
    from octopia.pipeline.whole import STAGES

    rows = []
    for stage in STAGES:
        for table in stage.outputs:
            record = read_record(store, table)
            if record is not None and table != "figures":
                columns = ", ".join(record["columns"])
                rows.append(
                    f"<tr><td>{escape(table)}</td><td>{escape(stage.name)}</td><td class=n>{record['rows']:,}</td>"
                    f"<td class=soft>{escape(columns)}</td></tr>"
                )
    head = "<thead><tr><th>table</th><th>stage</th><th class=n>rows</th><th>columns</th></tr></thead>"
    return details_html("Tables", f"<div class=wide><table>{head}{''.join(rows)}</table></div>")


def export_report(store: AnyStore, links: Mapping[str, str] | None = None) -> str:
    """Put the files of the table `figures` into `report`, with links to pages beside it; returns the path."""
    every = {**(links or {}), quality.PAGE: quality.TITLE}
    nav = " · ".join(f'<a href="{escape(file)}">{escape(title)}</a>' for file, title in every.items())
    for row in read_arrow(store.url("").rstrip("/"), "figures").to_pylist():
        content = row["content"]
        if row["file"] == PAGE:
            content = content.replace(_LINKS_MARK.encode(), f"<p>{nav}</p>".encode())
        store.write_bytes(f"{REPORT}/{row['file']}", content)
    return f"{store.place.rstrip('/')}/{REPORT}/{PAGE}"


def figures_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """No parameters of its own: everything is in the tables."""
    return {}


FIGURES: Final = Stage(
    name="figures",
    about="plots, and one page with everything",
    inputs=("runs", "metrics", "series", "audit", *_QUOTES),
    outputs=("figures",),
    make=make_figures,
    parameters=figures_parameters,
    code=("octopia.experiments", "octopia.pipeline.quality", "octopia.pipeline.stage_figures"),
)
