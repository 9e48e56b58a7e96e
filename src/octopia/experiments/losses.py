"""What a run with crashes lost and repeated: deliveries held against what everyone wanted, by brute force.

Rules of this file: it reads the deliveries of the trace and the workload, and shares no code with routing or simulator.
A trace does not say who wanted what, so this is no metric in SQL; it has a name, a unit and a definition all the same,
and stands beside the metrics in tables, reports and files. A broker stays up if no fault of the run takes it down.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from octopia.metrics import METRICS, Metric
from octopia.sim import BrokerFault, Fault, Finding, compare_deliveries
from octopia.workload import Workload

LOSSES: Final = Metric(
    name="losses",
    title="Lost and repeated",
    unit="deliveries",
    definition="deliveries that a subscriber wanted and never got (`lost`), deliveries to a subscriber that had got "
    "the notification before (`repeated`), deliveries after a later one of the same publisher (`out_of_order`), and "
    "the same where the broker of the publisher and that of the subscriber both stayed up (`lost_live`, "
    "`repeated_live`, `out_of_order_live`); found by brute force from the workload",
    shape="row",
    sql="",
)
JUDGED: Final[Mapping[str, Metric]] = {LOSSES.name: LOSSES}
Numbers = npt.NDArray[np.int64]
_UNWANTED: Final = "nobody gets what it did not ask for"


class Losses(NamedTuple):
    """How many deliveries went wrong, see `LOSSES`."""

    lost: int
    repeated: int
    out_of_order: int
    lost_live: int
    repeated_live: int
    out_of_order_live: int


def described(name: str) -> Metric:
    """The metric of this name, in SQL or judged."""
    return JUDGED[name] if name in JUDGED else METRICS[name]


def losses_of(workload: Workload, faults: Sequence[Fault], folder: Path) -> Losses:
    """What the run in a folder lost and repeated."""
    clients: dict[str, int] = {}
    stays_up: list[bool] = []
    gone = {fault.broker for fault in faults if isinstance(fault, BrokerFault)}
    for registration in (*workload.advertisements, *workload.subscriptions):
        if registration.client not in clients:
            clients[registration.client] = len(clients)
            stays_up.append(registration.broker not in gone)
    first = len(workload.advertisements) + len(workload.subscriptions)
    read = pq.read_table(folder / "deliveries.parquet", columns=["request", "client", "delivered_ns"])
    request, client, at_ns = (read.column(name).to_numpy().astype(np.int64) for name in read.column_names)
    width = len(clients)
    codes = (request - first) * width + client
    publisher = workload.publications.publisher.astype(np.int64)
    wrong = (
        compare_deliveries(workload, clients, request - first, client).missing,
        _again(codes),
        codes[_late(client * len(workload.advertisements) + publisher[request - first], request, at_ns)],
    )
    publisher_up = np.array([registration.broker not in gone for registration in workload.advertisements])
    of_publication, of_client = publisher_up[publisher], np.array(stays_up)
    live = [int(np.count_nonzero(of_publication[each // width] & of_client[each % width])) for each in wrong]
    return Losses(*map(len, wrong), *live)


def _again(codes: Numbers) -> Numbers:
    """What is there before, once for each time too often."""
    ordered: Numbers = np.sort(codes)
    again: Numbers = ordered[1:][ordered[1:] == ordered[:-1]]
    return again


def _late(stream: Numbers, request: Numbers, at_ns: Numbers) -> Numbers:
    """The places of deliveries before which a later request of the same stream was delivered."""
    order = np.lexsort((request, at_ns, stream))
    # Streams follow each other, so the greatest so far is of the same stream.
    keys = np.unique(stream[order], return_inverse=True)[1] * (int(request.max(initial=0)) + 1) + request[order]
    return order[keys < np.maximum.accumulate(keys)]


def despite_crashes(findings: Sequence[Finding], losses: Losses, promised: bool) -> tuple[Finding, ...]:
    """What the judges found in a run in which brokers died, by what can be promised then.

    What a dead broker held or what its clients wanted is lost, so the rules of a run without faults are told and not
    promised. `promised`: between brokers that stay up the routing loses and repeats nothing, and keeps the order.
    """
    told = [Finding(f.rule, f.cases, f.promised and f.rule == _UNWANTED, f.examples) for f in findings]
    return (
        *told,
        Finding("between brokers that stay up nothing is lost", losses.lost_live, promised),
        Finding("between brokers that stay up nothing arrives twice", losses.repeated_live, promised),
        Finding(
            "between brokers that stay up a publisher's notifications arrive in order",
            losses.out_of_order_live,
            promised,
        ),
    )
