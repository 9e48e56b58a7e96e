"""Order of deliveries to clients whose subscriptions change.

Order is promised for each subscription. When a subscription is withdrawn, its host broker delivers what waits there for
its turn, ahead of earlier notifications that are still on their way; another subscription of the client may get those
later. So a delivery after a later one of the same publisher is a fault if both were for one subscription: if it matches
both, and its host broker had it from their arrival there to their delivery.
"""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octopia.language import Filter
from octopia.sim.numbering import Registered, first_numbers, registrations
from octopia.sim.run import load_run
from octopia.trace import moments_of_requests, read_columns
from octopia.workload import Workload, match_mask

Numbers = npt.NDArray[np.int64]


def late_for_one_subscription(
    workload: Workload, folder: Path, request: Numbers, client: Numbers, at_ns: Numbers, late: Numbers
) -> Numbers:
    """Of deliveries that came after a later one of the same publisher, given by position: those that are faults."""
    if not workload.changes or not len(late):
        return late
    judge = _Judge(workload, folder, request, client, at_ns - load_run(folder).spec.model.client.delay_ns)
    return np.array([at for at in late.tolist() if judge.is_late(at)], dtype=np.int64)


class _Judge:
    """Which deliveries to a client were for which of its subscriptions; `at_ns` is when its broker made them."""

    def __init__(self, workload: Workload, folder: Path, request: Numbers, client: Numbers, at_ns: Numbers) -> None:
        self._request, self._client, self._at_ns = request, client, at_ns
        self._publication = request - first_numbers(workload).publication
        self._publisher = workload.publications.publisher[self._publication]
        self._rows = workload.publications.row
        self._names = list(workload.clients())
        self._subscriptions: dict[str, list[Registered]] = {}
        for each in registrations(workload)[1]:
            self._subscriptions.setdefault(each.registration.client, []).append(each)
        self._handled_ns = moments_of_requests(folder, "handled_ns")
        numbers, brokers = read_columns(folder, "clients", "client", "broker")
        self._broker = dict(zip(numbers.tolist(), brokers.tolist(), strict=True))
        self._arrived_ns = _arrivals(folder)

        @cache
        def matched(filter: Filter) -> npt.NDArray[np.bool_]:
            return match_mask(filter, workload.notifications)

        self._matched = matched

    def is_late(self, at: int) -> bool:
        """Whether a delivery was for the same subscription as one that came before it and was published after it."""
        same = (self._client == self._client[at]) & (self._publisher == self._publisher[at])
        overtook = np.flatnonzero(same & (self._request > self._request[at]) & (self._at_ns < self._at_ns[at])).tolist()
        own = [each for each in self._subscriptions[self._names[self._client[at]]] if self._is_for(each, at)]
        return any(self._is_for(each, other) for other in overtook for each in own)

    def _is_for(self, each: Registered, at: int) -> bool:
        request = int(self._request[at])
        # one that was published at the client's broker arrives there when it is published
        arrived = self._arrived_ns.get((request, self._broker[int(self._client[at])]), self._handled_ns[request])
        begun = each.at_first or self._handled_ns[each.begun_by] < arrived
        lasts = each.ended_by is None or self._at_ns[at] <= self._handled_ns[each.ended_by]
        return bool(begun and lasts and self._matched(each.registration.filter)[self._rows[self._publication[at]]])


def _arrivals(folder: Path) -> dict[tuple[int, int], int]:
    """By notification and broker, when the first copy of it was handled there."""
    hops = pq.read_table(folder / "hops.parquet", columns=["kind", "request", "receiver", "handled_ns"])
    hops = hops.filter(pc.and_(pc.equal(hops["kind"], "notify"), hops["handled_ns"].is_valid()))
    found: dict[tuple[int, int], int] = {}
    for request, receiver, handled in zip(*(hops[name].to_pylist() for name in hops.column_names[1:]), strict=True):
        known = found.get((request, receiver))
        found[request, receiver] = handled if known is None else min(known, handled)
    return found
