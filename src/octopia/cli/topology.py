"""`octopia topology`: what an overlay is, what it looks like, and where its brokers go.

Rules of this file: it asks the topology and drawing packages and prints; nothing is computed here. What a person wrote
wrongly leaves as an `InputError` for `main` to tell. With `--json` standard output is one JSON document and nothing
else. Heavy imports wait until the command runs, so that `octopia --help` stays quick.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import out, print_json
from octopia.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from octopia.topology import BrokerId, HostTree, Placement, Scot

    Trees = tuple[BrokerId, tuple[HostTree, ...]]

TREE_DEFAULT = "evaluation"
_SHOWN_MAX = 20
_MACHINES_SHOWN_MAX = 40
_TREES_LINE = "no two share a link in one direction; from each broker of a tree its region mates are one iLink away"


def topology(
    tree: Annotated[
        str | None,
        typer.Argument(
            help="path:N, star:N, balanced:R,H, h, evaluation, edges such as a-b,b-c, or an overlay file.",
            show_default=TREE_DEFAULT,
        ),
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", metavar="K", help="Number of clusters.", show_default="the paper's, else 3"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="OVERLAY.toml", help="Read the overlay from a file instead.")
    ] = None,
    machines: Annotated[
        str | None, typer.Option(metavar="N|NAMES", help="Place the brokers on N machines, or on these: m1,m2,m3.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Too few machines are an error.")] = False,
    draw: Annotated[Path | None, typer.Option(metavar="FILE.svg|png", help="Draw the overlay into this file.")] = None,
    host: Annotated[
        str | None,
        typer.Option("--trees", metavar="BROKER", help="The trees that fdr has at a broker, such as b,2."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show an overlay: its facts, its shape, the trees of a broker, and a placement of its brokers on machines."""
    name, scot, placement = _overlay(tree, clusters, file)
    placement = _placed(scot, placement, machines, strict)
    trees = None if host is None else _trees(scot, host)
    drawn = None if draw is None else _drawn(scot, draw, name, trees)
    if as_json:
        print_json(_document(name, scot, placement, trees, drawn))
    else:
        _print(name, scot, placement, trees, drawn)


def _trees(scot: "Scot", host: str) -> "Trees":
    from octopia.topology import BrokerId, host_trees

    broker = BrokerId.parse(host)
    return broker, host_trees(scot, broker)


def _overlay(tree: str | None, clusters: int | None, file: Path | None) -> "tuple[str, Scot, Placement | None]":
    from octopia.topology import find_overlay, load_overlay

    if file is not None:
        if tree is not None or clusters is not None:
            raise InputError("--file gives the tree and the clusters: leave out TREE and --clusters")
        overlay = load_overlay(file)
    else:
        overlay = find_overlay(TREE_DEFAULT if tree is None else tree, clusters)
    return overlay.name, overlay.scot, overlay.placement


def _placed(scot: "Scot", placement: "Placement | None", machines: str | None, strict: bool) -> "Placement | None":
    from octopia.topology import place

    if machines is not None:
        return place(scot, _machines(machines), strict=strict)
    if strict and placement is None:
        raise InputError("--strict is about machines: add --machines N")
    return place(scot, placement.machines, strict=True) if strict and placement else placement


def _machines(text: str) -> list[str] | int:
    if re.fullmatch(r"-?[0-9]+", text.strip(), re.ASCII):
        # Nine digits are past every bound already; Python itself refuses to read thousands of them.
        return int(text.strip()[:9])
    return [name.strip() for name in text.split(",")]


def _drawn(scot: "Scot", file: Path, name: str, trees: "Trees | None") -> Path:
    from octopia.drawing import Message, Scene, draw_overlay

    if trees is None:
        return draw_overlay(scot, file, title=name)
    host, all_trees = trees
    arrows = tuple(Message(*link, tree=tree.cluster) for tree in all_trees for link in tree.links)
    scene = Scene(messages=arrows, highlights=(host,))
    return draw_overlay(scot, file, title=f"{name}: the {len(all_trees)} trees of {host}", scene=scene)


def _facts(scot: "Scot") -> dict[str, int]:
    return {
        "brokers": scot.broker_count,
        "regions": len(scot.tree.nodes),
        "clusters": scot.clusters,
        "a_links": scot.a_link_count,
        "i_links": scot.i_link_count,
        "inner": scot.inner,
        "edge": scot.edge,
        "diameter": scot.diameter,
        "connectivity": scot.connectivity,
    }


def _document(
    name: str, scot: "Scot", placement: "Placement | None", trees: "Trees | None", drawn: Path | None
) -> dict[str, Any]:
    return {
        "name": name,
        "tree": {"nodes": scot.tree.nodes, "edges": scot.tree.edges},
        "facts": _facts(scot),
        "brokers": [{"broker": broker, "inner": scot.is_inner(broker)} for broker in scot.brokers],
        "a_links": scot.links[: scot.a_link_count],
        "i_links": scot.links[scot.a_link_count :],
        "placement": None if placement is None else _placement_document(placement),
        "trees": None if trees is None else [tree._asdict() for tree in trees[1]],
        "drawing": None if drawn is None else str(drawn),
    }


