"""The reach of a broker's failure: lost and late deliveries, and messages of recovery, by where they happen.

Like `losses.py`, this module reads a trace and the workload, and shares no code with routing or simulator. A delivery
is classified by its publisher's broker and its subscriber's; the first that applies:

    broker     one of them is dead for a while: some loss is unavoidable
    cluster    the subscriber is in the cluster of a dead broker
    region     the publisher or the subscriber is in the region of a dead broker
    elsewhere  neither

A message of recovery is one that no request caused, except copies, confirmations and news of queues, which exist
without a failure too. It is inside a cluster or region if both its ends are in that of a dead broker.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octopia.metrics import Metric
from octopia.sim import BrokerFault, Fault, compare_deliveries, first_numbers, terms_of
from octopia.topology import BrokerId, Scot
from octopia.trace import NO_REQUEST, moments_of_requests, read_columns
from octopia.workload import Workload

REACH: Final = Metric(
    name="reach",
    title="Reach of a failure",
    unit="deliveries",
    definition="deliveries that a subscriber wanted and never got (`lost_`) and deliveries that took longer than the "
    "bound of a delay (`late_`): to and from clients of a dead broker (`broker`), to other subscribers in its cluster "
    "(`cluster`), to or from other clients in its region (`region`), all others (`elsewhere`); found by brute force "
    "from the workload, all 0 where no broker dies",
)
RECOVERY: Final = Metric(
    name="recovery",
    title="Messages of recovery",
    unit="messages",
    definition="messages that no request led to, other than copies of notifications, confirmations and news of queues: "
    "those that resynchronise tables after a failure, between two brokers of the cluster of a dead broker "
    "(`cluster`), two of its region (`region`), and others (`elsewhere`)",
)
# Sent without a request, and not because of a failure.
_USUAL: Final = ("notify", "confirm", "ask_confirm", "waits")
_PLACES: Final = ("broker", "cluster", "region", "elsewhere")
_BROKER, _CLUSTER, _REGION, _ELSEWHERE = range(4)
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int8]
_NOWHERE: Final[Places] = np.empty(0, dtype=np.int8)


def reach_of(workload: Workload, faults: Sequence[Fault], folder: Path, late_after_ns: int) -> dict[str, int]:
    """The reach of the failures of a run: the parts of `REACH`."""
    dead = _dead(faults)
    found = _deliveries(workload, dead, folder, late_after_ns) if dead else (_NOWHERE, _NOWHERE)
    return {
        f"{what}_{place}": count
        for what, places in zip(("lost", "late"), found, strict=True)
        for place, count in _counts(places).items()
    }


def recovery_of(overlay: Scot, faults: Sequence[Fault], folder: Path) -> dict[str, int]:
    """The messages that brokers sent to recover from the failures of a run: the parts of `RECOVERY`."""
    dead = _dead(faults)
    found = _counts(_messages(overlay, dead, folder) if dead else _NOWHERE)
    return {place: found[place] for place in _PLACES[_CLUSTER:]}


def _dead(faults: Sequence[Fault]) -> list[BrokerId]:
    return [BrokerId(*fault.broker) for fault in faults if isinstance(fault, BrokerFault)]


def _deliveries(
    workload: Workload, dead: Sequence[BrokerId], folder: Path, late_after_ns: int
) -> tuple[Places, Places]:
    """The class of every delivery that was lost, and of every one that was late."""
    brokers = workload.clients()
    clients = {client: number for number, client in enumerate(brokers)}
    first = first_numbers(workload).publication
    read = read_columns(folder, "deliveries", "request", "client", "delivered_ns")
    request, client, at_ns = (column.astype(np.int64) for column in read)
    missing = compare_deliveries(workload, clients, request - first, client, terms_of(workload, folder)).missing
    late = at_ns - moments_of_requests(folder, "issued_ns")[request] > late_after_ns
    publisher, width = workload.publications.publisher, len(clients)
    of_publisher = _Near(dead, [advertisement.broker for advertisement in workload.advertisements])
    of_client = _Near(dead, list(brokers.values()))

    def placed(publication: Numbers, who: Numbers) -> Places:
        whose = publisher[publication]
        conditions = (
            of_publisher.broker[whose] | of_client.broker[who],
            of_client.cluster[who],
            of_publisher.region[whose] | of_client.region[who],
        )
        return np.select(conditions, [_BROKER, _CLUSTER, _REGION], _ELSEWHERE).astype(np.int8)

    return placed(missing // width, missing % width), placed(request[late] - first, client[late])


class _Near:
    """For each of some brokers, whether it is dead, and whether it is in the cluster or region of a dead one."""

    def __init__(self, dead: Sequence[BrokerId], brokers: Sequence[BrokerId]) -> None:
        clusters, regions = {broker.cluster for broker in dead}, {broker.region for broker in dead}
        self.broker = np.array([broker in dead for broker in brokers], dtype=np.bool_)
        self.cluster = np.array([broker.cluster in clusters for broker in brokers], dtype=np.bool_)
        self.region = np.array([broker.region in regions for broker in brokers], dtype=np.bool_)


def _messages(overlay: Scot, dead: Sequence[BrokerId], folder: Path) -> Places:
    """The class of every message of recovery."""
    hops = pq.read_table(folder / "hops.parquet", columns=["kind", "request", "sender", "receiver"])
    usual = pc.is_in(hops["kind"].cast(pa.string()), pa.array(_USUAL))
    hops = hops.filter(pc.and_(pc.equal(hops["request"], NO_REQUEST), pc.invert(usual)))
    sender, receiver = (hops[name].to_numpy() for name in ("sender", "receiver"))
    inside = []
    for label in ("cluster", "region"):
        # by number of a broker, the number of its cluster or region; -1 if no broker there is dead
        known = {value: n for n, value in enumerate(dict.fromkeys(getattr(broker, label) for broker in dead))}
        group = np.array([known.get(getattr(broker, label), -1) for broker in overlay.brokers], dtype=np.int64)
        inside.append((group[sender] >= 0) & (group[sender] == group[receiver]))
    return np.select(inside, [_CLUSTER, _REGION], _ELSEWHERE).astype(np.int8)


def _counts(places: Places) -> dict[str, int]:
    return dict(zip(_PLACES, np.bincount(places, minlength=len(_PLACES)).tolist(), strict=True))
