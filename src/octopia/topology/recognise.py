"""From a product graph back to its factors: is it a SCOT, and if not, why not.

The four properties are checked in an order where each relies on the ones before: label order, then index, then
connectivity (every region whole and complete), then acyclic (every cluster the same tree). The first violation is named
by its place: the label, the missing broker, the missing or extra link, the cycle. Nodes are taken in the graph's own
order, so the same graph gets the same answer.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from octopia.errors import TopologyError
from octopia.topology.broker_id import BrokerId
from octopia.topology.labels import check_label
from octopia.topology.tree import Tree, abbreviated, find_cycle

if TYPE_CHECKING:
    import networkx as nx

Pair = tuple[str, str]


def recognise(graph: "nx.Graph[Any]") -> tuple[Tree, int]:
    """The tree and the number of clusters of the SCOT that this graph is."""
    if graph.is_directed() or graph.is_multigraph():
        raise TopologyError("an overlay's links are undirected and single: give a plain networkx.Graph")
    brokers = [_broker(label) for label in graph]
    if not brokers:
        raise TopologyError("the graph is empty: give at least one broker")
    regions = list(dict.fromkeys(broker.region for broker in brokers))
    clusters = _check_index(brokers)
    _check_whole(brokers, regions, clusters)
    projected = _projected_links(graph, clusters)
    _check_regions_complete(graph, regions, clusters)
    return _common_tree(projected, regions, clusters), clusters


def _broker(label: Hashable) -> BrokerId:
    """Label order property: region first, cluster second."""
    if not isinstance(label, tuple) or len(label) != 2:
        raise TopologyError(f"bad label {label!r}: a broker's label is a pair (region, cluster)")
    region, cluster = label
    if _is_index(region) and isinstance(cluster, str):
        raise TopologyError(
            f"label order: {label!r} has the cluster first; the region comes first, the cluster second: "
            f"({cluster!r}, {region!r})"
        )
    if not _is_index(cluster) or cluster < 0:
        raise TopologyError(f"bad label {label!r}: the cluster must be a whole number from 0, not {cluster!r}")
    return BrokerId(check_label(region), cluster)


def _is_index(part: object) -> bool:
    return isinstance(part, int) and not isinstance(part, bool)


def _check_index(brokers: Iterable[BrokerId]) -> int:
    """Index property: cluster labels are 0..k-1 without a gap."""
    found = {broker.cluster for broker in brokers}
    # The first missing number, found without counting up to the largest label.
    gap = next(index for index in range(len(found) + 1) if index not in found)
    if gap < len(found):
        raise TopologyError(
            f"index: clusters are numbered from 0 without a gap, but {gap} is missing and {max(found)} is there"
        )
    return len(found)


def _check_whole(brokers: Iterable[BrokerId], regions: list[str], clusters: int) -> None:
    present = set(brokers)
    for region in regions:
        for index in range(clusters):
            if (region, index) not in present:
                raise TopologyError(f"broker ({region},{index}) is missing: each region has one broker of each cluster")


def _projected_links(graph: "nx.Graph[Any]", clusters: int) -> list[list[Pair]]:
    """The aLinks of each cluster as pairs of regions; a link that is neither aLink nor iLink is refused."""
    projected: list[list[Pair]] = [[] for _ in range(clusters)]
    for one, other in graph.edges:
        if one == other:
            raise TopologyError(f"extra link {_link(one, other)}: it joins a broker to itself")
        if one[0] != other[0] and one[1] != other[1]:
            raise TopologyError(
                f"extra link {_link(one, other)}: it joins neither brokers of one cluster nor brokers of one region"
            )
        if one[1] == other[1]:
            projected[one[1]].append((one[0], other[0]))
    return projected


def _check_regions_complete(graph: "nx.Graph[Any]", regions: list[str], clusters: int) -> None:
    """Connectivity property: every two brokers of a region share an iLink."""
    for region in regions:
        for low in range(clusters):
            for high in range(low + 1, clusters):
                if not graph.has_edge((region, low), (region, high)):
                    raise TopologyError(
                        f"missing iLink {_link((region, low), (region, high))}: a region is a complete graph"
                    )


def _common_tree(projected: list[list[Pair]], regions: list[str], clusters: int) -> Tree:
    """Acyclic property: every cluster is the same tree."""
    for index, pairs in enumerate(projected):
        cycle = find_cycle(pairs)
        if cycle:
            path = "-".join(abbreviated([str(BrokerId(region, index)) for region in cycle]))
            raise TopologyError(f"cluster {index} has a cycle: {path}")
    rank = {region: place for place, region in enumerate(regions)}
    counted = Counter(_ordered(pair, rank) for pairs in projected for pair in pairs)
    _check_same(projected, counted, rank, clusters)
    return Tree.from_edges(counted, regions)


def _check_same(projected: list[list[Pair]], counted: Counter[Pair], rank: dict[str, int], clusters: int) -> None:
    for index, pairs in enumerate(projected):
        own = {_ordered(pair, rank) for pair in pairs}
        for pair, count in counted.items():
            link = _link((pair[0], index), (pair[1], index))
            # The tree that most clusters have is taken as right; the few that differ are at fault.
            if pair not in own and count * 2 >= clusters:
                raise TopologyError(f"missing aLink {link}: {count} of {clusters} clusters have it")
            if pair in own and count * 2 < clusters:
                raise TopologyError(f"extra link {link}: only {count} of {clusters} clusters have it")


def _ordered(pair: Pair, rank: dict[str, int]) -> Pair:
    one, other = pair
    return pair if rank[one] < rank[other] else (other, one)


def _link(one: tuple[str, int], other: tuple[str, int]) -> str:
    return f"{BrokerId(*one)}-{BrokerId(*other)}"
