"""Random trees and the independent oracle: networkx's own product and algorithms, which share no code with ours."""

import networkx as nx
from hypothesis import strategies as st

from octopia.topology import Scot, Tree
from octopia.topology.labels import generated_label


@st.composite
def trees(draw: st.DrawFn, nodes_max: int = 9) -> Tree:
    """A tree in which each node hangs off an earlier one, with nodes and edges in a random order."""
    size = draw(st.integers(1, nodes_max))
    labels = [generated_label(number) for number in range(size)]
    edges = [(labels[draw(st.integers(0, node - 1))], labels[node]) for node in range(1, size)]
    turned = [edge if draw(st.booleans()) else edge[::-1] for edge in edges]
    return Tree.from_edges(draw(st.permutations(turned)), draw(st.permutations(labels)))


@st.composite
def scots(draw: st.DrawFn, nodes_max: int = 8, clusters_max: int = 5) -> Scot:
    return Scot(draw(trees(nodes_max)), draw(st.integers(1, clusters_max)))


def tree_graph(tree: Tree) -> "nx.Graph[str]":
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(tree.nodes)
    graph.add_edges_from(tree.edges)
    return graph


def product(scot: Scot) -> "nx.Graph[tuple[str, int]]":
    """The overlay by definition: the Cartesian product of the tree and a complete graph."""
    result: nx.Graph[tuple[str, int]] = nx.cartesian_product(tree_graph(scot.tree), nx.complete_graph(scot.clusters))
    return result
