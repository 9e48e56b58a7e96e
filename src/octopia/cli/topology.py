"""`octopia topology`: an overlay's facts, its shape, and the placement of its brokers.

This file prints the results of the topology and drawing packages and computes nothing itself. Bad input raises an
`InputError`, which `main` reports. With `--json`, standard output is one JSON document and nothing else. Heavy imports
wait until the command runs, so that `octopia --help` stays quick.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.terminal import out, print_json
from octopia.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from octopia.routing import Policy
    from octopia.topology import BrokerId, HostTree, OverlayFile, Placement, Scot, SiteLoss, Sites

    Trees = tuple[BrokerId, tuple[HostTree, ...]]

TREE_DEFAULT = "evaluation"
_SHOWN_MAX = 20
_MACHINES_SHOWN_MAX = 40
_GROUPS_SHOWN_MAX = 6
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
        str | None,
        typer.Option(metavar="N|NAMES", help="Place the brokers on N machines, or on the named ones: m1,m2,m3."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Treat too few machines as an error.")] = False,
    draw: Annotated[Path | None, typer.Option(metavar="FILE.svg|png", help="Draw the overlay to this file.")] = None,
    host: Annotated[
        str | None,
        typer.Option("--trees", metavar="BROKER", help="Show the trees that fdr uses at a broker, such as b,2."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show an overlay: facts, shape, the trees of a broker, sites, and the machine that runs each broker."""
    overlay = _overlay(tree, clusters, file)
    name, scot, sites = overlay.name, overlay.scot, overlay.sites
    placement = _placed(overlay, machines, strict)
    trees = None if host is None else _trees(scot, host)
    drawn = None if draw is None else _drawn(scot, draw, name, trees)
    if as_json:
        print_json(_document(overlay, placement, trees, drawn))
    else:
        _print(name, scot, sites, placement, trees, drawn)


def _trees(scot: "Scot", host: str) -> "Trees":
    from octopia.topology import BrokerId, host_trees

    broker = BrokerId.parse(host)
    return broker, host_trees(scot, broker)


def _overlay(tree: str | None, clusters: int | None, file: Path | None) -> "OverlayFile":
    from octopia.topology import find_overlay, load_overlay

    if file is not None:
        if tree is not None or clusters is not None:
            raise InputError("--file gives the tree and the clusters: leave out TREE and --clusters")
        return load_overlay(file)
    return find_overlay(TREE_DEFAULT if tree is None else tree, clusters)


def _placed(overlay: "OverlayFile", machines: str | None, strict: bool) -> "Placement | None":
    from octopia.topology import place, place_at_sites

    scot, sites, placement = overlay.scot, overlay.sites, overlay.placement
    if machines is not None:
        if sites is not None:
            raise InputError("--machines: the machines of this overlay are at sites; change sites.machines in the file")
        return place(scot, _machines(machines), strict=strict)
    if not strict or placement is None:
        if strict:
            raise InputError("--strict is about machines: add --machines N")
        return placement
    if sites is None:
        return place(scot, placement.machines, strict=True)
    return place_at_sites(scot, sites, _machines_of_sites(placement, sites), strict=True)


def _machines_of_sites(placement: "Placement", sites: "Sites") -> dict[str, list[str]]:
    """The machines of each site, by the brokers that run there; machines without brokers are ignored."""
    found: dict[str, list[str]] = {site: [] for site in sites.names}
    for machine, brokers in placement.brokers.items():
        if brokers:
            found[sites.site_of(brokers[0])].append(machine)
    return found


def _machines(text: str) -> list[str] | int:
    if re.fullmatch(r"-?[0-9]+", text.strip(), re.ASCII):
        # Nine digits already exceed every bound; Python itself refuses to parse thousands of them.
        return int(text.strip()[:9])
    return [name.strip() for name in text.split(",")]


