"""Which neighbour leads where in an overlay of which some links are known to be down.

A set of links is an `int`: the bit of a link is its place in `Scot.links`.

**The way** from a broker to a destination is the shortest without these links, where the last iLink to the destination
costs nothing. So while all is up it is along the own cluster's copy of the tree, and over to the destination at the
end; and where a tree link is down, all destinations beyond it go to the same region mate. Of equal ways, aLinks come
first, then the iLinks from the next cluster on, so that not all ask the same mate for help.

**It ends.** Each hop on a way brings its destination closer by one, or is the last, as long as the set stays the same;
and a set only ever grows. **Whatever is reachable is reached**: a way is missing only if the links in the set cut the
destination off.
"""

from functools import lru_cache

from octopia.routing.fdr.places import places_of
from octopia.topology import BrokerId, Scot

# A neighbour, and the brokers, as bits, to which it leads.
Way = tuple[BrokerId, int]


@lru_cache(maxsize=16)
def bits_of_links(overlay: Scot) -> dict[tuple[BrokerId, BrokerId], int]:
    """The bit of every link, by its two ends in either order."""
    bits: dict[tuple[BrokerId, BrokerId], int] = {}
    for place, (one, other) in enumerate(overlay.links):
        bits[one, other] = bits[other, one] = 1 << place
    return bits


def mates_in_turn(overlay: Scot, broker: BrokerId) -> tuple[BrokerId, ...]:
    """The secondary neighbours in the order in which they are asked for help: from the next cluster on."""
    i_links, index = overlay.i_links(broker), broker.cluster
    return (*i_links[index:], *i_links[:index])


@lru_cache(maxsize=4096)
def ways_without(overlay: Scot, start: BrokerId, down: int) -> tuple[Way, ...]:
    """All neighbours that lead anywhere without these links; a broker that is in none is cut off."""
    links, brokers = bits_of_links(overlay), places_of(overlay, start.region).brokers
    firsts = (*overlay.a_links(start), *mates_in_turn(overlay, start))
    # by broker how far it is, and by which neighbour: the least of these is the best way
    found: dict[BrokerId, tuple[int, int]] = {start: (0, 0)}
    found.update((to, (1, rank)) for rank, to in enumerate(firsts) if not links[start, to] & down)
    reached = [to for to in firsts if to in found]
    for at in reached:
        distance, rank = found[at]
        for near in overlay.neighbours(at):
            if near not in found and not links[at, near] & down:
                found[near] = (distance + 1, rank)
                reached.append(near)
    leads_to = dict.fromkeys(firsts, 0)
    for broker in reached:
        if broker.region == start.region and not links[start, broker] & down:
            leads_to[broker] |= brokers[broker]
        else:
            doors = (mate for mate in overlay.i_links(broker) if not links[mate, broker] & down)
            _, rank = min([found[broker], *(found[door] for door in doors if door in found)])
            leads_to[firsts[rank]] |= brokers[broker]
    return tuple((to, leads_to[to]) for to in overlay.neighbours(start) if leads_to[to])


def may_send(overlay: Scot, sender: BrokerId, receiver: BrokerId, down: int) -> int:
    """The brokers, as bits, that a copy on this link may have as destinations if it found these links down.

    A copy that found none may come from the host broker of the publisher: over an iLink with any destinations, over an
    aLink with region mates of the host broker that are to be reached from the receiver's region.
    """
    places = places_of(overlay, sender.region)
    if down:
        return dict(ways_without(overlay, sender, down)).get(receiver, 0)
    if sender.region == receiver.region:
        return sum(places.clusters) & ~places.brokers[sender]
    mates = sum(places.brokers[mate] for mate in overlay.i_links(sender))
    return places.beyond[receiver.region] | mates
