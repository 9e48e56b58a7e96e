"""The trees of a host broker: each reaches every region of its cluster, and no two share a directed link."""

import networkx as nx
import pytest

from octopia import BrokerId, TopologyError
from octopia.topology import Scot, host_trees, parse_tree


@pytest.mark.parametrize("tree", ["path:1", "path:4", "star:4", "balanced:2,2", "h"])
@pytest.mark.parametrize("clusters", [1, 2, 4])
def test_k_trees_that_reach_all_and_share_no_directed_link(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    graph = scot.graph()
    for host in scot.brokers:
        trees = host_trees(scot, host)
        assert [each.cluster for each in trees] == [host.cluster, *(c for c in range(clusters) if c != host.cluster)]
        every = [link for each in trees for link in each.links]
        assert len(every) == len(set(every))
        assert all(graph.has_edge(*link) for link in every)
        for each in trees:
            reached = nx.DiGraph([(host, host), *each.links])
            reached.remove_edge(host, host)
            assert nx.is_arborescence(reached)
            assert set(reached) == {host, *scot.cluster(each.cluster)}


def test_no_such_broker() -> None:
    with pytest.raises(TopologyError, match=r"no broker \(b,9\)"):
        host_trees(Scot(parse_tree("path:3"), 3), BrokerId("b", 9))
