"""How long an overlay takes to build: neighbour tables, facts and placement, by size.

The baseline of the same run is networkx's own Cartesian product of the same two graphs.
"""

import time
from typing import Any

import networkx as nx
from rich.console import Console
from rich.table import Table

from octopia.topology import Scot, parse_tree, place

SIZES = (("evaluation", 5), ("path:100", 10), ("balanced:3,6", 9))
MACHINES = 12


def run() -> list[dict[str, Any]]:
    rows = [_measure(tree, clusters) for tree, clusters in SIZES]
    table = Table(title="Building an overlay, CPU seconds")
    for column in ("overlay", "brokers", "links", "tables", "placement", "networkx product", "ratio"):
        table.add_column(column, justify="left" if column == "overlay" else "right")
    for row in rows:
        table.add_row(
            row["overlay"],
            f"{row['brokers']:,}",
            f"{row['links']:,}",
            f"{row['tables_s']:.3f}",
            f"{row['placement_s']:.3f}",
            f"{row['networkx_s']:.3f}",
            f"{row['networkx_s'] / row['tables_s']:.1f}",
        )
    Console(width=110).print(table)
    return rows


def _measure(name: str, clusters: int) -> dict[str, Any]:
    begin = time.process_time()
    scot = Scot(parse_tree(name), clusters)
    for broker in scot.brokers:
        scot.neighbours(broker)
    links = len(scot.links)
    tables_s = time.process_time() - begin
    begin = time.process_time()
    place(scot, MACHINES)
    placement_s = time.process_time() - begin
    begin = time.process_time()
    nx.cartesian_product(nx.Graph(list(scot.tree.edges)), nx.complete_graph(clusters))
    networkx_s = time.process_time() - begin
    return {
        "overlay": f"{name} × {clusters}",
        "brokers": len(scot.brokers),
        "links": links,
        "tables_s": tables_s,
        "placement_s": placement_s,
        "networkx_s": networkx_s,
    }
