"""Locations of dead brokers and slow links, counts of losses, and the bound: against values computed by hand."""

from pathlib import Path

import pytest

from octopia.experiments import EXPERIMENTS, MetricRow, Shown, changed, make_cells, mean_rows, run_cell
from octopia.experiments.bound import folded_model
from octopia.experiments.cell import Cell
from octopia.experiments.losses import Losses, despite_crashes, losses_of
from octopia.experiments.run_cell import workload_of
from octopia.experiments.summary import Summary
from octopia.experiments.trouble import dying, link_name, links_of
from octopia.language import matches
from octopia.sim import BrokerFault, Finding, LinkFault, load_model
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.workload import Workload
from tests.experiments.cells import link_fault, small_cells
from tests.sim.worlds import rows

PATH5 = Scot(parse_tree("path:5"), 3)
STAR = Scot(parse_tree("star:4"), 4)


@pytest.mark.parametrize(
    ("overlay", "host", "place", "expected"),
    [
        # a - b - c - d - e, three clusters, so two die
        (PATH5, ("b", 1), "host-neighbours", {("a", 1), ("c", 1)}),
        (PATH5, ("a", 1), "host-neighbours", {("b", 1), ("a", 0)}),
        (PATH5, ("b", 1), "host-region", {("b", 0), ("b", 2)}),
        # beyond c are three regions, beyond a one; that of the host's own cluster is among the dead
        (PATH5, ("b", 1), "next-region", {("c", 1), ("c", 0)}),
        # without c three regions are cut off in the host's cluster, without d two
        (PATH5, ("b", 1), "inner", {("c", 1), ("d", 1)}),
        (PATH5, ("c", 0), "inner", {("b", 0), ("d", 0)}),
        # a is the middle; from b it is the only inner region
        (STAR, ("b", 2), "inner", {("a", 2), ("a", 0), ("a", 1)}),
        (STAR, ("b", 2), "next-region", {("a", 2), ("a", 0), ("a", 1)}),
        (STAR, ("a", 3), "host-region", {("a", 0), ("a", 1), ("a", 2)}),
    ],
)
def test_the_brokers_that_die(overlay: Scot, host: tuple[str, int], place: str, expected: set[tuple[str, int]]) -> None:
    assert set(dying(place, overlay, BrokerId(*host))) == expected


def host_of(cell: Cell) -> BrokerId:
    workload = workload_of(cell)
    (high_rate,) = workload.high_rate
    return workload.advertisements[high_rate].broker


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_is_around_the_high_rate_publisher_and_in_the_middle_of_the_burst(seed: int) -> None:
    cell = small_cells("crash", points=["host-region"], systems=["fdr"], first_seed=seed, crash_for=2.0)[0]
    host = host_of(cell)
    # 40 notifications at 100,000 a minute last 24 ms
    mates = [BrokerFault((host.region, cluster), 12_000_000, 60_000_000) for cluster in range(3)]
    assert cell.run.faults == tuple(fault for fault in mates if fault.broker[1] != host.cluster)
    less = small_cells("crash", points=["host-region"], systems=["fdr"], first_seed=seed, scale=0.5)[0]
    assert {(fault.from_ns, fault.until_ns) for fault in less.run.faults} == {(6_000_000, 18_000_000)}


def test_every_link_is_a_point_of_its_own() -> None:
    cells = small_cells("slow-link", points=["none", "every"], systems=["fdr"])
    names = {link_name(*link) for link in cells[0].overlay.links}
    assert [cell.point for cell in cells] == ["none", *links_of(cells[0].overlay)]
    assert len(names) == 2 * 3 + 3 * 3
    assert cells[0].run.faults == ()
    for cell in cells[1:]:
        (fault,) = cell.run.faults
        assert isinstance(fault, LinkFault)
        assert cell.point == link_name(BrokerId(*fault.sender), BrokerId(*fault.receiver))
        assert (fault.kind, fault.factor, fault.both, fault.from_ns) == ("slow", 10, True, 0)
    words = small_cells("slow-link", points=["host-alink", "host-ilink"], systems=["fdr"])
    host = host_of(words[0])
    for cell, others in zip(words, (cells[0].overlay.a_links(host), cells[0].overlay.i_links(host)), strict=True):
        (fault,) = cell.run.faults
        assert isinstance(fault, LinkFault)
        assert fault.sender == host
        assert fault.receiver in others


