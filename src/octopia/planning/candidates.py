"""Compute one candidate of a plan, from plain values to plain values, so that it can run as a Spark task.

An order says what may change. With `move_brokers`, brokers keep their clients and take other places in an overlay of
the given number of clusters, with any tree; with `move_clients`, clients change brokers. With both, the search moves
first the tree and the brokers, then the clients, then the tree again.
"""

from msgspec import Struct

from octopia.planning.clients import ClientSearch, grouped
from octopia.planning.cost import Paths, cost_of
from octopia.planning.shapes import Arrangement, Edges, better_tree, star
from octopia.planning.traffic import Traffic


class CandidateOrder(Struct, frozen=True):
    """The current overlay (`regions`, `edges`, `clusters`, `slots` of the clients) and what may change."""

    traffic: Traffic
    regions: int
    edges: Edges
    clusters: int
    slots: tuple[int, ...]
    new_clusters: int
    move_brokers: bool
    move_clients: bool
    room: int
    fixed: tuple[int, ...] = ()
    moves_max: int | None = None
    # the site of each broker; clients stay at theirs. Empty without sites.
    zones: tuple[int, ...] = ()
    seed: int = 0


class Candidate(Struct, frozen=True):
    """An overlay, the broker of every client in it, and its cost by the model for the given flows."""

    regions: int
    edges: Edges
    clusters: int
    slots: tuple[int, ...]
    messages: int
    hops: int
    weight: int
    # the new number of broker n; only if brokers changed places
    place: tuple[int, ...] = ()


def work_out(order: CandidateOrder) -> Candidate:
    """The best candidate that the search finds."""
    regions = order.regions * order.clusters // order.new_clusters
    same = order.new_clusters == order.clusters
    starts: list[Edges] = [star(regions)]
    if same:
        starts.insert(0, order.edges)
    if not order.move_brokers:
        starts = [order.edges]
    found = [_from_tree(order, regions, edges) for edges in starts]
    return min(found, key=lambda candidate: candidate.weight)


def _from_tree(order: CandidateOrder, regions: int, edges: Edges) -> Candidate:
    traffic, clusters = order.traffic, order.new_clusters
    brokers = regions * clusters
    place = list(range(brokers))
    slots = list(order.slots)
    if order.move_brokers:
        for _ in range(2):
            arrangement = Arrangement(traffic, order.slots, Paths(regions, edges), clusters, place)
            arrangement.run(order.seed)
            place, slots = arrangement.place, arrangement.slots
            edges = better_tree(traffic, regions, clusters, slots, edges, order.seed)
    if order.move_clients:
        slots = _clients_moved(order, Paths(regions, edges), clusters, slots)
        if order.move_brokers:
            edges = better_tree(traffic, regions, clusters, slots, edges, order.seed)
    cost = cost_of(traffic, Paths(regions, edges), clusters, slots)
    return Candidate(
        regions,
        edges,
        clusters,
        tuple(slots),
        cost.messages,
        cost.hops,
        cost.weight,
        tuple(place) if order.move_brokers else (),
    )


def _clients_moved(order: CandidateOrder, paths: Paths, clusters: int, slots: list[int]) -> list[int]:
    """Search from the current placement and from groups of common interest, and take the better.

    A bound on moves leaves one.
    """
    traffic = order.traffic
    starts = [slots]
    if order.moves_max is None and not order.zones:
        starts.append(grouped(traffic, paths.regions * clusters, slots, order.room, order.fixed))
    found = []
    for start in starts:
        search = ClientSearch(traffic, paths, clusters, start, order.room, order.fixed, order.zones)
        search.run(order.moves_max)
        found.append((cost_of(traffic, paths, clusters, search.slots).weight, search.slots))
    return min(found, key=lambda each: each[0])[1]
