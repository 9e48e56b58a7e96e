"""Sites: the locations of clusters or regions, and the message delay between two of them.

A site holds whole clusters or whole regions, so that one kind of link stays inside: the aLinks where sites hold
clusters, the iLinks where they hold regions. Invariants: every cluster (or region) of the overlay is at exactly one
site; delays are whole nanoseconds, one way, and the same both ways. A `Sites` is a value and does not hold its overlay,
so it can be written as JSON with a run; callers pass the overlay in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from octopia.errors import TopologyError
from octopia.hints import maybe_meant
from octopia.topology.broker_id import BrokerId
from octopia.topology.forest import Forest
from octopia.topology.labels import check_label
from octopia.topology.limits import SITE_DELAY_MS_MAX, SITES_MAX
from octopia.topology.scot import Link, Scot

Unit = Literal["cluster", "region"]
Member = int | str
UNITS: tuple[Unit, ...] = ("cluster", "region")
_MS_NS = 1_000_000


class SiteLoss(NamedTuple):
    """The rest of an overlay without one site: groups of regions, each an overlay of the remaining clusters.

    No path connects two groups. Without any group, nothing is left.
    """

    brokers: int
    clusters: int
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Sites:
    """Named sites: `members[n]` are the clusters, or the regions, of the site `names[n]`; `delays[m][n]` in ns."""

    by: Unit
    names: tuple[str, ...]
    members: tuple[tuple[Member, ...], ...]
    delays: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        scot: Scot,
        by: Unit,
        members: Mapping[str, Sequence[Member]],
        delays_ms: Mapping[tuple[str, str], float] | None = None,
        *,
        delay_ms: float = 0,
    ) -> "Sites":
        """Sites of an overlay, checked. `delay_ms` applies between different sites that `delays_ms` does not list."""
        _check_members(scot, by, members)
        names = tuple(members)
        table = {(one, other): 0 if one == other else _ns(delay_ms) for one in names for other in names}
        for (one, other), ms in (delays_ms or {}).items():
            for name in (one, other):
                if name not in members:
                    raise TopologyError(f"no site {name!r}{maybe_meant(str(name), names)}; sites are {_listed(names)}")
            table[one, other] = table[other, one] = _ns(ms)
        rows = tuple(tuple(table[one, other] for other in names) for one in names)
        return cls(by, names, tuple(tuple(found) for found in members.values()), rows)

    @classmethod
    def even(cls, scot: Scot, by: Unit, count: int, *, delay_ms: float = 0) -> "Sites":
        """`count` sites, s1, s2, …: clusters in equal shares; regions in connected pieces of the tree, nearly even.

        Between sites of regions this leaves as few links as possible: those of `count` - 1 edges of the tree.
        """
        units = scot.clusters if by == "cluster" else len(scot.tree.nodes)
        if not 1 <= count <= units:
            raise TopologyError(f"{count} sites: {units} {by}s can be at 1 to {units} sites")
        shares: Sequence[Sequence[Member]]
        if by == "cluster":
            cuts = [number * units // count for number in range(count + 1)]
            shares = [range(cuts[number], cuts[number + 1]) for number in range(count)]
        else:
            shares = _pieces(scot, count)
        members = {f"s{number}": share for number, share in enumerate(shares, 1)}
        return cls.of(scot, by, members, delay_ms=delay_ms)

    @cached_property
    def _site_of(self) -> dict[Member, str]:
        return {member: name for name, members in zip(self.names, self.members, strict=True) for member in members}

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def site_of(self, broker: BrokerId) -> str:
        """The site of this broker."""
        member: Member = broker[1] if self.by == "cluster" else broker[0]
        try:
            return self._site_of[member]
        except KeyError:
            raise TopologyError(f"broker {BrokerId(*broker)} is at no site: no {self.by} {member!r}") from None

    def between(self, one: str, other: str) -> int:
        """Nanoseconds that a message takes from one site to another, in addition to the delay of every link."""
        try:
            return self.delays[self._number[one]][self._number[other]]
        except KeyError as error:
            name = error.args[0]
            raise TopologyError(f"no site {name!r}{maybe_meant(name, self.names)}") from None

    def delay_ns(self, one: BrokerId, other: BrokerId) -> int:
        """Nanoseconds between the sites of two brokers."""
        return self.between(self.site_of(one), self.site_of(other))

    def brokers(self, scot: Scot) -> dict[str, tuple[BrokerId, ...]]:
        """The brokers of each site, in the overlay's order."""
        found: dict[str, list[BrokerId]] = {name: [] for name in self.names}
        for broker in scot.brokers:
            found[self.site_of(broker)].append(broker)
        return {name: tuple(brokers) for name, brokers in found.items()}

    def links_between(self, scot: Scot) -> tuple[Link, ...]:
        """The links whose two ends are at different sites, in the overlay's order."""
        return tuple(link for link in scot.links if self.site_of(link[0]) != self.site_of(link[1]))

    def members_of(self, site: str) -> tuple[Member, ...]:
        """The clusters, or the regions, of a site."""
        try:
            return self.members[self._number[site]]
        except KeyError:
            raise TopologyError(f"no site {site!r}{maybe_meant(site, self.names)}") from None

    def loss(self, scot: Scot, site: str) -> SiteLoss:
        """The rest of the overlay without this site."""
        members = self.members_of(site)
        clusters, regions = scot.clusters, list(scot.tree.nodes)
        if self.by == "cluster":
            clusters -= len(members)
        else:
            regions = [node for node in regions if node not in members]
        rank = scot.tree.rank
        pieces = Forest(scot.tree, regions).pieces if clusters else ()
        groups = tuple(tuple(sorted((node for node, _, _ in piece), key=rank.__getitem__)) for piece in pieces)
        return SiteLoss(clusters * sum(map(len, groups)), clusters, groups)


