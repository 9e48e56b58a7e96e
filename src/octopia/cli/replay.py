"""`octopia replay FILE`: run a scenario step by step and tell every message."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import out, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.embedded import Hop, Replay, Step, StepRecord

MESSAGES_SHOWN_MAX = 200

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file: JSON, or TOML by its suffix.")]
RoutingOption = Annotated[
    str | None,
    typer.Option("--routing", "-r", metavar="ROUTING", help="snr, idr, tid or tid-dynamic; default: the file's own."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of text for a person.")]


def replay(
    file: FileArgument,
    routing: RoutingOption = None,
    as_json: JsonOption = False,
    explained: Annotated[
        bool, typer.Option("--explain", help="Also say why each client did, or did not, get each notification.")
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE.svg|png", help="Draw the overlay with the last publish step's copies."),
    ] = None,
) -> None:
    """Replay a scenario: every step until nothing moves, every message told.

    A scenario holds a tree, a number of clusters, a routing and steps (advertise, subscribe, publish, overload, …); see
    docs/reference/scenario.md. Bad files are refused whole, with the place of the fault, before the first step runs.
    """
    from octopia.embedded import explain, load_scenario, to_jsonable
    from octopia.embedded import replay as run

    result = run(load_scenario(file), routing)
    answers = explain(result) if explained else []
    if draw is not None:
        _draw(result, draw)
    if as_json:
        extra = {"explanations": [answer.to_jsonable() for answer in answers]} if explained else {}
        print_json(to_jsonable(result) | extra)
        return
    console = out()
    _show(console, result)
    if answers:
        from octopia.cli.explain import show_answers

        show_answers(console, answers)
    if draw is not None:
        console.print(f"\nDrawn in {draw}")


def _show(console: "Console", result: "Replay") -> None:
    from rich.text import Text

    from octopia.drawing import draw_text

    if result.scenario.title:
        console.print(Text(result.scenario.title, style="bold"))
    console.print(Text(f"{result.scenario.scot}, routing {result.routing}", style="dim"))
    console.print()
    console.print(draw_text(result.scenario.scot))
    for record in result.steps:
        _show_step(console, record, result.scenario.scot.clusters)
    _show_end(console, result)


def _show_step(console: "Console", record: "StepRecord", clusters: int) -> None:
    from rich.text import Text

    console.print()
    heading = Text(f"step {record.step.number}  ", style="bold cyan")
    heading.append(describe(record.step), style="bold")
    messages = len(record.messages)
    heading.append(f"  {messages} message{'' if messages == 1 else 's'}", style="dim")
    console.print(heading)
    for hop in record.messages[:MESSAGES_SHOWN_MAX]:
        console.print(Text("  " + _hop_text(hop, clusters)))
    if messages > MESSAGES_SHOWN_MAX:
        console.print(Text(f"  … and {messages - MESSAGES_SHOWN_MAX} more (--json tells them all)", style="dim"))
    for delivery in record.deliveries:
        order = delivery.order
        console.print(
            Text(f"  {order.client} gets {order.id} at {delivery.broker} for {', '.join(order.subscriptions)}", "green")
        )
    for refusal in record.refusals:
        console.print(Text(f"  refused: {refusal.reason}", style="red"))


def _hop_text(hop: "Hop", clusters: int) -> str:
    from octopia.embedded import civ_string

    carried = civ_string(hop.message, clusters)
    return f"{hop.message.kind:<11} {hop.sender} → {hop.receiver}" + (f"  CIV {carried}" if carried else "")


def describe(step: "Step") -> str:
    """A step in words."""
    if step.neighbour is not None:
        return f"{step.do} {step.broker} → {step.neighbour}" + (f", queue {step.queue}" if step.queue else "")
    event = step.event
    id = getattr(event, "id", "")
    filter = getattr(event, "filter", None) or getattr(event, "notification", None)
    what = f" {id}" if id else ""
    return f"{getattr(event, 'client', '')} at {step.broker}: {step.do}{what}" + (f"  {filter}" if filter else "")


def _show_end(console: "Console", result: "Replay") -> None:
    from rich.table import Table

    console.print()
    tables = Table(title="Tables at the end", title_justify="left", box=None, pad_edge=False)
    for column in ("broker", "SRT", "PRT"):
        tables.add_column(column, justify="left" if column == "broker" else "right")
    filled = [t for t in result.tables if t.srt or t.prt]
    for sizes in filled[:MESSAGES_SHOWN_MAX]:
        tables.add_row(str(sizes.broker), str(sizes.srt), str(sizes.prt))
    console.print(tables if filled else "All tables are empty at the end.")
    if result.advertisements:
        console.print()
        advertisements = Table(title="Advertisements in force", title_justify="left", box=None, pad_edge=False)
        for column in ("id", "client", "host broker", "CIV", "target clusters"):
            advertisements.add_column(column)
        for a in result.advertisements:
            targets = "–" if a.target_clusters is None else ", ".join(map(str, a.target_clusters)) or "none"
            advertisements.add_row(a.id, a.client, str(a.broker), a.civ or "–", targets)
        console.print(advertisements)


def _draw(result: "Replay", path: Path) -> None:
    from octopia.drawing import draw_overlay
    from octopia.experiments.scenes import scene_of

    published = [record for record in result.steps if record.step.do == "publish"]
    scene = scene_of(result, published[-1]) if published else None
    draw_overlay(result.scenario.scot, path, scene=scene)
