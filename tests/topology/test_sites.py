"""Sites: every broker at one site, delays by pair of sites, and what the loss of a site leaves (against networkx)."""

from itertools import product

import msgspec
import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia import TopologyError
from octopia.topology import BrokerId, Scot, Sites, parse_tree
from octopia.topology.sites import UNITS, Unit
from tests.effort import cases
from tests.topology.trees import scots

_PATH = Scot(parse_tree("path:3"), 3)
_TWO = Sites.of(_PATH, "cluster", {"east": [0, 2], "west": [1]}, {("west", "east"): 2.5})


def test_brokers_of_a_cluster_are_at_its_site() -> None:
    assert [_TWO.site_of(BrokerId("b", cluster)) for cluster in range(3)] == ["east", "west", "east"]
    assert _TWO.brokers(_PATH) == {"east": _PATH.cluster(0) + _PATH.cluster(2), "west": _PATH.cluster(1)}
    by_region = Sites.of(_PATH, "region", {"east": ["a"], "west": ["c", "b"]})
    assert by_region.brokers(_PATH)["east"] == _PATH.region("a")


def test_a_delay_holds_both_ways_and_not_inside_a_site() -> None:
    assert [_TWO.between(one, other) for one, other in product(("east", "west"), repeat=2)] == [
        0,
        2_500_000,
        2_500_000,
        0,
    ]
    assert _TWO.delay_ns(BrokerId("a", 0), BrokerId("a", 1)) == 2_500_000
    assert _TWO.delay_ns(BrokerId("a", 0), BrokerId("a", 2)) == 0


def test_a_delay_inside_a_site_can_be_given_and_others_have_the_common_one() -> None:
    sites = Sites.of(_PATH, "cluster", {"x": [0], "y": [1], "z": [2]}, {("x", "x"): 1, ("x", "y"): 7}, delay_ms=20)
    ms = [[sites.between(one, other) // 1_000_000 for other in "xyz"] for one in "xyz"]
    assert ms == [[1, 7, 20], [7, 0, 20], [20, 20, 0]]


def test_sites_survive_json() -> None:
    for sites in (_TWO, Sites.even(_PATH, "region", 2, delay_ms=3)):
        assert msgspec.json.decode(msgspec.json.encode(sites), type=Sites) == sites


@pytest.mark.parametrize("by", UNITS)
@given(scots(nodes_max=9, clusters_max=5), st.data())
@settings(max_examples=cases(40))
def test_even_sites_and_what_their_loss_leaves_as_networkx_says(by: Unit, scot: Scot, data: st.DataObject) -> None:
    units = scot.clusters if by == "cluster" else len(scot.tree.nodes)
    sites = Sites.even(scot, by, data.draw(st.integers(1, units)), delay_ms=1)
    sizes = [len(members) for members in sites.members]
    assert sum(sizes) == units
    if by == "cluster":
        assert max(sizes) - min(sizes) <= 1
    else:
        cut = [(one, other) for one, other in scot.tree.edges if _site(sites, one) != _site(sites, other)]
        assert len(cut) == len(sites.names) - 1
    crossing = [link for link in scot.links if sites.site_of(link[0]) != sites.site_of(link[1])]
    assert list(sites.links_between(scot)) == crossing
    for site, brokers in sites.brokers(scot).items():
        graph = scot.graph()
        graph.remove_nodes_from(brokers)
        loss = sites.loss(scot, site)
        assert loss.brokers == len(graph)
        groups = [sorted({region for region, _ in group}) for group in nx.connected_components(graph)]
        assert sorted(map(sorted, loss.groups)) == sorted(groups)


def _site(sites: Sites, region: str) -> str:
    return sites.site_of(BrokerId(region, 0))


def test_near_regions_are_at_one_site() -> None:
    path = Scot(parse_tree("path:8"), 2)
    assert Sites.even(path, "region", 4).members == (("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
    evaluation = Sites.even(Scot(parse_tree("evaluation"), 5), "region", 5)
    assert sorted(map(len, evaluation.members)) == [1, 3, 3, 3, 4]


@pytest.mark.parametrize(
    ("by", "members", "delays", "problem"),
    [
        ("clusters", {"x": [0, 1, 2]}, {}, "write cluster or region, not 'clusters'"),
        ("cluster", {}, {}, "0 sites: between 1 and 256 are allowed"),
        ("cluster", {"x": [0, 1]}, {}, "cluster 2 is at no site: every cluster must be at one"),
        ("cluster", {"x": [0, 1], "y": [1, 2]}, {}, "cluster 1 is at x and at y: it can be at one site only"),
        ("cluster", {"x": [0, 1, 2], "y": []}, {}, "site y has no cluster"),
        ("cluster", {"x": [0, 1, 3]}, {}, "site x: there is no cluster 3; 0, 1, 2"),
        ("cluster", {"x": [0, True, 2]}, {}, "there is no cluster True"),
        ("region", {"x": ["a", "b", "d"]}, {}, "site x: there is no region 'd'"),
        ("region", {"x y": ["a", "b", "c"]}, {}, "' ' is a space"),
        ("region", {"x": ["a", "b", "c"]}, {("x", "y"): 1}, "no site 'y'; sites are x"),
        ("region", {"x": ["a", "b"], "y": ["c"]}, {("x", "y"): -1}, "a delay of -1 ms: a number from 0 to 60,000"),
        ("region", {"x": ["a", "b"], "y": ["c"]}, {("x", "y"): float("nan")}, "a delay of nan ms"),
    ],
)
def test_sites_that_make_no_sense(by: Unit, members: dict[str, list[int | str]], delays: dict, problem: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(TopologyError) as caught:
        Sites.of(_PATH, by, members, delays)
    assert problem in str(caught.value)


def test_strangers() -> None:
    with pytest.raises(TopologyError, match=r"broker \(a,7\) is at no site: no cluster 7"):
        _TWO.site_of(BrokerId("a", 7))
    with pytest.raises(TopologyError, match=r"no site 'weast' \(did you mean"):
        _TWO.between("east", "weast")
    with pytest.raises(TopologyError, match="no site 'north'"):
        _TWO.loss(_PATH, "north")
    with pytest.raises(TopologyError, match="4 sites: 3 clusters can be at 1 to 3 sites"):
        Sites.even(_PATH, "cluster", 4)
