"""The nodes of a tree or forest over machines, as evenly as possible, with no two neighbours on one machine.

This is the one case that dealing (see `placement`) does not solve, an overlay of a single cluster: a node with many
neighbours keeps its machine to itself, so an even spread may not exist and the best one has to be searched for. Two
machines are left to `placement`. From three on, a greedy spread is evened out by swapping Kempe components (the
connected pieces of the nodes on two machines: exchanging the two inside one piece stays valid), from a few starts. The
search is deterministic and bounded by `VISITS_MAX`; tests compare it with the optimum of every small tree.
"""

from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace

from octopia.topology.forest import Forest

STARTS_MAX = 8
# Node visits of the whole search: a second or so. Past it the best spread so far stands, valid, perhaps less even.
VISITS_MAX = 2_000_000


def spread_forest(tree: Forest, machines: int) -> dict[str, int]:
    """A machine number for each node; neighbours differ. At least three machines."""
    # Crowded nodes first: their neighbours are what makes the rest hard to even out.
    starts = sorted(tree.nodes, key=lambda node: -len(tree.neighbours(node)))[:STARTS_MAX]
    best = _Spread(tree, machines, starts[0])
    visits = best.even_out(VISITS_MAX)
    for start in starts[1:]:
        if best.is_even or visits <= 0:
            break
        spread = _Spread(tree, machines, start)
        visits = spread.even_out(visits)
        best = min(best, spread, key=lambda one: one.unevenness)
    return best.machine


class _Spread:
    """One attempt: greedy from a start, then evened out. Mutable and private to this file."""

    def __init__(self, tree: Forest, machines: int, start: str) -> None:
        self.tree = tree
        self.machine: dict[str, int] = {}
        self.loads = [0] * machines
        lightest = [(0, place) for place in range(machines)]
        for node, parent, _ in tree.walk(start):
            taken = None if parent is None else self.machine[parent]
            chosen = heappop(lightest)
            # With three machines or more the next lightest is there, and free: only the parent's is taken.
            self.machine[node] = place = chosen[1] if chosen[1] != taken else heapreplace(lightest, chosen)[1]
            self.loads[place] += 1
            heappush(lightest, (self.loads[place], place))

    @property
    def is_even(self) -> bool:
        return max(self.loads) - min(self.loads) <= 1

    @property
    def unevenness(self) -> int:
        return sum(load * load for load in self.loads)

    def even_out(self, visits: int) -> int:
        """Swap while a swap helps and visits remain; returns the visits left."""
        improved = True
        while improved and visits > 0:
            improved = False
            for heavy, light in self._pairs():
                visits -= len(self.tree.nodes)
                improved = self._swap_one(heavy, light)
                if improved or visits <= 0:
                    break
        return visits

    def _pairs(self) -> Iterator[tuple[int, int]]:
        by_load = sorted(range(len(self.loads)), key=self.loads.__getitem__)
        for heavy in reversed(by_load):
            for light in by_load:
                if self.loads[heavy] - self.loads[light] < 2:
                    break
                yield heavy, light

    def _swap_one(self, heavy: int, light: int) -> bool:
        gap = self.loads[heavy] - self.loads[light]
        for piece in self._pieces(heavy, light):
            surplus = sum(1 if self.machine[node] == heavy else -1 for node in piece)
            if 0 < surplus < gap:
                for node in piece:
                    self.machine[node] = light if self.machine[node] == heavy else heavy
                self.loads[heavy] -= surplus
                self.loads[light] += surplus
                return True
        return False

    def _pieces(self, one: int, other: int) -> Iterator[list[str]]:
        both = (one, other)
        seen: set[str] = set()
        for node in self.tree.nodes:
            if node in seen or self.machine[node] not in both:
                continue
            seen.add(node)
            piece = [node]
            for member in piece:
                near = [n for n in self.tree.neighbours(member) if n not in seen and self.machine[n] in both]
                seen.update(near)
                piece.extend(near)
            yield piece