def _drawn(scot: "Scot", file: Path, name: str, trees: "Trees | None") -> Path:
    from octopia.drawing import DrawnMessage, Scene, draw_overlay

    if trees is None:
        return draw_overlay(scot, file, title=name)
    host, all_trees = trees
    arrows = tuple(DrawnMessage(*link, tree=tree.cluster) for tree in all_trees for link in tree.links)
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
    overlay: "OverlayFile", placement: "Placement | None", trees: "Trees | None", drawn: Path | None
) -> dict[str, Any]:
    scot, sites = overlay.scot, overlay.sites
    return {
        "name": overlay.name,
        "tree": {"nodes": scot.tree.nodes, "edges": scot.tree.edges},
        "facts": _facts(scot),
        "failures": _failures(scot),
        "brokers": [{"broker": broker, "inner": scot.is_inner(broker)} for broker in scot.brokers],
        "a_links": scot.links[: scot.a_link_count],
        "i_links": scot.links[scot.a_link_count :],
        "sites": None if sites is None else _sites_document(scot, sites),
        "placement": None if placement is None else _placement_document(placement, sites),
        "trees": None if trees is None else [tree._asdict() for tree in trees[1]],
        "drawing": None if drawn is None else str(drawn),
    }


def _placement_document(placement: "Placement", sites: "Sites | None") -> dict[str, Any]:
    from octopia.topology import machines_needed

    scot = placement.scot
    needed = sum(machines_needed(scot, sites, site) for site in sites.names) if sites else machines_needed(scot)
    return {
        "needed": needed,
        "machines": [
            {"machine": machine, "load": len(brokers), "brokers": brokers}
            for machine, brokers in placement.brokers.items()
        ],
        "violations": placement.violations,
    }


def _sites_document(scot: "Scot", sites: "Sites") -> dict[str, Any]:
    between = sites.links_between(scot)
    return {
        "by": sites.by,
        "sites": [
            {
                "site": site,
                "members": sites.members_of(site),
                "brokers": brokers,
                "delays_ms": {other: sites.between(site, other) / 1e6 for other in sites.names},
                "loss": sites.loss(scot, site)._asdict(),
            }
            for site, brokers in sites.brokers(scot).items()
        ],
        "links_between": between,
    }


def _print(
    name: str,
    scot: "Scot",
    sites: "Sites | None",
    placement: "Placement | None",
    trees: "Trees | None",
    drawn: Path | None,
) -> None:
    from rich.text import Text

    from octopia.drawing import draw_text

    console = out()
    console.print(_facts_table(name, scot))
    console.print()
    # A narrow terminal may cut the grid short, but must not fold it.
    console.print(Text(draw_text(scot)), no_wrap=True, overflow="ellipsis", crop=console.is_terminal)
    if scot.connectivity > 1:
        console.print()
        console.print(_failures_table(_failures(scot)))
    if trees is not None:
        console.print()
        console.print(_trees_table(*trees))
        console.print(Text(_TREES_LINE), soft_wrap=True)
    if sites is not None:
        console.print()
        console.print(_sites_table(scot, sites))
        console.print(Text(_between_line(scot, sites)), soft_wrap=True)
    if placement is not None:
        console.print()
        console.print(_placement_table(placement))
        console.print(Text(_violations_line(placement, sites)), soft_wrap=True)
    if drawn is not None:
        console.print()
        console.print(Text(f"drawn: {drawn}"), soft_wrap=True)


