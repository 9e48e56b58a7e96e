"""`octopia plan`: find a better overlay for a trace and prove it by replaying the workload.

Progress goes to standard error, the table and the report's path to standard output. Exit codes: 0 the plan is ready and
every replay passed its checks, 1 a replay failed its checks, 2 invalid options, 130 interrupted.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.options import ConfOption, MasterOption, SeedOption
from octopia.cli.terminal import err, out, say, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from octopia.planning import Measured, Plan

EXIT_BROKEN = 1
EPILOG = (
    "DIR is a folder of octopia demo, octopia pipeline run or octopia serve --record, or one run of octopia simulate "
    "--keep-traces (live or simulated). The plan is made from the first part of every publisher's notifications and "
    "proved on the rest. See docs/planning.md."
)


def plan(
    source: Annotated[str, typer.Argument(metavar="DIR", help="Folder with the trace.", show_default=False)],
    system: Annotated[
        str | None, typer.Option(metavar="NAME", help="Plan for this routing.", show_default="the first in DIR")
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder for the report.", show_default="DIR/plan")
    ] = None,
    plan_share: Annotated[float, typer.Option(metavar="SHARE", help="Share of notifications to plan with.")] = 0.5,
    clients_max: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Maximum number of clients per broker.", show_default="those of the fullest now"
        ),
    ] = None,
    links_max: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of links.", show_default="twice as many as now")
    ] = None,
    clusters_min: Annotated[
        int | None, typer.Option(metavar="K", help="Minimum number of clusters.", show_default="as many as now")
    ] = None,
    moves_max: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of clients to move.", show_default="any number")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Clients not to move, e.g. 'p*'; repeatable.")
    ] = None,
    likeness_min: Annotated[float, typer.Option(metavar="SHARE", help="Minimum similarity of filters to merge.")] = 0.9,
    seed: SeedOption = 1,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole plan as JSON.")] = False,
) -> None:
    """Find a better overlay for the workload of a trace: clusters, tree, and placement of clients and brokers.

    Every proposal keeps the number of brokers. The simulator replays the workload before and after the change.
    """
    import msgspec

    from octopia.pipeline import PlanOptions, SparkSettings, make_plan, parse_conf

    options = PlanOptions(
        system, plan_share, clients_max, links_max, clusters_min, moves_max, tuple(keep or ()), likeness_min, seed
    )
    target = folder if folder is not None else f"{source.rstrip('/')}/plan"
    settings = SparkSettings(master=master, conf=parse_conf(conf or []))
    with _progress() as tell:
        made = make_plan(source, target, options, settings=settings, on_step=tell)
    if as_json:
        out().file.write(msgspec.json.encode(made, order="deterministic").decode() + "\n")
    else:
        _show(made, target)
    sys.exit(EXIT_BROKEN if made.broken else 0)


@contextmanager
def _progress() -> "Iterator[Callable[[str, float], None]]":
    """A progress line on a terminal; elsewhere, a line per step."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        last = ""

        def tell(step: str, share: float) -> None:
            nonlocal last
            bar.update(task, description=step, completed=share)
            name = step.partition(":")[0]
            if not console.is_terminal and name != last:
                last = name
                say(console, f"plan: {name}", "dim")

        yield tell


def _show(made: "Plan", target: str) -> None:
    from rich.text import Text

    console = out()
    heads = ("clusters", "clients moved", "messages", "", "mean delay", "", "p99 delay")
    shown = table("proposal", *(f"#{head}" for head in heads))
    proposals = {each.name: each for each in (made.before, *made.proposals)}
    rejected = made.rejected
    for each in made.measured:
        proposal: Any = proposals[each.name]
        name = f"{each.name} (rejected)" if each.name in rejected else each.name
        shown.add_row(name, str(proposal.clusters), f"{proposal.moved_clients:,}", *_cells(made, each))
    console.print(shown)
    for name, why in rejected.items():
        say(console, f"{name} is rejected: {why} in its replay.", "dim")
    for title in ("present overlay", "proposed overlay"):
        drawn = [each.copies for each in made.controls if each.name.endswith(title)]
        if drawn:
            say(console, f"Clients at random, {title}: {min(drawn):,} to {max(drawn):,} messages.", "dim")
    say(console, _result(made), "bold")
    say(console, Text.assemble("Report: ", (f"{target.rstrip('/')}/index.html", "bold")))


def _cells(made: "Plan", each: "Measured") -> list[str]:
    from octopia.experiments import shown_value
    from octopia.planning import percent

    first = each is made.measured[0]
    return [
        f"{each.copies:,}",
        "" if first else percent(made.change(each.name, "copies")),
        shown_value(each.delay_mean_s, "s"),
        "" if first else percent(made.change(each.name, "delay_mean_s")),
        shown_value(each.delay_p99_s, "s"),
    ]


def _result(made: "Plan") -> str:
    from octopia.planning import headline

    replays = len(made.measured) + len(made.controls) + len(made.other_routings)
    checks = f"all {replays} replays passed all checks" if not made.broken else f"checks failed: {made.broken[0]}"
    which = ", ".join(filter(None, (made.recommended, made.routing.upper())))
    return f"{headline(made)} ({which}); {checks}."
