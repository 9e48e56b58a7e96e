"""Faults in every phase of a run, and registrations under load: advertisement trees that avoid slow links."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from octopia.sim import BrokerFault, Fault, LinkFault, RunSpec, check_run, load_run, simulate
from octopia.sim.model import LinkModel, Model, Processor
from octopia.topology import Scot, parse_tree
from octopia.workload import Change, Workload
from tests.sim.worlds import drawn, registration, rows, workload

MS = 1_000_000
MODEL = Model(processor=Processor(base_ns=100_000), link=LinkModel(per_message_ns=1 * MS, delay_ns=1 * MS))
# Fig. 1: two rows of three brokers, 1-2-3 above 4-5-6, each above the one below it
OVERLAY = Scot(parse_tree("path:3"), 2)
ANY = "x >= 0"


def tree(folder: Path, request: int) -> dict[str, str]:
    """For every broker the one that its first copy of the advertisement came from."""
    ids = [f"{row['region']}{row['cluster']}" for row in rows(folder, "brokers")]
    first: dict[str, str] = {}
    for hop in sorted(rows(folder, "hops"), key=lambda hop: hop["handled_ns"]):
        if hop["kind"] == "advertise" and hop["request"] == request:
            first.setdefault(ids[hop["receiver"]], ids[hop["sender"]])
    return first


def play(world: Workload, folder: Path, routing: str, faults: Sequence[Fault] = ()) -> Path:
    simulate(world, OVERLAY, RunSpec(routing=routing, model=MODEL, faults=tuple(faults)), folder)
    return folder


def test_a_slow_link_while_advertising_bends_the_tree_and_later_it_does_not(tmp_path: Path) -> None:
    world = workload([("P", ("a", 0), ANY)], [("S", ("a", 1), ANY)], [(0, 0, {"x": 1})])
    assert tree(play(world, tmp_path / "plain", "tid"), 0)["a1"] == "a0"
    slow = LinkFault(("a", 0), ("a", 1), "slow", 0, 10**12, factor=10, phase="advertise")
    bent = tree(play(world, tmp_path / "advertise", "tid", [slow]), 0)
    assert bent["a1"] == "b1", "the way around takes three links"
    for phase in ("subscribe", "publish"):
        late = LinkFault(("a", 0), ("a", 1), "slow", 0, 10**12, factor=10, phase=phase)
        assert tree(play(world, tmp_path / phase, "tid", [late]), 0)["a1"] == "a0"
    # the notification goes the way of the tree
    hops = {
        name: sum(hop["kind"] == "notify" for hop in rows(tmp_path / name, "hops")) for name in ("plain", "advertise")
    }
    assert hops == {"plain": 1, "advertise": 3}


def test_a_tree_goes_around_links_that_others_load(tmp_path: Path) -> None:
    """P1's notifications fill the link a0-a1 while P2 advertises; without them the tree is straight."""
    calm = workload([("P1", ("a", 0), ANY)], [("S", ("a", 1), ANY)], [(0, 0, {"x": 1})])
    busy = workload([("P1", ("a", 0), ANY)], [("S", ("a", 1), ANY)], [(n * MS // 4, 0, {"x": n}) for n in range(80)])
    comes = (Change(15 * MS, "advertise", replace(registration("P2", ("a", 0), ANY), id="late")),)
    for name, world, last_hop in (("calm", calm, "a0"), ("busy", busy, "b1")):
        played = replace(world, changes=comes)
        folder = play(played, tmp_path / name, "tid")
        assert tree(folder, 2 + len(world.publications))["a1"] == last_hop
        assert all(finding.passed for finding in check_run(played, OVERLAY, folder))
    # CIVs need no tree: an advertisement takes one link, loaded or not
    played = replace(busy, changes=comes)
    assert tree(play(played, tmp_path / "snr", "snr"), 2 + len(busy.publications)) == {"a1": "a0"}


@pytest.mark.parametrize("phase", ["advertise", "subscribe"])
@pytest.mark.parametrize("routing", ["snr", "idr", "fdr"])
def test_a_broker_that_is_down_while_others_register_comes_to_know(tmp_path: Path, phase: str, routing: str) -> None:
    """Clients of the broker register when it is up again; by the time of publishing all tables are in line."""
    world = drawn(OVERLAY, 3, publishers=6, subscribers=20, notifications=60, span_ns=100 * MS)
    spec = RunSpec(
        routing=routing,
        model=MODEL,
        advertise_every_ns=20 * MS,
        subscribe_every_ns=20 * MS,
        faults=(BrokerFault(("b", 1), 30 * MS, 150 * MS, phase=phase),),  # type: ignore[arg-type]
    )
    simulate(world, OVERLAY, spec, tmp_path)
    begins = load_run(tmp_path).phase(phase).from_ns
    down = [hop["arrived_ns"] - begins for hop in rows(tmp_path, "hops") if hop["fate"] == "broker down"]
    assert all(30 * MS <= moment <= 150 * MS for moment in down)
    failed = {finding.rule for finding in check_run(world, OVERLAY, tmp_path) if not finding.passed}
    assert failed <= {"no message is lost between brokers"}