def _placement_document(placement: "Placement") -> dict[str, Any]:
    from octopia.topology import machines_needed

    return {
        "needed": machines_needed(placement.scot),
        "machines": [
            {"machine": machine, "load": len(brokers), "brokers": brokers}
            for machine, brokers in placement.brokers.items()
        ],
        "violations": placement.violations,
    }


def _print(name: str, scot: "Scot", placement: "Placement | None", trees: "Trees | None", drawn: Path | None) -> None:
    from rich.text import Text

    from octopia.drawing import draw_text

    console = out()
    console.print(_facts_table(name, scot))
    console.print()
    # A narrow terminal may cut the grid short, but must not fold it.
    console.print(Text(draw_text(scot)), no_wrap=True, overflow="ellipsis", crop=console.is_terminal)
    if trees is not None:
        console.print()
        console.print(_trees_table(*trees))
        console.print(Text(_TREES_LINE), soft_wrap=True)
    if placement is not None:
        console.print()
        console.print(_placement_table(placement))
        console.print(Text(_violations_line(placement)), soft_wrap=True)
    if drawn is not None:
        console.print()
        console.print(Text(f"drawn: {drawn}"), soft_wrap=True)


def _facts_table(name: str, scot: "Scot") -> "Table":
    from rich.table import Table
    from rich.text import Text

    facts = _facts(scot)
    table = Table(title=Text(name), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rows = (
        ("brokers", facts["brokers"], "regions × clusters"),
        ("regions", facts["regions"], "nodes of the tree"),
        ("clusters", facts["clusters"], "copies of the tree"),
        ("aLinks", facts["a_links"], "inside clusters"),
        ("iLinks", facts["i_links"], "inside regions"),
        ("inner", facts["inner"], "at least two primary neighbours"),
        ("edge", facts["edge"], "at most one primary neighbour"),
        ("diameter", facts["diameter"], "most hops between two brokers"),
        ("connectivity", facts["connectivity"], _survives(scot)),
    )
    for label, number, words in rows:
        table.add_row(label, f"{number:,}", words)
    return table


def _survives(scot: "Scot") -> str:
    if scot.broker_count == 1:
        return "a single broker"
    if not scot.tree.edges:
        return "one region: every two brokers share a link"
    if scot.clusters == 1:
        return "a tree: one failure can partition it"
    failures = scot.connectivity - 1
    return f"any {failures} broker{'s' if failures > 1 else ''} can fail without a partition"


def _trees_table(host: "BrokerId", trees: "tuple[HostTree, ...]") -> "Table":
    """The links of each tree; from any of its brokers a region mate is one iLink away."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"trees of {host}", title_justify="left")
    table.add_column("tree", style="bold")
    table.add_column("first hop")
    table.add_column("and on")
    for tree in trees[:_MACHINES_SHOWN_MAX]:
        own = tree.cluster == host.cluster
        on = [f"{one.region}→{other.region}" for one, other in (tree.links if own else tree.links[1:])]
        first = "its own" if own else f"{host} → {tree.links[0][1]}"
        more = f" … {len(on) - _SHOWN_MAX:,} more" if len(on) > _SHOWN_MAX else ""
        table.add_row(f"C{tree.cluster}", Text(first), Text(" ".join(on[:_SHOWN_MAX]) + more))
    if len(trees) > _MACHINES_SHOWN_MAX:
        table.add_row("…", "", f"{len(trees) - _MACHINES_SHOWN_MAX:,} more trees")
    return table


def _placement_table(placement: "Placement") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title="placement", title_justify="left")
    table.add_column("machine", style="bold")
    table.add_column("load", justify="right")
    table.add_column("brokers")
    for machine, brokers in list(placement.brokers.items())[:_MACHINES_SHOWN_MAX]:
        table.add_row(Text(machine), f"{len(brokers):,}", Text(_few(brokers)))
    hidden = len(placement.machines) - _MACHINES_SHOWN_MAX
    if hidden > 0:
        table.add_row("…", "", f"{hidden:,} more machines")
    return table


def _few(brokers: "Iterable[BrokerId]") -> str:
    names = [f"{region},{cluster}" for region, cluster in brokers]
    more = f" … {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else ""
    return " ".join(names[:_SHOWN_MAX]) + more


def _violations_line(placement: "Placement") -> str:
    from octopia.topology import machines_needed

    count = len(placement.violations)
    if not count:
        return "no broker shares a machine with a neighbour"
    shown = " ".join(f"{one}-{other}" for one, other in placement.violations[:_SHOWN_MAX])
    more = f" … {count - _SHOWN_MAX:,} more" if count > _SHOWN_MAX else ""
    return (
        f"{count:,} links join brokers on one machine, the fewest {len(placement.machines)} machines allow; "
        f"with {machines_needed(placement.scot)} there would be none: {shown}{more}"
    )
