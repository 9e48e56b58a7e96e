"""`octopia reproduce`: the paper's whole evaluation on Spark, a simulation per task, and one page of all four parts.

Rules of this file: it makes the cells, shows progress and writes the pages; running is `octopia.pipeline`'s, measuring,
comparing and showing `octopia.experiments`'. What each experiment leaves is what `octopia simulate` leaves, in
`DIR/EXPERIMENT`; `DIR/index.html` shows all. Exit codes: 0 all runs are done and every promise held, 1 one failed or
broke a promise, 2 what was asked makes no sense, 130 interrupted: the same command goes on from there.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import err, out, say
from octopia.cli.pipeline import ConfOption, MasterOption
from octopia.errors import InputError

if TYPE_CHECKING:
    from octopia.experiments import Cell, Experiment, Settings, Sweep
    from octopia.pipeline import SparkSettings

OUT_DEFAULT = Path("out/reproduce")
PAGE = "index.html"
_SHOWN_MAX = 10


def reproduce(
    names: Annotated[
        str | None,
        typer.Option(
            "--experiments", metavar="A,B", help="Some of them.", show_default="publishers,subscribers,delivery,burst"
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(metavar="S", help="A quick look: 0.02 is a fiftieth. 1 is the paper's, and takes hours.")
    ] = 1.0,
    systems: Annotated[
        str | None, typer.Option(metavar="A,B", help="Systems to compare.", show_default="snr,idr,tid,tid-dynamic")
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Runs of each, by seed.", show_default="5")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of all experiments, as for octopia simulate."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where results go; a folder that all machines see.")
    ] = OUT_DEFAULT,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    retries: Annotated[int, typer.Option(metavar="N", help="A run that fails is tried again so often.")] = 1,
) -> None:
    """Run the paper's whole evaluation on Spark and write one page with our numbers beside the paper's.

    All four experiments of octopia simulate, for all systems, one simulation per task. Runs that are finished in DIR
    are not run again.
    """
    from octopia.experiments import EXPERIMENTS, changed, experiment_named, make_cells, parse_value
    from octopia.pipeline import SparkSettings, parse_conf

    if "://" in str(folder) or str(folder).startswith(("hdfs:", "s3a:")):
        raise InputError(f"--out {folder}: give a folder that all machines see, not an address")
    changes: dict[str, Any] = {"scale": scale}
    if systems is not None:
        changes["systems"] = [part.strip() for part in systems.split(",")]
    if seeds is not None:
        changes["seeds"] = seeds
    for text in sets or []:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text}: write KEY=VALUE, for example tau=5")
        changes[key.strip()] = parse_value(value.strip())
    wanted = [experiment_named(name.strip()) for name in names.split(",")] if names else list(EXPERIMENTS.values())
    parts = []
    for experiment in wanted:
        settings = changed(experiment.settings, changes, f"experiment {experiment.name}")
        parts.append((experiment, settings, make_cells(experiment, settings)))
    spark = SparkSettings(master=master, conf=parse_conf(conf or []))
    sys.exit(_run(parts, folder, spark, retries))


def _run(
    parts: "list[tuple[Experiment, Settings, list[Cell]]]", folder: Path, spark: "SparkSettings", retries: int
) -> int:
    for experiment, _, _ in parts:
        try:
            (folder / experiment.name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from None
    try:
        done = _sweep([cell for _, _, cells in parts for cell in cells], folder, spark, retries)
    except KeyboardInterrupt:
        say(err(), f"Interrupted: finished runs are kept in {folder}; the same command goes on from there.", "yellow")
        raise
    return _show(parts, done, folder)


def _sweep(cells: "list[Cell]", folder: Path, settings: "SparkSettings", retries: int) -> "Sweep":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from octopia.pipeline import LazySession, spark_sweep

    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=1.0)

        def tell(share: float, ended: int, of: int) -> None:
            progress.update(task, completed=share, description=f"{ended}/{of} runs")

        with LazySession(settings) as sessions:
            return spark_sweep(sessions, cells, folder, retries=retries, on_share=tell)


def _show(parts: "list[tuple[Experiment, Settings, list[Cell]]]", done: "Sweep", folder: Path) -> int:
    from rich.table import Table
    from rich.text import Text

    from octopia.experiments import (
        REPORT_FILE,
        RUNS_FOLDER,
        make_outcome,
        ours_text,
        page_html,
        paper_text,
        read_series,
        report_body,
        report_html,
        write_tables,
    )

    console, bodies = out(), []
    table = Table(title="Beside the paper", title_justify="left")
    for number, column in enumerate(("experiment", "the paper says", "paper", "ours", "")):
        table.add_column(column, justify="right" if number in (2, 3) else "left", overflow="fold")
    for experiment, settings, cells in parts:
        names = {cell.name for cell in cells}
        results = [each for each in done.results if each.cell.experiment == experiment.name and each.cell.name in names]
        if not results:
            continue
        own = folder / experiment.name
        series = read_series(results, own / RUNS_FOLDER)
        outcome = make_outcome(experiment, settings, [row for each in results for row in each.rows], series)
        write_tables(outcome, results, series, own)
        (own / REPORT_FILE).write_text(report_html(outcome, results), encoding="utf-8")
        bodies.append(report_body(outcome, results))
        for each in outcome.comparisons:
            table.add_row(experiment.name, each.result.says, paper_text(each), ours_text(each), each.verdict)
        table.add_section()
    page = folder / PAGE
    page.write_text(page_html("the paper's evaluation", "\n<hr>\n".join(bodies)), encoding="utf-8")
    console.print(table)
    code = _trouble(done)
    if not code:
        again = f", {done.reused} of them from before" if done.reused else ""
        say(console, f"All checks passed in all {len(done.results)} runs{again}.", "green")
    say(console, Text.assemble("Report: ", (str(page), "bold")))
    return code


def _trouble(done: "Sweep") -> int:
    console = err()
    broken = [(result, finding) for result in done.results for finding in result.broken]
    lines = [f"run {each.cell.experiment} {each.cell.name} failed: {each.reason}" for each in done.failures]
    lines += [f"run {each.cell.experiment} {each.cell.name}: not true: {finding.rule}" for each, finding in broken]
    for line in lines[:_SHOWN_MAX]:
        say(console, line, "red")
    if len(lines) > _SHOWN_MAX:
        say(console, f"… and {len(lines) - _SHOWN_MAX} more", "dim")
    return 1 if lines else 0
