"""The experiment about sites: every delay and every message between sites, worked out by hand from the places."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from msgspec import UNSET

from octopia.errors import InputError
from octopia.experiments import run_cell
from octopia.topology import BrokerId, Sites
from octopia.trace import TABLES
from tests.experiments.cells import small_cells
from tests.sim.worlds import rows
from tests.topology.trees import tree_graph


@pytest.mark.parametrize("by", ["cluster", "region"])
def test_under_snr_a_delivery_takes_as_long_as_its_way_between_sites(by: str, tmp_path: Path) -> None:
    """If nothing else takes time: one iLink in the publisher's region, then along the subscriber's cluster."""
    (cell,) = small_cells("sites", systems=["snr"], points=[by], model="instant", site_delay_ms=7.0)
    assert isinstance(cell.run.sites, Sites)
    result = run_cell(cell, tmp_path, keep_trace=True)
    assert not result.broken
    trace = tmp_path / "trace"
    sites, tree = cell.run.sites, tree_graph(cell.overlay.tree)
    brokers = [BrokerId(row["region"], row["cluster"]) for row in rows(trace, "brokers")]
    assert [row["site"] for row in rows(trace, "brokers")] == [sites.site_of(broker) for broker in brokers]
    requests = {row["request"]: row for row in rows(trace, "requests")}
    crossings = []
    for delivery in rows(trace, "deliveries"):
        request = requests[delivery["request"]]
        source, target = brokers[request["broker"]], brokers[delivery["broker"]]
        entry = [source] if source.cluster == target.cluster else [source, BrokerId(source.region, target.cluster)]
        tail = [BrokerId(region, target.cluster) for region in nx.shortest_path(tree, source.region, target.region)[1:]]
        way = [sites.site_of(broker) for broker in entry + tail]
        crossed = sum(one != other for one, other in pairwise(way))
        crossings.append(crossed)
        assert delivery["delivered_ns"] - request["issued_ns"] == crossed * 7_000_000
    assert max(crossings) == (1 if by == "cluster" else 2)


@pytest.mark.parametrize(("by", "advertise", "subscribe"), [("cluster", 2, None), ("region", 0, 2), ("none", 0, 0)])
def test_what_registering_sends_between_sites(by: str, advertise: int, subscribe: int | None, tmp_path: Path) -> None:
    (cell,) = small_cells("sites", systems=["snr"], points=[by])
    found = {(row.metric, row.part): row.value for row in run_cell(cell, tmp_path).rows}
    assert found["messages_between_sites", "advertise"] == advertise * cell.workload.publishers
    if subscribe is not None:
        assert found["messages_between_sites", "subscribe"] == subscribe * cell.workload.subscribers
    else:
        # Only bits cross: as many messages of subscribing as are not subscriptions.
        caused = found["messages_caused", "subscribe"]
        assert caused is not None
        assert found["messages_between_sites", "subscribe"] == caused - 2 * cell.workload.subscribers
    if by == "none":
        assert cell.run.sites is UNSET
        assert found["copies_between_sites", "number"] == 0


def test_sites_of_an_overlay_file(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        '[overlay]\ntree = "path:3"\nclusters = 2\n'
        '[sites]\nby = "cluster"\nmembers = { x = [0], y = [1] }\ndelay_ms = 5\n',
        encoding="utf-8",
    )
    (cell,) = small_cells("delivery", systems=["snr"], points=[6], overlay=str(file), clusters=None)
    assert cell.run.sites == Sites.of(cell.overlay, "cluster", {"x": [0], "y": [1]}, delay_ms=5)
    (without,) = small_cells("delivery", systems=["snr"], points=[6], overlay=str(file), clusters=None, sites="none")
    assert without.run.sites is UNSET


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"points": ["regions"]}, r"sites: 'regions' \(did you mean region\?\); choose from none, cluster, region"),
        ({"points": ["cluster"], "site_count": 4}, "sites: 4 sites: 3 clusters can be at 1 to 3 sites"),
        ({"points": ["cluster"], "systems": ["bound"]}, "bound is worked out for an overlay in one place"),
    ],
)
def test_sites_that_make_no_sense(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        small_cells("sites", **changes)


def test_the_tables_of_a_trace_end_with_what_came_last() -> None:
    assert TABLES["brokers"].names[-1] == "site"
