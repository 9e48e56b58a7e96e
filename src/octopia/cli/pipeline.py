"""`octopia pipeline run`, and each of its stages alone: quotes to tables, simulation, audit and report, on Spark.

Rules of this file: it reads what is asked for, shows progress and prints tables; the work is `octopia.pipeline`'s.
Progress goes to standard error; the tables and the report's path to standard output. Exit codes: 0 all went well and
the audit passed, 1 something failed or the audit found something, 2 what was asked makes no sense, 130 interrupted:
tables that are complete stay, and the same command goes on from there.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import err, out, say
from octopia.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.pipeline import Event, PipelineSpec, SparkSettings

OUT_DEFAULT = "out/pipeline"
EXIT_FOUND = 1
ALL = "run"
_HELP = """Run the data pipeline: WHAT is run, for all stages, or one of

quotes: files, or a seed, to typed quotes; what is no quote goes to the table rejects.

notifications: quotes to the notifications that will be published.

workload: publishers, subscribers and their filters, placed on the overlay.

truth: who must receive what, by brute force.

simulate: every system plays the workload, one simulation per task; the traces.

audit: the truth against the traces: lost, duplicated, unwanted, late.

metrics: every metric, as SQL over the traces.

figures: plots and one page, DIR/report/index.html.
"""
EPILOG = (
    "DIR holds one Parquet table per name, see docs/pipeline.md. A stage whose inputs, settings and code have not "
    "changed is not run again. --master takes any Spark master: local[*], spark://host:7077, yarn."
)

# What is measured, in the table at the end: title, metric, part; what no run has is left out.
_SHOWN = (
    ("delivered", "deliveries", "number"),
    ("mean delay", "notification_delay", "mean"),
    ("p99 delay", "notification_delay", "p99"),
    ("Q_l at host", "high_rate_queue", "until_empty"),
    ("IMs each", "messages_per_request", "publish"),
    ("SRT entries", "srt_entries", "mean"),
)
MasterOption = Annotated[str, typer.Option(metavar="URL", help="Spark master.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Configuration of Spark; repeat it.")
]


def pipeline(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="run, or a stage.", show_default=False)],
    quotes: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Quotes, CSV or Parquet, or a folder of such; repeat it.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Rows that are no quotes are an error.")] = False,
    date_order: Annotated[
        str | None, typer.Option(metavar="dmy|mdy", help="For dates such as 07-02-2018.", show_default=False)
    ] = None,
    overlay: Annotated[str, typer.Option(metavar="TREE|FILE.toml", help="As for octopia topology.")] = "evaluation",
    clusters: Annotated[int | None, typer.Option("--clusters", "-k", metavar="K", help="Number of clusters.")] = None,
    systems: Annotated[str, typer.Option(metavar="A,B", help="Systems to compare.")] = "snr,idr,tid",
    publishers: Annotated[int, typer.Option(metavar="N", help="Publishers.")] = 100,
    subscribers: Annotated[int, typer.Option(metavar="N", help="Subscribers.")] = 2000,
    notifications: Annotated[int, typer.Option(metavar="N", help="Notifications of each publisher.")] = 200,
    rate: Annotated[float, typer.Option(metavar="N", help="And how many a minute.")] = 60,
    selectivity: Annotated[float, typer.Option(metavar="SHARE", help="Wanted by a subscription.")] = 0.02,
    shape: Annotated[str, typer.Option(metavar="WORD", help="Subscriptions: symbols, ranges, mixed.")] = "symbols",
    placement: Annotated[str, typer.Option(metavar="WORD", help="Clients: random, edge, spread.")] = "random",
    burst: Annotated[
        float | None, typer.Option(metavar="N", help="One publisher more, with N notifications a minute.")
    ] = None,
    burst_notifications: Annotated[int, typer.Option(metavar="N", help="And how many of them.")] = 10_000,
    model: Annotated[str, typer.Option(metavar="NAME|FILE.toml", help="paper, live, instant.")] = "paper",
    late_after: Annotated[
        float | None, typer.Option(metavar="S", help="Deliveries that take longer are late.", show_default="never")
    ] = None,
    scale: Annotated[float, typer.Option(metavar="S", help="Notifications × S, rates as they are.")] = 1.0,
    seed: Annotated[int, typer.Option(metavar="N", help="What is drawn follows from it.")] = 1,
    folder: Annotated[str, typer.Option("--out", metavar="DIR", help="Where tables and report go.")] = OUT_DEFAULT,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    retries: Annotated[int, typer.Option(metavar="N", help="A simulation that fails is tried again.")] = 1,
    again: Annotated[bool, typer.Option("--again", help="Run also what has not changed.")] = False,
) -> None:
    # Its help stands above, where it can be read.
    from octopia.hints import maybe_meant
    from octopia.pipeline import STAGES, PipelineSpec, QuotesSpec, SimulateSpec, SparkSettings, parse_conf
    from octopia.sim import load_model
    from octopia.workload import BurstSpec, WorkloadSpec

    known = [ALL, *(stage.name for stage in STAGES)]
    if what not in known:
        raise InputError(f"no stage is called {what!r}{maybe_meant(what, known)}; there are {', '.join(known)}")
    if not 0 < scale <= 1:
        raise InputError(f"--scale {scale:g}: give a share above 0 and up to 1")
    spec = PipelineSpec(
        QuotesSpec(tuple(quotes or ()), strict, date_order, seed),  # type: ignore[arg-type]  # it checks the word
        WorkloadSpec(
            publishers,
            subscribers,
            selectivity,
            shape,  # type: ignore[arg-type]
            _scaled(notifications, scale),
            rate,
            placement,  # type: ignore[arg-type]
            seed,
        ),
        None if burst is None else BurstSpec(burst, _scaled(burst_notifications, scale)),
        overlay_of(overlay, clusters),
        SimulateSpec(
            tuple(name.strip() for name in systems.split(",") if name.strip()),
            load_model(model),
            late_after_s=late_after,
            retries=retries,
        ),
    )
    settings = SparkSettings(master=master, conf=parse_conf(conf or []))
    sys.exit(run_and_show(folder, spec, settings, None if what == ALL else [what], again=again))


pipeline.__doc__ = _HELP


def _scaled(count: int, scale: float) -> int:
    return max(1, round(count * scale))


def overlay_of(text: str, clusters: int | None) -> Any:
    """The overlay that the options name."""
    from octopia.topology import find_overlay

    return find_overlay(text, clusters).scot


def run_and_show(
    folder: str,
    spec: "PipelineSpec",
    settings: "SparkSettings",
    stages: list[str] | None,
    *,
    again: bool = False,
    links: Mapping[str, str] | None = None,
) -> int:
    """Run stages with progress, then the tables on the screen; the exit code."""
    from octopia.pipeline import run_pipeline

    with _progress(len(stages) if stages else None) as tell:
        events = run_pipeline(folder, spec, stages=stages, settings=settings, force=again, links=links, on_event=tell)
    console = out()
    _print_stages(console, events)
    ran = {event.stage for event in events}
    code = 0
    if "audit" in ran:
        code = _print_audit(console, folder, spec.simulate.late_after_s)
    if "metrics" in ran:
        _print_metrics(console, folder)
    if "figures" in ran:
        from rich.text import Text

        say(console, Text.assemble("Report: ", (f"{folder.rstrip('/')}/report/index.html", "bold")))
    return code


@contextmanager
def _progress(count: int | None) -> "Iterator[Callable[[Event], None]]":
    """A line that moves on a terminal; elsewhere a line per stage."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from octopia.pipeline import STAGES

    total = count or len(STAGES)
    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("starting", total=float(total))
        ended = 0

        def tell(event: "Event") -> None:
            nonlocal ended
            if event.state == "started":
                bar.update(task, description=f"{event.stage}: {event.about}", completed=ended)
            elif event.state == "progress":
                bar.update(task, description=f"{event.stage}: {event.about}", completed=ended + event.share)
            else:
                ended += 1
                bar.update(task, completed=ended)
                for note in event.notes:
                    say(console, f"{event.stage}: {note}", "dim")

        yield tell


