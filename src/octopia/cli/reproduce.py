"""`octopia reproduce`: the paper's whole evaluation on Spark, one simulation per task, and one page for all four parts.

This file makes the cells, shows progress and writes the pages. `octopia.pipeline` runs the simulations;
`octopia.experiments` measures, compares and plots. Each experiment writes the files of `octopia simulate` to
`DIR/EXPERIMENT`, and `DIR/index.html` shows them all. With `--grid`, DIR has such a folder for every combination of
values, and the page shows them one after the other. Exit codes: 0 all runs finished and every promise held, 1 a run
failed or broke a promise, 2 invalid options, 130 interrupted: the same command resumes from there.
"""

import sys
from html import escape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from octopia.cli.options import ConfOption, MasterOption, RetriesOption, listed, systems_option
from octopia.cli.settings_options import parse_set
from octopia.cli.terminal import err, out, progress_bar, say, table
from octopia.errors import InputError

if TYPE_CHECKING:
    from octopia.experiments import Cell, Experiment, Settings, Sweep
    from octopia.pipeline import SparkSettings

OUT_DEFAULT = Path("out/reproduce")
PAGE = "index.html"
_SHOWN_MAX = 10
# A typo in a grid is reported before a thousand runs start.
_COMBINATIONS_MAX = 100


class _Part(NamedTuple):
    """An experiment with one combination of the grid's values; its folder is `place/EXPERIMENT`."""

    combination: str
    place: Path
    experiment: "Experiment"
    settings: "Settings"
    cells: "list[Cell]"

    @property
    def title(self) -> str:
        return f"{self.experiment.name}, {self.combination}" if self.combination else self.experiment.name


def reproduce(
    names: Annotated[
        str | None,
        typer.Option("--experiments", metavar="A,B", help="Experiments to run.", show_default="all six of the paper's"),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(metavar="S", help="Scale for a quick look, e.g. 0.02; 1 is the paper's scale and takes hours."),
    ] = 1.0,
    systems: Annotated[str | None, systems_option("as octopia simulate")] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Number of runs of each point, one per seed.", show_default="5")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting for all experiments, as for octopia simulate."),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Also vary a setting over these values; repeat it for combinations."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for results, on a file system that all machines share.")
    ] = OUT_DEFAULT,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    retries: RetriesOption = 1,
) -> None:
    """Run the paper's whole evaluation on Spark and write one page that compares our numbers with the paper's.

    It covers the paper's six experiments of octopia simulate for all systems, one simulation per task. Finished runs
    in DIR are not run again.
    """
    from octopia.experiments import EXPERIMENTS, experiment_named
    from octopia.pipeline import SparkSettings, parse_conf

    if "://" in str(folder) or str(folder).startswith(("hdfs:", "s3a:")):
        raise InputError(f"--out {folder}: give a folder that all machines see, not an address")
    changes: dict[str, Any] = {"scale": scale}
    if systems is not None:
        changes["systems"] = listed(systems)
    if seeds is not None:
        changes["seeds"] = seeds
    changes |= dict(parse_set(text) for text in sets or [])
    paper = [experiment for experiment in EXPERIMENTS.values() if experiment.paper]
    wanted = [experiment_named(name.strip()) for name in names.split(",")] if names else paper
    parts = _parts(wanted, changes, grid or [], folder)
    spark = SparkSettings(master=master, conf=parse_conf(conf or []))
    sys.exit(_run(parts, folder, spark, retries))


def _axes(grid: list[str]) -> dict[str, list[str]]:
    axes: dict[str, list[str]] = {}
    for text in grid:
        key, equals, values = text.partition("=")
        if not equals:
            raise InputError(f"--grid {text}: write KEY=A,B, for example subscribers=500,2000")
        if key.strip() in axes:
            raise InputError(f"--grid {text}: {key.strip()} is there twice; write all its values in one --grid")
        axes[key.strip()] = [value.strip() for value in values.split(",")]
    return axes


