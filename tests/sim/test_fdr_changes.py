"""`fdr` while subscriptions come and go in the middle of a burst, with links and brokers down and links slow.

Copies of a burst take several trees, so many arrive before an earlier one and wait for their turn. A subscription that
is withdrawn meanwhile gets what has arrived; one that is added gets what arrives from then on.

The oracle is brute force and goes by the definitions at the head of `octopia.sim.terms`: row by row over the trace, for
publishers and subscribers whose brokers stay up.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

from octopia.language import matches
from octopia.routing.fdr.streams.receiving import Gate
from octopia.sim import DELIVERY_RULES, BrokerFault, LinkFault, RunSpec, check_run, simulate
from octopia.sim.faults import Fault
from octopia.sim.model import ClientModel, LinkModel, Machines, Model, Processor
from octopia.topology import Scot, parse_tree
from octopia.workload import Registration, Workload
from tests.effort import cases
from tests.sim.worlds import changing, rows

OVERLAY = Scot(parse_tree("path:3"), 3)
MS = 1_000_000
SPAN_NS = 1_000 * MS
DELAY_NS = MS // 10
# 400 notifications of three publishers in a second over links that send 500 a second.
LOADED = Model(
    processor=Processor(base_ns=50_000),
    link=LinkModel(per_message_ns=2 * MS, delay_ns=MS // 3, jitter_ns=MS // 10),
    client=ClientModel(delay_ns=DELAY_NS),
)
NEVER = 1 << 62
ORDER = "notifications of a publisher arrive in order"


def world_of(seed: int) -> Workload:
    return changing(OVERLAY, seed, changes=80, publishers=3, subscribers=15, notifications=400, span_ns=SPAN_NS)


def slow_link(draw: Random) -> list[Fault]:
    sender = draw.choice(OVERLAY.brokers)
    return [LinkFault(sender, draw.choice(OVERLAY.neighbours(sender)), "slow", 0, SPAN_NS, factor=10)]


def outages(draw: Random) -> list[Fault]:
    """At most k - 1 brokers and links, each down for a while."""
    faults: list[Fault] = []
    for _ in range(2):
        begin = draw.randrange(SPAN_NS)
        end = begin + draw.choice((30 * MS, 300 * MS, 3_000 * MS))
        sender = draw.choice(OVERLAY.brokers)
        if draw.random() < 0.5:
            faults.append(BrokerFault(sender, begin, end))
        else:
            faults.append(LinkFault(sender, draw.choice(OVERLAY.neighbours(sender)), "down", begin, end, both=True))
    return faults


# ---- the oracle


class Judge:
    """What a trace says of publishers and subscribers at brokers that stay up, worked out in loops."""

    def __init__(self, world: Workload, faults: list[Fault], folder: Path) -> None:
        self.world = world
        self.gone = {fault.broker for fault in faults if isinstance(fault, BrokerFault)}
        self.requests = {row["request"]: row for row in rows(folder, "requests")}
        self.names = [row["name"] for row in rows(folder, "clients")]
        self.deliveries = sorted(rows(folder, "deliveries"), key=lambda row: (row["delivered_ns"], row["request"]))
        self.first = len(world.advertisements) + len(world.subscriptions)
        self.values = world.notifications.to_pylist()
        # of every request, when the last thing that it led to happened; None among them: a message was lost
        self.ends: dict[int, list[int | None]] = {n: [row["handled_ns"]] for n, row in self.requests.items()}
        self.hops = rows(folder, "hops")
        for hop in self.hops:
            if hop["request"] >= 0:
                self.ends[hop["request"]].append(hop["handled_ns"])
        self.subscribed = self._spans(world.subscriptions, "subscribe")
        self.advertised = self._spans(world.advertisements, "advertise")

    def _settled(self, request: int) -> int:
        if None in self.ends[request] or self.requests[request]["refused"] is not None:
            return NEVER
        changes = [(n, row) for n, row in self.requests.items() if row["kind"] != "publish"]
        done = max(end for end in self.ends[request] if end is not None)
        return max(
            end for n, row in changes if row["issued_ns"] <= done for end in (*self.ends[n], done) if end is not None
        )

    def _spans(self, at_first: tuple[Registration, ...], kind: str) -> list[tuple[Registration, dict[str, int]]]:
        """Every registration at a broker that stays up, and its moments; `held_until` at its host broker."""
        begun = {"exists": 0, "in_force": 0, "held": 0, "until": NEVER, "held_until": NEVER, "exists_until": NEVER}
        found = [(each, dict(begun)) for each in at_first]
        for number, change in enumerate(self.world.changes, self.first + len(self.world.publications)):
            issued, handled = self.requests[number]["issued_ns"], self.requests[number]["handled_ns"]
            if change.kind == kind:
                moments = {"exists": issued, "held": handled, "in_force": self._settled(number)}
                found.append((change.registration, begun | moments))
            elif change.kind == f"un{kind}":
                who = change.registration.client, change.registration.id
                (span,) = [s for r, s in found if (r.client, r.id) == who and s["until"] == NEVER]
                span.update(until=issued, held_until=handled, exists_until=self._settled(number))
        return [(each, span) for each, span in found if each.broker not in self.gone]

    def published(self) -> list[tuple[int, str, int]]:
        """Publications at brokers that stay up: number, publisher, row."""
        pairs = zip(self.world.publications.publisher, self.world.publications.row, strict=True)
        told = [(n, self.world.advertisements[who], int(row)) for n, (who, row) in enumerate(pairs, self.first)]
        return [(n, by.client, row) for n, by, row in told if by.broker not in self.gone]

    def wrong(self) -> dict[str, list[tuple[int, str]]]:
        """Lost, duplicated and unwanted deliveries."""
        up = {each.client for each, _ in self.subscribed}
        published = self.published()
        numbers = {n for n, _, _ in published}
        got = Counter((row["request"], self.names[row["client"]]) for row in self.deliveries)
        last = {n: max(row["delivered_ns"] for row in self.deliveries if row["request"] == n) for n, _ in got}
        must, may = set(), set()
        for n, publisher, row in published:
            begin = self.requests[n]["issued_ns"]
            end = max(begin, last.get(n, 0), *(end or 0 for end in self.ends[n]))
            allowed = any(
                each.client == publisher
                and matches(each.filter, self.values[row])
                and span["in_force"] <= begin
                and end <= span["until"]
                for each, span in self.advertised
            )
            for each, span in self.subscribed:
                if matches(each.filter, self.values[row]):
                    if allowed and span["in_force"] <= begin and end <= span["until"]:
                        must.add((n, each.client))
                    if span["exists"] <= end and begin <= span["exists_until"]:
                        may.add((n, each.client))
        here = {pair for pair in got if pair[0] in numbers and pair[1] in up}
        return {
            "lost": sorted(must - here),
            "duplicated": sorted(pair for pair in here if got[pair] > 1),
            "unwanted": sorted(here - may),
        }

    def arrived(self, delivery: dict[str, Any]) -> int:
        """When what was delivered reached the client's broker."""
        if delivery["hop"] == 0:
            return int(self.requests[delivery["request"]]["handled_ns"])
        there = [
            hop["handled_ns"]
            for hop in self.hops
            if (hop["kind"], hop["request"], hop["receiver"]) == ("notify", delivery["request"], delivery["broker"])
        ]
        return int(min(moment for moment in there if moment is not None))

    def out_of_order(self) -> list[tuple[int, str]]:
        """Deliveries after a later one of the same publisher that was for the same subscription: it matches both, and
        its broker had it from their arrival to their delivery."""
        row_of = {n: (publisher, row) for n, publisher, row in self.published()}
        wrong = []
        for name in self.names:
            own = [row for row in self.deliveries if self.names[row["client"]] == name and row["request"] in row_of]
            wanted = [(each.filter, span) for each, span in self.subscribed if each.client == name]
            for at, late in enumerate(own):
                for early in own[:at]:
                    both = row_of[early["request"]], row_of[late["request"]]
                    if early["request"] > late["request"] and both[0][0] == both[1][0]:
                        wrong += [
                            (late["request"], name)
                            for filter, span in wanted
                            if all(matches(filter, self.values[row]) for _, row in both)
                            and all(span["held"] < self.arrived(row) for row in (early, late))
                            and all(row["delivered_ns"] <= span["held_until"] + DELAY_NS for row in (early, late))
                        ]
        return wrong


