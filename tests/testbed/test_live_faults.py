"""Faults on live brokers: what dies or breaks while notifications are published, and what the trace says of it.

The judges are those of every run. Beside them stands a count of our own: who wanted what, by the filters themselves,
and what the trace says that they got.
"""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from octopia.experiments.losses import losses_of
from octopia.experiments.reach import reach_of, recovery_of
from octopia.sim import BrokerFault, Fault, LinkFault, RunSpec, check_run, first_numbers
from octopia.testbed import run_live
from octopia.topology import Scot, parse_tree
from octopia.workload import Workload, WorkloadSpec, make_workload, synthetic_quotes
from tests.effort import LONG
from tests.testbed.worlds import EVERY_NS, pairs, wanted

OVERLAY = Scot(parse_tree("path:3"), 2)
MS = 1_000_000
DEAD = ("b", 0)
CUT = (("b", 1), ("c", 1))
# One broker dies and comes back; when it is back a link breaks, for a moment: less than what it is waited for.
FAULTS: tuple[Fault, ...] = (
    BrokerFault(DEAD, 100 * MS, 400 * MS),
    LinkFault(*CUT, "down", 500 * MS, 700 * MS, both=True),
)


def workload() -> Workload:
    """600 notifications of six publishers, within a second, for twelve subscribers."""
    spec = WorkloadSpec(
        publishers=6, subscribers=12, selectivity=0.2, notifications_per_publisher=100, rate_per_minute=6_000, seed=3
    )
    return make_workload(spec, OVERLAY, synthetic_quotes(3, 20, 250))


def of_the_living(played: Workload, pairs: Counter[tuple[int, str]], *, dead: tuple[str, int]) -> int:
    """How many of these are between clients of brokers that stay up."""
    first, brokers = first_numbers(played).publication, played.clients()
    publishers = [played.advertisements[each].broker for each in played.publications.publisher.tolist()]
    return sum(
        count
        for (request, client), count in pairs.items()
        if tuple(publishers[request - first]) != dead and tuple(brokers[client]) != dead
    )


# Under full dynamic routing a confirmation that died with the broker is repeated after half a minute, which is awaited.
@pytest.mark.parametrize("routing", ["idr", "fdr"] if LONG else ["idr"])
def test_a_broker_is_killed_and_a_link_is_cut_while_clients_publish(tmp_path: Path, routing: str) -> None:
    played = workload()
    spec = RunSpec(routing=routing, advertise_every_ns=EVERY_NS, subscribe_every_ns=EVERY_NS, faults=FAULTS)
    run = run_live(played, OVERLAY, spec, tmp_path, processes=2)
    want, got = wanted(played), pairs(played, tmp_path, "deliveries")
    lost, again = want - got, got - want
    assert not Counter(set(got)) - want, "no client gets an unwanted notification"
    losses = losses_of(played, FAULTS, tmp_path)
    assert (losses.lost, losses.repeated) == (lost.total(), again.total())
    assert losses.lost_live == of_the_living(played, lost, dead=DEAD)
    assert losses.repeated_live == of_the_living(played, again, dead=DEAD)
    if routing == "fdr":
        assert (losses.lost_live, losses.repeated_live, losses.out_of_order_live) == (0, 0, 0)
    findings = {finding.rule: finding for finding in check_run(played, OVERLAY, tmp_path)}
    for rule in (
        "no client gets an unwanted notification",
        "no request is refused",
        "all queues are empty at the end",
    ):
        assert findings[rule].cases == 0, findings[rule]
    civs = findings.get("every bit of every CIV is exact at the end")
    assert civs is None or civs.cases == 0, civs
    assert findings["every notification reaches every interested client"].cases == lost.total()
    assert findings["no client gets a notification twice"].cases == len(again)
    hops = pq.read_table(tmp_path / "hops.parquet").to_pylist()
    brokers = [tuple(id) for id in OVERLAY.brokers]
    for hop in hops:
        ends = brokers[hop["sender"]], brokers[hop["receiver"]]
        assert (hop["handled_ns"] is None) == (hop["fate"] != "handled")
        assert hop["queued_ns"] <= hop["left_ns"] <= hop["arrived_ns"]
        assert hop["fate"] != "broker down" or DEAD in ends
        assert hop["fate"] != "link down" or set(CUT) == set(ends)
    assert run.live is not None
    assert [fault.fault for fault in run.live.faults] == [0, 1]
    dead, cut = run.live.faults
    for hop in hops:
        if hop["fate"] == "handled":
            link = {brokers[hop["sender"]], brokers[hop["receiver"]]}
            assert not (DEAD in link and dead.from_ns < hop["left_ns"] < dead.until_ns)
            assert not (link == set(CUT) and cut.from_ns < hop["left_ns"] < cut.until_ns)
    # it was used before and after
    for fault, used in ((dead, {DEAD, ("a", 0)}), (cut, set(CUT))):
        mine = [hop for hop in hops if {brokers[hop["sender"]], brokers[hop["receiver"]]} == used]
        assert min(hop["left_ns"] for hop in mine) < fault.from_ns
        assert max(hop["left_ns"] for hop in mine) > fault.until_ns
    reach = reach_of(played, FAULTS, tmp_path, 10**12)
    assert reach["lost_broker"] == losses.lost - losses.lost_live
    assert reach["lost_cluster"] + reach["lost_region"] + reach["lost_elsewhere"] == losses.lost_live
    # its tables are resynchronised by messages that no request caused
    assert sum(recovery_of(OVERLAY, FAULTS, tmp_path).values()) > 0
