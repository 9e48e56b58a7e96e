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
    definition="deliveries that a subscriber wanted and never got (`lost`), those of them where the broker of the "
    "publisher and that of the subscriber both stayed up (`lost_live`), and deliveries to a subscriber that had got "
    "the notification before (`repeated`), those of them at brokers that stayed up (`repeated_live`); found by brute "
    "force from the workload",
    shape="row",
    sql="",
)
JUDGED: Final[Mapping[str, Metric]] = {LOSSES.name: LOSSES}
Numbers = npt.NDArray[np.int64]
_UNWANTED: Final = "nobody gets what it did not ask for"


class Losses(NamedTuple):
    """How many deliveries went wrong, see `LOSSES`."""

    lost: int
    lost_live: int
    repeated: int
    repeated_live: int = 0  # at brokers that stayed up: one that restarts does not know what it delivered before


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
    read = pq.read_table(folder / "deliveries.parquet", columns=["request", "client"])
    request, client = (read.column(name).to_numpy().astype(np.int64) for name in ("request", "client"))
    wrong = compare_deliveries(workload, clients, request - first, client)
    publisher_up = np.array([registration.broker not in gone for registration in workload.advertisements])
    of_publication = publisher_up[workload.publications.publisher]
    live = of_publication[wrong.missing // len(clients)] & np.array(stays_up)[wrong.missing % len(clients)]
    return Losses(
        len(wrong.missing),
        int(np.count_nonzero(live)),
        _repeated(request, client),
        _repeated(request[up], client[up]) if (up := np.array(stays_up)[client]).any() else 0,
    )


def _repeated(request: Numbers, client: Numbers) -> int:
    return len(request) - len(np.unique(request << 32 | client))


def despite_crashes(findings: Sequence[Finding], losses: Losses, promised: bool) -> tuple[Finding, ...]:
    """What the judges found in a run in which brokers died, by what can be promised then.

    What a dead broker held or what its clients wanted is lost, so the rules of a run without faults are told and not
    promised. `promised`: the routing loses and repeats nothing between brokers that stay up.
    """
    told = [Finding(f.rule, f.cases, f.promised and f.rule == _UNWANTED, f.examples) for f in findings]
    return (
        *told,
        Finding("between brokers that stay up nothing is lost", losses.lost_live, promised),
        Finding("at brokers that stay up nobody gets a notification twice", losses.repeated_live, promised),
    )
