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
# `handed over` and `leaves` are detours, taken only where a link is down.
WayKind = Literal["tree", "change", "around", "back", "last", "handed over", "leaves"]
DETOURS: tuple[WayKind, ...] = ("handed over", "leaves")
_SHOWN_MAX = 8


class Way(Struct, frozen=True):
    """A copy on a link: the brokers it is for, the cluster whose copy of the tree it is on or goes to, and why."""

    destinations: tuple[BrokerId, ...]
    tree: int
    kind: WayKind
    words: str

    @property
    def is_detour(self) -> bool:
        return self.kind in DETOURS


def way_of(scot: Scot, hop: Hop, down: DownLinks) -> Way | None:
    """What this copy is doing; None where it does not name its destinations."""
    if not isinstance(hop.message, Notify) or not isinstance(hop.message.header, Dests):
        return None
    header, sender, receiver = hop.message.header, hop.sender, hop.receiver
    bits = header.dests
    destinations = tuple(broker for place, broker in enumerate(scot.brokers) if bits >> place & 1)
    if sender.region != receiver.region:
        return Way(destinations, sender.cluster, *_on_a_link(scot, hop, header, destinations))
    if header.tried >> sender.cluster & 1:
        return Way(destinations, receiver.cluster, "handed over", _why_handed_over(scot, sender, destinations, down))
    if destinations == (receiver,):
        return Way(destinations, sender.cluster, "last", "to its destination")
    if hop.cause is None:
        return Way(destinations, receiver.cluster, "change", f"to cluster {receiver.cluster}'s tree")
    return Way(destinations, receiver.cluster, "back", f"back on cluster {receiver.cluster}'s tree")


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


def _on_a_link(scot: Scot, hop: Hop, header: Dests, destinations: tuple[BrokerId, ...]) -> tuple[WayKind, str]:
    sender = hop.sender
    if header.left >> scot.tree.rank[sender.region] & 1 and (hop.cause is None or not _left(scot, hop.cause, sender)):
        return "leaves", f"leaves region {sender.region}: none of its other brokers can be reached from {sender}"
    mates = [broker for broker in destinations if broker.region == sender.region]
    if mates and not header.left:
        return "around", f"along cluster {sender.cluster}'s tree, and around to {named(mates)}"
    return "tree", f"along cluster {sender.cluster}'s tree"


def _left(scot: Scot, cause: Hop, sender: BrokerId) -> bool:
    """Whether the copy had left the sender's region before it came to the sender."""
    message = cause.message
    return (
        isinstance(message, Notify)
        and isinstance(message.header, Dests)
        and bool(message.header.left >> scot.tree.rank[sender.region] & 1)
    )


def _why_handed_over(scot: Scot, sender: BrokerId, destinations: tuple[BrokerId, ...], down: DownLinks) -> str:
    towards = _towards(scot, sender.region)
    next_hops = dict.fromkeys(
        broker if broker.region == sender.region else BrokerId(towards[broker.region], sender.cluster)
        for broker in destinations
    )
    cut = [f"{sender}-{hop}" for hop in next_hops if frozenset((sender, hop)) in down]
    if not cut:
        return "handed over: it must not go back the way it came"
    return f"handed over: link {' and link '.join(cut)} {'is' if len(cut) == 1 else 'are'} down"


@lru_cache(maxsize=256)
def _towards(scot: Scot, region: str) -> dict[str, str]:
    """By region the neighbouring region that leads there."""
    towards: dict[str, str] = {}
    for other, parent, _ in scot.tree.walk(region):
        if parent is not None:
            towards[other] = other if parent == region else towards[parent]
    return towards
