"""A proposal: the overlay, the placement of clients and brokers in it, and the resulting workload."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct

from octopia.language import Filter, parse_filter
from octopia.planning.candidates import Candidate
from octopia.planning.shapes import Edges
from octopia.topology import BrokerId, Scot, Tree
from octopia.workload import Publications, Registration, Workload


class Proposal(Struct, frozen=True):
    """A named proposal.

    `brokers` has the broker of every client, `filters` the changed filters by subscription id. `covering` is the
    setting of the brokers (`octopia simulate --covering`).
    """

    name: str
    words: str
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    clusters: int
    brokers: dict[str, tuple[str, int]]
    moved_clients: int = 0
    moved_brokers: int = 0
    filters: dict[str, str] = {}
    covering: str = "none"
    # messages and hops of deliveries by the cost model, for the notifications planned with
    predicted_messages: int | None = None
    predicted_hops: int | None = None

    @property
    def overlay(self) -> Scot:
        return Scot(Tree.from_edges(self.edges, self.nodes), self.clusters)


def slots_of(overlay: Scot, brokers: Sequence[BrokerId]) -> tuple[int, ...]:
    """Brokers as numbers."""
    numbers = {broker: number for number, broker in enumerate(overlay.brokers)}
    return tuple(numbers[broker] for broker in brokers)


def zones_of(overlay: Scot, site_of: Mapping[BrokerId, str]) -> tuple[int, ...]:
    """The site of every broker, as numbers."""
    names = list(dict.fromkeys(site_of.values()))
    return tuple(names.index(site_of[broker]) for broker in overlay.brokers)


def propose(name: str, words: str, candidate: Candidate, overlay: Scot, clients: Mapping[str, BrokerId]) -> Proposal:
    """A candidate with names. A tree with the same number of regions keeps their names; any other gets new ones."""
    nodes = overlay.tree.nodes
    if candidate.regions != len(nodes):
        width = len(str(candidate.regions))
        nodes = tuple(f"r{number:0{width}d}" for number in range(1, candidate.regions + 1))
    proposed = Scot(_tree(nodes, candidate.edges), candidate.clusters)
    brokers = [proposed.brokers[slot] for slot in candidate.slots]
    before = slots_of(overlay, list(clients.values()))
    # a client has moved if its broker is another than its old one, wherever that is now
    home = candidate.place or tuple(range(overlay.broker_count))
    return Proposal(
        name,
        words,
        proposed.tree.nodes,
        proposed.tree.edges,
        candidate.clusters,
        {client: (broker.region, broker.cluster) for client, broker in zip(clients, brokers, strict=True)},
        sum(home[old] != new for old, new in zip(before, candidate.slots, strict=True)),
        sum(number != slot for number, slot in enumerate(candidate.place)),
        predicted_messages=candidate.messages,
        predicted_hops=candidate.hops,
    )


def _tree(nodes: Sequence[str], edges: Edges) -> Tree:
    return Tree.from_edges([(nodes[one], nodes[other]) for one, other in edges], nodes)


def proposed_workload(workload: Workload, proposal: Proposal) -> Workload:
    """The workload with the clients and filters of the proposal."""
    parsed = {id: parse_filter(text) for id, text in proposal.filters.items()}

    def put(each: Registration) -> Registration:
        region, cluster = proposal.brokers[each.client]
        filter: Filter = parsed.get(each.id, each.filter)
        return replace(each, broker=BrokerId(region, cluster), filter=filter)

    return replace(
        workload,
        advertisements=tuple(replace(put(each), filter=each.filter) for each in workload.advertisements),
        subscriptions=tuple(map(put, workload.subscriptions)),
        changes=tuple(replace(change, registration=put(change.registration)) for change in workload.changes),
    )


def split(workload: Workload, share: float) -> tuple[Workload, Workload]:
    """The first part of every client's publications, to plan with, and the rest, to test the plan on."""
    published = workload.publications
    client = np.array([_number(workload)[each.client] for each in workload.advertisements], dtype=np.int64)
    order = np.lexsort((np.arange(len(published)), client[published.publisher]))
    mine = client[published.publisher][order]
    begins = np.searchsorted(mine, mine, side="left")
    counts = np.searchsorted(mine, mine, side="right") - begins
    first = np.zeros(len(published), dtype=np.bool_)
    first[order] = np.arange(len(published)) - begins < np.ceil(counts * share)
    return tuple(  # type: ignore[return-value]
        replace(
            workload,
            publications=Publications(published.at_ns[part], published.publisher[part], published.row[part]),
        )
        for part in (first, ~first)
    )


def _number(workload: Workload) -> dict[str, int]:
    return {client: number for number, client in enumerate(workload.clients())}


def overlay_toml(proposal: Proposal, routing: str) -> str:
    """An overlay file for `octopia serve` and for `--overlay`."""
    nodes = ", ".join(f'"{node}"' for node in proposal.nodes)
    edges = ", ".join(f'["{one}", "{other}"]' for one, other in proposal.edges)
    lines = ["[overlay]", f'name = "{proposal.name}"', f"nodes = [{nodes}]"]
    lines += [f"edges = [{edges}]"] if proposal.edges else []
    lines += [f"clusters = {proposal.clusters}", "", "[routing]", f'name = "{routing}"']
    lines += [f'covering = "{proposal.covering}"'] if proposal.covering != "none" else []
    return "\n".join(lines) + "\n"
