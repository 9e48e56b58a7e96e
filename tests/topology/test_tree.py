"""Trees: valid ones, invalid ones and why, and the order of everything."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given

from octopia import TopologyError
from octopia.topology import Tree
from tests.topology.trees import tree_graph, trees


def test_order_is_that_of_first_appearance() -> None:
    tree = Tree.from_edges([("b", "a"), ("c", "b")])
    assert tree.nodes == ("b", "a", "c")
    assert tree.edges == (("b", "a"), ("c", "b"))
    assert tree.neighbours("b") == ("a", "c")


def test_given_nodes_set_the_order_of_neighbours() -> None:
    tree = Tree.from_edges([("b", "a"), ("c", "b")], nodes=["c", "b", "a"])
    assert tree.nodes == ("c", "b", "a")
    assert tree.neighbours("b") == ("c", "a")


def test_single_node_is_a_tree() -> None:
    tree = Tree.from_edges([], nodes=["a"])
    assert (tree.nodes, tree.edges, tree.neighbours("a"), tree.diameter) == (("a",), (), (), 0)


def test_tree_is_a_value() -> None:
    assert Tree.from_edges([["a", "b"]]) == Tree(("a", "b"), (("a", "b"),))
    assert len({Tree.from_edges([["a", "b"]]), Tree.from_edges([["a", "b"]])}) == 1


@pytest.mark.parametrize(
    ("edges", "nodes", "problem"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], (), "the tree has a cycle: a-b-c-a"),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")], (), "the tree has a cycle: d-c-b-a-d"),
        ([("a", "a")], (), "the tree has a cycle: a-a"),
        ([("a", "b"), ("b", "a")], (), "edge b-a is given twice"),
        ([("a", "b"), ("c", "d")], (), "the tree is not connected: no path from a to c, d"),
        ([("a", "b")], ("a", "b", "c"), "the tree is not connected: no path from a to c"),
        ([("a", "b")], ("a",), "edge a-b names b, which is missing from the nodes"),
        ([("a", "b")], ("a", "b", "a"), "node a is given twice"),
        ([], (), "the tree is empty: give at least one node"),
        (["ab"], (), "bad edge 'ab': an edge is a pair of labels, for example ['a', 'b']"),
        ([("a", "b", "c")], (), "bad edge ('a', 'b', 'c'): an edge is a pair of labels, for example ['a', 'b']"),
    ],
)
def test_what_is_no_tree_is_named(edges: list[tuple[str, str]], nodes: tuple[str, ...], problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        Tree.from_edges(edges, nodes)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ("", "must not be empty"),
        ("a b", "' ' is a space"),
        ("a\u00a0b", "is a space"),
        ("a,b", "',' is a comma"),
        ("a(", "'(' is a bracket"),
        ("[a", "'[' is a bracket"),
        ("a\x00", "'\\x00' is a control character"),
        ("a\u200b", "'\\u200b' is a control character"),
        ("\ud800", "is a control character"),
        ("a" * 65, "65 characters, at most 64"),
    ],
)
def test_bad_labels_say_which_character(label: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        Tree.from_edges([(label, "b")])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_are_text() -> None:
    with pytest.raises(TopologyError, match="bad label 3: a node's label is text, not int"):
        Tree.from_edges([(3, "b")])  # type: ignore[list-item]


def test_unknown_node_comes_with_a_guess() -> None:
    tree = Tree.from_edges([("berlin", "paris")])
    with pytest.raises(TopologyError, match=r"no node 'berlni' in the tree \(did you mean berlin\?\)"):
        tree.neighbours("berlni")


def test_a_long_cycle_is_told_in_one_line() -> None:
    nodes = [f"n{number}" for number in range(1000)]
    with pytest.raises(TopologyError) as caught:
        Tree.from_edges([*pairwise(nodes), (nodes[-1], nodes[0])])
    assert "more" in str(caught.value)
    assert len(str(caught.value)) < 200


@given(trees(nodes_max=14))
def test_neighbours_and_diameter_are_those_of_networkx(tree: Tree) -> None:
    graph = tree_graph(tree)
    assert tree.diameter == nx.diameter(graph)
    for node in tree.nodes:
        assert list(tree.neighbours(node)) == sorted(graph[node], key=tree.nodes.index)


@given(trees())
def test_walk_reaches_every_node_after_its_parent(tree: Tree) -> None:
    lengths = nx.single_source_shortest_path_length(tree_graph(tree), tree.nodes[0])
    seen: set[str | None] = {None}
    for node, parent, depth in tree.walk():
        assert parent in seen
        assert depth == lengths[node]
        seen.add(node)
    assert seen - {None} == set(tree.nodes)
