"""The plan: a column for each region, links that touch no other broker, tracks that do not meet."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.drawing.layout import plan_tree, tracks
from octopia.topology import Tree, parse_tree
from tests.topology.trees import trees


def test_a_path_is_a_straight_line() -> None:
    plan = plan_tree(parse_tree("path:4"))
    assert plan.column == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert set(plan.level.values()) == {0}


def test_the_papers_tree_keeps_its_longest_path_on_the_line() -> None:
    plan = plan_tree(parse_tree("h"))
    assert plan.column == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5}
    assert plan.level == {"a": 0, "b": 0, "c": 1, "d": 0, "e": 0, "f": 0}
    assert (plan.up, plan.down) == (1, 0)


@given(trees(nodes_max=16))
def test_every_region_has_its_own_column(tree: Tree) -> None:
    plan = plan_tree(tree)
    assert sorted(plan.column.values()) == list(range(len(tree.nodes)))
    assert set(plan.level) == set(tree.nodes)


@given(trees(nodes_max=16))
def test_links_stay_on_the_line_or_climb_one_level(tree: Tree) -> None:
    plan = plan_tree(tree)
    for one, other in tree.edges:
        low, high = sorted((plan.level[one], plan.level[other]))
        assert high - low == (0 if low == high == 0 else 1)


@given(trees(nodes_max=16))
def test_no_link_on_the_line_passes_a_broker(tree: Tree) -> None:
    plan = plan_tree(tree)
    for one, other in tree.edges:
        if plan.level[one] == plan.level[other]:
            left, right = sorted((plan.column[one], plan.column[other]))
            between = [node for node in tree.nodes if left < plan.column[node] < right]
            assert all(plan.level[node] != plan.level[one] for node in between)


@given(st.integers(1, 12))
def test_i_links_on_one_track_do_not_overlap(clusters: int) -> None:
    found = tracks(clusters)
    assert set(found) == {(low, high) for low, high in combinations(range(clusters), 2) if high - low > 1}
    for (one, track), (other, same) in combinations(found.items(), 2):
        if track == same:
            assert one[1] <= other[0] or other[1] <= one[0]


@pytest.mark.parametrize("clusters", [13, 40])
def test_many_clusters_get_a_track_for_each_span(clusters: int) -> None:
    found = tracks(clusters)
    assert len(found) == (clusters - 1) * (clusters - 2) // 2
    assert max(found.values()) == clusters - 3


def test_a_deep_tree_is_planned_without_recursion() -> None:
    edges = [(f"s{n}", f"s{n + 1}") for n in range(3000)] + [(f"s{n}", f"t{n}") for n in range(3000)]
    plan = plan_tree(Tree.from_edges(edges))
    assert (plan.up, plan.down) == (1, 1)