def _check_members(scot: Scot, by: Unit, members: Mapping[str, Sequence[Member]]) -> None:
    if by not in UNITS:
        raise TopologyError(f"sites hold clusters or regions: write cluster or region, not {by!r}")
    if not 1 <= len(members) <= SITES_MAX:
        raise TopologyError(f"{len(members)} sites: between 1 and {SITES_MAX:,} are allowed")
    units: tuple[Member, ...] = tuple(range(scot.clusters)) if by == "cluster" else scot.tree.nodes
    at: dict[Member, str] = {}
    for site, inside in members.items():
        check_label(site)
        if not inside:
            raise TopologyError(f"site {site} has no {by}: every site holds at least one")
        for member in inside:
            _check_member(units, by, site, member)
            if member in at:
                raise TopologyError(f"{by} {member} is at {at[member]} and at {site}: it can be at one site only")
            at[member] = site
    missing = [str(unit) for unit in units if unit not in at]
    if missing:
        raise TopologyError(f"{by} {missing[0]} is at no site: every {by} must be at one")


def _check_member(units: tuple[Member, ...], by: Unit, site: str, member: Any) -> None:
    # True equals 1, but is not a cluster.
    if isinstance(member, bool) or member not in units:
        near = maybe_meant(str(member), [str(unit) for unit in units])
        raise TopologyError(f"site {site}: there is no {by} {member!r}{near}; {_listed([str(unit) for unit in units])}")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def _ns(ms: float) -> int:
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 <= ms <= SITE_DELAY_MS_MAX:
        raise TopologyError(f"a delay of {ms!r} ms: a number from 0 to {SITE_DELAY_MS_MAX:,} is allowed")
    return round(ms * _MS_NS)


def _pieces(scot: Scot, count: int) -> list[tuple[str, ...]]:
    """The tree in `count` connected pieces: the largest is cut in two, as evenly as possible, until they suffice."""
    pieces = [scot.tree.nodes]
    while len(pieces) < count:
        largest = max(pieces, key=len)
        at = pieces.index(largest)
        pieces[at : at + 1] = _halves(scot, largest)
    rank = scot.tree.rank
    return sorted(pieces, key=lambda piece: rank[piece[0]])


def _halves(scot: Scot, piece: Sequence[str]) -> list[tuple[str, ...]]:
    """A connected piece cut at the edge that gives the most even parts; the first such edge of the tree."""
    inside = frozenset(piece)
    below = dict.fromkeys(piece, 1)  # nodes of the piece from here away from its first
    steps = [(node, parent) for node, parent, _ in scot.tree.walk(piece[0]) if node in inside]
    for node, parent in reversed(steps):
        if parent is not None and parent in inside:
            below[parent] += below[node]
    root = min((node for node, _ in steps[1:]), key=lambda node: abs(2 * below[node] - len(piece)))
    parent = next(parent for node, parent in steps if node == root)
    lower = {root}
    for node, above in steps:
        # A walk visits a node after its parent.
        if above in lower and node != parent:
            lower.add(node)
    return [tuple(node for node in piece if node not in lower), tuple(node for node in piece if node in lower)]
