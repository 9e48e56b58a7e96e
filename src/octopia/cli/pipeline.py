"""`octopia pipeline run`, or a single stage: quotes to tables, simulation, audit and report, on Spark.

This file handles options, progress and tables; `octopia.pipeline` does the work. Progress goes to standard error, the
tables and the report's path to standard output. Exit codes: 0 success and the audit passed, 1 a failure or an audit
finding, 2 invalid options, 130 interrupted: complete tables are kept, and the same command resumes from there.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli import options
from octopia.cli.settings_options import with_options
from octopia.cli.terminal import err, out, progress_bar, say, table
from octopia.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.pipeline import Event, PipelineSpec, SparkSettings

OUT_DEFAULT = "out/pipeline"
EXIT_FOUND = 1
ALL = "run"
_HELP = """Run the data pipeline. WHAT is run, for all stages, or one of these stages:

quotes: read quotes from files, or make them from a seed. Bad rows go to the table rejects, bad files to inputs.

notifications: turn quotes into notifications to publish.

workload: make publishers, subscribers and filters, and place them on the overlay.

truth: compute by brute force which subscribers must receive which notifications.

simulate: run the workload on every system, one simulation per task, and keep the traces.

audit: compare the traces with the truth: lost, duplicated, unwanted, late.

metrics: compute all metrics from the traces with SQL.

