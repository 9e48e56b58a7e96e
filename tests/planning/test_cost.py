"""The cost model against traces of runs, and against links counted one by one; the search against all placements."""

from collections import Counter
from itertools import pairwise, product
from pathlib import Path
from random import Random

import networkx as nx
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from octopia.planning import (
    CandidateOrder,
    Flow,
    Proposal,
    Traffic,
    cost_of,
    make_traffic,
    overlay_toml,
    paths_of,
    propose,
    proposed_workload,
    slots_of,
    split,
    work_out,
)
from octopia.sim import RunSpec, check_run, simulate
from octopia.topology import BrokerId, Scot, load_overlay, parse_tree
from octopia.workload import Workload, WorkloadSpec, make_workload, synthetic_quotes

TINY = Scot(parse_tree("path:2"), 2)


def small_workload(overlay: Scot, shape: str, seed: int) -> Workload:
    spec = WorkloadSpec(5, 25, 0.15, shape, 6, seed=seed)  # type: ignore[arg-type]
    return make_workload(spec, overlay, synthetic_quotes(seed, 8, 20))


def flows_of(folder: Path) -> dict[tuple[str, tuple[str, ...]], int]:
    names = {row["client"]: row["name"] for row in pq.read_table(folder / "clients.parquet").to_pylist()}
    requests = pq.read_table(folder / "requests.parquet").to_pylist()
    got: dict[int, list[str]] = {row["request"]: [] for row in requests if row["kind"] == "publish"}
    for row in pq.read_table(folder / "deliveries.parquet").to_pylist():
        got[row["request"]].append(names[row["client"]])
    source = {row["request"]: names[row["client"]] for row in requests}
    return Counter((source[request], tuple(sorted(clients))) for request, clients in got.items())


def counted(folder: Path) -> tuple[int, int]:
    """Copies on links and hops of deliveries in a trace."""
    kinds = pq.read_table(folder / "hops.parquet", columns=["kind"])["kind"].cast("string")
    hops = pq.read_table(folder / "deliveries.parquet", columns=["hop"])["hop"]
    return pc.sum(pc.equal(kinds, "notify")).as_py() or 0, pc.sum(hops).as_py() or 0


@pytest.mark.parametrize(
    ("tree", "clusters", "shape"),
    [("path:4", 3, "mixed"), ("h", 2, "symbols"), ("star:5", 1, "ranges"), ("path:1", 4, "mixed")],
)
def test_the_model_counts_what_a_trace_counts_before_and_after(
    tree: str, clusters: int, shape: str, tmp_path: Path
) -> None:
    overlay = Scot(parse_tree(tree), clusters)
    workload = small_workload(overlay, shape, 3)
    simulate(workload, overlay, RunSpec(routing="snr"), tmp_path / "before")
    traffic = make_traffic(workload, flows_of(tmp_path / "before"))
    slots = slots_of(overlay, list(workload.clients().values()))
    paths = paths_of(overlay)
    assert cost_of(traffic, paths, clusters, slots) == counted(tmp_path / "before")

    found = work_out(
        CandidateOrder(traffic, paths.regions, paths.edges, clusters, slots, clusters, True, True, room=12, seed=1)
    )
    made = propose("both", "", found, overlay, workload.clients())
    moved = proposed_workload(workload, made)
    simulate(moved, made.overlay, RunSpec(routing="snr"), tmp_path / "after")
    assert (found.messages, found.hops) == counted(tmp_path / "after")
    assert found.weight <= cost_of(traffic, paths, clusters, slots).weight
    assert [each for each in check_run(moved, made.overlay, tmp_path / "after") if not each.passed] == []


def links_used(overlay: Scot, traffic: Traffic, brokers: list[BrokerId]) -> int:
    """Messages, link by link: the union of the ways from the publisher over its iLinks and then along the tree."""
    tree = nx.Graph(list(overlay.tree.edges))
    tree.add_nodes_from(overlay.tree.nodes)
    messages = 0
    for flow in traffic.flows:
        source = brokers[flow.source]
        used: set[tuple[BrokerId, BrokerId]] = set()
        for target in traffic.reach.get(flow.source, ()):
            if brokers[target].cluster != source.cluster:
                used.add((source, BrokerId(source.region, brokers[target].cluster)))
        for target in flow.targets:
            way = nx.shortest_path(tree, source.region, brokers[target].region)
            inside = [BrokerId(region, brokers[target].cluster) for region in way]
            used |= set(pairwise(inside))
        messages += flow.count * len(used)
    return messages


