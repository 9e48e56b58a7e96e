"""Checkers detect errors: brokers broken on purpose, and workloads without errors."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_fault

from octopia.protocol import PLAIN, CibSet, Civ
from octopia.routing import POLICIES, Action, Copy, Decision, Recipient
from octopia.sim import BrokerFault, Fault, Finding, LinkFault, RunSpec, check_run, draw_faults, load_model, simulate
from octopia.sim.model import LinkModel, Model, Processor
from octopia.topology import Scot, parse_tree
from octopia.workload import BurstSpec, WorkloadSpec, make_workload, synthetic_quotes
from tests.sim.worlds import drawn, rows, workload

OVERLAY = Scot(parse_tree("path:3"), 3)
SLOW = Model(processor=Processor(base_ns=200_000), link=LinkModel(per_message_ns=15_000_000, delay_ns=100_000))

LOST = "every notification reaches every interested client"
TWICE = "no client gets a notification twice"
UNWANTED = "no client gets an unwanted notification"
HOPS = "a notification takes at most 3 hops"
AGAIN = "a notification comes to a broker once each time it is sent"
ORDER = "notifications of a publisher arrive in order"
REFUSED = "no request is refused"
GONE = "no message is lost between brokers"
QUEUES = "all queues are empty at the end"
BITS = "every bit of every CIV is exact at the end"


def findings(tmp_path: Path, routing: str, faults: tuple[Fault, ...] = ()) -> dict[str, Finding]:
    world = drawn(OVERLAY, 5, publishers=4, subscribers=15, notifications=400, span_ns=700_000_000)
    simulate(world, OVERLAY, RunSpec(routing=routing, model=SLOW, faults=faults), tmp_path)
    return {finding.rule: finding for finding in check_run(world, OVERLAY, tmp_path)}


def failed(tmp_path: Path, routing: str, faults: tuple[Fault, ...] = ()) -> set[str]:
    return {rule for rule, finding in findings(tmp_path, routing, faults).items() if not finding.passed}


@pytest.mark.parametrize("routing", POLICIES)
def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, routing: str) -> None:
    found = findings(tmp_path, routing)
    assert [finding for finding in found.values() if not finding.passed] == []
    bits = [BITS] if routing in ("snr", "idr", "fdr") else []
    hops = "a notification takes at most 4 hops" if routing == "fdr" else HOPS
    assert list(found) == [LOST, TWICE, UNWANTED, ORDER, REFUSED, GONE, QUEUES, *bits, AGAIN, hops], "the gravest first"
    if routing in ("snr", "fdr"):
        assert all(finding.cases == 0 for finding in found.values())
    if routing == "idr":
        assert found[ORDER].cases > 0, "dynamic routing reorders, and is seen to"


def test_a_bit_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_policy(monkeypatch, "snr", receive={**POLICIES["snr"].receive, CibSet: deaf})
    assert failed(tmp_path, "snr") == {LOST, BITS}


def test_a_copy_that_is_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_publish(monkeypatch, lambda copies: (*copies, *copies[:1]))
    assert failed(tmp_path, "snr") == {TWICE, AGAIN}


def test_what_is_sent_again_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination that waits too long for the beginning of a stream asks for it, though nothing is lost."""
    monkeypatch.setattr("octopia.routing.fdr.streams.streams.ASK_AFTER_S", 0.05)
    bursts = [BurstSpec(rate, 400, 0.3) for rate in (100_000, 80_000, 60_000)]
    clients = WorkloadSpec(4, 30, 0.2, notifications_per_publisher=20, seed=0)
    world = make_workload(clients, OVERLAY, synthetic_quotes(0, 20, 50), bursts)
    simulate(world, OVERLAY, RunSpec(routing="fdr", model=load_model("paper")), tmp_path)
    assert [finding for finding in check_run(world, OVERLAY, tmp_path) if not finding.passed] == []
    copies = [row for row in rows(tmp_path, "hops") if row["kind"] == "notify"]
    came = Counter((row["request"], row["receiver"]) for row in copies)
    sent = {(row["request"], row["queued_ns"]) for row in copies if row["hop"] == 1}
    assert max(came.values()) > 1, "something was sent again"
    assert max(Counter(request for request, _ in sent).values()) > 1


