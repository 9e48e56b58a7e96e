"""The shape of an overlay: number of clusters, tree, and placement of brokers in it.

For a number of brokers, every divisor k is a possible number of clusters, with trees of brokers / k regions. Cost and
safety limit the choice: the overlay of a plan has at most `links_max` links and at least `clusters_min` clusters, since
that many brokers must fail before it falls apart. The tree search replaces one edge by another as long as that pays;
brokers swap places as long as that pays. Both searches are bounded by counted work, not by time, and depend only on a
seed.
"""

import random
from collections.abc import Sequence
from typing import Final

from octopia.planning.cost import MESSAGE_WEIGHT, Paths, cost_of, flow_cost
from octopia.planning.traffic import Traffic

Edges = tuple[tuple[int, int], ...]
# How often the cost of a flow may be computed: a few seconds' worth.
TREE_WORK_MAX: Final = 200_000
SWAP_WORK_MAX: Final = 400_000


def divisors(brokers: int) -> list[int]:
    """In ascending order."""
    return [k for k in range(1, brokers + 1) if brokers % k == 0]


def link_count(brokers: int, clusters: int) -> int:
    """The number of links of an overlay with this many brokers and clusters, whatever its tree."""
    regions = brokers // clusters
    return (regions - 1) * clusters + regions * clusters * (clusters - 1) // 2


def star(regions: int) -> Edges:
    """The tree of least diameter: node 0 in the middle."""
    return tuple((0, node) for node in range(1, regions))


def better_tree(traffic: Traffic, regions: int, clusters: int, slots: Sequence[int], edges: Edges, seed: int) -> Edges:
    """A tree that costs no more than this one: edges are swapped as long as that pays."""

    def cost(tree: Edges) -> int:
        return cost_of(traffic, Paths(regions, tree), clusters, slots).weight

    best, least = edges, cost(edges)
    chance = random.Random(f"tree/{seed}")  # noqa: S311  no secret
    left = TREE_WORK_MAX // max(1, len(traffic.flows))
    improved = True
    while improved and left > 0:
        improved = False
        exchanges = _exchanges(regions, best)
        chance.shuffle(exchanges)
        for gone, added in exchanges[:left]:
            tried = (*(edge for edge in best if edge != gone), added)
            left -= 1
            found = cost(tried)
            if found < least:
                best, least, improved = tried, found, True
                break
    return best


def _exchanges(regions: int, edges: Edges) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """All pairs of an edge and another that joins the same two parts."""
    found = []
    for gone in edges:
        near: list[list[int]] = [[] for _ in range(regions)]
        for one, other in edges:
            if (one, other) != gone:
                near[one].append(other)
                near[other].append(one)
        side, todo = {gone[0]}, [gone[0]]
        while todo:
            for node in near[todo.pop()]:
                if node not in side:
                    side.add(node)
                    todo.append(node)
        rest = [node for node in range(regions) if node not in side]
        found += [(gone, (one, other)) for one in sorted(side) for other in rest if (one, other) != gone]
    return found


class Arrangement:
    """Brokers with their clients in the slots of an overlay: `place[b]` is the slot of the broker that was number b."""

    def __init__(
        self, traffic: Traffic, homes: Sequence[int], paths: Paths, clusters: int, place: Sequence[int]
    ) -> None:
        self._traffic = traffic
        self._homes = homes
        self._paths = paths
        self._clusters = clusters
        self.place = list(place)
        brokers = paths.regions * clusters
        self._flows_at: list[list[int]] = [[] for _ in range(brokers)]
        self._sources_at: list[list[int]] = [[] for _ in range(brokers)]
        # at brokers, not at clients: several subscribers at one broker cost as much as one, except for hops
        self._targets = [[homes[target] for target in flow.targets] for flow in traffic.flows]
        published: dict[int, int] = {}
        for number, flow in enumerate(traffic.flows):
            published[flow.source] = published.get(flow.source, 0) + flow.count
            for broker in sorted({homes[flow.source], *self._targets[number]}):
                self._flows_at[broker].append(number)
        self._reach = {
            source: (count, sorted({homes[target] for target in traffic.reach.get(source, ())}))
            for source, count in published.items()
        }
        for source, (_, reach) in self._reach.items():
            for broker in sorted({homes[source], *reach}):
                self._sources_at[broker].append(source)

    @property
    def slots(self) -> list[int]:
        """Where the clients are."""
        return [self.place[home] for home in self._homes]

    def run(self, seed: int) -> None:
        """Let two brokers swap places as long as that pays."""
        chance = random.Random(f"swaps/{seed}")  # noqa: S311  no secret
        pairs = [(a, b) for a in range(len(self.place)) for b in range(a)]
        left = SWAP_WORK_MAX
        improved = True
        while improved and left > 0:
            improved = False
            chance.shuffle(pairs)
            for one, other in pairs:
                flows = sorted({*self._flows_at[one], *self._flows_at[other]})
                left -= 2 * len(flows) + 1
                if left < 0:
                    return
                improved = self._swapped(one, other, flows) or improved

    def _swapped(self, one: int, other: int, flows: Sequence[int]) -> bool:
        sources = sorted({*self._sources_at[one], *self._sources_at[other]})
        before = self._weight(flows, sources)
        place = self.place
        place[one], place[other] = place[other], place[one]
        if self._weight(flows, sources) < before:
            return True
        place[one], place[other] = place[other], place[one]
        return False

    def _weight(self, flows: Sequence[int], sources: Sequence[int]) -> int:
        place, homes, regions = self.place, self._homes, self._paths.regions
        weight = 0
        for number in flows:
            flow = self._traffic.flows[number]
            slots = [place[broker] for broker in self._targets[number]]
            weight += flow.count * flow_cost(self._paths, self._clusters, place[homes[flow.source]], slots).weight
        for source in sources:
            count, reach = self._reach[source]
            entered = {place[broker] // regions for broker in reach} - {place[homes[source]] // regions}
            weight += MESSAGE_WEIGHT * count * len(entered)
        return weight
