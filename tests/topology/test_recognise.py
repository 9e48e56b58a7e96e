"""From a product graph to a SCOT: recognised, or refused with the place of the fault."""

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given, settings

from octopia import TopologyError
from octopia.topology import Scot, parse_tree
from tests.effort import cases
from tests.topology.trees import product, scots

Graph = nx.Graph
Spoil = Callable[["Graph[object]"], None]


@settings(max_examples=cases(50))
@given(scots())
def test_every_product_is_recognised(scot: Scot) -> None:
    found = Scot.from_graph(product(scot))
    assert found.clusters == scot.clusters
    assert found.tree.nodes == scot.tree.nodes
    assert {frozenset(edge) for edge in found.tree.edges} == {frozenset(edge) for edge in scot.tree.edges}


def _with_cycle(graph: "Graph[object]") -> None:
    graph.add_edge(("a", 1), ("c", 1))


def _shared_cycle(graph: "Graph[object]") -> None:
    graph.add_edges_from([(("a", index), ("c", index)) for index in range(3)])


def _without_broker(graph: "Graph[object]") -> None:
    graph.remove_node(("b", 2))


def _without_cluster(graph: "Graph[object]") -> None:
    graph.remove_nodes_from([(region, 1) for region in "abc"])


def _without_a_link(graph: "Graph[object]") -> None:
    graph.remove_edge(("a", 2), ("b", 2))


def _without_i_link(graph: "Graph[object]") -> None:
    graph.remove_edge(("c", 0), ("c", 2))


def _with_slanting_link(graph: "Graph[object]") -> None:
    graph.add_edge(("a", 0), ("b", 1))


def _with_loop(graph: "Graph[object]") -> None:
    graph.add_edge(("a", 0), ("a", 0))


def _moved_a_link(graph: "Graph[object]") -> None:
    graph.remove_edge(("b", 0), ("c", 0))
    graph.add_edge(("a", 0), ("c", 0))


def _torn(graph: "Graph[object]") -> None:
    graph.remove_edges_from([(("b", index), ("c", index)) for index in range(3)])


def _with_text_index(graph: "Graph[object]") -> None:
    graph.add_node(("a", "3"))


def _with_negative_index(graph: "Graph[object]") -> None:
    graph.add_node(("a", -1))


def _with_plain_label(graph: "Graph[object]") -> None:
    graph.add_node("a0")


def _with_bad_region(graph: "Graph[object]") -> None:
    graph.add_node(("a b", 0))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_with_cycle, "cluster 1 has a cycle: (c,1)-(a,1)-(b,1)-(c,1)"),
        (_shared_cycle, "cluster 0 has a cycle: (c,0)-(a,0)-(b,0)-(c,0)"),
        (_without_broker, "broker (b,2) is missing: each region has one broker of each cluster"),
        (_without_cluster, "index: clusters are numbered from 0 without a gap, but 1 is missing and 2 is there"),
        (_without_a_link, "missing aLink (a,2)-(b,2): 2 of 3 clusters have it"),
        (_without_i_link, "missing iLink (c,0)-(c,2): a region is a complete graph"),
        (
            _with_slanting_link,
            "extra link (a,0)-(b,1): it joins neither brokers of one cluster nor brokers of one region",
        ),
        (_with_loop, "extra link (a,0)-(a,0): it joins a broker to itself"),
        (_moved_a_link, "extra link (a,0)-(c,0): only 1 of 3 clusters have it"),
        (_torn, "the tree is not connected: no path from a to c"),
        (_with_text_index, "bad label ('a', '3'): the cluster must be a whole number from 0, not '3'"),
        (_with_negative_index, "bad label ('a', -1): the cluster must be a whole number from 0, not -1"),
        (_with_plain_label, "bad label 'a0': a broker's label is a pair (region, cluster)"),
        (_with_bad_region, "bad label 'a b': ' ' is a space, and a label must not hold one"),
    ],
)
def test_a_spoiled_overlay_is_refused_by_place(spoil: Spoil, problem: str) -> None:
    graph: Graph[object] = nx.Graph()
    graph.update(product(Scot(parse_tree("path:3"), 3)))
    spoil(graph)
    with pytest.raises(TopologyError) as caught:
        Scot.from_graph(graph)
    assert str(caught.value) == problem


def test_operands_the_wrong_way_round() -> None:
    reversed_product = nx.cartesian_product(nx.complete_graph(2), nx.Graph([("a", "b")]))
    with pytest.raises(TopologyError) as caught:
        Scot.from_graph(reversed_product)
    expected = "label order: (0, 'a') has the cluster first; the region comes first, the cluster second: ('a', 0)"
    assert str(caught.value) == expected


def test_regions_are_text() -> None:
    with pytest.raises(TopologyError, match="bad label 0: a node's label is text, not int"):
        Scot.from_graph(nx.cartesian_product(nx.path_graph(2), nx.complete_graph(2)))


@pytest.mark.parametrize("graph", [nx.DiGraph(), nx.MultiGraph()])
def test_links_are_undirected_and_single(graph: "Graph[tuple[str, int]]") -> None:
    with pytest.raises(TopologyError, match="undirected and single"):
        Scot.from_graph(graph)


def test_an_empty_graph_is_no_overlay() -> None:
    with pytest.raises(TopologyError, match="the graph is empty"):
        Scot.from_graph(nx.Graph())
