"""What a copy that names its destinations is doing on a link: on whose tree it is, and why it goes that way.

Rules of this file: it is read off the copy, the overlay and the links that are down; nothing is routed again. Only
copies of full dynamic routing (`Dests`) name their destinations; of all others there is nothing to say.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from octopia.embedded.network import Hop
from octopia.routing import Dests, Notify
from octopia.topology import BrokerId, Scot

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
        """Whether it is there only because a link is down."""
        return self.kind == "handed over"


def way_of(scot: Scot, hop: Hop, down: DownLinks) -> Way | None:
    """What this copy is doing; None where it does not name its destinations."""
    if not isinstance(hop.message, Notify) or not isinstance(hop.message.header, Dests):
        return None
    bits = hop.message.header.dests
    destinations = tuple(broker for place, broker in enumerate(scot.brokers) if bits >> place & 1)
    sender, receiver = hop.sender, hop.receiver
    cluster = sender.cluster if sender.region != receiver.region or destinations == (receiver,) else receiver.cluster
    return Way(destinations, cluster, *_kind(scot, hop, destinations, down))


def _kind(scot: Scot, hop: Hop, destinations: tuple[BrokerId, ...], down: DownLinks) -> tuple[WayKind, str]:
    sender, receiver = hop.sender, hop.receiver
    towards = _towards(scot, sender.region)
    usual = dict.fromkeys(
        broker if broker.region == sender.region else BrokerId(towards[broker.region], sender.cluster)
        for broker in destinations
    )
    cut = [f"{sender}-{neighbour}" for neighbour in usual if frozenset((sender, neighbour)) in down]
    if cut:
        return "handed over", f"handed over: link {' and link '.join(cut)} {'is' if len(cut) == 1 else 'are'} down"
    if sender.region != receiver.region:
        mates = [broker for broker in destinations if broker.region == sender.region]
        around = f", and around to {named(mates)}" if mates else ""
        return "around" if mates else "tree", f"along cluster {sender.cluster}'s tree{around}"
    if destinations == (receiver,):
        return "last", "to its destination"
    if hop.cause is None:
        return "change", f"to cluster {receiver.cluster}'s tree"
    came_from = hop.cause.sender.region
    if all(towards.get(broker.region) == came_from for broker in destinations):
        return "back", f"back on cluster {receiver.cluster}'s tree"
    return "handed over", "handed over: a link further on is down"


def named(brokers: Iterable[BrokerId]) -> str:
    """Brokers in words, the first few of many."""
    names = [str(broker) for broker in brokers]
    more = f" and {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


def named_links(links: DownLinks) -> str:
    """Links in words, the first few of many."""
    names = sorted("-".join(map(str, sorted(link))) for link in links)
    more = f" and {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


@lru_cache(maxsize=256)
def _towards(scot: Scot, region: str) -> dict[str, str]:
    """By region the neighbouring region that leads there."""
    towards: dict[str, str] = {}
    for other, parent, _ in scot.tree.walk(region):
        if parent is not None:
            towards[other] = other if parent == region else towards[parent]
    return towards
