"""`octopia scenes`: the paper's Fig. 7 and 8, and our scenes, under four routings, as a table and a page of pictures.

This file runs the experiment and shows its figures; it counts nothing itself. The table fits 80 columns. Progress goes
to standard error, and only if that is a terminal.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.terminal import err, out, say

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.experiments.scenes import PublishFigures

DEFAULT_OUT = Path("out/scenes")


def scenes(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the report; created if missing.")
    ] = DEFAULT_OUT,
) -> None:
    """Replay the paper's scenes and ours under four routings, show the counts and write a page with the drawings."""
    from rich.text import Text

    from octopia.experiments.scenes import PAPER_NOTES

    report = folder / "index.html"
    figures = replay_scenes(report)
    console = out()
    _table(console, figures)
    for (scene, routing), note in PAPER_NOTES.items():
        say(console, f"{scene}, {routing.upper()}: {note}", "dim")
    say(console)
    say(console, Text.assemble("Report: ", (str(report), "bold")))


def replay_scenes(report: Path, *, quiet: bool = False) -> "list[PublishFigures]":
    """Replay all scenes and write the page; `quiet` without a progress bar, next to other work that has one."""
    from rich.progress import Progress

    from octopia.errors import InputError
    from octopia.experiments.scenes import ROUTINGS, SCENES, run_scene
    from octopia.experiments.scenes_report import write_report

    figures: list[PublishFigures] = []
    console = err()
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("Replaying scenes", total=len(SCENES) * len(ROUTINGS) + 1)
        for scene in SCENES:
            runs = [run_scene(scene, routing) for routing in ROUTINGS]
            progress.advance(task, len(ROUTINGS))
            figures.extend(figure for same in zip(*runs, strict=True) for figure in same)
        progress.update(task, description="Drawing")
        try:
            write_report(figures, report)
        except OSError as error:
            raise InputError(f"{report}: cannot be written: {error.strerror or error}") from None
        progress.advance(task)
    return figures


def _table(console: "Console", figures: "list[PublishFigures]") -> None:
    from rich.table import Table

    title = "Scenes: messages between brokers (in brackets the paper's count)"
    say(console, title, "bold")
    table = Table()
    for column in ("scene", "notification", "routing", "messages", "deliveries", "hops", "CIVs"):
        right = column in ("messages", "deliveries", "hops")
        # On a narrow terminal, cells wrap and nothing is lost.
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    last = ""
    for f in figures:
        paper = "" if f.paper_messages is None else f" ({f.paper_messages})"
        here = f"{f.scene} {f.notification}"
        if last and here != last:
            table.add_section()
        table.add_row(
            f.scene if here != last else "",
            f"{f.notification} of {f.publisher}" if here != last else "",
            f.routing.upper(),
            f"{f.messages}{paper}",
            str(f.deliveries),
            str(f.hops_max),
            ", ".join(f.civs) or "–",
        )
        last = here
    console.print(table)
    say(console, "hops: on the longest way to a subscriber. CIVs: the bit vectors that copies carried.", "dim")
