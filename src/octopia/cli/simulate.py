"""`octopia simulate NAME`: an experiment of the paper, or a variation of it, for all systems side by side.

Rules of this file: it reads what is asked for, shows progress and prints tables; running, measuring and comparing are
`octopia.experiments`'. Settings come from the experiment or its small form, then a file, then `--set`, then the
options, the later ones winning. Progress goes to standard error; the tables and the folder's name to standard output.
Exit codes: 0 all runs are done and every promise held, 1 one failed or broke a promise, 2 what was asked makes no
sense, 130 interrupted.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import err, out, say
from octopia.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.experiments import Cell, Experiment, Outcome, Settings, Sweep

OUT_DEFAULT = Path("out/simulate")
EXIT_BROKEN = 1
EXIT_INTERRUPTED = 130
_SHOWN_MAX = 10
_HELP = """Run an experiment, one of the paper's evaluation or of our own, for all systems side by side. NAME is one of

publishers: what an advertisement costs as there are more of them, 100 to 500 (delay, SRT size, IMs).

subscribers: what a subscription costs as there are more of them, 500 to 5000 (delay, PRT size, IMs).

delivery: what a notification costs as subscribers become more, 500 to 5000 (matching delay, delivery delay, IMs).

burst: who copes with one publisher that sends 100,000 notifications at 100K, 80K, 60K and 40K a minute (maximum delay
of 1000 notifications in a row, Q_l at its broker, share under 1 s, stabilisation), beside a computed bound.

crash: what is lost, repeated or late when k-1 brokers die during the burst, at the worst places. Not the paper's.