def _titled(title: str, first: str, *others: str) -> "Table":
    """A table whose first column is bold. A head that begins with `#` is that of a column of numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", show_header=bool(first))
    table.add_column(first, style="bold")
    for head in others:
        table.add_column(head.removeprefix("#"), justify="right" if head.startswith("#") else "left")
    return table


def _facts_table(name: str, scot: "Scot") -> "Table":
    from rich.text import Text

    facts, table = _facts(scot), _titled(name, "", "#", "")
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
        table.add_row(label, f"{number:,}", Text(words, "dim"))
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


def _failures(scot: "Scot") -> dict[str, Any]:
    """The number of brokers that can fail without a partition, and the guarantees of each routing in that case."""
    from octopia.routing import POLICIES

    return {"brokers": scot.connectivity - 1, "delivered": {name: _delivered(of) for name, of in POLICIES.items()}}


def _delivered(policy: "Policy[Any]") -> str:
    """The guarantee between live brokers, as the routing declares it."""
    if policy.promises.despite_crashes:
        return "everything, once and in order, whichever brokers these are"
    if policy.recovery is None:
        ways = "what some tree of its advertisements" if policy.links else "what the one tree of its advertisement"
        return f"{ways} leads past the dead; tables stay as they are"
    around = "goes around iLinks that are down; " if policy.links else ""
    return f"{around}a dead broker cuts its cluster's tree, and what passes it there is lost"


def _failures_table(failures: dict[str, Any]) -> "Table":
    brokers = failures["brokers"]
    title = f"delivered between the others while {'one is' if brokers == 1 else f'{brokers:,} brokers are'} dead"
    table = _titled(title, "", "")
    for routing, words in failures["delivered"].items():
        table.add_row(routing, words)
    return table


def _trees_table(host: "BrokerId", trees: "tuple[HostTree, ...]") -> "Table":
    """The links of each tree; from any of its brokers, the others of a region are one iLink away."""
    from rich.text import Text

    table = _titled(f"trees of {host}", "tree", "first hop", "and on")
    for tree in trees[:_MACHINES_SHOWN_MAX]:
        own = tree.cluster == host.cluster
        on = [f"{one.region}→{other.region}" for one, other in (tree.links if own else tree.links[1:])]
        first = "its own" if own else f"{host} → {tree.links[0][1]}"
        table.add_row(f"C{tree.cluster}", Text(first), Text(_shortened(on)))
    if len(trees) > _MACHINES_SHOWN_MAX:
        table.add_row("…", "", f"{len(trees) - _MACHINES_SHOWN_MAX:,} more trees")
    return table


def _sites_table(scot: "Scot", sites: "Sites") -> "Table":
    from rich.text import Text

    table = _titled("sites", "site", f"{sites.by}s", "#brokers", "#farthest site", "if it is lost")
    for site, brokers in list(sites.brokers(scot).items())[:_MACHINES_SHOWN_MAX]:
        far_ns, far = max((sites.between(site, other), other) for other in sites.names)
        table.add_row(
            Text(site),
            Text(_shortened([str(member) for member in sites.members_of(site)])),
            f"{len(brokers):,}",
            Text(f"{far} {far_ns / 1e6:g} ms" if far_ns else "–"),
            Text(_loss_words(sites.loss(scot, site))),
        )
    hidden = len(sites.names) - _MACHINES_SHOWN_MAX
    if hidden > 0:
        table.add_row("…", "", "", "", f"{hidden:,} more sites")
    return table


def _loss_words(loss: "SiteLoss") -> str:
    if not loss.groups:
        return "nothing is left"
    clusters = f"{loss.clusters} cluster{'s' if loss.clusters > 1 else ''}"
    if len(loss.groups) == 1:
        regions = len(loss.groups[0])
        return f"one overlay is left: {regions} region{'s' if regions > 1 else ''} × {clusters}"
    groups = " | ".join(_shortened(group) for group in loss.groups[:_GROUPS_SHOWN_MAX])
    more = f" … {len(loss.groups) - _GROUPS_SHOWN_MAX:,} more" if len(loss.groups) > _GROUPS_SHOWN_MAX else ""
    return f"{len(loss.groups):,} parts of {clusters} that cannot reach each other: {groups}{more}"


def _between_line(scot: "Scot", sites: "Sites") -> str:
    between = sites.links_between(scot)
    kind = "iLinks" if sites.by == "cluster" else "aLinks"
    return f"{len(between):,} of {len(scot.links):,} links go from site to site, all of them {kind}"


def _placement_table(placement: "Placement") -> "Table":
    from rich.text import Text

    table = _titled("placement", "machine", "#load", "brokers")
    for machine, brokers in list(placement.brokers.items())[:_MACHINES_SHOWN_MAX]:
        table.add_row(
            Text(machine), f"{len(brokers):,}", Text(_shortened([f"{region},{cluster}" for region, cluster in brokers]))
        )
    hidden = len(placement.machines) - _MACHINES_SHOWN_MAX
    if hidden > 0:
        table.add_row("…", "", f"{hidden:,} more machines")
    return table


def _shortened(names: "Sequence[str]") -> str:
    more = f" … {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else ""
    return " ".join(names[:_SHOWN_MAX]) + more


def _violations_line(placement: "Placement", sites: "Sites | None") -> str:
    count = len(placement.violations)
    if not count:
        return "no broker shares a machine with a neighbour"
    shown = _shortened([f"{one}-{other}" for one, other in placement.violations])
    return (
        f"{count:,} links join brokers on one machine, the fewest {len(placement.machines)} machines allow; "
        f"{_needed_words(placement, sites)} there would be none: {shown}"
    )


def _needed_words(placement: "Placement", sites: "Sites | None") -> str:
    from octopia.topology import machines_needed

    if sites is None:
        return f"with {machines_needed(placement.scot)}"
    needed = [f"{machines_needed(placement.scot, sites, site)} at {site}" for site in sites.names[:_SHOWN_MAX]]
    return f"with {', '.join(needed)}"
