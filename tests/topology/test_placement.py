"""Placement: no neighbours on one machine where that can be, else the fewest; then even loads; always the same.

The oracle tries every placement of a small overlay, or every vector of loads that a small tree can have.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import cast

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia import PlacementError
from octopia.topology import (
    BrokerId,
    Placement,
    Scot,
    Sites,
    Tree,
    fewest_violations,
    machines_needed,
    parse_tree,
    place,
    place_at_sites,
)
from octopia.topology import spread as spread_module
from octopia.topology.placement import _chosen
from octopia.topology.sites import UNITS, Unit
from tests.effort import cases
from tests.topology.trees import scots


def _squares(loads: "list[int] | dict[str, int]") -> int:
    return sum(load * load for load in (loads.values() if isinstance(loads, dict) else loads))


def _checked_violations(placement: Placement) -> int:
    """Counted over neighbours and not over links, apart from the code under test."""
    machine = placement.machine
    scot = placement.scot
    return sum(machine(a) == machine(b) for a in scot.brokers for b in scot.neighbours(a)) // 2


def test_the_papers_testbed() -> None:
    placement = place(Scot(parse_tree("evaluation"), 5), 6, strict=True)
    assert placement.loads == {"m1": 12, "m2": 12, "m3": 12, "m4": 12, "m5": 11, "m6": 11}
    assert placement.violations == ()
    assert _checked_violations(placement) == 0


def test_the_same_placement_every_time() -> None:
    scot = Scot(parse_tree("evaluation"), 5)
    assert place(scot, 6) == place(Scot(parse_tree("evaluation"), 5), ["m1", "m2", "m3", "m4", "m5", "m6"])


def test_brokers_and_machines_agree() -> None:
    placement = place(Scot(parse_tree("path:3"), 2), ["east", "west", "north"])
    for machine, brokers in placement.brokers.items():
        assert all(placement.machine(broker) == machine for broker in brokers)
    assert sum(placement.loads.values()) == 6


@settings(max_examples=cases(150))
@given(scots(nodes_max=10, clusters_max=7), st.integers(1, 12))
def test_violations_are_the_fewest_and_loads_even(scot: Scot, machines: int) -> None:
    placement = place(scot, machines)
    assert len(placement.violations) == _checked_violations(placement) == fewest_violations(scot, machines)
    loads = list(placement.loads.values())
    assert sum(loads) == scot.broker_count
    if scot.clusters >= 2 and machines >= 3:
        assert max(loads) - min(loads) <= 1
    if machines >= machines_needed(scot):
        assert placement.violations == ()


@pytest.mark.parametrize(
    ("tree", "clusters", "machines_max"),
    [
        ("path:1", 1, 2),
        ("path:1", 5, 5),
        ("path:2", 2, 4),
        ("path:2", 3, 4),
        ("path:2", 4, 3),
        ("path:3", 2, 4),
        ("path:3", 3, 3),
        ("star:4", 2, 3),
        ("star:4", 1, 4),
        ("path:2", 5, 2),
    ],
)
def test_against_every_placement(tree: str, clusters: int, machines_max: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    number = {broker: place for place, broker in enumerate(scot.brokers)}
    links = [(number[one], number[other]) for one, other in scot.links]
    for machines in range(1, machines_max + 1):
        best = min(
            (
                sum(places[one] == places[other] for one, other in links),
                _squares([places.count(machine) for machine in range(machines)]),
            )
            for places in product(range(machines), repeat=scot.broker_count)
        )
        placement = place(scot, machines)
        assert (len(placement.violations), _squares(placement.loads)) == best, (tree, clusters, machines)
        assert best[0] == fewest_violations(scot, machines)


def _best_squares(graph: "nx.Graph[int]", machines: int) -> int:
    """The most even loads of any proper placement of a tree: all load vectors, built up from the leaves."""

    @cache
    def reachable(node: int, parent: int, colour: int) -> frozenset[tuple[int, ...]]:
        vectors = {tuple(int(machine == colour) for machine in range(machines))}
        for child in graph[node]:
            if child != parent:
                below = set().union(*(reachable(child, node, other) for other in range(machines) if other != colour))
                vectors = {tuple(a + b for a, b in zip(u, v, strict=True)) for u in vectors for v in below}
        return frozenset(vectors)

    return min(_squares(list(loads)) for colour in range(machines) for loads in reachable(0, -1, colour))


@pytest.mark.parametrize("machines", [2, 3, 4])
def test_a_single_cluster_is_spread_as_evenly_as_any_small_tree_allows(machines: int) -> None:
    for size in range(2, 11):
        # The stubs call these lists of lists.
        for graph in cast("Iterator[nx.Graph[int]]", nx.nonisomorphic_trees(size)):
            tree = Tree.from_edges([(f"n{a}", f"n{b}") for a, b in graph.edges])
            placement = place(Scot(tree, 1), machines)
            assert placement.violations == ()
            assert _squares(placement.loads) == _best_squares(graph, machines), list(graph.edges)


def test_the_search_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread_module, "VISITS_MAX", 1)
    placement = place(Scot(parse_tree("star:50"), 1), 4)
    assert placement.violations == ()
    assert sum(placement.loads.values()) == 50


def test_two_machines_mirror_neighbouring_regions() -> None:
    placement = place(Scot(parse_tree("star:7"), 3), 2)
    assert len(placement.violations) == 7
    # Forced: each region splits 2 to 1, and the six leaves the other way round than the centre.
    assert sorted(placement.loads.values()) == [2 + 6 * 1, 1 + 6 * 2]


@pytest.mark.parametrize(
    ("tree", "clusters", "needed"), [("path:1", 1, 1), ("path:1", 4, 4), ("path:2", 1, 2), ("h", 3, 3), ("h", 2, 2)]
)
def test_strict_says_how_many_are_needed(tree: str, clusters: int, needed: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    assert machines_needed(scot) == needed
    assert place(scot, needed, strict=True).violations == ()
    if needed > 1:
        with pytest.raises(PlacementError) as caught:
            place(scot, needed - 1, strict=True)
        expected = f"{needed} machines are needed so that no broker shares one with a neighbour; {needed - 1} given"
        assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("machines", "problem"),
    [
        (0, "0 machines: between 1 and 100,000 are allowed"),
        (-2, "-2 machines"),
        (10**9, "1000000000 machines"),
        ([], "0 machines"),
        (["a", "b", "a"], "machine a is given twice"),
        (["a", ""], "machine '': bad label '': a node's label must not be empty"),
        (["a b"], "' ' is a space"),
        ("m1,m2", "machines must be a number or a list of names, not 'm1,m2'"),
        (True, "machines must be a number or a list of names, not True"),
        (["a", 3], "machine 3"),
    ],
)
def test_machines_that_make_no_sense(machines: list[str] | int, problem: str) -> None:
    with pytest.raises(PlacementError) as caught:
        place(Scot(parse_tree("h"), 3), machines)
    assert problem in str(caught.value)


def test_a_stranger_has_no_machine() -> None:
    with pytest.raises(PlacementError, match=r"broker \(x,0\) is not part of the overlay"):
        place(Scot(parse_tree("h"), 3), 3).machine(BrokerId("x", 0))


def test_more_machines_than_brokers() -> None:
    placement = place(Scot(parse_tree("path:2"), 2), 9)
    assert Counter(placement.loads.values()) == {1: 4, 0: 5}


# -- sites


def _at(scot: Scot, by: Unit, count: int) -> Sites:
    return Sites.even(scot, by, count)


@settings(max_examples=cases(60))
@given(scots(nodes_max=9, clusters_max=6), st.sampled_from(UNITS), st.data())
def test_every_broker_is_at_its_site_with_the_fewest_violations(scot: Scot, by: Unit, data: st.DataObject) -> None:
    units: list[int | str] = [*range(scot.clusters)] if by == "cluster" else [*scot.tree.nodes]
    drawn = [data.draw(st.integers(0, 2)) for _ in units]
    members = {
        f"s{site}": [unit for unit, at in zip(units, drawn, strict=True) if at == site] for site in sorted({*drawn})
    }
    sites = Sites.of(scot, by, members)
    machines = {site: data.draw(st.integers(1, 6)) for site in sites.names}
    placement = place_at_sites(scot, sites, machines)
    for broker in scot.brokers:
        assert placement.machine(broker).startswith(sites.site_of(broker))
    fewest = sum(fewest_violations(scot, machines[site], sites, site) for site in sites.names)
    assert len(placement.violations) == _checked_violations(placement) == fewest
    for site, brokers in sites.brokers(scot).items():
        loads = [load for machine, load in placement.loads.items() if machine.startswith(site)]
        assert sum(loads) == len(brokers)
        inside = scot.clusters if by == "region" else len(sites.members_of(site))
        if inside >= 2 and machines[site] >= 3:
            assert max(loads) - min(loads) <= 1
        if machines[site] >= machines_needed(scot, sites, site):
            ends = {*brokers}
            assert not [link for link in placement.violations if link[0] in ends]


@pytest.mark.parametrize(
    ("tree", "clusters", "regions"),
    [
        ("path:5", 1, ["a", "c", "e"]),
        ("path:6", 1, ["a", "b", "d", "f"]),
        ("star:6", 1, ["b", "c", "d", "e", "f"]),
        ("star:6", 1, ["a", "c", "d"]),
        ("balanced:2,2", 1, ["a", "b", "c", "d"]),
        ("balanced:2,2", 1, ["b", "d", "e", "c", "g"]),
        ("path:3", 3, ["a", "c"]),
        ("path:4", 3, ["a", "b", "d"]),
        ("star:4", 2, ["b", "c", "d"]),
        ("path:5", 2, ["a", "b", "d", "e"]),
    ],
)
def test_a_site_of_regions_against_every_placement(tree: str, clusters: int, regions: list[str]) -> None:
    scot = Scot(parse_tree(tree), clusters)
    rest = [node for node in scot.tree.nodes if node not in regions]
    sites = Sites.of(scot, "region", {"here": regions, "there": rest})
    here = sites.brokers(scot)["here"]
    number = {broker: at for at, broker in enumerate(here)}
    links = [(number[one], number[other]) for one, other in scot.links if one in number and other in number]
    for machines in (1, 2, 3):
        best = min(
            (
                sum(places[one] == places[other] for one, other in links),
                _squares([places.count(machine) for machine in range(machines)]),
            )
            for places in product(range(machines), repeat=len(here))
        )
        placement = place_at_sites(scot, sites, {"here": machines, "there": 1})
        loads = [load for machine, load in placement.loads.items() if machine.startswith("here")]
        violations = [link for link in placement.violations if link[0] in number and link[1] in number]
        assert (len(violations), _squares(loads)) == best, (tree, clusters, machines)
        assert best[0] == fewest_violations(scot, machines, sites, "here")


@settings(max_examples=cases(80))
@given(st.lists(st.integers(0, 9), max_size=9), st.integers(-20, 60))
def test_pieces_are_mirrored_as_well_as_any_choice(sizes: list[int], twice: int) -> None:
    chosen = _chosen(sizes, twice)
    found = abs(2 * sum(size for size, taken in zip(sizes, chosen, strict=True) if taken) - twice)
    every = product((False, True), repeat=len(sizes))
    assert found == min(
        abs(2 * sum(size for size, taken in zip(sizes, some, strict=True) if taken) - twice) for some in every
    )


def test_many_pieces_on_two_machines() -> None:
    scot = Scot(parse_tree("star:2001"), 1)
    sites = Sites.of(scot, "region", {"hub": ["a"], "leaves": scot.tree.nodes[1:]})
    placement = place_at_sites(scot, sites, {"hub": 1, "leaves": ["x", "y"]})
    assert placement.loads == {"hub1": 1, "x": 1_000, "y": 1_000}


def test_one_site_is_as_if_there_were_none() -> None:
    scot = Scot(parse_tree("evaluation"), 5)
    for by in UNITS:
        assert place_at_sites(scot, _at(scot, by, 1), {"s1": ["m1", "m2", "m3"]}) == place(scot, 3)


@pytest.mark.parametrize(
    ("machines", "problem"),
    [
        ({"s1": 3}, "site s2 has no machines"),
        ({"s1": 3, "s2": 3, "s3": 1}, "no site 's3'"),
        ({"s1": ["a", "b"], "s2": ["c", "b"]}, "machine b is given twice"),
        ({"s1": 1, "s2": 3}, "site s1: 2 machines are needed so that no broker shares one with a neighbour; 1 given"),
        ({"s1": 3, "s2": 0}, "0 machines: between 1 and"),
    ],
)
def test_machines_of_sites_that_make_no_sense(machines: dict[str, list[str] | int], problem: str) -> None:
    scot = Scot(parse_tree("h"), 3)
    with pytest.raises(PlacementError) as caught:
        place_at_sites(scot, _at(scot, "cluster", 2), machines, strict=True)
    assert problem in str(caught.value)
