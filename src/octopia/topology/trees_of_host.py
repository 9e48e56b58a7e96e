"""The k trees of a host broker, among which full dynamic routing chooses for its clients' notifications.

Each cluster has a copy of the tree. A host broker reaches its own cluster's at once, and another cluster's over the
iLink to the broker of its region there. Along the aLinks of that cluster a copy gets to every region, and from there
over one more iLink to any broker. No two of the k trees share a directed link.
"""

from typing import NamedTuple

from octopia.topology.broker_id import BrokerId
from octopia.topology.scot import Link, Scot


class HostTree(NamedTuple):
    """One cluster's tree as seen from a host broker: its links, directed away from the host, the nearest first."""

    cluster: int
    links: tuple[Link, ...]


def host_trees(scot: Scot, host: BrokerId) -> tuple[HostTree, ...]:
    """The trees of this broker, its own cluster's first; a `TopologyError` if the broker does not exist."""
    mates = scot.i_links(host)
    steps = [(region, parent) for region, parent, _ in scot.tree.walk(host.region) if parent is not None]
    trees = []
    for root in (host, *mates):
        first = () if root == host else ((host, root),)
        along = ((BrokerId(parent, root.cluster), BrokerId(region, root.cluster)) for region, parent in steps)
        trees.append(HostTree(root.cluster, (*first, *along)))
    return tuple(trees)
