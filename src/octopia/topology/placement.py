"""Brokers on machines: a broker and its neighbours, primary and secondary, on different machines.

Rules of this file: as few violations as there can be, then loads as even as they can be, then a fixed order; no search
where a rule will do. Let k be the clusters and m the machines.

- A region is a complete graph, so its k brokers on m machines share at least `forced(k, m)` times, reached only by an
  even split. With m ≥ 2 nothing else is forced: the aLinks never need to be violated.
- m ≥ 3, k ≥ 2: machines are dealt like cards, region after region in walk order, so loads differ by at most one and
  every region is split evenly. Where a broker got its parent's machine x, it swaps with a broker of its region that
  neither has x nor has a parent on x. There is one: at most 2⌈k/m⌉ - 1 < k brokers of the region fail that test.
- m = 2: neighbouring regions must be mirror images, which leaves the loads no choice.
- k = 1: the overlay is the tree itself; see `spread`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from octopia.errors import PlacementError, TopologyError
from octopia.topology.broker_id import BrokerId
from octopia.topology.labels import check_label
from octopia.topology.limits import MACHINES_MAX
from octopia.topology.scot import Link, Scot
from octopia.topology.spread import spread_tree
from octopia.topology.tree import Tree


@dataclass(frozen=True)
class Placement:
    """Which machine each broker runs on: `places[n]` is the number in `machines` of the overlay's n-th broker."""

    scot: Scot
    machines: tuple[str, ...]
    places: tuple[int, ...]

    @cached_property
    def _machine_of(self) -> dict[BrokerId, str]:
        return {broker: self.machines[place] for broker, place in zip(self.scot.brokers, self.places, strict=True)}

    def machine(self, broker: BrokerId) -> str:
        """The machine that this broker runs on."""
        if broker not in self.scot:
            raise PlacementError(f"broker {BrokerId(*broker)} is not part of the overlay that was placed")
        return self._machine_of[broker]

    @cached_property
    def brokers(self) -> dict[str, tuple[BrokerId, ...]]:
        """The brokers of each machine, in the overlay's order; a machine that got none is there too."""
        lists: list[list[BrokerId]] = [[] for _ in self.machines]
        for broker, place in zip(self.scot.brokers, self.places, strict=True):
            lists[place].append(broker)
        return {machine: tuple(found) for machine, found in zip(self.machines, lists, strict=True)}

    @property
    def loads(self) -> dict[str, int]:
        """The number of brokers of each machine."""
        return {machine: len(found) for machine, found in self.brokers.items()}

    @cached_property
    def violations(self) -> tuple[Link, ...]:
        """The links whose two ends share a machine, in the overlay's order of links."""
        machine = self._machine_of
        return tuple(link for link in self.scot.links if machine[link[0]] == machine[link[1]])


def place(scot: Scot, machines: Sequence[str] | int, *, strict: bool = False) -> Placement:
    """Place every broker; with `strict` too few machines are an error, else they cost the fewest violations.

    A number of machines names them m1, m2, …
    """
    names = _machine_names(machines)
    needed = machines_needed(scot)
    if strict and len(names) < needed:
        raise PlacementError(
            f"{needed} machines are needed so that no broker shares one with a neighbour; {len(names)} given"
        )
    rows = _rows(scot, len(names))
    places = tuple(rows[node][index] for index in range(scot.clusters) for node in scot.tree.nodes)
    return Placement(scot, names, places)


def machines_needed(scot: Scot) -> int:
    """The fewest machines without a violation: the chromatic number of the overlay."""
    return max(scot.clusters, 2) if scot.tree.edges else scot.clusters


def fewest_violations(scot: Scot, machines: int) -> int:
    """The fewest links that this many machines must leave with both ends on one."""
    if machines == 1:
        return scot.a_link_count + scot.i_link_count
    share, rest = divmod(scot.clusters, machines)
    forced = rest * _pairs(share + 1) + (machines - rest) * _pairs(share)
    return len(scot.tree.nodes) * forced


def _pairs(size: int) -> int:
    return size * (size - 1) // 2


def _machine_names(machines: Sequence[str] | int) -> tuple[str, ...]:
    if isinstance(machines, int) and not isinstance(machines, bool):
        _check_count(machines)
        return tuple(f"m{number}" for number in range(1, machines + 1))
    if isinstance(machines, (str, bool)) or not isinstance(machines, Sequence):
        raise PlacementError(f"machines must be a number or a list of names, not {machines!r}")
    _check_count(len(machines))
    seen: set[str] = set()
    for name in machines:
        try:
            check_label(name)
        except TopologyError as error:
            raise PlacementError(f"machine {name!r}: {error}") from None
        if name in seen:
            raise PlacementError(f"machine {name} is given twice")
        seen.add(name)
    return tuple(machines)


def _check_count(count: int) -> None:
    if not 1 <= count <= MACHINES_MAX:
        raise PlacementError(f"{count} machines: between 1 and {MACHINES_MAX:,} are allowed")


def _rows(scot: Scot, machines: int) -> dict[str, list[int]]:
    """For each region the machine numbers of its brokers, by cluster index."""
    if machines == 1:
        return {node: [0] * scot.clusters for node in scot.tree.nodes}
    if machines == 2:
        walk = scot.tree.walk()
        return {node: [(index + depth) % 2 for index in range(scot.clusters)] for node, _, depth in walk}
    if scot.clusters == 1:
        return {node: [number] for node, number in spread_tree(scot.tree, machines).items()}
    return _dealt_rows(scot.tree, scot.clusters, machines)


def _dealt_rows(tree: Tree, clusters: int, machines: int) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for turn, (node, parent, _) in enumerate(tree.walk()):
        row = [(turn * clusters + index) % machines for index in range(clusters)]
        if parent is not None:
            _swap_clear(row, rows[parent])
        rows[node] = row
    return rows


def _swap_clear(row: list[int], parents: list[int]) -> None:
    """Swap inside the row until no broker has its parent's machine. Each swap clears one clash and makes none."""
    for index, taken in enumerate(parents):
        if row[index] == taken:
            partner = next(i for i in range(len(row)) if taken not in (row[i], parents[i]))
            row[index], row[partner] = row[partner], row[index]
