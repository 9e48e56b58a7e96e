"""Brokers on machines: a broker and its neighbours, primary and secondary, on different machines.

The fewest violations possible, then the most even loads, then a fixed order; no search where a rule is enough. Let k be
the clusters and m the machines.

- A region is a complete graph, so its k brokers on m machines share at least `forced(k, m)` times, reached only by an
  even split. With m ≥ 2 nothing else is forced: the aLinks never need to be violated.
- m ≥ 3, k ≥ 2: machines are dealt like cards, region after region in walk order, so loads differ by at most one and
  every region is split evenly. Where a broker got its parent's machine x, it swaps with a broker of its region that
  neither has x nor has a parent on x. There is one: at most 2⌈k/m⌉ - 1 < k brokers of the region fail that test.
- m = 2: neighbouring regions must be mirror images, which leaves the loads of a tree no choice.
- k = 1: the overlay is the tree itself; see `spread`.

Sites. A machine is at one site and runs brokers of that site only, so links between sites are never violated, and each
site is a problem of its own. A site of k' whole clusters is the tree □ K_k', the problem above. A site of whole regions
is a forest □ K_k: what is left of the tree, in pieces. Dealing continues from piece to piece; a root does not have a
parent to avoid, and the proof holds. With m = 2 and k odd each piece may be mirrored as a whole: one whose even and odd
depths differ by d regions puts d more brokers on one machine or on the other, and which signs make the sum smallest is
a question of subset sums, answered exactly (`_mirrored`): equal pieces are taken in powers of two, so there are few.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from octopia.errors import PlacementError, TopologyError
from octopia.hints import maybe_meant
from octopia.topology.broker_id import BrokerId
from octopia.topology.forest import Forest
from octopia.topology.labels import check_label
from octopia.topology.limits import MACHINES_MAX
from octopia.topology.scot import Link, Scot
from octopia.topology.sites import Member, Sites
from octopia.topology.spread import spread_forest
from octopia.topology.tree import Step

Machines = Sequence[str] | int


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
        """The brokers of each machine, in the overlay's order; machines without brokers are included."""
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


def place(scot: Scot, machines: Machines, *, strict: bool = False) -> Placement:
    """Place every broker. With `strict`, too few machines are an error; otherwise violations are kept to a minimum.

    A number of machines names them m1, m2, …
    """
    names = _machine_names(machines, "m")
    _check_enough(len(names), machines_needed(scot), "", strict)
    rows = _rows(Forest(scot.tree, scot.tree.nodes), scot.clusters, len(names))
    places = tuple(rows[node][index] for index in range(scot.clusters) for node in scot.tree.nodes)
    return Placement(scot, names, places)


def place_at_sites(scot: Scot, sites: Sites, machines: Mapping[str, Machines], *, strict: bool = False) -> Placement:
    """Place every broker on a machine of its own site, as `place` does inside each site.

    A number of machines names those of the site east east1, east2, …
    """
    for site in machines:
        if site not in sites.names:
            raise PlacementError(f"no site {site!r}{maybe_meant(site, sites.names)}")
    names: list[str] = []
    place_of: dict[BrokerId, int] = {}
    for site, members in zip(sites.names, sites.members, strict=True):
        if site not in machines:
            raise PlacementError(f"site {site} has no machines: give a number or a list of names")
        found = _machine_names(machines[site], site)
        _check_enough(len(found), machines_needed(scot, sites, site), f"site {site}: ", strict)
        clusters, forest = _part(scot, sites, members)
        rows = _rows(forest, len(clusters), len(found))
        place_of |= {
            BrokerId(node, cluster): len(names) + place
            for node, row in rows.items()
            for cluster, place in zip(clusters, row, strict=True)
        }
        names += found
    _check_count(len(names))
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise PlacementError(f"machine {twice} is given twice")
    return Placement(scot, tuple(names), tuple(place_of[broker] for broker in scot.brokers))


def _part(scot: Scot, sites: Sites, members: Sequence[Member]) -> tuple[tuple[int, ...], Forest]:
    """The clusters and the regions that a site holds."""
    if sites.by == "cluster":
        return tuple(int(member) for member in members), Forest(scot.tree, scot.tree.nodes)
    return tuple(range(scot.clusters)), Forest(scot.tree, map(str, members))


def _check_enough(given: int, needed: int, where: str, strict: bool) -> None:
    if strict and given < needed:
        raise PlacementError(
            f"{where}{needed} machines are needed so that no broker shares one with a neighbour; {given} given"
        )


