"""The plan of a picture: one column per region, and tracks for the iLinks beside it, as in the paper's Fig. 3.

Counts only, no lengths. A region has a column to itself, so its iLinks run up and down without passing through a broker
of another region. A longest path of the tree is the spine, straight along the band of a cluster; branches go above and
below in turn, between the columns they belong to. iLinks of neighbouring bands are straight; the others run beside the
column on tracks, two that overlap never on the same one.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from octopia.topology import Tree

# Past this many clusters single iLinks cannot be told apart, and packing them would cost more than drawing them.
_PACKED_CLUSTERS_MAX = 12


@dataclass(frozen=True)
class TreeLayout:
    """The tree on a flat band: a column for each node, and its level above (+) or below (-) the spine."""

    column: dict[str, int]
    level: dict[str, int]

    @cached_property
    def up(self) -> int:
        return max(self.level.values())

    @cached_property
    def down(self) -> int:
        return -min(self.level.values())


def plan_tree(tree: Tree) -> TreeLayout:
    """Columns from left to right: each node between the two halves of its branches."""
    parents, order = _hang_from_spine(tree)
    spine = _spine(tree)
    sides: dict[str, int] = dict.fromkeys(spine, 0)
    children: dict[str, list[str]] = defaultdict(list)
    level: dict[str, int] = {}
    turn = 1
    for node in order:
        parent = parents[node]
        if parent is None:
            level[node] = 0
            continue
        children[parent].append(node)
        if sides[parent] == 0:
            sides[node], turn = turn, -turn
        else:
            sides[node] = sides[parent]
        level[node] = level[parent] + sides[node]
    columns = _columns(spine, children)
    return TreeLayout({node: place for place, node in enumerate(columns)}, level)


def _spine(tree: Tree) -> list[str]:
    """A longest path, from its end that comes first in the tree's order."""
    one = _farthest(tree, tree.walk())
    steps = tree.walk(one)
    parents = {node: parent for node, parent, _ in steps}
    path = []
    node: str | None = _farthest(tree, steps)
    while node is not None:
        path.append(node)
        node = parents[node]
    return path if tree.rank[path[0]] <= tree.rank[path[-1]] else path[::-1]


def _farthest(tree: Tree, steps: tuple[tuple[str, str | None, int], ...]) -> str:
    depth = steps[-1][2]
    return min((step[0] for step in steps if step[2] == depth), key=tree.rank.__getitem__)


def _hang_from_spine(tree: Tree) -> tuple[dict[str, str | None], list[str]]:
    """Every node's parent on the way to the spine (None on it), and the nodes, parents first."""
    order = _spine(tree)
    parents: dict[str, str | None] = dict.fromkeys(order)
    for node in order:
        for near in tree.neighbours(node):
            if near not in parents:
                parents[near] = node
                order.append(near)
    return parents, order


def _columns(spine: list[str], children: dict[str, list[str]]) -> list[str]:
    """In-order, without recursion: half of the children, the node, the other half."""
    columns: list[str] = []
    # (node, whether its children have been laid out around it)
    stack = [(node, False) for node in reversed(spine)]
    while stack:
        node, done = stack.pop()
        if done or not children[node]:
            columns.append(node)
            continue
        hanging = children[node]
        half = (len(hanging) + 1) // 2 if len(hanging) > 1 else 0
        around = [*((n, False) for n in hanging[:half]), (node, True), *((n, False) for n in hanging[half:])]
        stack.extend(reversed(around))
    return columns


def tracks(clusters: int) -> dict[tuple[int, int], int]:
    """A track for each iLink (low, high) that skips a band; links that overlap never share one.

    With very many clusters one track serves each span instead.
    """
    if clusters > _PACKED_CLUSTERS_MAX:
        return {(low, high): high - low - 2 for high in range(2, clusters) for low in range(high - 1)}
    taken: list[list[tuple[int, int]]] = []
    found: dict[tuple[int, int], int] = {}
    for span in range(2, clusters):
        for low in range(clusters - span):
            link = (low, low + span)
            track = next(
                (t for t, links in enumerate(taken) if all(_apart(link, other) for other in links)), len(taken)
            )
            if track == len(taken):
                taken.append([])
            taken[track].append(link)
            found[link] = track
    return found


def _apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[1] <= other[0] or other[1] <= one[0]
