"""IDR's cases in a trace against a second opinion: queues and Eq. 10 worked out anew from when messages came and went.

Nothing of the routing, of its tables or of its link status is asked. The state of every output queue at every tick
follows from the moments at which messages entered and left it; who wants what follows from the filters.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from octopia.language import Notification, matches
from octopia.metrics import run as metrics_of
from octopia.metrics import values_of
from octopia.sim import RunSpec, simulate
from octopia.sim.model import LinkModel, Model, Processor
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.workload import Workload
from tests.sim.worlds import drawn, rows

TICK = 50_000_000
TAU = 10
BUSY = Model(processor=Processor(base_ns=211_003), link=LinkModel(per_message_ns=9_000_017, delay_ns=70_001))


class Judged(NamedTuple):
    """A case, and the copies that a broker must send in it."""

    case: str
    copies: int


class Queues:
    """Every output queue of a run at every tick, from the hops of its trace."""

    def __init__(self, hops: list[dict[str, Any]]) -> None:
        self.entered: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.left: dict[tuple[int, int], list[int]] = defaultdict(list)
        for hop in hops:
            self.entered[hop["sender"], hop["receiver"]].append(hop["queued_ns"])
            self.left[hop["sender"], hop["receiver"]].append(hop["left_ns"])
        for moments in (*self.entered.values(), *self.left.values()):
            moments.sort()

    def overloaded(self, link: tuple[int, int], now: int) -> bool:
        """Eq. 10 at the last tick."""
        tick = now // TICK * TICK
        entered = [bisect_left(self.entered[link], moment) for moment in (tick - TICK, tick)]
        left = [bisect_right(self.left[link], moment) for moment in (tick - TICK, tick)]
        element = (1 + entered[1] - entered[0]) / (1 + left[1] - left[0])
        return (entered[1] - left[1]) * element > TAU


def judge(overlay: Scot, world: Workload, trace: Path) -> dict[tuple[int, int], Judged]:
    """By request and broker what it had to do with the notification, where that has target iLinks."""
    ids, hops, requests = overlay.brokers, rows(trace, "hops"), rows(trace, "requests")
    number = {broker: n for n, broker in enumerate(ids)}
    queues = Queues(hops)
    published = {request["request"]: request for request in requests if request["kind"] == "publish"}
    values = world.notifications.to_pylist()
    found: dict[tuple[int, int], Judged] = {}

    def decide(request: int, at: BrokerId, clusters: set[int], came_by: BrokerId | None, now: int) -> None:
        if not clusters:
            return
        notification = Notification.of(values[published[request]["row"]])
        wanting = {
            s.broker.region
            for s in world.subscriptions
            if s.broker.cluster == at.cluster and matches(s.filter, notification)
        }
        alpha = [to for to in overlay.a_links(at) if to != came_by and wanting & beyond(overlay, at.region, to.region)]
        free = [c for c in clusters if not queues.overloaded((number[at], number[BrokerId(at.region, c)]), now)]
        free_a = [to for to in alpha if not queues.overloaded((number[at], number[to]), now)]
        if len(free) == len(clusters):
            judged = Judged("0", len(alpha) + len(clusters))
        elif free:
            judged = Judged("i", len(alpha) + len(free))
        elif free_a:
            judged = Judged("ii", len(alpha))
        else:
            judged = Judged("iv", len(alpha) + 1)
        found[request, number[at]] = judged

    for n, request in published.items():
        at = ids[request["broker"]]
        # every subscription here overlaps every advertisement: a cluster with any subscriber is a target
        clusters = {s.broker.cluster for s in world.subscriptions} - {at.cluster}
        decide(n, at, clusters, None, request["handled_ns"])
    for hop in hops:
        if hop["kind"] == "notify" and hop["civ"] is not None:
            carried = {c for c in range(overlay.clusters) if int(hop["civ"], 2) >> c & 1}
            decide(hop["request"], ids[hop["receiver"]], carried, ids[hop["sender"]], hop["handled_ns"])
    return found


def beyond(overlay: Scot, here: str, there: str) -> set[str]:
    """The regions on the far side of an edge of the tree."""
    seen, waiting = {here, there}, [there]
    while waiting:
        for region in overlay.tree.neighbours(waiting.pop()):
            if region not in seen:
                seen.add(region)
                waiting.append(region)
    return seen - {here}


@pytest.mark.parametrize("seed", range(3))
def test_every_decision_is_in_the_case_that_its_queues_say_and_makes_the_copies_of_that_case(
    tmp_path: Path, seed: int
) -> None:
    overlay = Scot(parse_tree("path:3"), 3)
    world = drawn(overlay, seed, publishers=4, subscribers=12, notifications=600, span_ns=3_000_000_011)
    simulate(world, overlay, RunSpec(routing="idr", model=BUSY), tmp_path)
    hops = rows(tmp_path, "hops")
    made: dict[tuple[int, int], list[str]] = defaultdict(list)
    for hop in hops:
        if hop["routing_case"] is not None:
            made[hop["request"], hop["sender"]].append(hop["routing_case"])
    expected = judge(overlay, world, tmp_path)
    assert {key: Judged(cases[0], len(cases)) for key, cases in made.items()} == expected
    assert all(len(set(cases)) == 1 for cases in made.values()), "one decision, one case"
    # with seed 0 all are there
    assert {judged.case for judged in expected.values()} >= {"0", "ii", "iv"} | ({"i"} if seed == 0 else set())
    # and so say the metrics
    found = {(value.metric, value.part): value.value for value in values_of(metrics_of(tmp_path))}
    for case in ("0", "i", "ii", "iv"):
        own = [judged for judged in expected.values() if judged.case == case]
        assert found.get(("routing_cases", case), 0) == len(own)
        assert found.get(("routing_case_copies", case), 0) == sum(judged.copies for judged in own)


@pytest.mark.parametrize("routing", ["snr", "fdr", "tid"])
def test_a_routing_without_cases_records_none(tmp_path: Path, routing: str) -> None:
    overlay = Scot(parse_tree("path:2"), 2)
    world = drawn(overlay, 1, publishers=2, subscribers=5, notifications=40, span_ns=300_000_011)
    simulate(world, overlay, RunSpec(routing=routing, model=BUSY), tmp_path)
    assert {hop["routing_case"] for hop in rows(tmp_path, "hops")} == {None}