def _parts(wanted: "list[Experiment]", changes: dict[str, Any], grid: list[str], folder: Path) -> list[_Part]:
    from octopia.experiments import changed, make_cells, parse_value

    axes = _axes(grid)
    combinations = list(product(*axes.values()))
    if len(combinations) > _COMBINATIONS_MAX:
        raise InputError(f"--grid: {len(combinations):,} combinations are more than {_COMBINATIONS_MAX}")
    parts = []
    for combination in combinations:
        own = dict(zip(axes, combination, strict=True))
        label = ",".join(f"{key}={value}" for key, value in own.items())
        for experiment in wanted:
            where = f"experiment {experiment.name}"
            settings = changed(experiment.settings, changes, where)
            for key, value in own.items():
                if key == settings.vary:
                    raise InputError(f"--grid {key}: {where} goes through {key} itself; give --set points=[…] for it")
                settings = changed(settings, {key: parse_value(value)}, f"--grid {key}={value}")
            parts.append(
                _Part(label, folder / label.replace("/", "_"), experiment, settings, make_cells(experiment, settings))
            )
    return parts


def _run(parts: list[_Part], folder: Path, spark: "SparkSettings", retries: int) -> int:
    for part in parts:
        try:
            (part.place / part.experiment.name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made: {error.strerror or error}") from None
    try:
        done = _sweep(parts, spark, retries)
    except KeyboardInterrupt:
        say(err(), f"Interrupted: finished runs are kept in {folder}; run it again to continue.", "yellow")
        raise
    return _show(parts, done, folder)


def _sweep(parts: list[_Part], settings: "SparkSettings", retries: int) -> "dict[Path, Sweep]":
    """The outcome of the runs, by the folder of their combination."""
    from octopia.pipeline import LazySession, spark_sweep

    cells: dict[Path, list[Cell]] = {}
    for part in parts:
        cells.setdefault(part.place, []).extend(part.cells)
    done: dict[Path, Sweep] = {}
    with progress_bar(err(), float(len(cells))) as show:

        def tell(share: float, ended: int, of: int) -> None:
            name = f"{len(done) + 1}/{len(cells)} combinations, " if len(cells) > 1 else ""
            show(f"{name}{ended}/{of} runs", len(done) + share)

        with LazySession(settings) as sessions:
            for place, own in cells.items():
                done[place] = spark_sweep(sessions, own, place, retries=retries, on_share=tell)
    return done


def _show(parts: list[_Part], done: "dict[Path, Sweep]", folder: Path) -> int:
    from rich.text import Text

    from octopia.experiments import ours_text, page_html, paper_text, report_body, write_report

    console, bodies = out(), []
    heads = ("experiment", "the paper says", "#paper", "#ours", "")
    beside = table(*heads, title="Beside the paper", title_justify="left")
    for part in parts:
        experiment = part.experiment
        names = {cell.name for cell in part.cells}
        found = done[part.place].results
        results = [each for each in found if each.cell.experiment == experiment.name and each.cell.name in names]
        if not results:
            continue
        outcome = write_report(experiment, part.settings, results, part.place / experiment.name)
        head = f"<h1>{escape(part.combination)}</h1>\n" if part.combination else ""
        bodies.append(head + report_body(outcome, results))
        for each in outcome.comparisons:
            beside.add_row(part.title, each.result.words, paper_text(each), ours_text(each), each.verdict)
        beside.add_section()
    page = folder / PAGE
    page.write_text(page_html("the paper's evaluation", "\n<hr>\n".join(bodies)), encoding="utf-8")
    console.print(beside)
    code = _trouble(list(done.values()))
    if not code:
        reused, count = (
            sum(number) for number in zip(*((d.reused, len(d.results)) for d in done.values()), strict=True)
        )
        again = f", {reused} of them from before" if reused else ""
        say(console, f"All checks passed in all {count} runs{again}.", "green")
    say(console, Text.assemble("Report: ", (str(page), "bold")))
    return code


def _trouble(done: "list[Sweep]") -> int:
    from octopia.experiments import broken_promises

    console = err()
    broken = broken_promises(result for one in done for result in one.results)
    failures = [failure for one in done for failure in one.failures]
    lines = [f"run {each.cell.experiment} {each.cell.name} failed: {each.reason}" for each in failures]
    lines += [f"run {each.cell.experiment} {each.cell.name}: not true: {finding.rule}" for each, finding in broken]
    for line in lines[:_SHOWN_MAX]:
        say(console, line, "red")
    if len(lines) > _SHOWN_MAX:
        say(console, f"… and {len(lines) - _SHOWN_MAX} more", "dim")
    return 1 if lines else 0