def test_the_slow_link_takes_ten_times_as_long_and_no_other_does(tmp_path: Path) -> None:
    cell = small_cells("slow-link", points=["b.1-c.1"], systems=["snr"])[0]
    run_cell(cell, tmp_path, keep_trace=True)
    names = {row["broker"]: (row["region"], row["cluster"]) for row in rows(tmp_path / "trace", "brokers")}
    slow = {("b", 1), ("c", 1)}
    took: dict[bool, set[int]] = {True: set(), False: set()}
    for hop in rows(tmp_path / "trace", "hops"):
        if hop["kind"] == "notify" and hop["queue"] == 0:
            took[{names[hop["sender"]], names[hop["receiver"]]} == slow].add(hop["left_ns"] - hop["queued_ns"])
    assert took == {True: {70_000_000}, False: {7_000_000}}


def wanted(workload: Workload) -> set[tuple[int, str]]:
    """Who wants which publication, one by one."""
    values = workload.notifications.to_pylist()
    return {
        (number, subscription.client)
        for number, row in enumerate(workload.publications.row)
        for subscription in workload.subscriptions
        if matches(subscription.filter, values[row])
    }


@pytest.mark.parametrize("system", ["snr", "idr", "fdr", "tid"])
@pytest.mark.parametrize("place", ["host-neighbours", "host-region", "inner"])
def test_losses_are_what_plain_python_counts(system: str, place: str, tmp_path: Path) -> None:
    cell = small_cells("crash", points=[place], systems=[system], burst_notifications=120)[0]
    result = run_cell(cell, tmp_path, keep_trace=True)
    workload = workload_of(cell)
    names = {row["client"]: row["name"] for row in rows(tmp_path / "trace", "clients")}
    first = len(workload.advertisements) + len(workload.subscriptions)
    received = sorted(rows(tmp_path / "trace", "deliveries"), key=lambda row: (row["delivered_ns"], row["request"]))
    got = [(row["request"] - first, names[row["client"]]) for row in received]
    lost = list(wanted(workload) - set(got))
    dead = {fault.broker for fault in cell.run.faults if isinstance(fault, BrokerFault)}
    at = {each.client: each.broker for each in (*workload.advertisements, *workload.subscriptions)}
    publishers = workload.publications.publisher
    repeated, late, seen = [], [], set[tuple[int, str]]()
    newest: dict[tuple[int, str], int] = {}
    for number, client in got:
        stream = (int(publishers[number]), client)
        if (number, client) in seen:
            repeated.append((number, client))
        if number < newest.get(stream, -1):
            late.append((number, client))
        seen.add((number, client))
        newest[stream] = max(newest.get(stream, -1), number)

    def live(pairs: list[tuple[int, str]]) -> int:
        return sum(
            at[client] not in dead and workload.advertisements[publishers[number]].broker not in dead
            for number, client in pairs
        )

    found = {row.part: row.value for row in result.rows if row.metric == "losses"}
    wrong = {"lost": lost, "repeated": repeated, "out_of_order": late}
    assert found == {
        **{part: len(pairs) for part, pairs in wrong.items()},
        **{f"{part}_live": live(pairs) for part, pairs in wrong.items()},
    }
    if system == "tid":
        assert found["lost_live"], "it has no recovery"


def test_what_arrives_twice_is_counted_as_repeated(tmp_path: Path) -> None:
    links = [link_fault("duplicate", "b", end, cluster) for cluster in range(3) for end in "ac"]
    cell = small_cells("crash", points=["none"], systems=["snr"], faults=links)[0]
    result = run_cell(cell, tmp_path, keep_trace=True)
    got = [(row["request"], row["client"]) for row in rows(tmp_path / "trace", "deliveries")]
    found = losses_of(workload_of(cell), cell.run.faults, tmp_path / "trace")
    again = len(got) - len(set(got))
    assert (found.lost, found.repeated, found.lost_live, found.repeated_live) == (0, again, 0, again)
    assert again
    assert result.broken, "no broker died, so all rules hold"


def test_with_crashes_only_what_is_promised_then_counts_as_broken() -> None:
    usual = (
        Finding("no message is lost between brokers", 7, True),
        Finding("no client gets an unwanted notification", 0, True),
    )
    for promised in (True, False):
        found = despite_crashes(usual, Losses(9, 8, 7, 2, 1, 3), promised)
        assert [(finding.cases, finding.promised) for finding in found] == [
            (2, promised),
            (1, promised),
            (3, promised),
            (7, False),
            (0, True),
        ]


