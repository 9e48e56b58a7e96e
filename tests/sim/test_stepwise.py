"""The step-by-step simulation: the same run as the fast one where both can play it, and every moment by hand."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from octopia.routing import POLICIES
from octopia.sim import BrokerFault, Fault, LinkFault, RunSpec, check_run, load_model, run, simulate
from octopia.sim.model import (
    ClientModel,
    Egress,
    LinkModel,
    Machines,
    Model,
    OneLink,
    OtherLink,
    Processor,
    Receiver,
    Sizes,
)
from octopia.sim.stepwise import Stepwise
from octopia.topology import Scot, Sites, parse_tree
from octopia.trace import TABLES
from octopia.workload import Workload
from tests.sim.test_runs import digest
from tests.sim.worlds import drawn, rows, workload

OVERLAY = Scot(parse_tree("path:3"), 3)
WORLD = drawn(OVERLAY, 4, publishers=4, subscribers=12, notifications=150, span_ns=800_000_011)
LINKS = Model(
    processor=Processor(base_ns=211_003, matching=((0, 10_007), (20, 90_001))),
    link=LinkModel(per_message_ns=9_000_017, delay_ns=70_001),
    client=ClientModel(delay_ns=13),
)
EGRESS = structs.replace(
    LINKS, link=LinkModel(per_message_ns=4_000_017, per_byte_ns=10_007, delay_ns=70_001), egress=Egress(3_000_001)
)
KINDS = structs.replace(
    LINKS, i_link=OtherLink(per_message_ns=2_000_003), links=(OneLink(between=("b.0", "b.1"), delay_ns=777_781),)
)
OUTAGE = (LinkFault(("b", 0), ("b", 1), "down", 200_000_001, 500_000_003, both=True),)
BAD_LINKS = (
    LinkFault(("a", 0), ("a", 1), "loss", 0, 10**9, probability=0.3),
    LinkFault(("b", 0), ("b", 1), "duplicate", 0, 10**9, probability=0.3),
    LinkFault(("b", 1), ("b", 2), "slow", 0, 10**9, factor=2),
    LinkFault(("b", 1), ("a", 1), "delay", 0, 10**9, delay_ns=12_345),
)
UNBOUNDED = Receiver(1_000_000)
CRASH = (BrokerFault(("c", 2), 200_000_001, 500_000_003),)


def played(folder: Path, model: Model, routing: str, faults: tuple[Fault, ...]) -> dict[str, list[str]]:
    """Every row of every table, in one order; of what a crash loses, not when it would have left its queue."""
    simulate(WORLD, OVERLAY, RunSpec(routing=routing, model=model, faults=faults), folder)
    tables: dict[str, list[Any]] = {table: rows(folder, table) for table in TABLES}
    for row in tables["hops"]:
        if row["fate"] == "broker down":
            row["left_ns"] = row["arrived_ns"] = None
    return {table: sorted(map(repr, found)) for table, found in tables.items()}


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize(
    ("model", "faults"),
    [(LINKS, ()), (EGRESS, ()), (KINDS, ()), (LINKS, OUTAGE), (LINKS, BAD_LINKS), (LINKS, CRASH)],
    ids=["links", "egress", "kinds", "outage", "bad links", "crash"],
)
def test_the_same_run_as_the_fast_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, routing: str, model: Model, faults: tuple[Fault, ...]
) -> None:
    fast = played(tmp_path / "fast", model, routing, faults)
    monkeypatch.setattr(run, "Simulation", Stepwise)
    assert played(tmp_path / "steps", model, routing, faults) == fast


@pytest.mark.parametrize("routing", POLICIES)
def test_same_seed_same_bytes_and_nothing_is_lost(tmp_path: Path, routing: str) -> None:
    model = structs.replace(
        load_model("paper-machines"), machines=Machines(count=2, cores=2, card_mbit_per_s=10), receiver=Receiver(4)
    )
    contents = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        simulate(WORLD, OVERLAY, RunSpec(routing=routing, model=model, seed=seed), tmp_path / name)
        contents.append({file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())})
    assert contents[0] == contents[1]
    assert digest(tmp_path / "one") != digest(tmp_path / "three")
    assert [finding.rule for finding in check_run(WORLD, OVERLAY, tmp_path / "one") if not finding.passed] == []


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_an_input_never_holds_more_than_its_bound(tmp_path: Path, frames: int) -> None:
    """Of what left a queue, at most so many and the one being handled are not done; the rest shows in Q_l."""
    model = Model(
        processor=Processor(base_ns=9_000_011),
        link=LinkModel(per_message_ns=1_000_003, delay_ns=31),
        receiver=Receiver(frames),
    )
    simulate(WORLD, OVERLAY, RunSpec(routing="snr", model=model), tmp_path)
    ahead: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in rows(tmp_path, "hops"):
        ends = row["sender"], row["receiver"]
        ahead.setdefault(ends, []).extend(((row["left_ns"], 1), (row["handled_ns"], -1)))
    most = 0
    for moments in ahead.values():
        held = 0
        for _, change in sorted(moments):
            held += change
            most = max(most, held)
    assert most == frames + 1
    unbounded = tmp_path / "unbounded"
    simulate(WORLD, OVERLAY, RunSpec(routing="snr", model=structs.replace(model, receiver=UNBOUNDED)), unbounded)
    assert longest_queue(tmp_path) > longest_queue(unbounded)


def longest_queue(folder: Path) -> int:
    return max(int(row["queue"]) for row in rows(folder, "hops"))


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_cores_are_never_idle_while_a_broker_could_use_one(tmp_path: Path, cores: int) -> None:
    """All brokers on one machine, and a backlog everywhere: with n cores it takes an n-th of the work's time."""
    base_ns = 1_000_000
    model = Model(processor=Processor(base_ns=base_ns), machines=Machines(count=1, cores=cores))
    brokers = OVERLAY.brokers
    world = workload(
        [(f"P{n}", broker, "x >= 0") for n, broker in enumerate(brokers)],
        [],
        [(0, n % len(brokers), {"x": n}) for n in range(900)],
    )
    found = simulate(world, OVERLAY, RunSpec(routing="snr", model=model), tmp_path)
    phase = found.phase("publish")
    assert phase.until_ns - phase.from_ns == 900 * base_ns // cores
    handled = sorted(row["handled_ns"] for row in rows(tmp_path, "requests") if row["kind"] == "publish")
    assert handled == [phase.from_ns + (n // cores + 1) * base_ns for n in range(900)]


# ---- every moment by hand

PAIR = Scot(parse_tree("path:2"), 1)
SECOND = 1_000_000_000
START = 2 * SECOND
BASE = Model(processor=Processor(base_ns=100), link=LinkModel(per_message_ns=10, delay_ns=50))


def moments(tmp_path: Path, world: Workload, model: Model, overlay: Scot = PAIR) -> list[tuple[int, ...]]:
    """Of every notification's hop: queued, left, arrived, handled, from the start of publishing; and Q_l."""
    simulate(world, overlay, RunSpec(routing="snr", model=model), tmp_path)
    columns = ("queued_ns", "left_ns", "arrived_ns", "handled_ns")
    return [
        (*(row[name] - START for name in columns), row["queue"])
        for row in rows(tmp_path, "hops")
        if row["kind"] == "notify"
    ]


def sent_at(*times: int) -> Workload:
    published = [(moment, 0, {"x": n}) for n, moment in enumerate(times)]
    return workload([("P", ("a", 0), "x >= 0")], [("S", ("b", 0), "x >= 0")], published)


def test_two_brokers_share_one_core(tmp_path: Path) -> None:
    """a handles for 100; the second request waits for the core, which b needs too when the first copy is there."""
    model = structs.replace(BASE, machines=Machines(count=1))
    assert moments(tmp_path, sent_at(0, 0, 0), model) == [
        (100, 110, 160, 300, 0),  # arrives at 160, while the core is at a's second request (100 to 200)
        (200, 210, 260, 500, 0),  # then b has it until 300, a until 400, b from 400
        (400, 410, 460, 600, 0),
    ]


def test_a_card_is_shared_by_the_brokers_of_a_machine(tmp_path: Path) -> None:
    """(a,0) and (b,1) are on one machine, their neighbours on the other; 1000 bits at 1 Mbit/s take 1 ms."""
    overlay = Scot(parse_tree("path:2"), 2)
    card = Machines(names=("left", "right"), cores=2, card_mbit_per_s=1, card_per_message_ns=7)
    model = Model(
        link=LinkModel(per_message_ns=10, delay_ns=50), machines=card, sizes=Sizes(notify_bytes=125, routing_bytes=0)
    )
    world = workload(
        [("P", ("a", 0), "x = 0"), ("Q", ("b", 1), "x = 1")],
        [("S", ("b", 0), "x = 0"), ("T", ("a", 1), "x = 1")],
        [(0, 0, {"x": 0}), (3, 1, {"x": 1}), (5, 1, {"x": 1})],
    )
    assert moments(tmp_path, world, model, overlay) == [
        (0, 1_000_017, 1_000_067, 1_000_067, 0),
        (3, 2_000_024, 2_000_074, 2_000_074, 0),  # comes to the card at 13, which is busy until 1,000,017
        (5, 3_000_041, 3_000_091, 3_000_091, 1),  # its link begins with it when the one before has left the card
    ]


def test_a_full_input_stops_the_senders_queue(tmp_path: Path) -> None:
    """b takes 100 for each, so with room for one the second is sent when b begins with the first."""
    model = structs.replace(BASE, receiver=Receiver(1), processor=Processor(base_ns=100))
    assert moments(tmp_path, sent_at(0, 0, 0, 0), model) == [
        (100, 110, 160, 260, 0),
        (200, 210, 260, 360, 0),
        (300, 310, 360, 460, 0),
        (400, 410, 460, 560, 0),
    ]
    slow = structs.replace(model, link=LinkModel(per_message_ns=10, delay_ns=500))
    assert moments(tmp_path / "slow", sent_at(0, 0, 0, 0), slow) == [
        (100, 110, 610, 710, 0),
        (200, 620, 1120, 1220, 0),  # begins at 610, when b takes up the first
        (300, 1130, 1630, 1730, 1),
        (400, 1640, 2140, 2240, 2),
    ]


def test_links_by_kind_one_by_one_and_by_site(tmp_path: Path) -> None:
    overlay = Scot(parse_tree("path:2"), 2)
    world = workload(
        [("P", ("a", 0), "x >= 0")],
        [("S", ("b", 0), "x >= 0"), ("T", ("a", 1), "x >= 0"), ("U", ("b", 1), "x >= 0")],
        [(0, 0, {"x": 1})],
    )
    model = Model(
        link=LinkModel(per_message_ns=10, delay_ns=50),
        a_link=OtherLink(per_message_ns=20),
        i_link=OtherLink(delay_ns=300),
        links=(OneLink(between=("b.1", "a.1"), per_message_ns=30, delay_ns=0),),
    )
    sites = Sites.even(overlay, "region", 2, delay_ms=1)
    simulate(world, overlay, RunSpec(routing="snr", model=model, sites=sites), tmp_path)
    times = {
        (row["sender"], row["receiver"]): (row["left_ns"] - row["queued_ns"], row["arrived_ns"] - row["left_ns"])
        for row in rows(tmp_path, "hops")
        if row["kind"] == "notify"
    }
    names = {index: str(broker) for index, broker in enumerate(overlay.brokers)}
    assert {(names[one], names[other]): found for (one, other), found in times.items()} == {
        ("(a,0)", "(b,0)"): (20, 1_000_050),
        ("(a,0)", "(a,1)"): (10, 300),
        ("(a,1)", "(b,1)"): (30, 1_000_000),
    }
