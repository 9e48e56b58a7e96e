"""The acyclic factor of a SCOT: a tree of labelled nodes.

A `Tree` that exists is a tree. The acyclic property is checked when one is made, and a violation names the cycle, the
edge or the node. The order of `nodes` is part of the value: neighbours, clusters and routing follow it, so no result
depends on the order of a set. Nothing here recurses: a path of 100,000 nodes is a valid tree.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from octopia.errors import TopologyError
from octopia.hints import maybe_meant
from octopia.topology.labels import check_label
from octopia.topology.limits import BROKERS_MAX

# A node, its parent, and its depth.
Step = tuple[str, str | None, int]

_NAMED_AT_MOST = 12


@dataclass(frozen=True)
class Tree:
    """A tree: `nodes` in their given order, `edges` as they were given."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        _check_nodes(self.nodes)
        _check_edges(self.nodes, self.edges)
        _check_acyclic(self.edges)
        _check_connected(self)

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[str]], nodes: Iterable[str] = ()) -> "Tree":
        """The tree of these edges; `nodes` gives the order, or the one node of a tree without edges.

        Without `nodes` the order is that of first appearance in the edges.
        """
        pairs = tuple(_pair(edge) for edge in edges)
        order = tuple(nodes) or tuple(dict.fromkeys(label for pair in pairs for label in pair))
        return cls(order, pairs)

    @cached_property
    def _neighbours(self) -> dict[str, tuple[str, ...]]:
        near: dict[str, list[str]] = {node: [] for node in self.nodes}
        for one, other in self.edges:
            near[one].append(other)
            near[other].append(one)
        rank = self.rank
        return {node: tuple(sorted(others, key=rank.__getitem__)) for node, others in near.items()}

    @cached_property
    def rank(self) -> dict[str, int]:
        """The place of each node in `nodes`."""
        return {node: place for place, node in enumerate(self.nodes)}

    def neighbours(self, node: str) -> tuple[str, ...]:
        """The nodes one edge away, in the order of `nodes`."""
        try:
            return self._neighbours[node]
        except KeyError:
            raise TopologyError(f"no node {node!r} in the tree{maybe_meant(str(node), self.nodes)}") from None

    def walk(self, start: str | None = None) -> tuple[Step, ...]:
        """Every node, breadth first, as (node, parent, depth), starting at the first node by default."""
        return walk_from(self.nodes[0] if start is None else start, self.neighbours)

    @cached_property
    def diameter(self) -> int:
        """Edges on the longest path. Two walks do: the farthest node from anywhere is an end of a longest path."""
        end = self.walk()[-1][0]
        return self.walk(end)[-1][2]

    def __str__(self) -> str:
        return ",".join(f"{one}-{other}" for one, other in self.edges) or self.nodes[0]


def walk_from(start: str, neighbours: Callable[[str], Sequence[str]]) -> tuple[Step, ...]:
    """The nodes of the tree around `start`, breadth first."""
    steps: list[Step] = [(start, None, 0)]
    for node, parent, depth in steps:
        steps += ((near, node, depth + 1) for near in neighbours(node) if near != parent)
    return tuple(steps)


def _pair(edge: Sequence[str]) -> tuple[str, str]:
    # A two-letter string is a sequence of two as well, but never meant as an edge.
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
        raise TopologyError(f"bad edge {edge!r}: an edge is a pair of labels, for example ['a', 'b']")
    return check_label(edge[0]), check_label(edge[1])


def _check_nodes(nodes: tuple[str, ...]) -> None:
    if not nodes:
        raise TopologyError("the tree is empty: give at least one node")
    if len(nodes) > BROKERS_MAX:
        raise TopologyError(f"the tree has {len(nodes):,} nodes, at most {BROKERS_MAX:,} are allowed")
    seen: set[str] = set()
    for node in nodes:
        if check_label(node) in seen:
            raise TopologyError(f"node {node} is given twice")
        seen.add(node)


def _check_edges(nodes: tuple[str, ...], edges: tuple[tuple[str, str], ...]) -> None:
    known = set(nodes)
    seen: set[tuple[str, str]] = set()
    for edge in edges:
        one, other = _pair(edge)
        for label in edge:
            if label not in known:
                raise TopologyError(f"edge {one}-{other} names {label}, which is missing from the nodes")
        if one == other:
            raise TopologyError(f"the tree has a cycle: {one}-{one}")
        if edge in seen or (other, one) in seen:
            raise TopologyError(f"edge {one}-{other} is given twice")
        seen.add(edge)


def _check_acyclic(edges: tuple[tuple[str, str], ...]) -> None:
    cycle = find_cycle(edges)
    if cycle:
        raise TopologyError(f"the tree has a cycle: {'-'.join(abbreviated(cycle))}")


def _check_connected(tree: Tree) -> None:
    reached = {node for node, _, _ in tree.walk()}
    missing = [node for node in tree.nodes if node not in reached]
    if missing:
        names = ", ".join(abbreviated(missing))
        raise TopologyError(f"the tree is not connected: no path from {tree.nodes[0]} to {names}")


def find_cycle(edges: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """A cycle as the nodes along it, the first repeated at the end; empty where there is none.

    The first edge that closes a cycle decides which one is named, so the same input always gets the same answer.
    """
    group: dict[str, str] = {}

    def leader(node: str) -> str:
        while group.setdefault(node, node) != node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for place, (one, other) in enumerate(edges):
        if leader(one) == leader(other):
            return (*_path(edges[:place], other, one), other)
        group[leader(one)] = leader(other)
    return ()


def _path(edges: Sequence[tuple[str, str]], start: str, end: str) -> list[str]:
    """The path from `start` to `end`, which these edges connect without a cycle."""
    neighbours: dict[str, list[str]] = {}
    for one, other in edges:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    # From the end, so that following the steps back from the start gives the way in order.
    step = {end: end}
    reached = [end]
    for node in reached:
        for neighbour in neighbours.get(node, ()):
            if neighbour not in step:
                step[neighbour] = node
                reached.append(neighbour)
    way = [start]
    while way[-1] != end:
        way.append(step[way[-1]])
    return way


def abbreviated(names: Sequence[str]) -> list[str]:
    """The names for an error's one line: all of a few, the two ends of many."""
    if len(names) <= _NAMED_AT_MOST:
        return list(names)
    half = _NAMED_AT_MOST // 2
    return [*names[:half], f"… ({len(names) - 2 * half} more) …", *names[-half:]]
