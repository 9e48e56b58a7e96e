"""The input of a plan: flows from publishers to subscribers, as plain numbers from any trace.

Clients are numbers, indices into `Traffic.clients`. A flow is all notifications of one publisher that the same set of
clients received; counting by sets and not by pairs makes the cost of a multicast exact. A workload has few such sets if
filters name symbols and many if they use ranges, so the heaviest `FLOWS_MAX` are kept, and `Traffic.kept` is their
share of the notifications.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from octopia.language import Filter
from octopia.matching import Matcher
from octopia.workload import Registration, Workload

FLOWS_MAX: Final = 4_000


class Flow(Struct, frozen=True):
    """`count` notifications of the client `source`, received by the clients `targets`, in ascending order."""

    source: int
    targets: tuple[int, ...]
    count: int


class Traffic(Struct, frozen=True):
    """The clients, their flows, and by publisher the subscribers whose filters overlap its advertisements.

    `reach` decides which clusters get a copy at all: a bit of a CIV is about the advertisement, not the notification.
    """

    clients: tuple[str, ...]
    flows: tuple[Flow, ...]
    reach: dict[int, tuple[int, ...]]
    kept: float = 1.0

    @property
    def notifications(self) -> int:
        return sum(flow.count for flow in self.flows)


def make_traffic(
    workload: Workload, flows: Mapping[tuple[str, tuple[str, ...]], int], total: int | None = None
) -> Traffic:
    """The traffic of a workload's clients, from the number of times each publisher reached a set of clients.

    `total` is the number of all notifications, if these flows are not all.
    """
    clients = tuple(workload.clients())
    numbers = {client: number for number, client in enumerate(clients)}
    made = [
        Flow(numbers[source], tuple(sorted(numbers[target] for target in targets)), count)
        for (source, targets), count in flows.items()
    ]
    made.sort(key=lambda flow: (-flow.count, flow.source, flow.targets))
    kept = made[:FLOWS_MAX]
    every = sum(flow.count for flow in made) if total is None else total
    share = sum(flow.count for flow in kept) / every if every else 1.0
    return Traffic(clients, tuple(kept), _reach(workload, numbers), share)


def _reach(workload: Workload, numbers: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
    changed: dict[str, list[Registration]] = {"advertise": [], "subscribe": []}
    for change in workload.changes:
        if change.kind in changed:
            changed[change.kind].append(change.registration)
    by_filter: dict[Filter, list[int]] = {}
    for each in (*workload.subscriptions, *changed["subscribe"]):
        by_filter.setdefault(each.filter, []).append(numbers[each.client])
    filters = list(by_filter)
    index: Matcher[int] = Matcher()
    for number, filter in enumerate(filters):
        index.add(number, filter)
    index.settle()
    reach: dict[int, set[int]] = {}
    met: dict[Filter, list[int]] = {}
    for each in (*workload.advertisements, *changed["advertise"]):
        if each.filter not in met:
            met[each.filter] = [
                client for number in index.overlapping(each.filter) for client in by_filter[filters[number]]
            ]
        reach.setdefault(numbers[each.client], set()).update(met[each.filter])
    return {source: tuple(sorted(clients)) for source, clients in reach.items()}
