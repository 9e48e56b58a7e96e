"""The reach of one failing broker, and changes in cells: against plain counts."""

from collections import Counter
from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.experiments import Cell, run_cell, workload_of
from octopia.experiments.trouble import failing
from octopia.language import matches
from octopia.sim import BrokerFault
from octopia.topology import BrokerId, Scot, parse_tree
from tests.experiments.cells import small_cells
from tests.sim.worlds import rows

PATH3 = Scot(parse_tree("path:3"), 2)
MS = 1_000_000


# ---- which broker


def test_the_broker_that_fails_is_found_by_its_clients() -> None:
    publishers = {BrokerId("a", 1): 2, BrokerId("b", 0): 1}
    subscribers = {BrokerId("a", 0): 1, BrokerId("b", 0): 1, BrokerId("b", 1): 1, BrokerId("c", 0): 3}
    places = ("edge", "inner", "publishers", "subscribers")
    found = [failing(place, PATH3, publishers, subscribers) for place in places]
    # c1 has no client; b1 has one and b0 two
    assert found == [("c", 1), ("b", 1), ("a", 1), ("c", 0)]


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no place 'iner'"):
        failing("iner", PATH3, {}, {})
    with pytest.raises(InputError, match="has no inner broker"):
        failing("inner", Scot(parse_tree("path:2"), 2), {}, {})


@pytest.mark.parametrize("place", ["edge", "inner", "publishers", "subscribers"])
def test_it_fails_while_others_publish_and_is_the_one_with_those_clients(place: str) -> None:
    cell = small_cells("failures", points=[place], systems=["snr"], crash_at=0.2, crash_for=0.5)[0]
    (fault,) = cell.run.faults
    # five notifications of each publisher, one a second
    assert (fault.from_ns, fault.until_ns) == (1000 * MS, 3500 * MS)
    assert isinstance(fault, BrokerFault)
    workload = workload_of(cell)
    counts = [Counter(each.broker for each in several) for several in (workload.advertisements, workload.subscriptions)]
    broker = BrokerId(*fault.broker)
    if place in ("publishers", "subscribers"):
        count = counts[place == "subscribers"]
        assert count[broker] == max(count.values())
    else:
        assert cell.overlay.is_inner(broker) == (place == "inner")


# ---- how far it reaches


def counted(cell: Cell, folder: Path) -> Counter[str]:
    """Every delivery that should be there, and every message, one by one."""
    workload = workload_of(cell)
    (fault,) = cell.run.faults
    assert isinstance(fault, BrokerFault)
    dead = BrokerId(*fault.broker)
    names = {row["client"]: row["name"] for row in rows(folder / "trace", "clients")}
    at = {each.client: each.broker for each in (*workload.advertisements, *workload.subscriptions)}
    first = len(workload.advertisements) + len(workload.subscriptions)

    def place(number: int, client: str) -> str:
        publisher = workload.advertisements[workload.publications.publisher[number]].broker
        subscriber = at[client]
        if dead in (publisher, subscriber):
            return "broker"
        if subscriber.cluster == dead.cluster:
            return "cluster"
        return "region" if dead.region in (publisher.region, subscriber.region) else "elsewhere"

    found: Counter[str] = Counter()
    got = set()
    issued = {row["request"]: row["issued_ns"] for row in rows(folder / "trace", "requests")}
    for row in rows(folder / "trace", "deliveries"):
        number, client = row["request"] - first, names[row["client"]]
        got.add((number, client))
        if row["delivered_ns"] - issued[row["request"]] > cell.delay_bound_ns:
            found[f"late_{place(number, client)}"] += 1
    values = workload.notifications.to_pylist()
    for number, row_number in enumerate(workload.publications.row):
        for each in workload.subscriptions:
            if matches(each.filter, values[row_number]) and (number, each.client) not in got:
                found[f"lost_{place(number, each.client)}"] += 1
    return found + recovery(dead, folder)


def recovery(dead: BrokerId, folder: Path) -> Counter[str]:
    brokers = [(row["region"], row["cluster"]) for row in rows(folder / "trace", "brokers")]
    found: Counter[str] = Counter()
    for hop in rows(folder / "trace", "hops"):
        if hop["request"] == -1 and hop["kind"] not in ("notify", "confirm", "ask_confirm", "waits"):
            ends = [brokers[hop["sender"]], brokers[hop["receiver"]]]
            if all(cluster == dead.cluster for _, cluster in ends):
                found["messages_cluster"] += 1
            elif all(region == dead.region for region, _ in ends):
                found["messages_region"] += 1
            else:
                found["messages_elsewhere"] += 1
    return found


@pytest.mark.parametrize("system", ["snr", "idr", "fdr", "tid"])
def test_reach_is_what_plain_python_counts(system: str, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for place in ("inner", "publishers"):
        folder = tmp_path / place
        changes = {"notifications_per_publisher": 15, "crash_at": 0.3, "delay_bound_s": 0.02}
        cell = small_cells("failures", points=[place], systems=[system], **changes)[0]
        result = run_cell(cell, folder, keep_trace=True)
        rows = {metric: [row for row in result.rows if row.metric == metric] for metric in ("reach", "recovery")}
        found = {row.part: row.value for row in rows["reach"]}
        found |= {f"messages_{row.part}": row.value for row in rows["recovery"]}
        expected = counted(cell, folder)
        assert found == {part: expected[part] for part in found}
        assert set(expected) <= set(found)
        seen += expected
    assert seen["lost_broker"]
    if system in ("snr", "idr"):
        assert not seen["lost_region"] + seen["lost_elsewhere"], "the paper's claim"
    if system == "fdr":
        assert not seen["lost_cluster"] + seen["lost_region"] + seen["lost_elsewhere"]


def test_nothing_reaches_anywhere_where_nothing_fails(tmp_path: Path) -> None:
    result = run_cell(small_cells("failures", points=["none"], systems=["snr"])[0], tmp_path)
    assert {row.value for row in result.rows if row.metric in ("reach", "recovery")} == {0.0}


# ---- changes


@pytest.mark.parametrize("system", ["snr", "tid", "bound"])
def test_a_cell_with_changes_is_judged_and_measured(system: str, tmp_path: Path) -> None:
    cell = small_cells("churn", points=[1200], systems=[system])[0]
    result = run_cell(cell, tmp_path, keep_trace=True)
    assert not result.broken
    changes = workload_of(cell).changes
    # 100 changes in five seconds, a fifth of them about advertisements
    assert Counter(change.kind for change in changes) == {
        "subscribe": 40, "unsubscribe": 40, "advertise": 10, "unadvertise": 10
    }  # fmt: skip
    kinds = [row["kind"] for row in rows(tmp_path / "trace", "requests") if row["request"] >= 16]
    assert kinds.count("unsubscribe") == 40
    values = {(row.metric, row.part): row.value for row in result.rows}
    assert values["losses", "lost"] == 0
    if system == "snr":
        # one message to each of the two others of the region, or of the cluster
        assert values["change_messages", "unadvertise"] == values["change_brokers", "unadvertise_region"] == 2
        assert values["change_brokers", "subscribe_cluster"] == 3
        assert values["change_messages", "advertise_elsewhere"] == 0


def test_settings_of_changes_are_checked_by_their_names() -> None:
    assert small_cells("churn", points=[0])[0].churn is None
    with pytest.raises(InputError, match="changes_of_advertisements is 2"):
        small_cells("churn", changes_of_advertisements=2.0)
    with pytest.raises(InputError, match="changes_per_minute is -5"):
        small_cells("churn", points=[-5])
