"""Brokers as bits, and their directions as seen from one region: computed once per overlay and region.

A set of brokers is an `int`; the bit of a broker is its place in `Scot.brokers`, cluster by cluster and in tree order
inside. A set of regions is an `int` of the same kind, by place in the tree.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from octopia.topology import BrokerId, Scot, civ

# Our own cluster's tree without the iLinks of the host broker: region mates are reached from a neighbouring region.
AROUND = -1


class Places(NamedTuple):
    """Sets of brokers as seen from one region.

    `brokers` has the bit of every broker. `clusters`: by cluster all its brokers. `beyond`: by neighbouring region, in
    tree order, all brokers of all clusters that lie in that direction. `here` is this region's bit.
    """

    brokers: dict[BrokerId, int]
    clusters: tuple[int, ...]
    beyond: dict[str, int]
    here: int

    def of_clusters(self, clusters: int) -> int:
        """All brokers of these clusters, which are given as bits."""
        brokers = 0
        for cluster in civ.bits(clusters):
            brokers |= self.clusters[cluster]
        return brokers


@lru_cache(maxsize=64)
def _of_overlay(overlay: Scot) -> tuple[dict[BrokerId, int], tuple[int, ...]]:
    size = len(overlay.tree.nodes)
    brokers = {broker: 1 << place for place, broker in enumerate(overlay.brokers)}
    return brokers, tuple(((1 << size) - 1) << cluster * size for cluster in range(overlay.clusters))


# An overlay's brokers are made region by region or cluster by cluster; evicted entries are computed again.
@lru_cache(maxsize=4096)
def places_of(overlay: Scot, region: str) -> Places:
    brokers, clusters = _of_overlay(overlay)
    size, rank = len(overlay.tree.nodes), overlay.tree.rank
    regions = dict.fromkeys(overlay.tree.neighbours(region), 0)
    for other, towards in _others(overlay, region):
        regions[towards] |= 1 << rank[other]
    in_all_clusters = sum(1 << cluster * size for cluster in range(overlay.clusters))
    beyond = {towards: bits * in_all_clusters for towards, bits in regions.items()}
    return Places(brokers, clusters, beyond, 1 << rank[region])


def _others(overlay: Scot, region: str) -> Iterator[tuple[str, str]]:
    towards: dict[str, str] = {}
    for other, parent, _ in overlay.tree.walk(region):
        if parent is not None:
            towards[other] = other if parent == region else towards[parent]
            yield other, towards[other]
