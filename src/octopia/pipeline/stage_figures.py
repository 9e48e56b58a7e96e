"""Stage 8, figures: plots of the metrics and one page that shows them. It opens with the result.

Rules of this file: plots and the page are those of `octopia.experiments`; here rows are handed to them, and the audit
and the list of tables are added. The result is the table `figures`, a row per file, so that it follows the rules of all
tables (what has not changed is not made again); `export_report` puts the files into `DIR/report`.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from octopia.experiments import (
    SERIES_SCHEMA,
    Cell,
    Experiment,
    Outcome,
    Result,
    Settings,
    Shown,
    make_lead,
    make_outcome,
    page_html,
    report_body,
    rows_of_table,
)
from octopia.metrics import METRICS
from octopia.pipeline.manifest import Parameters, read_record
from octopia.pipeline.places import read_arrow
from octopia.pipeline.simulations import Done
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stage_audit import KINDS
from octopia.pipeline.stage_run import EXPERIMENT, done_of_runs
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.storage import AnyStore
from octopia.routing import POLICIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPORT: Final = "report"
PAGE: Final = "index.html"
FIGURES_SCHEMA: Final = pa.schema([pa.field("file", pa.string()), pa.field("content", pa.binary())])
_LINKS_MARK: Final = "<!-- links -->"
_AUDIT_ROWS_SHOWN: Final = 20
_AUDIT_SHOWN: Final = ("system", "finding", "request", "publisher", "client", "region", "cluster", "copies", "arrived")

_SHOWN: Final = (
    Shown(metric="notification_delay", part="mean", title="Mean delivery delay"),
    Shown(metric="notification_delay", part="p99", title="Delivery delay, 99th percentile"),
    Shown(metric="messages_per_request", part="publish", title="IMs per notification"),
    Shown(metric="messages_per_request", part="advertise", title="IMs per advertisement"),
    Shown(metric="srt_entries", part="mean", title="Mean SRT entries per broker"),
    Shown(metric="prt_entries", part="mean", title="Mean PRT entries per broker"),
    Shown(metric="max_delay", part="", title="Maximum delay of deliveries in a row", kind="series"),
    Shown(metric="queue_over_time", part="total", title="Queued messages", kind="series"),
)
_SHOWN_BURST: Final = (
    Shown(metric="high_rate_delay", part="mean", title="Mean delivery delay, high-rate publisher"),
    Shown(metric="others_delay", part="mean", title="Mean delivery delay, other publishers"),
    Shown(metric="high_rate_queue", part="until_empty", title="Mean Q_l at the high-rate publisher's broker"),
)


def make_figures(work: Work[PipelineSpec]) -> Outputs:
    """The table `figures`."""
    done = done_of_runs(work.tables["runs"])
    series = work.tables["series"].orderBy("system", "metric", "part", "at_s").toArrow()
    outcome, results = outcome_of(done, work.tables["metrics"].toArrow(), series)
    lead = make_lead(outcome.summary, series, _what_was_run([one.order.cell for one in done]))
    if outcome.no_plots:
        work.notes.append(f"no plots: {outcome.no_plots}")
    body = "\n".join(
        [
            lead.html,
            _LINKS_MARK,
            report_body(outcome, results, "h2" if lead.html else "h1"),
            _audit_html(work.tables["audit"], [one.order.cell.system for one in done], _late_after_s(work.store)),
            _tables_html(work.store),
        ]
    )
    files = {PAGE: page_html(outcome.experiment.title, body).encode()}
    plots = {"lead": lead.chart, **outcome.plots}
    files |= {f"figures/{name}.{form}": data for name, forms in plots.items() for form, data in forms.items()}
    columns = [list(files), list(files.values())]
    return {
        "figures": pa.Table.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, FIGURES_SCHEMA.types, strict=True)], schema=FIGURES_SCHEMA
        )
    }


def outcome_of(done: Sequence[Done], metrics: pa.Table, series: pa.Table) -> tuple[Outcome, list[Result]]:
    """What the experiments' pages are made of."""
    rows = rows_of_table(metrics)
    results = [
        Result(
            cell=one.order.cell,
            rows=tuple(row for row in rows if row.system == one.order.cell.system),
            findings=one.findings,
            selectivity=one.selectivity,
            table_rows=one.run.rows,
        )
        for one in done
    ]
    # in the order in which the systems were named, whatever that of the table
    ordered = [row for result in results for row in result.rows]
    settings = _settings([result.cell for result in results])
    experiment = Experiment(
        name=EXPERIMENT,
        title="Pipeline",
        question="one workload, several systems",
        axis="subscribers",
        settings=settings,
        scaled=(),
        publishes=True,
        has_burst=results[0].cell.burst is not None,
        metrics=tuple(METRICS),
        shown=_SHOWN + (_SHOWN_BURST if results[0].cell.burst is not None else ()),
    )
    return make_outcome(experiment, settings, ordered, series.cast(SERIES_SCHEMA)), results