def judged(world: Workload, faults: list[Fault], folder: Path, model: Model = LOADED, seed: int = 0) -> Judge:
    simulate(world, OVERLAY, RunSpec(routing="fdr", model=model, faults=tuple(faults), seed=seed), folder)
    return Judge(world, faults, folder)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_changes_in_a_burst_with_faults(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    faults = [[], slow_link(draw), outages(draw), slow_link(draw) + outages(draw)][seed % 4]
    judge = judged(world_of(seed), faults, tmp_path, seed=seed)
    assert judge.wrong() == {"lost": [], "duplicated": [], "unwanted": []}
    assert judge.out_of_order() == []


@pytest.mark.parametrize("seed", range(cases(12)))
def test_changes_where_brokers_share_machines(tmp_path: Path, seed: int) -> None:
    """The other way to play a run, step by step."""
    shared = structs.replace(LOADED, machines=Machines(count=3))
    judge = judged(world_of(seed), slow_link(Random(seed)), tmp_path, shared, seed)
    assert judge.wrong() == {"lost": [], "duplicated": [], "unwanted": []}
    assert judge.out_of_order() == []


@pytest.mark.parametrize("seed", range(cases(24)))
def test_the_judge_of_a_run_agrees(tmp_path: Path, seed: int) -> None:
    """Also about a broker that delivers what should wait, so that much is out of order."""
    world, faults = world_of(seed), slow_link(Random(seed))
    for broken in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if broken:
                patch.setattr(Gate, "take", at_once)
            judge = judged(world, faults, tmp_path / str(broken), seed=seed)
        found = {finding.rule: finding.cases for finding in check_run(world, OVERLAY, tmp_path / str(broken))}
        wrong = judge.wrong()
        assert [found[rule] for rule in DELIVERY_RULES.values()] == [len(wrong[kind]) for kind in DELIVERY_RULES]
        late = judge.out_of_order()
        assert bool(found[ORDER]) == bool(late)
        assert broken == bool(late)


def at_once(gate: Gate[Any], stream: Any, number: int, before: int, item: Any, size: int = 0) -> list[Any]:
    """A gate that is open."""
    if number <= stream.last and number in stream.held:
        return []
    stream.held[number] = before, item, size
    stream.last = max(number, stream.last)
    return [item]
