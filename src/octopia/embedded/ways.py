"""What a copy that names its destinations is doing on a link: the tree it follows, and the reason.

Derived from the copy, the overlay and the links that are down; nothing is routed again. Only copies of full dynamic
routing (`Dests`) name their destinations; for all others the answer is None.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from octopia.embedded.network import Hop
from octopia.protocol import Dests, Notify, Stamp
from octopia.topology import BrokerId, Link, Scot

# Links that are down, each as its two ends.
DownLinks = frozenset[frozenset[BrokerId]]
WayKind = Literal["tree", "change", "around", "back", "last", "handed over"]
_SHOWN_MAX = 8


class Way(Struct, frozen=True):
    """A copy on a link: the brokers it is for, the cluster whose copy of the tree it is on or goes to, and why."""

    destinations: tuple[BrokerId, ...]
    tree: int
    kind: WayKind
    words: str

    @property
    def is_detour(self) -> bool:
        """Whether the copy is there only because a link is down."""
        return self.kind == "handed over"


def way_of(scot: Scot, hop: Hop, down: DownLinks, chosen: int | None = None) -> Way | None:
    """What this copy is doing; None if it does not name its destinations.

    `chosen` is the cluster whose tree the publisher's broker chose.
    """
    if not isinstance(hop.message, Notify) or not isinstance(hop.message.header, Dests):
        return None
    bits = hop.message.header.dests
    destinations = tuple(broker for place, broker in enumerate(scot.brokers) if bits >> place & 1)
    sender, receiver = hop.sender, hop.receiver
    cluster = sender.cluster if sender.region != receiver.region or destinations == (receiver,) else receiver.cluster
    return Way(destinations, cluster, *_kind(scot, hop, destinations, down, chosen))


def _kind(
    scot: Scot, hop: Hop, destinations: tuple[BrokerId, ...], down: DownLinks, chosen: int | None
) -> tuple[WayKind, str]:
    sender, receiver = hop.sender, hop.receiver
    usual = {broker: _usual_way(scot, sender, broker) for broker in destinations if broker != sender}
    off = {broker: way for broker, way in usual.items() if way[0] != (sender, receiver)}
    if not off:
        last = receiver.region == sender.region
        return ("last", "to its destination") if last else ("tree", f"along cluster {sender.cluster}'s tree")
    if hop.cause is None and receiver.region == sender.region and receiver.cluster == chosen:
        return "change", f"to cluster {chosen}'s tree"
    # of each way the first link that is down: what lies behind it does not matter
    firsts = (next((link for link in way if frozenset(link) in down), None) for way in off.values())
    cut = dict.fromkeys(f"{link[0]}-{link[1]}" for link in firsts if link is not None)
    if cut:
        return "handed over", f"handed over: link {' and link '.join(cut)} {'is' if len(cut) == 1 else 'are'} down"
    if sender.region != receiver.region:
        return "around", f"along cluster {sender.cluster}'s tree, and around to {named(off)}"
    if hop.cause is not None and all(_towards(scot, sender.region)[b.region] == hop.cause.sender.region for b in off):
        return "back", f"back on cluster {receiver.cluster}'s tree"
    return "change", f"to cluster {receiver.cluster}'s tree, as short a way"


def _usual_way(scot: Scot, sender: BrokerId, destination: BrokerId) -> list[Link]:
    """The links while all are up: along the sender's cluster to the region, and over an iLink."""
    way, at = [], sender
    while at.region != destination.region:
        onward = BrokerId(_towards(scot, at.region)[destination.region], at.cluster)
        way.append((at, onward))
        at = onward
    return way if at == destination else [*way, (at, destination)]


def order_of(scot: Scot, stamp: Stamp) -> str | None:
    """Where a notification stands among its publisher's, for each destination; None if it is the first for all."""
    brokers = (broker for place, broker in enumerate(scot.brokers) if stamp.dests >> place & 1)
    after: dict[int, list[BrokerId]] = {}
    for broker, gap in zip(brokers, stamp.gaps, strict=True):
        after.setdefault(stamp.sequence - gap, []).append(broker)
    if not any(after):
        return None
    told = [f"{f'after number {n}' if n else 'the first'} for {named(after[n])}" for n in sorted(after, reverse=True)]
    return f"number {stamp.sequence}: {'; '.join(told)}"


def named(brokers: Iterable[BrokerId]) -> str:
    """Brokers as text, only the first few of many."""
    return first_of(list(map(str, brokers)), _SHOWN_MAX)


def named_links(links: DownLinks) -> str:
    """Links as text, only the first few of many."""
    return first_of(sorted("-".join(map(str, sorted(link))) for link in links), _SHOWN_MAX)


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@lru_cache(maxsize=4096)
def _towards(scot: Scot, region: str) -> dict[str, str]:
    """For each region, the neighbouring region that leads there."""
    towards: dict[str, str] = {}
    for other, parent, _ in scot.tree.walk(region):
        if parent is not None:
            towards[other] = other if parent == region else towards[parent]
    return towards
