"""Trees by name: the families against networkx, the paper's two, and what names do not mean."""

import networkx as nx
import pytest

from octopia import TopologyError
from octopia.topology import Tree, default_clusters, parse_tree
from octopia.topology.labels import generated_label
from tests.topology.trees import tree_graph


def test_the_papers_trees() -> None:
    h = parse_tree("h")
    assert h.nodes == ("a", "b", "c", "d", "e", "f")
    assert h.edges == (("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("e", "f"))
    evaluation = parse_tree("evaluation")
    assert "".join(evaluation.nodes) == "ABCDEFGHIJKLMN"
    expected = "A-F E-F K-F B-G L-G C-H M-H D-I N-I I-J F-G G-H H-I"
    assert " ".join("-".join(edge) for edge in evaluation.edges) == expected
    assert (default_clusters("h"), default_clusters("evaluation"), default_clusters("path:3")) == (3, 5, None)


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("path:1", nx.path_graph(1)),
        ("path:5", nx.path_graph(5)),
        ("star:1", nx.star_graph(0)),
        ("star:6", nx.star_graph(5)),
        ("balanced:2,3", nx.balanced_tree(2, 3)),
        ("balanced:3,2", nx.balanced_tree(3, 2)),
        ("balanced:1,4", nx.balanced_tree(1, 4)),
        ("balanced:5,0", nx.balanced_tree(5, 0)),
        ("path:60", nx.path_graph(60)),
    ],
)
def test_families_are_those_of_networkx(name: str, graph: "nx.Graph[int]") -> None:
    labelled = nx.relabel_nodes(graph, {number: generated_label(number) for number in graph})
    tree = parse_tree(name)
    assert list(tree.nodes) == [generated_label(number) for number in range(len(graph))]
    assert nx.utils.graphs_equal(tree_graph(tree), labelled)


def test_labels_run_as_columns_of_a_spreadsheet() -> None:
    wanted = {0: "a", 25: "z", 26: "aa", 27: "ab", 51: "az", 52: "ba", 701: "zz", 702: "aaa"}
    assert {number: generated_label(number) for number in wanted} == wanted


@pytest.mark.parametrize("text", ["a-b,b-c", "a-b b-c", "a-b, b-c", "a-b-c"])
def test_edges_as_text(text: str) -> None:
    assert parse_tree(text) == Tree.from_edges([("a", "b"), ("b", "c")])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("path:0", "path:0 is not a tree: at least 1 node is needed"),
        ("star:-3", "star:-3 is not a tree: at least 1 node is needed"),
        ("path:1000000000", "path:1000000000 is too large: a tree has at most 100,000 nodes"),
        ("path:" + "9" * 5000, "is too large"),
        ("balanced:2,1000000000", "is too large"),
        ("balanced:1,99999999999", "is too large"),
        ("balanced:0,3", "at least 1 branch"),
        ("balanced:2,-1", "a height from 0"),
        ("balanced:2", "write balanced:R,H with R branches and height H, for example balanced:2,3"),
        ("path", "write path:N with N nodes, for example path:5"),
        ("path:x", "write path:N"),
        ("path:५", "write path:N"),
        ("evaluatoin", "no tree is called 'evaluatoin' (did you mean evaluation?); the names are path:N, star:N, "),
        ("h:3", "no tree is called 'h:3'"),
        ("", "no tree is called ''"),
        ("a-", "bad edge 'a-'"),
        ("a-b,,b-c,c-", "bad edge 'c-'"),
        ("a-b,b-c,c-a", "the tree has a cycle: a-b-c-a"),
    ],
)
def test_what_a_name_does_not_mean(text: str, problem: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_tree(text)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 250
