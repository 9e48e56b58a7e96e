"""Clients on brokers.

A client's broker depends on the seed, its role and its number, not on how many clients there are. `random`: any broker,
with equal probability. `edge`: the same among edge brokers. `spread`: brokers in the overlay's order, in turn.
High-rate publishers are placed by the same rule, but each in a cluster of its own as long as there is one. The
interested subscribers of a burst are placed by the same rule, but for two things: none is on the high-rate publisher's
broker, and the first of them, one per cluster, are put into the clusters, so that all clusters are targets.
"""

from collections.abc import Sequence

import numpy as np

from octopia.errors import InputError
from octopia.topology import BrokerId, Scot
from octopia.workload.draws import below, permutation, stream
from octopia.workload.spec import PlacementRule


def client_brokers(overlay: Scot, rule: PlacementRule, seed: int, role: str, numbers: range) -> list[BrokerId]:
    """The brokers of the clients of a role with these numbers."""
    allowed = _allowed(overlay, rule)
    counters = np.arange(numbers.start, numbers.stop)
    if rule == "spread":
        return [allowed[n % len(allowed)] for n in counters.tolist()]
    return [allowed[n] for n in below(stream(seed, f"broker of {role}"), counters, len(allowed)).tolist()]


def place_high_rate(overlay: Scot, asked: Sequence[int | None], brokers: Sequence[BrokerId]) -> list[BrokerId]:
    """Where high-rate publishers go, given the cluster each asks for, if any, and where it would be by the rule alone.

    The region is the rule's. A publisher that does not ask for a cluster goes to the next one, starting at the rule's,
    without an earlier high-rate publisher.
    """
    placed: list[BrokerId] = []
    for wanted, broker in zip(asked, brokers, strict=True):
        if wanted is not None and wanted >= overlay.clusters:
            raise InputError(f"cluster is {wanted}: the overlay has the clusters 0 to {overlay.clusters - 1}")
        taken = {other.cluster for other in placed}
        free = ((broker.cluster + step) % overlay.clusters for step in range(overlay.clusters))
        alone = next((cluster for cluster in free if cluster not in taken), broker.cluster)
        placed.append(BrokerId(broker.region, alone if wanted is None else wanted))
    return placed


def place_interested(
    overlay: Scot, rule: PlacementRule, seed: int, high_rate: BrokerId, brokers: Sequence[BrokerId]
) -> list[BrokerId]:
    """Where the interested subscribers of a burst go, given where each would be by the rule alone."""
    if len(brokers) < overlay.clusters:
        raise InputError(
            f"{len(brokers)} subscribers are interested in the burst, and each of the {overlay.clusters} clusters must "
            "have one; raise interested_share or the number of subscribers"
        )
    free = [broker for broker in _allowed(overlay, rule) if broker != high_rate]
    choices = [[b for b in free if b.cluster == cluster] for cluster in range(overlay.clusters)]
    if not all(choices):
        raise InputError(
            f"cluster {choices.index([])} has no broker for the burst's subscribers beside {high_rate}, the high-rate "
            "publisher's own; the tree needs a second node (with placement 'edge', a second edge broker)"
        )
    order = permutation(stream(seed, "burst clusters"), overlay.clusters).tolist()
    placed = []
    for number, broker in enumerate(brokers):
        if number < overlay.clusters:
            inside = choices[order[number]]
            broker = broker if broker in inside else _drawn(inside, seed, number)
        elif broker == high_rate:
            broker = _drawn(free, seed, number)
        placed.append(broker)
    return placed


def _allowed(overlay: Scot, rule: PlacementRule) -> list[BrokerId]:
    return [broker for broker in overlay.brokers if rule != "edge" or overlay.is_edge(broker)]


def _drawn(brokers: Sequence[BrokerId], seed: int, number: int) -> BrokerId:
    return brokers[int(below(stream(seed, "broker for the burst"), [number], len(brokers))[0])]