figures: make plots and one page, DIR/report/index.html.
"""
EPILOG = (
    "DIR has one folder of Parquet files per table, see docs/pipeline.md. A stage is skipped if its inputs, settings "
    "and code have not changed. --master accepts any Spark master: local[*], spark://host:7077, yarn."
)

# Columns of the final table: title, metric, part. A metric that no run has is omitted.
_SHOWN = (
    ("delivered", "deliveries", "number"),
    ("mean delay", "notification_delay", "mean"),
    ("p99 delay", "notification_delay", "p99"),
    ("Q_l at host", "high_rate_queue", "until_empty"),
    ("IMs each", "messages_per_request", "publish"),
    ("SRT entries", "srt_entries", "mean"),
)


def pipeline(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="run, or a stage.", show_default=False)],
    quotes: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Quotes: a CSV or Parquet file, or a folder of them; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat rows that are not quotes and unreadable files as errors.")
    ] = False,
    date_order: Annotated[
        str | None, typer.Option(metavar="dmy|mdy", help="Order of dates such as 07-02-2018.", show_default=False)
    ] = None,
    overlay: Annotated[str | None, options.overlay_option("evaluation")] = None,
    clusters: Annotated[int | None, options.clusters_option(default=True)] = None,
    systems: Annotated[str | None, options.systems_option("snr,idr,tid")] = None,
    publishers: Annotated[int | None, options.publishers_option("100")] = None,
    subscribers: Annotated[int | None, options.subscribers_option("2000")] = None,
    notifications: Annotated[int, options.notifications_option(default=True)] = 200,
    rate: Annotated[float | None, options.rate_option("60")] = None,
    selectivity: Annotated[float | None, options.selectivity_option("0.02")] = None,
    shape: Annotated[str | None, options.shape_option("symbols")] = None,
    placement: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Placement of clients: random, edge or spread.", show_default="random"),
    ] = None,
    burst: Annotated[
        float | None, typer.Option(metavar="N", help="Add a publisher that sends N notifications per minute.")
    ] = None,
    burst_notifications: Annotated[
        int, typer.Option(metavar="N", help="Notifications of the burst publisher.")
    ] = 10_000,
    changes: Annotated[
        float, typer.Option(metavar="N", help="Registrations and withdrawals per minute while publishing.")
    ] = 0,
    model: Annotated[str | None, options.model_option("paper")] = None,
    late_after: options.LateAfterOption = None,
    scale: Annotated[
        float, typer.Option(metavar="S", help="Multiply the number of notifications by S; rates stay the same.")
    ] = 1.0,
    seed: options.SeedOption = 1,
    folder: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Folder for tables and the report.")
    ] = OUT_DEFAULT,
    master: options.MasterOption = "local[*]",
    conf: options.ConfOption = None,
    retries: options.RetriesOption = 1,
    again: Annotated[bool, typer.Option("--again", help="Run unchanged stages again.")] = False,
) -> None:
    # The help text is `_HELP`, above.
    from octopia.hints import maybe_meant
    from octopia.pipeline import STAGES, PipelineSpec, QuotesSpec, SparkSettings, parse_conf, pipeline_settings

    known = [ALL, *(stage.name for stage in STAGES)]
    if what not in known:
        raise InputError(f"no stage is called {what!r}{maybe_meant(what, known)}; choose from {', '.join(known)}")
    if not 0 < scale <= 1:
        raise InputError(f"--scale {scale:g}: give a share above 0 and up to 1")
    given = {
        "systems": options.listed(systems),
        "overlay": overlay,
        "clusters": clusters,
        "publishers": publishers,
        "subscribers": subscribers,
        "selectivity": selectivity,
        "shape": shape,
        "placement": placement,
        "notifications_per_publisher": _scaled(notifications, scale),
        "rate_per_minute": rate,
        "changes_per_minute": changes,
        "burst_rate_per_minute": burst,
        "burst_notifications": None if burst is None else _scaled(burst_notifications, scale),
        "model": model,
        "first_seed": seed,
    }
    played = with_options(pipeline_settings(), (), given)
    spec = PipelineSpec(
        QuotesSpec(tuple(quotes or ()), strict, date_order, seed),  # type: ignore[arg-type]  # it checks the word
        played,
        burst=burst is not None,
        late_after_s=late_after,
        retries=retries,
    )
    settings = SparkSettings(master=master, conf=parse_conf(conf or []))
    sys.exit(run_and_show(folder, spec, settings, None if what == ALL else [what], again=again))


pipeline.__doc__ = _HELP


def _scaled(count: int, scale: float) -> int:
    return max(1, round(count * scale))


def run_and_show(
    folder: str,
    spec: "PipelineSpec",
    settings: "SparkSettings",
    stages: list[str] | None,
    *,
    again: bool = False,
    links: Mapping[str, str] | None = None,
) -> int:
    """Run stages with progress, print the tables and return the exit code."""
    from octopia.pipeline import run_pipeline

    with _progress(len(stages) if stages else None) as tell:
        events = run_pipeline(folder, spec, stages=stages, settings=settings, force=again, links=links, on_event=tell)
    console = out()
    _print_stages(console, events)
    ran = {event.stage for event in events}
    code = 0
    if "audit" in ran:
        code = _print_audit(console, folder, spec.late_after_s)
    if "metrics" in ran:
        _print_metrics(console, folder)
    if "figures" in ran:
        from rich.text import Text

        say(console, Text.assemble("Report: ", (f"{folder.rstrip('/')}/report/index.html", "bold")))
    return code


@contextmanager
def _progress(count: int | None) -> "Iterator[Callable[[Event], None]]":
    """A progress line on a terminal; elsewhere, a line per stage."""
    from octopia.pipeline import STAGES

    console = err()
    with progress_bar(console, float(count or len(STAGES)), remaining=False) as show:
        ended = 0

        def tell(event: "Event") -> None:
            nonlocal ended
            if event.state in ("skipped", "finished"):
                ended += 1
            show(f"{event.stage}: {event.about}", ended + event.share)
            for note in event.notes:
                say(console, f"{event.stage}: {note}", "dim")

        yield tell


def _print_stages(console: "Console", events: "list[Event]") -> None:
    shown = table("stage", "", "rows", "#seconds")
    for event in events:
        rows = ", ".join(f"{name} {count:,}" for name, count in event.rows.items())
        state = "unchanged, skipped" if event.state == "skipped" else f"done ({event.because})"
        shown.add_row(event.stage, state, rows, "" if event.state == "skipped" else f"{event.took_s:.1f}")
    console.print(shown)


def _print_audit(console: "Console", folder: str, late_after_s: float | None) -> int:
    from octopia.pipeline import KINDS, read_arrow

    found = read_arrow(folder, "audit", ["system", "finding", "request", "client", "region", "cluster"])
    if not found.num_rows:
        # Without a deadline nothing can be late, so a count of 0 would say nothing.
        late = "no time was promised" if late_after_s is None else f"0 late (after more than {late_after_s:g} s)"
        say(console, f"Audit passed: 0 lost, 0 duplicated, 0 unwanted, {late}.", "green")
        return 0
    counts = dict.fromkeys(KINDS, 0)
    for kind in found["finding"].to_pylist():
        counts[kind] += 1
    say(console, f"Audit NOT passed: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}.", "red")
    for row in found.slice(0, 5).to_pylist():
        place = f"{row['region']}/{row['cluster']}"
        say(console, f"  {row['system']}: {row['finding']}: notification {row['request']}, {row['client']} at {place}")
    return EXIT_FOUND


def _print_metrics(console: "Console", folder: str) -> None:
    from octopia.experiments import interval, lead_sentence, shown_interval
    from octopia.pipeline import read_arrow

    runs = sorted(read_arrow(folder, "runs", ["run", "system"]).to_pylist(), key=lambda row: int(row["run"]))
    rows = read_arrow(folder, "metrics").to_pylist()
    values = {(row["system"], row["metric"], row["part"]): (row["value"], row["unit"]) for row in rows}
    known = {(metric, part) for (_, metric, part), (value, _) in values.items() if value is not None}
    shown = [one for one in _SHOWN if one[1:] in known]
    numbers = table("system", *(f"#{title}" for title, _, _ in shown))
    for run in runs:
        found = (values.get((run["system"], metric, part), (None, "")) for _, metric, part in shown)
        numbers.add_row(run["system"].upper(), *(shown_interval(interval([value]), unit) for value, unit in found))
    console.print(numbers)
    delays = [(run["system"], values.get((run["system"], "notification_delay", "mean"), (None, ""))[0]) for run in runs]
    measured = sorted(((system, delay) for system, delay in delays if delay is not None), key=lambda each: each[1])
    say(console, lead_sentence(dict(measured)), "bold")
