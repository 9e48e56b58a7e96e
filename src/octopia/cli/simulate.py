"""`octopia simulate NAME`: an experiment of the paper, or a variation of it, for all systems side by side.

This file handles options, progress and tables; `octopia.experiments` runs, measures and compares. Settings come from
the experiment or its small form, then a file, then `--set`, then the options; later ones win. Progress goes to standard
error, the tables and the folder's name to standard output. Exit codes: 0 all runs finished and every promise held, 1 a
run failed or broke a promise, 2 invalid options, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli import options
from octopia.cli.settings_options import with_options
from octopia.cli.terminal import err, out, progress_bar, say, table
from octopia.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.experiments import Cell, Experiment, Outcome, Settings, Sweep
    from octopia.testbed import Testbed

OUT_DEFAULT = Path("out/simulate")
EXIT_BROKEN = 1
EXIT_INTERRUPTED = 130
_SHOWN_MAX = 10
_HELP = """Run an experiment for all systems and compare them. Choose NAME from these:

publishers: cost of an advertisement with 100 to 500 publishers (delay, SRT size, IMs).

subscribers: cost of a subscription with 500 to 5000 subscribers (delay, PRT size, IMs).

delivery: cost of a notification with 500 to 5000 subscribers (matching delay, delivery delay, IMs).

delivery-publishers: the same with 100 to 500 publishers.

burst: one publisher sends 100,000 notifications at 100K, 80K, 60K or 40K a minute (maximum delay of 1000 notifications
in a row, Q_l at its broker, share under 1 s, stabilisation), compared with a computed bound.

