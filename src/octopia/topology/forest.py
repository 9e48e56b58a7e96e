"""A part of a tree: some of its nodes and the edges between them, as one site holds it.

A forest has the same interface as a tree: nodes, neighbours, a walk. Invariant: its nodes are in the tree's order, its
pieces are ordered by their first nodes, and a forest of all nodes walks like the tree.
"""

from collections.abc import Iterable
from functools import cached_property

from octopia.topology.tree import Step, Tree, walk_from


class Forest:
    """These nodes of a tree."""

    def __init__(self, tree: Tree, nodes: Iterable[str]) -> None:
        chosen = frozenset(nodes)
        self.nodes = tuple(node for node in tree.nodes if node in chosen)
        self._near = {node: tuple(near for near in tree.neighbours(node) if near in chosen) for node in self.nodes}

    def neighbours(self, node: str) -> tuple[str, ...]:
        """The nodes one edge away, in the order of `nodes`."""
        return self._near[node]

    @property
    def has_edges(self) -> bool:
        return any(self._near.values())

    @cached_property
    def pieces(self) -> tuple[tuple[Step, ...], ...]:
        """The walks of its trees, each from its first node."""
        return self._pieces(self.nodes)

    def walk(self, start: str | None = None) -> tuple[Step, ...]:
        """Every node as (node, parent, depth), breadth first in each piece; the piece of `start` first, from there."""
        first = () if start is None else (start,)
        return tuple(step for piece in self._pieces((*first, *self.nodes)) for step in piece)

    def _pieces(self, starts: Iterable[str]) -> tuple[tuple[Step, ...], ...]:
        seen: dict[str, None] = {}
        pieces: list[tuple[Step, ...]] = []
        for start in starts:
            if start in seen:
                continue
            pieces.append(walk_from(start, self.neighbours))
            seen.update((node, None) for node, _, _ in pieces[-1])
        return tuple(pieces)