def test_a_hop_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that should enter cluster 0 enter cluster 1."""

    def astray(copies: tuple[Copy, ...]) -> tuple[Copy, ...]:
        moved = {id: id._replace(cluster=1) for id in OVERLAY.cluster(0)}
        there = {to for to, _ in copies}
        return tuple((moved[to] if to in moved and moved[to] in there else to, header) for to, header in copies)

    break_publish(monkeypatch, astray)
    assert failed(tmp_path, "snr") == {LOST, TWICE, AGAIN}


def test_a_delivery_to_somebody_who_did_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = POLICIES["snr"].route

    def generous(state: Any, matched: Any, header: Any, came_by: Any) -> Decision:
        decision = original(state, matched, header, came_by)
        recipients = decision.recipients
        if came_by is None and recipients and all(r.client != "s0" for r in recipients):
            recipients = (*recipients, Recipient("s0", ("1",)))
        return Decision(recipients, decision.copies)

    break_policy(monkeypatch, "snr", route=generous)
    assert UNWANTED in failed(tmp_path, "snr")


def test_a_detour_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A static broker that sends everything back and forth once: too many hops, and brokers visited twice."""
    original, bounced = POLICIES["snr"].route, Civ(1)

    def bouncing(state: Any, matched: Any, header: Any, came_by: Any) -> Decision:
        decision = original(state, matched, header, came_by)
        if came_by is None or came_by.cluster == state.id.cluster or header != PLAIN:
            return decision
        return Decision(decision.recipients, (*decision.copies, (came_by, bounced)))

    break_policy(monkeypatch, "snr", route=bouncing)
    assert {TWICE, AGAIN} <= failed(tmp_path, "snr")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (LinkFault(("b", 0), ("b", 1), "loss", 0, 10**10, both=True), {LOST, GONE}),
        (LinkFault(("b", 0), ("b", 1), "duplicate", 0, 10**10, both=True), {TWICE, AGAIN}),
        (LinkFault(("b", 0), ("b", 1), "delay", 0, 10**10, both=True, delay_ns=10**9), set()),
        (LinkFault(("b", 0), ("b", 1), "slow", 0, 10**10, both=True, factor=5), set()),
        (BrokerFault(("b", 1), 10**8, 2 * 10**8), {LOST, GONE}),
    ],
    ids=["loss", "duplicate", "delay", "slow", "broker"],
)
def test_what_a_fault_breaks_is_reported(tmp_path: Path, fault: Fault, expected: set[str]) -> None:
    assert failed(tmp_path, "snr", (fault,)) == expected


def test_a_routing_without_recovery_stays_out_of_line_and_is_seen_to(tmp_path: Path) -> None:
    assert failed(tmp_path, "tid", (BrokerFault(("b", 1), 10**8, 2 * 10**8),)) == {LOST, GONE, REFUSED}


@pytest.mark.parametrize("routing", ["snr", "idr"])
@pytest.mark.parametrize("seed", range(12))
def test_after_an_outage_everything_is_as_before(tmp_path: Path, routing: str, seed: int) -> None:
    """Links and brokers go down and come up, several at once, others while they come up, and nobody publishes then."""
    before = drawn(OVERLAY, seed, publishers=4, subscribers=15, notifications=100, span_ns=10**8)
    later = [(2 * 10**9 + at, who, {"x": at % 100, "y": who * 20}) for at in range(0, 10**8, 10**6) for who in range(4)]
    row = before.notifications.to_pylist()
    earlier = zip(before.publications.at_ns.tolist(), before.publications.publisher.tolist(), row, strict=True)
    world = workload(
        [(each.client, each.broker, str(each.filter)) for each in before.advertisements],
        [(each.client, each.broker, str(each.filter)) for each in before.subscriptions],
        [*earlier, *later],
    )
    drawn_faults = draw_faults(OVERLAY, seed, links_down=4, brokers_down=3, span_ns=3 * 10**8, length_ns=10**8)
    faults = tuple(
        replace_fault(each, from_ns=each.from_ns + 10**9, until_ns=each.until_ns + 10**9) for each in drawn_faults
    )
    fast = Model(
        processor=Processor(base_ns=20_000), link=LinkModel(per_message_ns=300_000, delay_ns=50_000, jitter_ns=40_000)
    )
    simulate(world, OVERLAY, RunSpec(routing=routing, model=fast, faults=faults, seed=seed), tmp_path)
    found = {finding.rule for finding in check_run(world, OVERLAY, tmp_path) if not finding.passed}
    assert found <= {GONE}, "only what brokers said to each other while the links went down"


def test_examples_name_notification_and_client(tmp_path: Path) -> None:
    world = workload(
        [("P", ("a", 0), "x >= 0")], [("S", ("b", 0), "x > 1"), ("T", ("a", 0), "x > 1")], [(0, 0, {"x": 5})]
    )
    loss = LinkFault(("a", 0), ("b", 0), "loss", 0, 10**9)
    simulate(world, OVERLAY, RunSpec(routing="snr", model=SLOW, faults=(loss,)), tmp_path)
    found = {finding.rule: finding for finding in check_run(world, OVERLAY, tmp_path)}
    assert found[LOST] == Finding(LOST, 1, True, ("notification 3 of P, client S",))
    assert found[GONE] == Finding(GONE, 1, True, ("lost: 1 messages",))


def test_a_refused_request_is_reported(tmp_path: Path) -> None:
    world = workload([("P", ("a", 0), "x >= 0")], [], [(0, 0, {"x": -5})])
    simulate(world, OVERLAY, RunSpec(routing="snr"), tmp_path)
    (finding,) = [each for each in check_run(world, OVERLAY, tmp_path) if each.cases]
    assert finding.rule == REFUSED
    assert finding.examples[0].startswith("request 1: P did not advertise this")


# ---- ways to break a broker


def deaf(state: Any, sender: Any, message: Any, now: float, out: list[Action]) -> None:
    pass


def break_policy(monkeypatch: pytest.MonkeyPatch, routing: str, **changes: Any) -> None:
    monkeypatch.setitem(POLICIES, routing, replace(POLICIES[routing], **changes))


def break_publish(monkeypatch: pytest.MonkeyPatch, change: Callable[[tuple[Copy, ...]], tuple[Copy, ...]]) -> None:
    """Change the copies that a publisher's host broker sends."""
    original = POLICIES["snr"].route

    def route(state: Any, matched: Any, header: Any, came_by: Any) -> Decision:
        decision = original(state, matched, header, came_by)
        return decision if came_by is not None else Decision(decision.recipients, change(decision.copies))

    break_policy(monkeypatch, "snr", route=route)
