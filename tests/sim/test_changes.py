"""Withdrawals and new registrations among publications: who must, may and must not get what, second by second.

The oracle reads the trace row by row and goes by the definitions at the head of `octopia.sim.terms`, in loops.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from octopia.errors import InputError
from octopia.language import matches
from octopia.protocol import CibClear, CibSet, Unsubscribe
from octopia.routing import POLICIES, Action
from octopia.sim import BrokerFault, LinkFault, RunSpec, check_run, compare_deliveries, simulate, terms_of
from octopia.sim.model import ClientModel, LinkModel, Model, Processor
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.workload import Change, Registration, Workload
from tests.effort import cases
from tests.sim.test_checkers import break_policy, deaf
from tests.sim.worlds import changing, registration, rows, workload

OVERLAY = Scot(parse_tree("path:3"), 3)
SECOND = 1_000_000_000
MODEL = Model(
    processor=Processor(base_ns=200_000),
    link=LinkModel(per_message_ns=3_000_000, delay_ns=2_000_000, jitter_ns=500_000),
    client=ClientModel(delay_ns=100_000),
)
LOST = "every notification reaches every interested client"
UNWANTED = "no client gets an unwanted notification"
BITS = "every bit of every CIV is exact at the end"
ENDLESS = 1 << 62
Pair = tuple[int, int]


def world(seed: int, changes: int = 120) -> Workload:
    return changing(
        OVERLAY, seed, changes=changes, publishers=4, subscribers=12, notifications=150, span_ns=600_000_000
    )


def failed(world: Workload, folder: Path, routing: str, **spec: Any) -> dict[str, int]:
    simulate(world, OVERLAY, RunSpec(routing=routing, model=MODEL, **spec), folder)
    return {finding.rule: finding.cases for finding in check_run(world, OVERLAY, folder) if not finding.passed}


@pytest.mark.parametrize(("routing", "covering"), [("snr", "link"), ("idr", "host"), ("fdr", "host"), ("tid", "link")])
def test_changes_break_nothing_where_covered_subscriptions_stay_at_home(
    tmp_path: Path, routing: str, covering: str
) -> None:
    for seed in range(cases(6)):
        found = failed(world(seed), tmp_path / str(seed), routing, covering=covering)
        assert found.keys() <= {"no request is refused"}


def test_changes_among_publications_break_nothing(tmp_path: Path) -> None:
    """Publishers that withdrew are refused; all else holds, under every routing."""
    for seed in range(cases(9)):
        for routing in POLICIES:
            assert failed(world(seed), tmp_path / f"{routing}{seed}", routing).keys() <= {"no request is refused"}


# ---- the oracle


def settled(folder: Path, request: int) -> int:
    """When all that the request led to was handled, and all that others but publications, made by then, led to."""
    asked = {row["request"]: row for row in rows(folder, "requests") if row["kind"] != "publish"}
    ends = {number: [row["handled_ns"]] for number, row in asked.items()}
    for hop in rows(folder, "hops"):
        if hop["request"] in asked:
            ends[hop["request"]].append(hop["handled_ns"])
    if None in ends[request] or asked[request]["refused"] is not None:
        return ENDLESS
    done = max(ends[request])
    others = [ends[number] for number, row in asked.items() if row["issued_ns"] <= done]
    return int(max([done, *(moment for several in others for moment in several if moment is not None)]))


def spans(world: Workload, folder: Path, kinds: tuple[str, str]) -> list[tuple[Registration, list[int]]]:
    """Every registration with four moments: exists from, in force from, in force until, exists until."""
    at_first = world.advertisements if kinds[0] == "advertise" else world.subscriptions
    found = [(each, [0, 0, ENDLESS, ENDLESS]) for each in at_first]
    issued = {row["request"]: row["issued_ns"] for row in rows(folder, "requests")}
    first = len(world.advertisements) + len(world.subscriptions) + len(world.publications)
    for number, change in enumerate(world.changes, first):
        who = change.registration.client, change.registration.id
        if change.kind == kinds[0]:
            found.append((change.registration, [issued[number], settled(folder, number), ENDLESS, ENDLESS]))
        elif change.kind == kinds[1]:
            own = [span for each, span in found if (each.client, each.id) == who and span[2] == ENDLESS]
            for span in own:
                span[2:] = issued[number], settled(folder, number)
    return found


def judged(world: Workload, folder: Path) -> tuple[set[Pair], set[Pair]]:
    """Pairs of a publication and a client: those that must be, and those that may be."""
    clients = {row["name"]: row["client"] for row in rows(folder, "clients")}
    advertised = spans(world, folder, ("advertise", "unadvertise"))
    subscribed = spans(world, folder, ("subscribe", "unsubscribe"))
    values = world.notifications.to_pylist()
    first = len(world.advertisements) + len(world.subscriptions)
    requests = {row["request"]: row for row in rows(folder, "requests")}
    ends: dict[int, int] = {}
    for row in [*rows(folder, "hops"), *rows(folder, "deliveries")]:
        end = row.get("handled_ns") or row.get("delivered_ns") or 0
        ends[row["request"]] = max(end, ends.get(row["request"], 0))
    must, may = set(), set()
    for number, (who, row) in enumerate(zip(world.publications.publisher, world.publications.row, strict=True)):
        asked = requests[first + number]
        begin, end = asked["issued_ns"], max(asked["handled_ns"] or 0, asked["issued_ns"], ends.get(first + number, 0))
        publisher = world.advertisements[who].client
        allowed = any(
            each.client == publisher and matches(each.filter, values[row]) and span[1] <= begin and end <= span[2]
            for each, span in advertised
        )
        for each, span in subscribed:
            if matches(each.filter, values[row]):
                pair = number, clients[each.client]
                if allowed and span[1] <= begin and end <= span[2]:
                    must.add(pair)
                if span[0] <= end and begin <= span[3]:
                    may.add(pair)
    return must, may


@pytest.mark.parametrize("routing", ["snr", "fdr", "tid"])
def test_what_must_and_may_be_is_what_loops_over_the_trace_say(tmp_path: Path, routing: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(cases(6)):
        folder = tmp_path / str(seed)
        played, draw = world(seed, changes=60), Random(seed)
        faults = (LinkFault(("a", 0), ("b", 0), "loss", 0, SECOND, probability=0.1),) if seed % 2 else ()
        simulate(played, OVERLAY, RunSpec(routing=routing, model=MODEL, faults=faults), folder)
        must, may = judged(played, folder)
        assert must <= may
        clients = {row["name"]: row["client"] for row in rows(folder, "clients")}
        # deliveries of no routing: some of each sort are there, some are not
        everything = [(n, client) for n in range(len(played.publications)) for client in clients.values()]
        got = [pair for pair in everything if draw.random() < (0.9 if pair in must else 0.5 if pair in may else 0.02)]
        numbers, whose = (np.array(part, dtype=np.int64) for part in zip(*got, strict=True))
        found = compare_deliveries(played, clients, numbers, whose, terms_of(played, folder))
        for codes, pairs in ((found.missing, must - set(got)), (found.unwanted, set(got) - may)):
            assert codes.tolist() == sorted(n * len(clients) + client for n, client in pairs)
        seen.update(must=len(must), between=len(may - must), never=len(everything) - len(may))
    assert min(seen.values()) > 50, seen


def test_a_trace_of_another_workload_is_refused(tmp_path: Path) -> None:
    played = world(0)
    simulate(played, OVERLAY, RunSpec(routing="snr", model=MODEL), tmp_path)
    with pytest.raises(InputError, match="not the trace of a whole run"):
        terms_of(replace(played, changes=played.changes[:-1]), tmp_path)


# ---- brokers broken on purpose


def test_a_broker_that_forgets_to_unsubscribe_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_policy(monkeypatch, "snr", unsubscribe=lambda state, key, out: None)
    found = failed(world(1), tmp_path, "snr")
    assert found[UNWANTED] > 0
    assert LOST not in found


def test_a_broker_that_does_not_hear_of_new_interest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hears = dict(POLICIES["snr"].receive)

    def sometimes(state: Any, sender: Any, message: Any, now: float, out: list[Action]) -> None:
        # what was subscribed before publishing began arrives
        if state.id.region != "b":
            hears[CibSet](state, sender, message, now, out)

    break_policy(monkeypatch, "snr", receive={**hears, CibSet: sometimes})
    assert failed(world(1), tmp_path, "snr").keys() >= {LOST, BITS}


@pytest.mark.parametrize("kind", [Unsubscribe, CibClear])
def test_a_withdrawal_that_does_not_get_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Deliveries are right, but bits stay ON without interest."""
    break_policy(monkeypatch, "snr", receive={**POLICIES["snr"].receive, kind: deaf})
    one_goes = workload([("P", ("a", 0), "x >= 0")], [("S", ("b", 1), "x >= 0")], [(SECOND, 0, {"x": 1})])
    one_goes = replace(one_goes, changes=(Change(0, "unsubscribe", one_goes.subscriptions[0]),))
    assert failed(one_goes, tmp_path, "snr") == {BITS: 1}