slow-link: what it costs when any one link is ten times slower, the worst over all links. Not the paper's.
"""
EPILOG = (
    "--scale makes registrations fewer (publishers, subscribers) or notifications fewer (all others), and never "
    "changes rates, capacities or the load. Finished runs in DIR are not run again. Any setting can be varied: octopia "
    "simulate burst --vary tau --points 2,10,50; see them all with --show-settings."
)


def simulate(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The experiment.", show_default=False)] = None,
    systems: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Systems to compare, MODULE:NAME for your own.",
            show_default="snr,idr,fdr,tid,tid-dynamic; burst: and bound",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Runs of each, by seed.", show_default="5; crash 3, slow-link 1")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="S", help="A quick look: 0.05 is a twentieth.", show_default="1")
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Nine brokers and few clients: seconds, to see what there is to see.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where results go.", show_default=f"{OUT_DEFAULT}/NAME"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Runs side by side; a full burst takes 2 GB each.",
            show_default="all cores",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="SETTINGS.toml", help="Read settings from a file.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting; repeat it. model.link.delay_ns=0 works too."),
    ] = None,
    vary: Annotated[str | None, typer.Option(metavar="KEY", help="The setting to go through.")] = None,
    points: Annotated[str | None, typer.Option(metavar="A,B", help="Its values, in place of the paper's.")] = None,
    overlay: Annotated[
        str | None,
        typer.Option(metavar="TREE|FILE.toml", help="As for octopia topology.", show_default="evaluation"),
    ] = None,
    clusters: Annotated[int | None, typer.Option("--clusters", "-k", metavar="K", help="Number of clusters.")] = None,
    tau: Annotated[float | None, typer.Option(metavar="τ", help="τ of Eq. 10.", show_default="10")] = None,
    window_ms: Annotated[float | None, typer.Option(metavar="MS", help="t_w of Eq. 10.", show_default="50")] = None,
    publishers: Annotated[int | None, typer.Option(metavar="N", help="Publishers.", show_default="100")] = None,
    subscribers: Annotated[int | None, typer.Option(metavar="N", help="Subscribers.", show_default="2000")] = None,
    notifications: Annotated[
        int | None, typer.Option(metavar="N", help="Notifications of each ordinary publisher.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="N", help="And how many a minute.", show_default="60")] = None,
    selectivity: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Wanted by a subscription.", show_default="0.02")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="WORD", help="Subscriptions: symbols, ranges, mixed.", show_default="symbols")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.toml", help="paper, live, instant.", show_default="paper")
    ] = None,
    quotes: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Real quotes, CSV or Parquet, in place of made ones.")
    ] = None,
    keep_traces: Annotated[
        bool, typer.Option("--keep-traces/--no-keep-traces", help="Keep the trace of every run (a full burst: 0.3 GB).")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run also what is finished in DIR.")] = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the settings as TOML and run nothing.")
    ] = False,
    write_docs: Annotated[
        Path | None, typer.Option(metavar="DOCS", help="Put tables and plots into DOCS/evaluation.md, too.")
    ] = None,
) -> None:
    # Its help stands above, where it can be read.
    from octopia.experiments import EXPERIMENTS, experiment_named, make_cells, settings_toml

    if name is None:
        raise InputError(f"which experiment? {', '.join(EXPERIMENTS)}; see octopia simulate --help")
    experiment = experiment_named(name)
    options = {
        "systems": None if systems is None else [part.strip() for part in systems.split(",")],
        "seeds": seeds,
        "scale": scale,
        "vary": vary,
        "overlay": overlay,
        "clusters": clusters,
        "tau": tau,
        "window_s": None if window_ms is None else window_ms / 1000,
        "publishers": publishers,
        "subscribers": subscribers,
        "notifications_per_publisher": notifications,
        "rate_per_minute": rate,
        "selectivity": selectivity,
        "shape": shape,
        "model": model,
        "quotes": quotes or None,
    }
    settings = _settings(experiment, small, file, sets or [], options, points)
    if any(":" in system for system in settings.systems):
        # a module of one's own is looked for where one is, as it is by python itself
        sys.path.insert(0, str(Path.cwd()))
    cells = make_cells(experiment, settings)
    if show_settings:
        out().file.write(settings_toml(settings))
        return
    place = folder if folder is not None else OUT_DEFAULT / experiment.name
    sys.exit(_run(experiment, settings, cells, place, jobs, keep_traces, again, write_docs))


simulate.__doc__ = _HELP


def _settings(
    experiment: "Experiment",
    is_small: bool,
    file: Path | None,
    sets: list[str],
    options: dict[str, Any],
    points: str | None,
) -> "Settings":
    from octopia.experiments import changed, parse_value, read_settings, small

    settings = small(experiment.settings) if is_small else experiment.settings
    if file is not None:
        settings = changed(settings, read_settings(file), str(file))
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text}: write KEY=VALUE, for example tau=5")
        settings = changed(settings, {key.strip(): parse_value(value.strip())}, f"--set {text}")
    for key, value in options.items():
        if value is not None:
            settings = changed(settings, {key: value}, f"--{key}")
    if points is not None:
        settings = changed(settings, {"points": [parse_value(part.strip()) for part in points.split(",")]}, "--points")
    elif settings.vary != experiment.settings.vary and settings.points == experiment.settings.points:
        raise InputError(f"--vary {settings.vary}: say through which values, with --points A,B")
    varied = options.get(settings.vary)
    if varied is not None and settings.vary != "overlay":
        raise InputError(f"{settings.vary} is what this experiment goes through: give --points {varied}")
    return settings


def _run(
    experiment: "Experiment",
    settings: "Settings",
    cells: "list[Cell]",
    folder: Path,
    jobs: int | None,
    keep_traces: bool,
    again: bool,
    docs: Path | None,
) -> int:
    from octopia.experiments import (
        REPORT_FILE,
        RUNS_FOLDER,
        cores,
        make_outcome,
        read_series,
        report_html,
        write_page,
        write_tables,
    )

    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: at least 1 run at a time is needed")
    try:
        (folder / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from None
    done = _sweep(experiment, cells, folder, jobs or cores(), keep_traces, again)
    results = done.results
    console = out()
    if results:
        series = read_series(results, folder / RUNS_FOLDER)
        outcome = make_outcome(experiment, settings, [row for result in results for row in result.rows], series)
        write_tables(outcome, results, series, folder)
        (folder / REPORT_FILE).write_text(report_html(outcome, results), encoding="utf-8")
        _print_outcome(console, outcome)
        if docs is not None and not done.interrupted:
            say(console, f"Renewed: {write_page(outcome, results, docs)}")
    return _print_end(console, done, len(cells), folder)


def _sweep(
    experiment: "Experiment", cells: "list[Cell]", folder: Path, jobs: int, keep_traces: bool, again: bool
) -> "Sweep":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from octopia.experiments import Failure, Result, sweep

    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False))
    with Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{experiment.name}: {len(cells)} runs", total=1.0)

        def tell(share: float, ended: int, news: "Result | Failure | None") -> None:
            progress.update(task, completed=share, description=f"{experiment.name}: {ended}/{len(cells)} runs")

        return sweep(cells, folder, jobs=jobs, keep_trace=lambda cell: keep_traces, again=again, on_progress=tell)


def _print_outcome(console: "Console", outcome: "Outcome") -> None:
    from rich.table import Table

    from octopia.experiments import BOUND, WHAT_IT_IS, axis_of, mean_rows, scale_note

    summary, experiment = outcome.summary, outcome.experiment
    seeds = len(summary.seeds)
    say(console, f"{experiment.title}: {experiment.question}", "bold")
    say(console, f"mean ± 95 % interval over {seeds} seed{'s' if seeds != 1 else ''}", "dim")
    if note := scale_note(outcome):
        say(console, note, "yellow")
    if BOUND in summary.systems:
        say(console, WHAT_IT_IS, "dim")
    for shown in experiment.shown:
        if shown.kind != "series":
            say(console)
            say(console, shown.title, "bold")
            table = Table()
            for head in (axis_of(outcome).split()[0], *(system.upper() for system in summary.systems)):
                table.add_column(head, justify="right", overflow="fold")
            for point, cells in mean_rows(summary, shown):
                table.add_row(point, *cells)
            console.print(table)
    _print_comparison(console, outcome)
    _print_goals(console, outcome)
    if outcome.no_plots:
        say(console, f"No plots: {outcome.no_plots}", "yellow")


def _print_comparison(console: "Console", outcome: "Outcome") -> None:
    from rich.table import Table

    from octopia.experiments import difference_text, ours_text, paper_text, sensitivity_rows

    heads, rows = ["the paper says", "paper", "ours", "difference", ""], []
    for each in outcome.comparisons:
        rows.append([each.result.words, paper_text(each), ours_text(each), difference_text(each), each.verdict])
    if outcome.sensitivity:
        heads, rows = ["the paper says", "paper", *outcome.sensitivity], sensitivity_rows(outcome)
    if not rows:
        return
    say(console)
    say(console, "Beside the paper", "bold")
    table = Table()
    for head in heads:
        table.add_column(head, justify="left" if head in ("the paper says", "") else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _print_goals(console: "Console", outcome: "Outcome") -> None:
    from rich.table import Table

    if outcome.goals:
        say(console)
        say(console, "Our own goals", "bold")
        table = Table()
        for head in ("goal", "bound", "ours", ""):
            table.add_column(head, justify="left" if head in ("goal", "") else "right", overflow="fold")
        for each in outcome.goals:
            table.add_row(*each.cells)
        console.print(table)


def _print_end(console: "Console", done: "Sweep", wanted: int, folder: Path) -> int:
    from rich.text import Text

    from octopia.experiments import REPORT_FILE

    trouble = err()
    broken = [(result, finding) for result in done.results for finding in result.broken]
    for failure in done.failures[:_SHOWN_MAX]:
        say(trouble, f"run {failure.cell.name} failed: {failure.reason}", "red")
    for result, finding in broken[:_SHOWN_MAX]:
        say(trouble, f"run {result.cell.name}: {finding.cases:,} × not true: {finding.rule}", "red")
        for example in finding.examples[:1]:
            say(trouble, f"  {example}", "dim")
    more = max(0, len(done.failures) - _SHOWN_MAX) + max(0, len(broken) - _SHOWN_MAX)
    if more:
        say(trouble, f"… and {more} more, see findings.json", "dim")
    finished = len(done.results)
    if done.interrupted:
        kept = f"{finished} of {wanted} runs are finished and complete in {folder}"
        say(trouble, f"Interrupted: {kept}; the same command goes on from there.", "yellow")
    elif not broken and not done.failures:
        again = f", {done.reused} of them from before" if done.reused else ""
        say(console, f"All checks passed in all {finished} runs{again}.", "green")
    if finished:
        say(console, Text.assemble("Report: ", (str(folder / REPORT_FILE), "bold")))
    if done.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_BROKEN if broken or done.failures else 0
