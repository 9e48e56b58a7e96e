"""`octopia demo`: the paper's Fig. 7 and 8 replayed under SNR, IDR and TID, as a table and a page of pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import err, out

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.experiments.scenes import PublishFigures

DEFAULT_OUT = Path("out/demo")


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the report goes; made if it is not there.")
    ] = DEFAULT_OUT,
) -> None:
    """Replay the paper's scenes under three routings; show the counts and write a page with the drawings."""
    from rich.progress import Progress

    from octopia.errors import InputError
    from octopia.experiments.scenes import PAPER_NOTES, ROUTINGS, SCENES, run_scene
    from octopia.experiments.scenes_report import write_report

    figures: list[PublishFigures] = []
    with Progress(console=err(), transient=True) as progress:
        task = progress.add_task("Replaying scenes", total=len(SCENES) * len(ROUTINGS) + 1)
        for scene in SCENES:
            runs = [run_scene(scene, routing) for routing in ROUTINGS]
            progress.advance(task, len(ROUTINGS))
            figures.extend(figure for same in zip(*runs, strict=True) for figure in same)
        progress.update(task, description="Drawing")
        report = folder / "index.html"
        try:
            write_report(figures, report)
        except OSError as error:
            raise InputError(f"{report}: cannot be written: {error.strerror or error}") from None
        progress.advance(task)
    console = out()
    _table(console, figures)
    for (scene, routing), note in PAPER_NOTES.items():
        console.print(f"[dim]{scene}, {routing.upper()}: {note}[/]")
    console.print(f"\nReport: [bold]{report}[/]", soft_wrap=True)


def _table(console: "Console", figures: "list[PublishFigures]") -> None:
    from rich.table import Table

    table = Table(title="The paper's scenes: messages between brokers, ours (paper's)", title_justify="left")
    table.add_column("scene")
    table.add_column("notification")
    table.add_column("routing")
    table.add_column("messages", justify="right")
    table.add_column("deliveries", justify="right")
    table.add_column("longest way", justify="right")
    table.add_column("CIVs carried")
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
