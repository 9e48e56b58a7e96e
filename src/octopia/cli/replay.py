"""`octopia replay FILE`: run a scenario step by step and show every message.

This file prints the record of `octopia.embedded.replay` and counts nothing itself. With `--json`, standard output is
the record and nothing else. The text output adds a drawing of the overlay and cuts long lists short, with a count.
Heavy imports wait until the command runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.explain import show_answers
from octopia.cli.options import JsonOption, RoutingOption, ScenarioArgument
from octopia.cli.terminal import out, print_json, printable, say

if TYPE_CHECKING:
    from rich.console import Console

    from octopia.embedded import Hop, Replay, Step, StepRecord
    from octopia.topology import Scot

# Per step, and per table at the end; use --json for longer lists.
SHOWN_MAX = 200
CLUSTERS_SHOWN_MAX = 12
# Kinds of messages that reach every broker: counted, not listed.
_FLOODED = "link_news"


def replay(
    file: ScenarioArgument,
    routing: RoutingOption = None,
    as_json: JsonOption = False,
    explained: Annotated[
        bool, typer.Option("--explain", help="Also explain why each client did or did not get each notification.")
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw", metavar="FILE.svg|png", help="Draw the overlay with the copies of the last publish step."
        ),
    ] = None,
) -> None:
    """Replay a scenario: run each step until no message is in flight, and show every message.

    The file format is described in docs/reference/scenario.md. A bad file is rejected before the first step runs.
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
    if explained:
        say(console)
        show_answers(console, answers)
    if draw is not None:
        say(console)
        say(console, f"drawn: {draw}")


def _show(console: "Console", result: "Replay") -> None:
    from rich.text import Text

    from octopia.drawing import draw_text

    if result.scenario.title:
        say(console, result.scenario.title, "bold")
    covering = result.scenario.covering_under(result.routing)
    per = "" if covering == "none" else f", covering per {covering}"
    say(console, f"{result.scenario.scot}, routing {result.routing}{per}", "dim")
    say(console)
    drawn = Text(draw_text(result.scenario.scot))
    if console.is_terminal:
        # A narrow terminal may cut the grid short, but must not fold it.
        console.print(drawn, no_wrap=True, overflow="ellipsis")
    else:
        say(console, drawn)
    for record in result.steps:
        _show_step(console, record, result.scenario.scot)
    _show_tables(console, result)
    _show_advertisements(console, result)


def _show_step(console: "Console", record: "StepRecord", scot: "Scot") -> None:
    from rich.text import Text

    say(console)
    count = len(record.messages)
    say(
        console,
        Text.assemble(
            (f"step {record.step.number}  ", "bold cyan"),
            (describe(record.step), "bold"),
            (f"  {count:,} message{'' if count == 1 else 's'}", "dim"),
        ),
    )
    if record.why is not None:
        say(console, f"  takes {record.why}", "cyan")
        _show_order(console, record, scot)
    told = [hop for hop in record.messages if hop.message.kind != _FLOODED]
    _show_some(console, [_hop_text(hop, record, scot) for hop in told[:SHOWN_MAX]], len(told), "messages", "")
    if len(told) < count:
        say(console, f"  {_FLOODED:<11} {count - len(told):,} messages: every broker hears which links are down", "dim")
    lost = [f"{_hop_text(hop, record, scot)}  lost: this link is down" for hop in record.lost[:SHOWN_MAX]]
    _show_some(console, lost, len(record.lost), "lost copies", "red")
    gets = (
        f"{d.client} gets {d.id} at {d.broker} for {', '.join(d.subscriptions)}" for d in record.deliveries[:SHOWN_MAX]
    )
    _show_some(console, list(gets), len(record.deliveries), "deliveries", "green")
    for refusal in record.refusals:
        say(console, f"  refused: {printable(refusal.reason)}", "red")


def _show_order(console: "Console", record: "StepRecord", scot: "Scot") -> None:
    """The order stamp, which is the same on all copies."""
    from octopia.embedded import order_of

    stamps = (getattr(hop.message, "stamp", None) for hop in record.messages)
    stamp = next((stamp for stamp in stamps if stamp is not None), None)
    order = None if stamp is None else order_of(scot, stamp)
    if order is not None:
        say(console, f"  {order}", "dim")