# ---- outages


@pytest.mark.parametrize("routing", ["snr", "idr", "fdr"])
def test_clients_register_anew_what_they_hold_when_their_broker_starts_again(tmp_path: Path, routing: str) -> None:
    """Before the crash one subscription goes and one comes; during it, too. After it exactly the two new ones count."""
    four = {id: replace(registration("S", ("b", 1), f"x = {id}"), id=str(id)) for id in range(4)}
    ms = 1_000_000
    played = replace(
        workload(
            [("P", ("a", 0), "x >= 0")],
            [("T", ("c", 2), "x >= 0")],
            [(at * 500 * ms, 0, {"x": x}) for at in (1, 7) for x in range(4)],
        ),
        changes=(
            Change(1 * ms, "subscribe", four[0]),
            Change(2 * ms, "subscribe", four[1]),
            Change(900 * ms, "unsubscribe", four[0]),
            Change(901 * ms, "subscribe", four[2]),
            # the broker is down
            Change(1500 * ms, "unsubscribe", four[1]),
            Change(1501 * ms, "subscribe", four[3]),
        ),
    )
    fault = BrokerFault(BrokerId("b", 1), 1000 * ms, 2000 * ms)
    simulate(played, OVERLAY, RunSpec(routing=routing, model=MODEL, faults=(fault,)), tmp_path)
    names = {row["client"]: row["name"] for row in rows(tmp_path, "clients")}
    got = [(names[row["client"]], row["request"] - 2) for row in rows(tmp_path, "deliveries")]
    assert sorted(got) == sorted([("S", 0), ("S", 1), ("S", 6), ("S", 7), *(("T", n) for n in range(8))])
    found = {finding.rule: finding for finding in check_run(played, OVERLAY, tmp_path)}
    assert found[BITS].passed
    assert found[UNWANTED].passed