def random_traffic(seed: int) -> Traffic:
    chance = Random(seed)
    reach = {source: tuple(sorted(chance.sample(range(2, 5), chance.randint(1, 3)))) for source in (0, 1)}
    flows = tuple(
        Flow(source, tuple(sorted(chance.sample(reach[source], chance.randint(0, len(reach[source]))))), 1 + number)
        for source in (0, 1)
        for number in range(2)
    )
    return Traffic(("p0", "p1", "s0", "s1", "s2"), flows, reach)


def test_every_placement_on_a_tiny_overlay_costs_what_its_links_say_and_the_search_finds_the_best() -> None:
    paths, best_found = paths_of(TINY), 0
    for seed in range(12):
        traffic = random_traffic(seed)
        weights = []
        for slots in product(range(4), repeat=5):
            cost = cost_of(traffic, paths, 2, slots)
            assert cost.messages == links_used(TINY, traffic, [TINY.brokers[slot] for slot in slots])
            if max(map(slots.count, slots)) <= 2:
                weights.append(cost.weight)
        start = (0, 3, 1, 2, 3)
        found = work_out(CandidateOrder(traffic, 2, paths.edges, 2, start, 2, False, True, room=2))
        assert found == work_out(CandidateOrder(traffic, 2, paths.edges, 2, start, 2, False, True, room=2))
        assert max(map(found.slots.count, found.slots)) <= 2
        assert min(weights) <= found.weight <= cost_of(traffic, paths, 2, start).weight
        best_found += found.weight == min(weights)
    # a local search: it may miss the best, and here it does so less than half the time
    assert best_found >= 7


def test_bounds_on_moves_and_clients_that_stay_are_kept() -> None:
    traffic, paths = random_traffic(4), paths_of(TINY)
    start = (0, 3, 1, 2, 3)
    order = CandidateOrder(traffic, 2, paths.edges, 2, start, 2, False, True, room=5, fixed=(2,), moves_max=1)
    found = work_out(order)
    assert found.slots[2] == start[2]
    assert sum(a != b for a, b in zip(found.slots, start, strict=True)) <= 1
    apart = work_out(CandidateOrder(traffic, 2, paths.edges, 2, start, 2, False, True, room=5, zones=(0, 0, 1, 1)))
    assert [slot // 2 for slot in apart.slots] == [slot // 2 for slot in start]


def test_the_two_parts_of_a_workload_are_all_of_it_and_every_publisher_is_in_both() -> None:
    workload = small_workload(TINY, "mixed", 1)
    first, rest = split(workload, 0.5)
    every = sorted(zip(workload.publications.at_ns, workload.publications.publisher, strict=True))
    parts = [*zip(first.publications.at_ns, first.publications.publisher, strict=True)]
    parts += [*zip(rest.publications.at_ns, rest.publications.publisher, strict=True)]
    assert sorted(parts) == every
    for publisher in range(5):
        mine = [list(part.publications.at_ns[part.publications.publisher == publisher]) for part in (first, rest)]
        assert len(mine[0]) == len(mine[1]) == 3
        assert max(mine[0]) < min(mine[1])


def test_the_overlay_file_of_a_proposal_is_read_back_as_the_same_overlay(tmp_path: Path) -> None:
    for overlay in (Scot(parse_tree("h"), 3), Scot(parse_tree("path:1"), 2)):
        made = Proposal("both", "", overlay.tree.nodes, overlay.tree.edges, overlay.clusters, {}, covering="host")
        (tmp_path / "both.toml").write_text(overlay_toml(made, "snr"), encoding="utf-8")
        assert load_overlay(tmp_path / "both.toml").scot == overlay