def _show_some(console: "Console", lines: list[str], count: int, noun: str, style: str) -> None:
    for line in lines:
        say(console, f"  {line}", style)
    if count > len(lines):
        say(console, f"  … and {count - len(lines):,} more {noun} (--json tells them all)", "dim")


def _hop_text(hop: "Hop", record: "StepRecord", scot: "Scot") -> str:
    from octopia.embedded import civ_string, named

    text = f"{hop.message.kind:<11} {hop.sender} → {hop.receiver}"
    way = record.way_of(scot, hop)
    if way is not None:
        return f"{text}  for {named(way.destinations)}: {way.words}"
    carried = civ_string(hop.message, scot.clusters)
    return f"{text}  CIV {carried}" if carried else text


def describe(step: "Step") -> str:
    """A step in words."""
    if step.do == "crash":
        return f"{step.broker} dies"
    if step.neighbour is not None and step.do in ("cut", "mend"):
        return f"the link {step.broker}-{step.neighbour} {'goes down' if step.do == 'cut' else 'comes up'}"
    if step.neighbour is not None:
        queue = f", queue {step.queue}" if step.queue else ""
        delay = f", messages take {step.delay + 1} times as long" if step.delay else ""
        return f"{step.do} {step.broker} → {step.neighbour}{queue}{delay}"
    event = step.event
    id = getattr(event, "id", "")
    filter = getattr(event, "filter", None) or getattr(event, "notification", None)
    what = f" {id}" if id else ""
    text = f"  {printable(str(filter))}" if filter else ""
    return f"{getattr(event, 'client', '')} at {step.broker}: {step.do}{what}{text}"


def _show_tables(console: "Console", result: "Replay") -> None:
    """The sizes as a grid of regions and clusters, as the overlay is drawn above."""
    say(console)
    filled = [t for t in result.tables if t.srt or t.prt]
    if not filled:
        say(console, "All tables are empty at the end.")
        return
    say(console, "Tables at the end, as SRT/PRT entries", "bold")
    clusters = sorted({t.broker.cluster for t in filled})[:CLUSTERS_SHOWN_MAX]
    # From all brokers: the first cluster may have no entries in a region where another has some.
    with_entries = frozenset(t.broker.region for t in filled)
    every = dict.fromkeys(t.broker.region for t in result.tables)
    regions = [region for region in every if region in with_entries][:SHOWN_MAX]
    sizes = {(t.broker.region, t.broker.cluster): f"{t.srt}/{t.prt}" for t in result.tables}
    rows = [["region", *(f"C{index}" for index in clusters)]]
    rows += [[region, *(sizes[region, index] for index in clusters)] for region in regions]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say(console, "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    hidden = sum(t.broker.region not in regions or t.broker.cluster not in clusters for t in filled)
    if hidden:
        say(console, f"… and {hidden:,} more brokers with entries (--json tells them all)", "dim")


def _show_advertisements(console: "Console", result: "Replay") -> None:
    from rich.table import Table

    if not result.advertisements:
        return
    say(console)
    say(console, "Advertisements in force at the end", "bold")
    table = Table(box=None, pad_edge=False)
    for column in ("id", "client", "host broker", "CIV", "target clusters"):
        table.add_column(column, overflow="fold")
    for a in result.advertisements[:SHOWN_MAX]:
        targets = "–" if a.target_clusters is None else ", ".join(map(str, a.target_clusters)) or "none"
        table.add_row(a.id, a.client, str(a.broker), a.civ or "–", targets)
    console.print(table)
    if len(result.advertisements) > SHOWN_MAX:
        say(console, f"… and {len(result.advertisements) - SHOWN_MAX:,} more (--json tells them all)", "dim")


def _draw(result: "Replay", path: Path) -> None:
    from octopia.drawing import draw_overlay
    from octopia.experiments.scenes import scene_of

    published = [record for record in result.steps if record.step.do == "publish"]
    scene = scene_of(result, published[-1]) if published else None
    draw_overlay(result.scenario.scot, path, scene=scene)
