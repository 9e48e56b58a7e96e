"""The cost of a notification on an overlay, in closed form: messages between brokers, and hops of its deliveries.

Static routing is simple enough to be counted without a run. From its host broker in region r and cluster c a
notification goes over one iLink into every other cluster in which a subscription overlaps the advertisement, and in
each of these clusters, and its own, along the union of the tree's paths from r to the regions of its subscribers there.
The tests compare this with traces: the sums are exactly equal. Dynamic routing takes the same links while none is
overloaded, and others when one is, so for it these numbers are an estimate.

Brokers are numbers (slots), cluster by cluster and in tree order inside, as in `Scot.brokers`. Paths are bit masks of
edges, so the union of paths is an `or` and its length a count of bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

from octopia.planning.traffic import Traffic
from octopia.topology import Scot

# The weight of a message in hops of deliveries, for the search: messages load links, hops take time.
MESSAGE_WEIGHT = 4


class Cost(NamedTuple):
    """For all flows: messages between brokers, and the sum of the hops of all deliveries."""

    messages: int
    hops: int

    @property
    def weight(self) -> int:
        """The objective of the search, to be minimised."""
        return MESSAGE_WEIGHT * self.messages + self.hops


class Paths:
    """The paths of a tree of `regions` nodes, as masks of edges: `paths[a][b]` leads from a to b."""

    def __init__(self, regions: int, edges: Sequence[tuple[int, int]]) -> None:
        self.regions = regions
        self.edges = tuple(edges)
        near: list[list[tuple[int, int]]] = [[] for _ in range(regions)]
        for bit, (one, other) in enumerate(edges):
            near[one].append((other, 1 << bit))
            near[other].append((one, 1 << bit))
        self._near = near
        self._from: list[list[int] | None] = [None] * regions

    def __getitem__(self, root: int) -> list[int]:
        found = self._from[root]
        if found is None:
            found = self._from[root] = [0] * self.regions
            seen, todo = {root}, [root]
            while todo:
                here = todo.pop()
                for there, bit in self._near[here]:
                    if there not in seen:
                        seen.add(there)
                        found[there] = found[here] | bit
                        todo.append(there)
        return found


def paths_of(overlay: Scot) -> Paths:
    """The paths of an overlay's tree, its nodes numbered in tree order."""
    numbers = {node: number for number, node in enumerate(overlay.tree.nodes)}
    return Paths(len(numbers), [(numbers[one], numbers[other]) for one, other in overlay.tree.edges])


def flow_cost(paths: Paths, clusters: int, source: int, targets: Sequence[int]) -> Cost:
    """Inside the clusters only, for one notification: from the slot `source` to the slots `targets`."""
    regions = paths.regions
    own, root = divmod(source, regions)
    path = paths[root]
    masks = [0] * clusters
    hops = 0
    for slot in targets:
        cluster, region = divmod(slot, regions)
        way = path[region]
        masks[cluster] |= way
        hops += way.bit_count() + (cluster != own)
    return Cost(sum(mask.bit_count() for mask in masks), hops)


def cost_of(traffic: Traffic, paths: Paths, clusters: int, slots: Sequence[int]) -> Cost:
    """For all flows, with client n at the broker `slots[n]`."""
    messages = hops = 0
    entered = {
        source: len({slots[target] // paths.regions for target in reach} - {slots[source] // paths.regions})
        for source, reach in traffic.reach.items()
    }
    for source, targets, count in ((flow.source, flow.targets, flow.count) for flow in traffic.flows):
        inside = flow_cost(paths, clusters, slots[source], [slots[target] for target in targets])
        messages += count * (inside.messages + entered.get(source, 0))
        hops += count * inside.hops
    return Cost(messages, hops)
