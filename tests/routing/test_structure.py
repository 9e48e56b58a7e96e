"""Results of the structure alone, on the paper's evaluation overlay: exact counts of messages and table entries."""

import pytest

from octopia.embedded import Hop, Network
from octopia.language import parse_filter
from octopia.routing import Advertised, Subscribed, Unadvertised, Unsubscribed
from octopia.topology import BrokerId, Scot, parse_tree
from tests.effort import LONG

EVALUATION = Scot(parse_tree("evaluation"), 5)
# One broker of each region, in all clusters: all of them in a long run.
BROKERS = EVALUATION.brokers if LONG else EVALUATION.brokers[::5]
STOCK = parse_filter("class = 'STOCK'")


class Counting(Network):
    """A network that counts messages of one request carried through until quiet."""

    def __init__(self, scot: Scot, routing: str) -> None:
        self.kinds: list[str] = []
        super().__init__(scot, routing, on_hop=self._note)

    def _note(self, hop: Hop) -> None:
        self.kinds.append(hop.message.kind)

    def count(self, at: BrokerId, event: object) -> dict[str, int]:
        self.kinds.clear()
        self.tell(at, event)  # type: ignore[arg-type]
        self.run_until_quiet()
        return {kind: self.kinds.count(kind) for kind in dict.fromkeys(self.kinds)}


def test_an_advertisement_costs_4_messages_in_scot_and_341_in_tid_wherever_it_is_made() -> None:
    for broker in BROKERS:
        assert Counting(EVALUATION, "snr").count(broker, Advertised("P", "a", STOCK)) == {"advertise": 4}
        assert Counting(EVALUATION, "tid").count(broker, Advertised("P", "a", STOCK)) == {"advertise": 341}


def test_srt_entries_are_5_of_70_in_scot_and_70_of_70_in_tid() -> None:
    sizes = {}
    for routing in ("snr", "tid"):
        network = Counting(EVALUATION, routing)
        for i, broker in enumerate(EVALUATION.brokers):
            network.count(broker, Advertised(f"P{i}", "a", STOCK))
        sizes[routing] = sum(len(b.state.srt) for b in network.brokers.values())
    assert sizes == {"snr": 70 * 5, "tid": 70 * 70}
    assert round(100 * (1 - sizes["snr"] / sizes["tid"]), 1) == 92.9


def test_a_subscription_costs_13_messages_and_14_entries_all_in_its_own_cluster() -> None:
    for broker in BROKERS:
        network = Counting(EVALUATION, "idr")
        assert network.count(broker, Subscribed("S", "s", STOCK)) == {"subscribe": 13}
        stored = [id for id, b in network.brokers.items() if len(b.state.prt)]
        assert stored == list(EVALUATION.cluster(broker.cluster))


@pytest.mark.parametrize(("tree", "clusters"), [("path:1", 1), ("path:1", 4), ("path:6", 1), ("star:5", 3), ("h", 3)])
def test_counts_follow_from_the_structure_of_any_overlay(tree: str, clusters: int) -> None:
    scot = Scot(parse_tree(tree), clusters)
    nodes, links = len(scot.brokers), len(scot.links)
    home = scot.brokers[-1]
    flood = {"advertise": 2 * links - (nodes - 1)} if links else {}
    echo = {"unadvertise": 2 * links} if links else {}
    tid = Counting(scot, "tid")
    assert tid.count(home, Advertised("P", "a", STOCK)) == flood
    assert tid.count(home, Unadvertised("P", "a")) == echo
    snr = Counting(scot, "snr")
    own_region = {"advertise": clusters - 1} if clusters > 1 else {}
    own_cluster = {"subscribe": len(scot.tree.nodes) - 1} if len(scot.tree.nodes) > 1 else {}
    assert snr.count(home, Advertised("P", "a", STOCK)) == own_region
    assert snr.count(home, Subscribed("S", "s", STOCK)) == own_cluster
    assert snr.count(home, Unsubscribed("S", "s")) == {"un" + kind: n for kind, n in own_cluster.items()}
    assert snr.count(home, Unadvertised("P", "a")) == {"un" + kind: n for kind, n in own_region.items()}


def test_any_number_of_interested_subscribers_costs_one_cib_set_per_cluster() -> None:
    network = Counting(EVALUATION, "snr")
    network.count(BrokerId("F", 0), Advertised("P", "a", STOCK))
    counts = [network.count(BrokerId("A", 3), Subscribed(f"S{i}", "s", STOCK)) for i in range(3)]
    assert counts == [{"subscribe": 13, "cib_set": 1}, {"subscribe": 13}, {"subscribe": 13}]
    counts = [network.count(BrokerId("A", 3), Unsubscribed(f"S{i}", "s")) for i in range(3)]
    assert counts == [{"unsubscribe": 13}, {"unsubscribe": 13}, {"unsubscribe": 13, "cib_clear": 1}]
