"""Lost and duplicated deliveries of a run with crashes: actual deliveries compared with expected ones, by brute force.

It reads the deliveries of the trace and the workload, and shares no code with routing or simulator. A trace does not
contain the expected recipients, so this is not a metric in SQL; it still has a name, a unit and a definition, and
appears with the metrics in tables, reports and files. A broker stays up if no fault of the run takes it down.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.experiments.reach import REACH, RECOVERY
from octopia.experiments.together import TOGETHER
from octopia.experiments.urgency import EXPIRIES, URGENCY
from octopia.metrics import METRICS, Metric
from octopia.sim import (
    DELIVERY_RULES,
    BrokerFault,
    Fault,
    Finding,
    compare_deliveries,
    first_numbers,
    late_for_one_subscription,
    terms_of,
)
from octopia.trace import read_columns
from octopia.workload import Workload

LOSSES: Final = Metric(
    name="losses",
    title="Lost and repeated",
    unit="deliveries",
    definition="deliveries that a subscriber wanted and never got (`lost`), deliveries to a subscriber that had got "
    "the notification before (`repeated`), deliveries after a later one of the same publisher for the same "
    "subscription (`out_of_order`), and the same where the broker of the publisher and that of the subscriber both "
    "stayed up (`lost_live`, `repeated_live`, `out_of_order_live`); found by brute force from the workload",
)
# Metrics that are not SQL over one trace.
_JUDGED = (LOSSES, REACH, RECOVERY, TOGETHER, URGENCY, EXPIRIES)
JUDGED: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _JUDGED}
Numbers = npt.NDArray[np.int64]


class Losses(NamedTuple):
    """Numbers of faulty deliveries, see `LOSSES`."""

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
    """The lost and repeated deliveries of the run in a folder."""
    gone = {fault.broker for fault in faults if isinstance(fault, BrokerFault)}
    places = workload.clients()
    clients = {client: number for number, client in enumerate(places)}
    stays_up = [broker not in gone for broker in places.values()]
    first = first_numbers(workload).publication
    read = read_columns(folder, "deliveries", "request", "client", "delivered_ns")
    request, client, at_ns = (column.astype(np.int64) for column in read)
    width = len(clients)
    codes = (request - first) * width + client
    publisher = workload.publications.publisher.astype(np.int64)
    late = _late(client * len(workload.advertisements) + publisher[request - first], request, at_ns)
    wrong = (
        compare_deliveries(workload, clients, request - first, client, terms_of(workload, folder)).missing,
        _again(codes),
        codes[late_for_one_subscription(workload, folder, request, client, at_ns, late)],
    )
    publisher_up = np.array([registration.broker not in gone for registration in workload.advertisements])
    of_publication, of_client = publisher_up[publisher], np.array(stays_up)
    live = [int(np.count_nonzero(of_publication[each // width] & of_client[each % width])) for each in wrong]
    return Losses(*map(len, wrong), *live)


def _again(codes: Numbers) -> Numbers:
    """Codes that occurred before, once for each repetition."""
    ordered: Numbers = np.sort(codes)
    again: Numbers = ordered[1:][ordered[1:] == ordered[:-1]]
    return again


def _late(stream: Numbers, request: Numbers, at_ns: Numbers) -> Numbers:
    """The positions of deliveries before which a later request of the same stream was delivered."""
    order = np.lexsort((request, at_ns, stream))
    # Streams follow each other, so the greatest number so far belongs to the same stream.
    keys = np.unique(stream[order], return_inverse=True)[1] * (int(request.max(initial=0)) + 1) + request[order]
    return order[keys < np.maximum.accumulate(keys)]


def despite_crashes(findings: Sequence[Finding], losses: Losses, promised: bool) -> tuple[Finding, ...]:
    """The findings for a run in which brokers died, judged by what can be promised then.

    Notifications that a dead broker held or that its clients wanted are lost, so the rules for runs without faults are
    reported but not promised. `promised`: between brokers that stay up, the routing loses and repeats nothing, and
    keeps the order.
    """
    told = [Finding(f.rule, f.cases, f.promised and f.rule == DELIVERY_RULES["unwanted"], f.examples) for f in findings]
    return (
        Finding("between brokers that stay up nothing is lost", losses.lost_live, promised),
        Finding("between brokers that stay up nothing arrives twice", losses.repeated_live, promised),
        Finding(
            "between brokers that stay up a publisher's notifications arrive in order",
            losses.out_of_order_live,
            promised,
        ),
        *told,
    )
