"""The overlay: its tables and facts against networkx on the Cartesian product."""

import networkx as nx
import pytest
from hypothesis import given, settings

from octopia import TopologyError
from octopia.topology import BrokerId, Scot, Tree, parse_tree
from tests.effort import cases
from tests.topology.trees import product, scots


def test_evaluation_overlay() -> None:
    scot = Scot(parse_tree("evaluation"), 5)
    facts = (len(scot.brokers), scot.inner, scot.edge, len(scot.links), scot.diameter, scot.connectivity)
    assert facts == (70, 20, 50, 205, 6, 5)
    assert (scot.a_link_count, scot.i_link_count) == (65, 140)


def test_order_of_everything() -> None:
    scot = Scot(parse_tree("path:3"), 2)
    a0, b0, c0, a1, b1, c1 = scot.brokers
    assert [str(broker) for broker in scot.brokers] == ["(a,0)", "(b,0)", "(c,0)", "(a,1)", "(b,1)", "(c,1)"]
    assert scot.a_links(b0) == (a0, c0)
    assert scot.i_links(b0) == (b1,)
    assert scot.neighbours(b1) == (a1, c1, b0)
    assert scot.region("b") == (b0, b1)
    assert scot.cluster(1) == (a1, b1, c1)
    assert scot.links == ((a0, b0), (b0, c0), (a1, b1), (b1, c1), (a0, a1), (b0, b1), (c0, c1))
    assert [scot.is_inner(broker) for broker in scot.cluster(0)] == [False, True, False]
    assert [scot.is_edge(broker) for broker in scot.cluster(0)] == [True, False, True]


def test_a_scot_is_a_value_whatever_was_asked_of_it() -> None:
    asked = Scot(parse_tree("h"), 3)
    asked.i_links(BrokerId("a", 0))
    _ = asked.links
    assert asked == Scot(parse_tree("h"), 3)
    assert hash(asked) == hash(Scot(parse_tree("h"), 3))


@settings(max_examples=cases(60))
@given(scots())
def test_graph_is_the_cartesian_product(scot: Scot) -> None:
    oracle = product(scot)
    assert nx.utils.graphs_equal(nx.Graph(scot.graph().edges), nx.Graph(oracle.edges))
    assert set(scot.brokers) == set(oracle)
    assert len(scot.brokers) == oracle.number_of_nodes() == len(scot.tree.nodes) * scot.clusters
    assert len(scot.links) == oracle.number_of_edges() == scot.a_link_count + scot.i_link_count
    for broker in scot.brokers:
        assert set(scot.neighbours(broker)) == set(oracle[broker])
        assert [near.cluster for near in scot.i_links(broker)] == sorted(near.cluster for near in scot.i_links(broker))
        assert all(near.cluster == broker.cluster for near in scot.a_links(broker))


@settings(max_examples=cases(60))
@given(scots())
def test_diameter_and_connectivity_are_those_of_networkx(scot: Scot) -> None:
    oracle = product(scot)
    assert scot.diameter == nx.diameter(oracle)
    assert scot.connectivity == nx.node_connectivity(oracle)
    # networkx calls the edge connectivity of a single node 0 as well, but will not say so of a graph without edges.
    if oracle.number_of_edges():
        assert scot.connectivity == nx.edge_connectivity(oracle)
    degrees = [sum(near[1] == node[1] for near in oracle[node]) for node in oracle]
    assert scot.inner == sum(degree >= 2 for degree in degrees)
    assert scot.edge == sum(degree <= 1 for degree in degrees)


@pytest.mark.parametrize(
    ("name", "clusters", "connectivity"),
    [("path:1", 1, 0), ("path:1", 4, 3), ("path:2", 1, 1), ("path:5", 1, 1), ("path:2", 2, 2), ("star:6", 7, 7)],
)
def test_connectivity_of_the_special_cases(name: str, clusters: int, connectivity: int) -> None:
    assert Scot(parse_tree(name), clusters).connectivity == connectivity


def test_membership_takes_brokers_and_pairs() -> None:
    scot = Scot(parse_tree("h"), 3)
    assert BrokerId("b", 2) in scot
    assert ("b", 2) in scot
    assert BrokerId("b", 3) not in scot
    assert "b" not in scot


@pytest.mark.parametrize(
    ("broker", "problem"),
    [
        (BrokerId("b", 3), "no broker (b,3): clusters are 0..2"),
        (BrokerId("berlni", 0), "no broker (berlni,0): no region 'berlni' (did you mean berlin?)"),
        ("b", "'b' is not a broker: a broker is (region, cluster)"),
    ],
)
def test_unknown_brokers_are_named(broker: BrokerId, problem: str) -> None:
    scot = Scot(Tree.from_edges([("b", "berlin")]), 3)
    for ask in (scot.a_links, scot.i_links, scot.neighbours, scot.is_inner):
        with pytest.raises(TopologyError) as caught:
            ask(broker)
        assert str(caught.value) == problem


def test_unknown_region_and_cluster() -> None:
    scot = Scot(parse_tree("h"), 3)
    with pytest.raises(TopologyError, match="no region 'x'"):
        scot.region("x")
    for index in (-1, 3):
        with pytest.raises(TopologyError, match=r"clusters are 0\.\.2"):
            scot.cluster(index)


@pytest.mark.parametrize(
    ("name", "clusters", "problem"),
    [
        ("h", 0, "0 clusters: between 1 and 1,024 are allowed"),
        ("h", -1, "-1 clusters: between 1 and 1,024 are allowed"),
        ("h", 1025, "1025 clusters: between 1 and 1,024 are allowed"),
        ("h", 10**100, "between 1 and 1,024"),
        ("h", "3", "the number of clusters must be a whole number, not '3'"),
        ("h", True, "the number of clusters must be a whole number, not True"),
        ("path:50001", 2, "50,001 regions × 2 clusters make 100,002 brokers, at most 100,000 are allowed"),
        ("path:90", 1024, "make 47,230,976 links, at most 10,000,000 are allowed"),
    ],
)
def test_clusters_and_sizes_are_bounded(name: str, clusters: int, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        Scot(parse_tree(name), clusters)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "clusters"), [("path:2000", 5), ("star:5000", 2), ("balanced:3,6", 9), ("path:100", 100)]
)
def test_ten_thousand_brokers(name: str, clusters: int) -> None:
    scot = Scot(parse_tree(name), clusters)
    links = sum(len(scot.neighbours(broker)) for broker in scot.brokers)
    assert links == 2 * len(scot.links)
    assert scot.diameter == scot.tree.diameter + 1