def _print_stages(console: "Console", events: "list[Event]") -> None:
    from rich.table import Table

    table = Table()
    for column in ("stage", "", "rows", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
    for event in events:
        rows = ", ".join(f"{name} {count:,}" for name, count in event.rows.items())
        state = "unchanged, skipped" if event.state == "skipped" else f"done ({event.because})"
        table.add_row(event.stage, state, rows, "" if event.state == "skipped" else f"{event.took_s:.1f}")
    console.print(table)


def _print_audit(console: "Console", folder: str, late_after_s: float | None) -> int:
    from octopia.pipeline import KINDS, read_arrow

    found = read_arrow(folder, "audit", ["system", "finding", "request", "client", "region", "cluster"])
    if not found.num_rows:
        # Where no time is promised, none is late, and that is no finding to be proud of.
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
    from rich.table import Table

    from octopia.experiments import interval, lead_sentence, shown_interval
    from octopia.pipeline import read_arrow

    runs = sorted(read_arrow(folder, "runs", ["run", "system"]).to_pylist(), key=lambda row: int(row["run"]))
    rows = read_arrow(folder, "metrics").to_pylist()
    values = {(row["system"], row["metric"], row["part"]): (row["value"], row["unit"]) for row in rows}
    table = Table()
    table.add_column("system")
    known = {(metric, part) for (_, metric, part), (value, _) in values.items() if value is not None}
    shown = [one for one in _SHOWN if one[1:] in known]
    for title, _, _ in shown:
        table.add_column(title, justify="right", overflow="fold")
    for run in runs:
        found = (values.get((run["system"], metric, part), (None, "")) for _, metric, part in shown)
        table.add_row(run["system"].upper(), *(shown_interval(interval([value]), unit) for value, unit in found))
    console.print(table)
    delays = [(run["system"], values.get((run["system"], "notification_delay", "mean"), (None, ""))[0]) for run in runs]
    measured = sorted(((system, delay) for system, delay in delays if delay is not None), key=lambda each: each[1])
    say(console, lead_sentence(dict(measured)), "bold")