def _settings(cells: Sequence[Cell]) -> Settings:
    """The settings of an experiment that say the same as these cells."""
    cell = cells[0]
    workload, burst = cell.workload, {}
    if cell.burst is not None:
        burst = {
            "burst_rate_per_minute": cell.burst.rate_per_minute,
            "burst_notifications": cell.burst.notifications,
            "burst_interested_share": cell.burst.interested_share,
            "burst_start_s": cell.burst.start_s,
        }
    given: dict[str, Any] = {
        **{name: getattr(workload, name) for name in _SAME},
        **burst,
        "systems": tuple(each.system for each in cells),
        "vary": "subscribers",
        "points": (workload.subscribers,),
        "seeds": 1,
        "first_seed": cell.seed,
        "overlay": f"{len(cell.nodes)} regions",
        "clusters": cell.clusters,
        "tau": cell.run.tau,
        "window_s": cell.run.window_s,
        "model": cell.run.model.title,
        "delay_bound_s": cell.delay_bound_ns / 1e9,
        "block_notifications": cell.block_notifications,
    }
    return Settings(**given)


_SAME: Final = (
    "publishers",
    "subscribers",
    "selectivity",
    "shape",
    "placement",
    "notifications_per_publisher",
    "rate_per_minute",
)


# -- what the page has beside the experiments'


def _what_was_run(cells: Sequence[Cell]) -> str:
    """The workload, and the systems by their full names, for the caption of the first chart."""
    workload, burst = cells[0].workload, cells[0].burst
    fast = ""
    if burst is not None:
        fast = f"; one more sends {burst.notifications:,} at {burst.rate_per_minute:,.0f} a minute"
    names = "; ".join(f"{cell.system.upper()}: {POLICIES[cell.system].title}" for cell in cells)
    return (
        f"The same workload under each: {workload.publishers:,} publishers with "
        f"{workload.notifications_per_publisher:,} notifications each, {workload.rate_per_minute:g} a minute{fast}; "
        f"{workload.subscribers:,} subscribers. {names}."
    )


def _late_after_s(store: AnyStore) -> float | None:
    """What the audit on disk was asked, whatever the settings are now."""
    record = read_record(store, "audit")
    given: float | None = None if record is None else record["parameters"]["late_after_s"]
    return given


def _audit_html(audit: "DataFrame", systems: Sequence[str], late_after_s: float | None) -> str:
    counts = {(row.system, row.finding): row["count"] for row in audit.groupBy("system", "finding").count().collect()}
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
    first = audit.orderBy("system", "finding", "request", "client").limit(_AUDIT_ROWS_SHOWN).collect()
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row[name]))}</td>" for name in _AUDIT_SHOWN) + "</tr>" for row in first
    )
    heads = "".join(f"<th>{name}</th>" for name in _AUDIT_SHOWN)
    return (
        "<h2>Audit</h2><p class=bad>Not passed.</p>"
        f"<table><thead><tr><th>system</th>{head}</tr></thead>{rows}</table>"
        f"<p class=soft>The first rows of the table audit:</p><div class=wide><table><thead><tr>{heads}</tr></thead>"
        f"{shown}</table></div>"
    )


def _tables_html(store: AnyStore) -> str:
    from octopia.pipeline.run import STAGES

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
    return f"<h2>Tables</h2><div class=wide><table>{head}{''.join(rows)}</table></div>"


def export_report(store: AnyStore, links: Mapping[str, str] | None = None) -> str:
    """Put the files of the table `figures` into `report`, links to pages beside it included; the page's place."""
    nav = " · ".join(f'<a href="{escape(file)}">{escape(title)}</a>' for file, title in (links or {}).items())
    for row in read_arrow(store.url("").rstrip("/"), "figures").to_pylist():
        content = row["content"]
        if row["file"] == PAGE:
            content = content.replace(_LINKS_MARK.encode(), f"<p>{nav}</p>".encode() if nav else b"")
        store.write_bytes(f"{REPORT}/{row['file']}", content)
    return f"{store.place.rstrip('/')}/{REPORT}/{PAGE}"


def figures_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """Nothing of its own: all is in the tables."""
    return {}


FIGURES: Final = Stage(
    name="figures",
    about="plots, and one page with all of it",
    inputs=("runs", "metrics", "series", "audit"),
    outputs=("figures",),
    make=make_figures,
    parameters=figures_parameters,
    code=("octopia.experiments", "octopia.pipeline.stage_figures"),
)