def test_the_bound_is_one_tree_with_links_k_times_as_fast(tmp_path: Path) -> None:
    """Two regions, three clusters: one link each way, which takes 2 ms instead of 6, in order of publishing."""
    cell = small_cells(
        "burst", overlay="path:2", points=[60_000], systems=["bound"], model="instant",
        model_parameters={"link": {"per_message_ns": 6_000_000}},
    )[0]  # fmt: skip
    result = run_cell(cell, tmp_path, keep_trace=True)
    assert not result.broken
    workload = workload_of(cell)
    at = {each.client: each.broker.region for each in (*workload.advertisements, *workload.subscriptions)}
    by_publication: dict[int, set[str]] = {}
    for number, client in wanted(workload):
        by_publication.setdefault(number, set()).add(client)
    free = {"a": 0, "b": 0}
    expected = set()
    for number, (at_ns, publisher) in enumerate(
        zip(workload.publications.at_ns.tolist(), workload.publications.publisher.tolist(), strict=True)
    ):
        region = at[workload.advertisements[publisher].client]
        clients = by_publication.get(number, set())
        delays = dict.fromkeys(clients, 0)
        if any(at[client] != region for client in clients):
            free[region] = max(free[region], at_ns) + 2_000_000
            delays |= {client: free[region] - at_ns for client in clients if at[client] != region}
        expected |= {(number, client, delay) for client, delay in delays.items()}
    names = {row["client"]: row["name"] for row in rows(tmp_path / "trace", "clients")}
    issued = {row["request"]: row["issued_ns"] for row in rows(tmp_path / "trace", "requests")}
    first = len(workload.advertisements) + len(workload.subscriptions)
    found = {
        (row["request"] - first, names[row["client"]], row["delivered_ns"] - issued[row["request"]])
        for row in rows(tmp_path / "trace", "deliveries")
    }
    assert found == expected
    assert max(delay for _, _, delay in expected) > 30_000_000, "the burst waits"


def test_the_bound_sees_the_same_workload_as_the_routings_and_a_model_that_is_k_times_as_fast() -> None:
    snr, bound = small_cells("burst", systems=["snr", "bound"], points=[100_000], model="paper")
    assert (bound.workload, bound.bursts, bound.clusters) == (snr.workload, snr.bursts, 3)
    assert workload_of(bound).equals(workload_of(snr))
    paper = load_model("paper")
    fast = folded_model(paper, 3)
    assert bound.run.model == fast
    assert fast.link.per_message_ns == paper.link.per_message_ns // 3
    assert fast.processor.base_ns == paper.processor.base_ns // 3
    assert fast.processor.matching == tuple((size, ns // 3) for size, ns in paper.processor.matching)
    assert (fast.link.delay_ns, fast.link.jitter_ns) == (paper.link.delay_ns, paper.link.jitter_ns)


def test_of_many_links_the_worst_is_shown_by_name() -> None:
    values = {"none": 1.0, "a.0-b.0": 2.0, "b.0-c.0": 4.0, "a.0-a.1": 3.0}
    rows = [
        MetricRow("slow-link", system, point, None, 1, "notification_delay", "mean", "s", value * factor)
        for system, factor in (("snr", 1), ("fdr", -1))
        for point, value in values.items()
    ]
    shown = Shown("notification_delay", "mean", "", kind="ranked")
    assert mean_rows(Summary(rows), shown) == [
        ("none", ["1 s", "-1 s"]),
        ("worst of 3", ["4 s, b.0-c.0", "-2 s, a.0-b.0"]),
    ]
    better = [
        MetricRow("x", "snr", point, None, 1, "under_bound", "overall", "share", 1 / v) for point, v in values.items()
    ]
    more = Shown("under_bound", "overall", "", kind="ranked")
    assert mean_rows(Summary(better), more)[1] == ("worst of 3", ["25.0 %, b.0-c.0"])


def test_the_whole_experiments_can_be_made() -> None:
    for name, cells in (("crash", 3 * 5 * 5), ("slow-link", 206 * 5)):
        experiment = EXPERIMENTS[name]
        assert len(make_cells(experiment, changed(experiment.settings, {}, "test"))) == cells
