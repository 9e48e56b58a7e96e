"""The plan of an overlay for a page: every broker and link where the overlay says, judged by its own coordinates."""

import pytest

from octopia.drawing import overlay_map
from octopia.topology import Scot, parse_tree


@pytest.mark.parametrize(("tree", "clusters"), [("path:3", 3), ("evaluation", 5), ("star:4", 1), ("path:1", 4)])
def test_brokers_stand_in_their_band_and_column_and_links_end_at_them(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    plan = overlay_map(scot)
    assert [broker for broker, _ in plan.brokers] == list(scot.brokers)
    columns = dict(plan.columns)
    assert sorted(columns) == sorted(scot.tree.nodes)
    assert len(set(columns.values())) == len(columns)
    for broker, (x, y) in plan.brokers:
        band = plan.bands[broker.cluster]
        assert band.cluster == broker.cluster
        assert band.top < y < band.bottom
        assert x == columns[broker.region]
        assert 0 < x < plan.width
        assert 0 < y < plan.height
    # bands lie one below the other, the first on top
    assert all(one.bottom < other.top for one, other in zip(plan.bands, plan.bands[1:], strict=False))
    where = [place for _, place in plan.brokers]
    ends = [(scot.brokers[link.source], scot.brokers[link.target]) for link in plan.links]
    assert ends == list(scot.links)
    for link, (one, other) in zip(plan.links, ends, strict=True):
        assert link.kind == ("i" if one.region == other.region else "a")
        assert (link.line[0], link.line[-1]) == (where[link.source], where[link.target])


def test_a_large_plan_has_few_points() -> None:
    plan = overlay_map(Scot(parse_tree("path:70"), 10))
    assert len(plan.brokers) == 700
    assert max(len(link.line) for link in plan.links) <= 7