bursts: gain of dynamic routing with 1 to 5 high-rate publishers, each in a separate cluster and at a different rate
(lead over SNR, delay of each burst, IDR's cases).

crash: notifications lost, repeated or late if k-1 brokers die at the worst places during the burst. Not in the paper.

slow-link: cost of any one link being ten times slower; the worst over all links. Not in the paper.

churn: brokers and messages affected by a change while clients come and go. A claim of the paper.

failures: cost of one dead broker, and the clients affected. The paper claims that it stays inside a cluster.

sites: effect on delay and traffic between sites if a site holds a cluster, or regions. Not in the paper.

priorities: gain of urgent subscribers during a burst, and cost for the others. Not in the paper.
"""
EPILOG = (
    "--scale reduces registrations (publishers, subscribers) or notifications (all others), and never changes rates, "
    "capacities or the load. Finished runs in DIR are not repeated. You can vary any setting: octopia simulate burst "
    "--vary tau --points 2,10,50. --show-settings lists them all."
)


def simulate(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the experiment.", show_default=False)
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Systems to compare; MODULE:NAME for your own.",
            show_default="snr,idr,fdr,tid,tid-dynamic; burst: and bound",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs per point.", show_default="5; crash, sites, priorities 3; slow-link 1"),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="S", help="Scale for a quick look, e.g. 0.05.", show_default="1")
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Nine brokers and few clients: takes seconds, for a first look.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for results.", show_default=f"{OUT_DEFAULT}/NAME"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Parallel runs; each run of a full burst takes 2 GB.",
            show_default="one a core",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="SETTINGS.toml", help="Read settings from a file.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting; repeatable. Nested keys work too: model.link.delay_ns=0.",
        ),
    ] = None,
    vary: Annotated[str | None, typer.Option(metavar="KEY", help="Setting to vary.")] = None,
    points: Annotated[
        str | None, typer.Option(metavar="A,B", help="Values of the varied setting; default: the paper's.")
    ] = None,
    overlay: Annotated[str | None, options.overlay_option("evaluation")] = None,
    clusters: Annotated[int | None, options.clusters_option(default=True)] = None,
    tau: Annotated[float | None, typer.Option(metavar="τ", help="τ of Eq. 10.", show_default="10")] = None,
    window_ms: Annotated[float | None, typer.Option(metavar="MS", help="t_w of Eq. 10.", show_default="50")] = None,
    publishers: Annotated[int | None, options.publishers_option("100")] = None,
    subscribers: Annotated[int | None, options.subscribers_option("2000")] = None,
    notifications: Annotated[int | None, options.notifications_option(default=True)] = None,
    rate: Annotated[float | None, options.rate_option("60")] = None,
    selectivity: Annotated[float | None, options.selectivity_option("0.02")] = None,
    shape: Annotated[str | None, options.shape_option("symbols")] = None,
    covering: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Covering of subscriptions: none, or per host or link.", show_default="none"),
    ] = None,
    model: Annotated[str | None, options.model_option("paper")] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="live: run real brokers over TCP in real time instead of simulating them.",
            show_default="simulated",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Live: broker processes per machine.", show_default="cores"),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Live: command to start a process elsewhere: 'ssh {machine} octopia join {experiment} -m {machine}'.",
            show_default="by hand",
        ),
    ] = "",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Live: address where other machines reach this one.")
    ] = "127.0.0.1:0",
    quotes: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Real quotes, CSV or Parquet, instead of generated ones.")
    ] = None,
    keep_traces: Annotated[
        bool, typer.Option("--keep-traces/--no-keep-traces", help="Keep the trace of every run (a full burst: 0.3 GB).")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run finished runs in DIR again.")] = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the settings as TOML and run nothing.")
    ] = False,
    write_docs: Annotated[
        Path | None, typer.Option(metavar="DOCS", help="Also write tables and plots to DOCS/evaluation.md.")
    ] = None,
) -> None:
    # The help text is `_HELP`, above.
    from octopia.experiments import EXPERIMENTS, experiment_named, make_cells, settings_toml

    if name is None:
        raise InputError(f"which experiment? {', '.join(EXPERIMENTS)}; see octopia simulate --help")
    experiment = experiment_named(name)
    given = {
        "systems": options.listed(systems),
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
        "covering": covering,
        "model": model,
        "host": host,
        "processes": processes,
        "quotes": quotes or None,
    }
    settings = _settings(experiment, small, file, sets or [], given, points)
    if any(":" in system for system in settings.systems):
        # A user's own module is looked up in the current folder, as Python itself does.
        sys.path.insert(0, str(Path.cwd()))
    cells = make_cells(experiment, settings)
    if show_settings:
        out().file.write(settings_toml(settings))
        return
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: at least 1 run at a time is needed")
    place = folder if folder is not None else OUT_DEFAULT / experiment.name
    how = {
        "jobs": jobs,
        "keep_trace": lambda cell: keep_traces,
        "again": again,
        "testbed": _testbed(start, listen),
    }
    sys.exit(_run(experiment, settings, cells, place, write_docs, **how))


simulate.__doc__ = _HELP


def _testbed(start: str, listen: str) -> "Testbed":
    from octopia.testbed import Testbed

    def wait(commands: Sequence[str]) -> None:
        say(err(), "Run each of these on its machine; the experiment begins when all have connected:", "bold")
        for command in commands:
            err().file.write(f"{command}\n")
        err().file.flush()

    return Testbed(listen=listen, start=start, on_wait=wait)


def _settings(
    experiment: "Experiment",
    is_small: bool,
    file: Path | None,
    sets: list[str],
    given: dict[str, Any],
    points: str | None,
) -> "Settings":
    from octopia.experiments import changed, parse_value, read_settings, small

    settings = small(experiment.settings) if is_small else experiment.settings
    if file is not None:
        settings = changed(settings, read_settings(file), str(file))
    settings = with_options(settings, sets, given)
    if points is not None:
        settings = changed(settings, {"points": [parse_value(part.strip()) for part in points.split(",")]}, "--points")
    elif settings.vary != experiment.settings.vary and settings.points == experiment.settings.points:
        raise InputError(f"--vary {settings.vary}: give its values with --points A,B")
    varied = given.get(settings.vary)
    if varied is not None and settings.vary != "overlay":
        raise InputError(f"this experiment varies {settings.vary}: give --points {varied}")
    return settings


def _run(
    experiment: "Experiment",
    settings: "Settings",
    cells: "list[Cell]",
    folder: Path,
    docs: Path | None,
    **how: Any,
) -> int:
    """Run the cells into a folder; `how` are the arguments of `sweep`."""
    from octopia.experiments import RUNS_FOLDER, sweep, write_page, write_report

    try:
        (folder / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from None
    with progress_bar(err()) as show:

        def tell(share: float, ended: int, news: object) -> None:
            show(f"{experiment.name}: {ended}/{len(cells)} runs", share)

        done = sweep(cells, folder, on_progress=tell, **how)
    console = out()
    if done.results:
        outcome = write_report(experiment, settings, done.results, folder)
        _print_outcome(console, outcome)
        if docs is not None and not done.interrupted:
            say(console, f"Renewed: {write_page(outcome, done.results, docs)}")
    return _print_end(console, done, len(cells), folder)


def _print_outcome(console: "Console", outcome: "Outcome") -> None:
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
            means = table(f"#{axis_of(outcome).split()[0]}", *(f"#{system.upper()}" for system in summary.systems))
            for point, cells in mean_rows(summary, shown):
                means.add_row(point, *cells)
            console.print(means)
    _print_comparison(console, outcome)
    if outcome.no_plots:
        say(console, f"No plots: {outcome.no_plots}", "yellow")


def _print_comparison(console: "Console", outcome: "Outcome") -> None:
    from octopia.experiments import difference_text, ours_text, paper_text, sensitivity_rows

    heads, rows = ["the paper says", "#paper", "#ours", "#difference", ""], []
    for each in outcome.comparisons:
        rows.append([each.result.words, paper_text(each), ours_text(each), difference_text(each), each.verdict])
    if outcome.sensitivity:
        heads = ["the paper says", "#paper", *(f"#{point}" for point in outcome.sensitivity)]
        rows = sensitivity_rows(outcome)
    _print_titled(console, "Beside the paper", heads, rows)
    _print_titled(console, "Our own goals", ["goal", "#bound", "#ours", ""], [each.cells for each in outcome.goals])


def _print_titled(console: "Console", title: str, heads: list[str], rows: list[list[str]]) -> None:
    if rows:
        say(console)
        say(console, title, "bold")
        shown = table(*heads)
        for row in rows:
            shown.add_row(*row)
        console.print(shown)


def _print_end(console: "Console", done: "Sweep", wanted: int, folder: Path) -> int:
    from rich.text import Text

    from octopia.experiments import REPORT_FILE, broken_promises

    trouble = err()
    broken = broken_promises(done.results)
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
        say(trouble, f"Interrupted: {kept}; run the same command again to continue.", "yellow")
    elif not broken and not done.failures:
        again = f", {done.reused} of them from before" if done.reused else ""
        say(console, f"All checks passed in all {finished} runs{again}.", "green")
    if finished:
        say(console, Text.assemble("Report: ", (str(folder / REPORT_FILE), "bold")))
    if done.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_BROKEN if broken or done.failures else 0
