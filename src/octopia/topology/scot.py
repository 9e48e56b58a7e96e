"""The SCOT overlay: a tree □ a complete graph, as tables that routing can read.

A `Scot` is a frozen value of two fields, the tree and the number of clusters; everything else follows from them and is
looked up, never searched. Order is fixed everywhere: brokers cluster by cluster and in tree order inside, primary
neighbours in tree order, secondary neighbours by cluster index. Sizes, diameter and connectivity are closed forms of
the Cartesian product (tests compare them with networkx on the product graph). networkx itself is imported only when a
graph is requested, so a broker starts without it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from octopia.errors import TopologyError
from octopia.extras import missing
from octopia.hints import maybe_meant
from octopia.topology.broker_id import BrokerId
from octopia.topology.limits import BROKERS_MAX, CLUSTERS_MAX, LINKS_MAX
from octopia.topology.tree import Tree

if TYPE_CHECKING:
    import networkx as nx

Link = tuple[BrokerId, BrokerId]


@dataclass(frozen=True)
class Scot:
    """The overlay `tree □ K_clusters`: one broker per region and cluster."""

    tree: Tree
    clusters: int

    def __post_init__(self) -> None:
        if not isinstance(self.clusters, int) or isinstance(self.clusters, bool):
            raise TopologyError(f"the number of clusters must be a whole number, not {self.clusters!r}")
        if not 1 <= self.clusters <= CLUSTERS_MAX:
            raise TopologyError(f"{self.clusters} clusters: between 1 and {CLUSTERS_MAX:,} are allowed")
        if self.broker_count > BROKERS_MAX:
            raise TopologyError(
                f"{len(self.tree.nodes):,} regions × {self.clusters:,} clusters make {self.broker_count:,} brokers, "
                f"at most {BROKERS_MAX:,} are allowed"
            )
        if self.a_link_count + self.i_link_count > LINKS_MAX:
            raise TopologyError(
                f"{len(self.tree.nodes):,} regions × {self.clusters:,} clusters make "
                f"{self.a_link_count + self.i_link_count:,} links, at most {LINKS_MAX:,} are allowed"
            )

    @classmethod
    def from_graph(cls, graph: "nx.Graph[Any]") -> "Scot":
        """The SCOT that this product graph is; a `TopologyError` says why if it is not one."""
        from octopia.topology.recognise import recognise

        return cls(*recognise(graph))

    @property
    def broker_count(self) -> int:
        return len(self.tree.nodes) * self.clusters

    @property
    def a_link_count(self) -> int:
        return len(self.tree.edges) * self.clusters

    @property
    def i_link_count(self) -> int:
        return len(self.tree.nodes) * self.clusters * (self.clusters - 1) // 2

    @cached_property
    def brokers(self) -> tuple[BrokerId, ...]:
        """Every broker, cluster by cluster, in tree order inside a cluster."""
        return tuple(BrokerId(node, index) for index in range(self.clusters) for node in self.tree.nodes)

    @cached_property
    def _clusters(self) -> tuple[tuple[BrokerId, ...], ...]:
        size = len(self.tree.nodes)
        return tuple(self.brokers[index * size : (index + 1) * size] for index in range(self.clusters))

    @cached_property
    def _regions(self) -> dict[str, tuple[BrokerId, ...]]:
        size = len(self.tree.nodes)
        return {node: self.brokers[place::size] for place, node in enumerate(self.tree.nodes)}

    @cached_property
    def _a_links(self) -> dict[BrokerId, tuple[BrokerId, ...]]:
        regions = self._regions
        return {
            BrokerId(node, index): tuple(regions[near][index] for near in self.tree.neighbours(node))
            for index in range(self.clusters)
            for node in self.tree.nodes
        }

    @cached_property
    def _i_links(self) -> dict[BrokerId, tuple[BrokerId, ...]]:
        # Filled on demand: with a thousand clusters the whole table would hold millions of entries, few of them used.
        return {}

    def __contains__(self, broker: object) -> bool:
        return broker in self._a_links

    def a_links(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The primary neighbours: same cluster, one aLink away, in tree order."""
        try:
            return self._a_links[broker]
        except KeyError:
            raise self._unknown(broker) from None

    def i_links(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The secondary neighbours: same region, one iLink away, by cluster index."""
        known = self._i_links.get(broker)
        if known is None:
            if broker not in self:
                raise self._unknown(broker)
            region, index = broker
            brokers = self._regions[region]
            known = self._i_links[brokers[index]] = brokers[:index] + brokers[index + 1 :]
        return known

    def neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Primary, then secondary neighbours."""
        return self.a_links(broker) + self.i_links(broker)

    def region(self, name: str) -> tuple[BrokerId, ...]:
        """The brokers of a region, by cluster index."""
        try:
            return self._regions[name]
        except KeyError:
            raise TopologyError(f"no region {name!r}{maybe_meant(str(name), self.tree.nodes)}") from None

    def cluster(self, index: int) -> tuple[BrokerId, ...]:
        """The brokers of a cluster, in tree order."""
        if not 0 <= index < self.clusters:
            raise TopologyError(f"no cluster {index}: clusters are 0..{self.clusters - 1}")
        return self._clusters[index]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every link once: the aLinks cluster by cluster, then the iLinks region by region."""
        regions = self._regions
        a_links = [
            (regions[one][index], regions[other][index])
            for index in range(self.clusters)
            for one, other in self.tree.edges
        ]
        i_links = [
            (brokers[low], brokers[high])
            for brokers in regions.values()
            for low in range(self.clusters)
            for high in range(low + 1, self.clusters)
        ]
        return (*a_links, *i_links)

    def is_inner(self, broker: BrokerId) -> bool:
        """Whether the broker has at least two primary neighbours."""
        return len(self.a_links(broker)) >= 2

    def is_edge(self, broker: BrokerId) -> bool:
        """Whether the broker has at most one primary neighbour."""
        return not self.is_inner(broker)

    @cached_property
    def inner(self) -> int:
        """The number of inner brokers."""
        return sum(len(self.tree.neighbours(node)) >= 2 for node in self.tree.nodes) * self.clusters

    @property
    def edge(self) -> int:
        """The number of edge brokers."""
        return self.broker_count - self.inner

    @property
    def diameter(self) -> int:
        """The most hops between two brokers: distances add in a product, and a region adds one."""
        return self.tree.diameter + (1 if self.clusters > 1 else 0)

    @property
    def connectivity(self) -> int:
        """Vertex connectivity, equal to edge connectivity: removing fewer brokers or links never partitions it.

        k for a tree with an edge and k ≥ 2 clusters, and also for k = 1, where the overlay is the tree. A single region
        is the complete graph on k brokers, which by convention has k - 1; so a single broker has 0.
        """
        return self.clusters if self.tree.edges else self.clusters - 1

    def graph(self) -> "nx.Graph[BrokerId]":
        """The overlay as a networkx graph, for analysis. Links carry `kind`: `a` or `i`."""
        try:
            import networkx as nx
        except ImportError:
            raise missing("networkx", "graphs for analysis") from None
        graph: nx.Graph[BrokerId] = nx.Graph()
        graph.add_nodes_from(self.brokers)
        graph.add_edges_from(self.links[: self.a_link_count], kind="a")
        graph.add_edges_from(self.links[self.a_link_count :], kind="i")
        return graph

    def __str__(self) -> str:
        return f"{len(self.tree.nodes)} regions × {self.clusters} clusters"

    def _unknown(self, broker: object) -> TopologyError:
        if isinstance(broker, tuple) and len(broker) == 2:
            region, index = broker
            if region not in self._regions:
                return TopologyError(f"no broker ({region},{index}): no region {region!r}{self._near(region)}")
            return TopologyError(f"no broker ({region},{index}): clusters are 0..{self.clusters - 1}")
        return TopologyError(f"{broker!r} is not a broker: a broker is (region, cluster)")

    def _near(self, region: object) -> str:
        return maybe_meant(str(region), self.tree.nodes)
