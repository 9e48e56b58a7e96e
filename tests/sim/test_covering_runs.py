"""Covering in whole runs, under load, churn and faults: all get what they get without it, and tables are smaller."""

from pathlib import Path

import pytest
from msgspec import UNSET

from octopia.routing import POLICIES
from octopia.sim import BrokerFault, LinkFault, RunSpec, check_run, simulate
from octopia.sim.model import LinkModel, Model, Processor
from octopia.topology import Scot, parse_tree
from tests.sim.worlds import changing, drawn, rows

OVERLAY = Scot(parse_tree("path:4"), 2)
MODEL = Model(processor=Processor(base_ns=200_000), link=LinkModel(per_message_ns=4_000_000, delay_ns=100_000))
KINDS = [(routing, kind) for routing in sorted(POLICIES) for kind in POLICIES[routing].covering]
SECOND_NS = 1_000_000_000


def spec(routing: str, kind: str, *faults: BrokerFault | LinkFault) -> RunSpec:
    covering = UNSET if kind == "none" else kind
    return RunSpec(routing=routing, model=MODEL, subscribe_every_ns=10_000_000, faults=faults, covering=covering)


def deliveries(folder: Path) -> list[tuple[int, int]]:
    return sorted((row["request"], row["client"]) for row in rows(folder, "deliveries"))


def prt_entries(folder: Path) -> int:
    return sum(row["prt"] for row in rows(folder, "table_sizes") if row["phase"] == "subscribe")


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_the_same_deliveries_with_smaller_tables(routing: str, kind: str, tmp_path: Path) -> None:
    world = drawn(OVERLAY, 5, publishers=5, subscribers=80, notifications=300, span_ns=SECOND_NS)
    for name in ("none", kind):
        simulate(world, OVERLAY, spec(routing, name), tmp_path / name)
        broken = [finding for finding in check_run(world, OVERLAY, tmp_path / name) if not finding.passed]
        assert broken == []
    assert deliveries(tmp_path / kind) == deliveries(tmp_path / "none")
    assert prt_entries(tmp_path / kind) < prt_entries(tmp_path / "none")


@pytest.mark.parametrize(("routing", "kind"), KINDS)
def test_every_promise_holds_while_clients_come_and_go(routing: str, kind: str, tmp_path: Path) -> None:
    world = changing(OVERLAY, 7, changes=200, span_ns=2 * SECOND_NS, publishers=5, subscribers=40, notifications=300)
    simulate(world, OVERLAY, spec(routing, kind), tmp_path / "run")
    broken = [finding.rule for finding in check_run(world, OVERLAY, tmp_path / "run") if not finding.passed]
    # publishers go on after they withdrew their advertisements
    assert broken == ["no request is refused"]


@pytest.mark.parametrize(("routing", "kind"), [(r, k) for r, k in KINDS if POLICIES[r].recovery is not None])
def test_exact_after_crashes_and_broken_links_while_subscribing(routing: str, kind: str, tmp_path: Path) -> None:
    world = drawn(OVERLAY, 9, publishers=5, subscribers=80, notifications=200, span_ns=2 * SECOND_NS)
    ms = 1_000_000
    faults = (
        BrokerFault(("b", 0), 200 * ms, 400 * ms, phase="subscribe"),
        BrokerFault(("c", 0), 300 * ms, 600 * ms, phase="subscribe"),
        LinkFault(("c", 1), ("d", 1), "down", 100 * ms, 500 * ms, both=True, phase="subscribe"),
    )
    simulate(world, OVERLAY, spec(routing, kind, *faults), tmp_path / "run")
    broken = {finding.rule for finding in check_run(world, OVERLAY, tmp_path / "run") if not finding.passed}
    # what is under way when a broker dies or a link breaks is lost, and made good
    assert broken <= {"no message is lost between brokers"}
    assert "subscriptions_complete" in {row["kind"] for row in rows(tmp_path / "run", "hops")}