def machines_needed(scot: Scot, sites: Sites | None = None, site: str = "") -> int:
    """The fewest machines without a violation: the chromatic number of the overlay, or of its part at a site."""
    clusters, forest = _whole(scot) if sites is None else _part(scot, sites, sites.members_of(site))
    return max(len(clusters), 2) if forest.has_edges else len(clusters)


def fewest_violations(scot: Scot, machines: int, sites: Sites | None = None, site: str = "") -> int:
    """The fewest links, of the overlay or a site, with both ends on one machine, given this many machines."""
    clusters, forest = _whole(scot) if sites is None else _part(scot, sites, sites.members_of(site))
    if machines == 1:
        edges = sum(len(forest.neighbours(node)) for node in forest.nodes) // 2
        return edges * len(clusters) + len(forest.nodes) * _pairs(len(clusters))
    share, rest = divmod(len(clusters), machines)
    forced = rest * _pairs(share + 1) + (machines - rest) * _pairs(share)
    return len(forest.nodes) * forced


def _whole(scot: Scot) -> tuple[Sequence[int], Forest]:
    return range(scot.clusters), Forest(scot.tree, scot.tree.nodes)


def _pairs(size: int) -> int:
    return size * (size - 1) // 2


def _machine_names(machines: Machines, prefix: str) -> tuple[str, ...]:
    if isinstance(machines, int) and not isinstance(machines, bool):
        _check_count(machines)
        return tuple(f"{prefix}{number}" for number in range(1, machines + 1))
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


def _rows(forest: Forest, clusters: int, machines: int) -> dict[str, list[int]]:
    """For each region the machine numbers of its brokers, by cluster index."""
    if machines == 1:
        return {node: [0] * clusters for node in forest.nodes}
    if machines == 2:
        return {
            node: [(index + depth + mirrored) % 2 for index in range(clusters)]
            for piece, mirrored in zip(forest.pieces, _mirrored(forest, clusters), strict=True)
            for node, _, depth in piece
        }
    if clusters == 1:
        return {node: [number] for node, number in spread_forest(forest, machines).items()}
    return _dealt_rows(forest, clusters, machines)


def _mirrored(forest: Forest, clusters: int) -> list[bool]:
    """Which pieces to mirror so that two machines have loads as even as possible; the first piece never."""
    surplus = [_surplus(piece) for piece in forest.pieces]
    if clusters % 2 == 0 or len(surplus) == 1:
        return [False] * len(surplus)
    # The first machine has `surplus[0]` more, and of each other piece so much more or less: which to take as more?
    sizes = [abs(d) for d in surplus[1:]]
    more = _chosen(sizes, sum(sizes) - surplus[0])
    return [False, *((d > 0) != taken for d, taken in zip(surplus[1:], more, strict=True))]


def _surplus(piece: Sequence[Step]) -> int:
    """How many more regions of a piece are at even depths than at odd ones."""
    return sum(1 if depth % 2 == 0 else -1 for _, _, depth in piece)


def _chosen(sizes: Sequence[int], twice: int) -> list[bool]:
    """Choose some so that twice their sum is as near to `twice` as possible; of two equally near, the smaller sum."""
    groups = [(size, count) for size, total in sorted(Counter(sizes).items()) for count in _powers(total)]
    reached = [1]  # bit n: some of the groups so far add up to n
    for size, count in groups:
        reached.append(reached[-1] | reached[-1] << size * count)
    last = bin(reached[-1])[:1:-1]
    best = min(
        (total for total, bit in enumerate(last) if bit == "1"), key=lambda total: (abs(2 * total - twice), total)
    )
    left: Counter[int] = Counter()
    for (size, count), before in zip(reversed(groups), reversed(reached[:-1]), strict=True):
        if not before >> best & 1:
            left[size] += count
            best -= size * count
    chosen: list[bool] = []
    for size in sizes:
        chosen.append(left[size] > 0)
        left[size] -= left[size] > 0
    return chosen


def _powers(total: int) -> list[int]:
    """1, 2, 4, … and a remainder that add up to this; subsets of them add up to every smaller number."""
    powers = []
    power = 1
    while total > 0:
        powers.append(min(power, total))
        total -= power
        power *= 2
    return powers


def _dealt_rows(forest: Forest, clusters: int, machines: int) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for turn, (node, parent, _) in enumerate(forest.walk()):
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
