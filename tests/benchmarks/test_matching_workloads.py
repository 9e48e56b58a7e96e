"""The matching benchmark asks all systems the same question: workloads as stated, peers that agree. No timing here."""

import numpy as np
import pytest
from benchmarks.matching.compare import peers_of
from benchmarks.matching.measure import advertisements
from benchmarks.matching.peers import scan, shapes
from benchmarks.matching.workloads import NUMBERS, RECIPES, make, ranges_of

from octopia.language import matches


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_workload_has_its_stated_selectivity(name: str) -> None:
    workload = make(name, subscriptions=2_000, events=60)
    found = len(scan(workload.filters, workload.events.notifications))
    assert found / (2_000 * 60) == pytest.approx(RECIPES[name].selectivity, rel=0.15)


@pytest.mark.parametrize("selectivity", [0.01, 0.1])
def test_ranges_of_another_width_have_the_selectivity_asked_for(selectivity: float) -> None:
    workload = make("B", subscriptions=2_000, events=40, recipe=ranges_of(selectivity))
    found = len(scan(workload.filters, workload.events.notifications))
    assert found / (2_000 * 40) == pytest.approx(selectivity, rel=0.15)


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_workload_is_the_same_for_the_same_seed(name: str) -> None:
    once, again = (make(name, subscriptions=50, events=20) for _ in range(2))
    assert once.filters == again.filters
    assert once.events.notifications == again.events.notifications
    assert make(name, subscriptions=50, events=20, seed=8).filters != once.filters


def test_events_have_ten_attributes_and_in_workload_c_sometimes_nine() -> None:
    assert {len(n) for n in make("A", 1, 200).events.notifications} == {2 + len(NUMBERS)}
    assert {len(n) for n in make("C", 1, 200).events.notifications} == {1 + len(NUMBERS), 2 + len(NUMBERS)}


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_batch_holds_the_notifications(name: str) -> None:
    events = make(name, 1, 30).events
    lines = [{k: v for k, v in line.items() if v is not None} for line in events.batch.to_pylist()]
    assert lines == [notification.to_dict() for notification in events.notifications]


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_peer_finds_what_octopia_matches_finds(name: str) -> None:
    workload = make(name, subscriptions=400, events=40)
    expected = scan(workload.filters, workload.events.notifications)
    assert expected
    peers = peers_of(workload.table)
    assert set(peers) >= {"duckdb", "duckdb by shape"}
    assert ("polars by shape" in peers) is (name != "C")
    for system, peer in peers.items():
        peer.load(workload.events.batch)
        found = peer.run()
        pairs = zip(found.column("event").to_pylist(), found.column("id").to_pylist(), strict=True)
        assert sorted(pairs) == expected, system


def test_an_absent_attribute_satisfies_no_bound_and_no_presence_at_the_peers() -> None:
    workload = make("C", subscriptions=2_000, events=60)
    absent = [i for i, n in enumerate(workload.events.notifications) if "change_percent" not in n]
    asking = [i for i, f in enumerate(workload.filters) if "change_percent" in f.attributes]
    assert absent
    assert asking
    for peer in peers_of(workload.table).values():
        peer.load(workload.events.batch)
        found = peer.run()
        pairs = set(zip(found.column("event").to_pylist(), found.column("id").to_pylist(), strict=True))
        assert not pairs & {(event, id) for event in absent for id in asking}


@pytest.mark.parametrize("name", list(RECIPES))
def test_shapes_hold_every_subscription_once(name: str) -> None:
    table = make(name, subscriptions=300, events=1).table
    rows = np.concatenate(list(shapes(table).values()))
    assert sorted(rows.tolist()) == list(range(300))
    assert (len(shapes(table)) == 1) is (name == "A")


def test_advertisements_name_all_that_events_have() -> None:
    (notification,) = make("A", 1, 1).events.notifications
    assert all(set(a.attributes) == set(notification) for a in advertisements())
    assert not any(matches(a, {"class": "STOCK"}) for a in advertisements())
