"""Delays of urgent and ordinary subscribers during a burst, and deliveries that missed their deadline.

A trace does not mark urgent subscribers, so these are not metrics in SQL; they still have names, units and definitions,
and appear with the metrics in tables, reports and files. The workload's settings decide which subscribers are urgent,
whatever the priority, so that a run in which they have priority 0 can be compared.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from octopia.metrics import Metric
from octopia.sim import first_numbers
from octopia.trace import moments_of_requests, read_columns
from octopia.workload import Workload

URGENCY: Final = Metric(
    name="urgency",
    title="Delay of urgent and ordinary subscribers",
    unit="s",
    definition="from the publishing of a notification of an ordinary publisher until an urgent subscriber (`urgent_…`) "
    "or another one (`ordinary_…`) receives it, and of a high-rate publisher until anyone does (`burst_…`): mean, 99th "
    "percentile and longest, over all deliveries",
)
EXPIRIES: Final = Metric(
    name="expiries",
    title="Too late",
    unit="deliveries",
    definition="deliveries that were dropped because the subscriber's deadline had passed (`dropped`), and those made "
    "to subscribers with a deadline (`in_time`)",
)
Numbers = npt.NDArray[np.int64]


def urgency_of(workload: Workload, urgent: Collection[str], folder: Path) -> dict[str, float | None]:
    """The parts of `URGENCY`, in seconds; `urgent` are the urgent clients. None if there is no delivery."""
    request, client, delivered = read_columns(folder, "deliveries", "request", "client", "delivered_ns")
    delay_ns = delivered - moments_of_requests(folder, "issued_ns")[request]
    publisher = workload.publications.publisher[request - first_numbers(workload).publication]
    of_burst = np.isin(publisher, workload.high_rate)
    numbers = [place for place, name in enumerate(workload.clients()) if name in urgent]
    is_urgent = np.isin(client, numbers)
    groups = {"urgent": ~of_burst & is_urgent, "ordinary": ~of_burst & ~is_urgent, "burst": of_burst}
    return {f"{group}_{part}": value for group, chosen in groups.items() for part, value in _spread(delay_ns[chosen])}


def expiries_of(workload: Workload, folder: Path) -> dict[str, int]:
    """The parts of `EXPIRIES`."""
    timed = [place for place, name in enumerate(workload.clients()) if _has_deadline(workload, name)]
    if not timed:
        return {"dropped": 0, "in_time": 0}
    (client,) = read_columns(folder, "deliveries", "client")
    dropped = pq.read_metadata(folder / "expired.parquet").num_rows
    return {"dropped": dropped, "in_time": int(np.isin(client, timed).sum())}


def _has_deadline(workload: Workload, client: str) -> bool:
    return client in workload.wishes and workload.wishes[client].deadline_ns > 0


def _spread(delay_ns: Numbers) -> list[tuple[str, float | None]]:
    if not len(delay_ns):
        return [("mean", None), ("p99", None), ("max", None)]
    # a sum of whole numbers does not depend on their order
    mean_s = int(delay_ns.sum()) / len(delay_ns) / 1e9
    return [("mean", mean_s), ("p99", float(np.percentile(delay_ns, 99)) / 1e9), ("max", int(delay_ns.max()) / 1e9)]
