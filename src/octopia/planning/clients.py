"""Placement of clients: a local search over brokers, starting from the current placement or from groups of common
interest.

Each round finds the cheapest broker for every client, given all others, and makes the best of these moves first, each
only if it still pays. The search ends when no move pays, or after `ROUNDS_MAX` rounds. No broker gets more than `room`
clients. Moving a subscriber changes each of its flows by the edges that its path adds to those of the other
subscribers; moving a publisher is recomputed. The same input gives the same answer.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from octopia.planning.cost import MESSAGE_WEIGHT, Paths, flow_cost
from octopia.planning.traffic import Traffic

ROUNDS_MAX: Final = 12


class ClientSearch:
    """Clients on the brokers of one overlay; `slots[n]` is the current location of client n."""

    def __init__(
        self,
        traffic: Traffic,
        paths: Paths,
        clusters: int,
        slots: Sequence[int],
        room: int,
        fixed: Iterable[int] = (),
        zones: Sequence[int] = (),
    ) -> None:
        self._traffic = traffic
        self._paths = paths
        self._clusters = clusters
        self._room = room
        self._fixed = frozenset(fixed)
        self._zones = zones or [0] * (paths.regions * clusters)
        self.slots = list(slots)
        self._first = tuple(slots)
        count = len(traffic.clients)
        self._sent: list[list[int]] = [[] for _ in range(count)]  # flows by publisher
        self._got: list[list[int]] = [[] for _ in range(count)]  # flows by subscriber
        self._published = [0] * count
        for number, flow in enumerate(traffic.flows):
            self._sent[flow.source].append(number)
            self._published[flow.source] += flow.count
            for target in flow.targets:
                self._got[target].append(number)
        self._reached_by: list[list[int]] = [[] for _ in range(count)]  # publishers by subscriber
        for source, reach in traffic.reach.items():
            if self._published[source]:
                for target in reach:
                    self._reached_by[target].append(source)
        self._load = [0] * (paths.regions * clusters)
        for slot in self.slots:
            self._load[slot] += 1
        # by publisher: how many subscribers in its reach each cluster has
        self._in_reach = {source: self._count_reach(source) for source in traffic.reach if self._published[source]}

    @property
    def moved(self) -> list[int]:
        """The clients that have moved."""
        return [client for client, slot in enumerate(self.slots) if slot != self._first[client]]

    def run(self, moves_max: int | None = None) -> None:
        """Move clients until no move pays; at most `moves_max` of them move."""
        for _ in range(ROUNDS_MAX):
            if not self._round(moves_max):
                return

    def _round(self, moves_max: int | None) -> int:
        wishes = []
        for client in range(len(self.slots)):
            gain, slot = self._best(client)
            if gain > 0:
                wishes.append((-gain, client, slot))
        done = 0
        elsewhere = len(self.moved)
        for _, client, _ in sorted(wishes):
            new = self.slots[client] == self._first[client]
            if new and moves_max is not None and elsewhere >= moves_max:
                continue
            gain, slot = self._best(client)
            if gain > 0:
                self.put(client, slot)
                elsewhere += new
                done += 1
        return done

    def put(self, client: int, slot: int) -> None:
        """Move a client to a broker, whatever it costs."""
        regions = self._paths.regions
        old = self.slots[client]
        self._load[old] -= 1
        self._load[slot] += 1
        self.slots[client] = slot
        for source in self._reached_by[client]:
            self._in_reach[source][old // regions] -= 1
            self._in_reach[source][slot // regions] += 1

    def _best(self, client: int) -> tuple[int, int]:
        """The gain of a client's best move, and its target; the lowest slot among equals."""
        here = self.slots[client]
        if client in self._fixed or not (self._sent[client] or self._got[client] or self._reached_by[client]):
            return 0, here
        costs = [0] * len(self._load)
        self._add_as_subscriber(client, costs)
        if self._sent[client]:
            self._add_as_publisher(client, costs)
        zones = self._zones
        free = (
            slot
            for slot, load in enumerate(self._load)
            if slot == here or (load < self._room and zones[slot] == zones[here])
        )
        best = min(free, key=lambda slot: (costs[slot], slot != here, slot))
        return costs[here] - costs[best], best

    def _add_as_subscriber(self, client: int, costs: list[int]) -> None:
        paths, clusters, slots, flows = self._paths, self._clusters, self.slots, self._traffic.flows
        regions = paths.regions
        here = slots[client]
        for number in self._got[client]:
            flow = flows[number]
            own, root = divmod(slots[flow.source], regions)
            path = paths[root]
            used = [0] * clusters
            for target in flow.targets:
                if target != client:
                    cluster, region = divmod(slots[target], regions)
                    used[cluster] |= path[region]
            at = 0
            for cluster in range(clusters):
                free = ~used[cluster]
                across = cluster != own
                for way in path:
                    costs[at] += flow.count * (MESSAGE_WEIGHT * (way & free).bit_count() + way.bit_count() + across)
                    at += 1
        for source in self._reached_by[client]:
            count = MESSAGE_WEIGHT * self._published[source]
            own = slots[source] // regions
            for cluster, inside in enumerate(self._in_reach[source]):
                if cluster != own and inside - (here // regions == cluster) == 0:
                    for slot in range(cluster * regions, (cluster + 1) * regions):
                        costs[slot] += count

    def _add_as_publisher(self, client: int, costs: list[int]) -> None:
        paths, clusters, slots, flows = self._paths, self._clusters, self.slots, self._traffic.flows
        reach = self._in_reach.get(client, [])
        entered = sum(1 for inside in reach if inside)
        for slot in range(len(costs)):
            for number in self._sent[client]:
                flow = flows[number]
                inside = flow_cost(paths, clusters, slot, [slots[target] for target in flow.targets])
                costs[slot] += flow.count * inside.weight
            own = slot // paths.regions
            across = entered - (1 if reach and reach[own] else 0)
            costs[slot] += MESSAGE_WEIGHT * self._published[client] * across

    def _count_reach(self, source: int) -> list[int]:
        counts = [0] * self._clusters
        for target in self._traffic.reach[source]:
            counts[self.slots[target] // self._paths.regions] += 1
        return counts


def grouped(traffic: Traffic, brokers: int, slots: Sequence[int], room: int, fixed: Iterable[int] = ()) -> list[int]:
    """A start for the search: subscribers beside the publisher they receive most from, heaviest publishers first."""
    kept = frozenset(fixed)
    got: dict[int, dict[int, int]] = {}
    weight: dict[int, int] = {}
    for flow in traffic.flows:
        weight[flow.source] = weight.get(flow.source, 0) + flow.count * len(flow.targets)
        for target in flow.targets:
            mine = got.setdefault(target, {})
            mine[flow.source] = mine.get(flow.source, 0) + flow.count
    members: dict[int, list[int]] = {source: [] for source in weight}
    for target, sources in sorted(got.items()):
        members[max(sources, key=lambda source: (sources[source], -source))].append(target)
    placed = {client: slots[client] for client in kept}
    load = [0] * brokers
    for slot in placed.values():
        load[slot] += 1
    for source in sorted(weight, key=lambda source: (-weight[source], source)):
        for client in (source, *members[source]):
            if client not in placed:
                # the publisher at the emptiest broker, its subscribers beside it as long as there is room
                near = placed.get(source)
                if near is None or load[near] >= room:
                    near = min(range(brokers), key=lambda slot: (load[slot], slot))
                placed[client] = near
                load[near] += 1
    for client in range(len(slots)):
        if client not in placed:
            slot = slots[client] if load[slots[client]] < room else min(range(brokers), key=lambda s: (load[s], s))
            placed[client] = slot
            load[slot] += 1
    return [placed[client] for client in range(len(slots))]
