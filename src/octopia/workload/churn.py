"""Churn: which clients withdraw and register when, drawn from the seed.

Withdrawals and registrations alternate: first a client with a registration withdraws it, then a client without one
registers, and so on. So the number of registrations stays the same, or one less, and the load with it. Each client is
drawn among all candidates. Times are drawn over the whole time of publishing and are in order.
"""

from typing import NamedTuple

import numpy as np

from octopia.workload.draws import below, stream, uniform


class Turn(NamedTuple):
    """At a point during publishing, a client withdraws its registration (`leaves`) or registers."""

    at_ns: int
    client: int
    leaves: bool


def draw_turns(seed: int, of: str, clients: int, count: int, span_ns: int) -> list[Turn]:
    """A number of changes by a number of clients, all registered at first, within `span_ns`."""
    if not clients:
        return []
    moments = np.sort(below(stream(seed, f"when {of} change"), np.arange(count), span_ns)).tolist()
    draws = uniform(stream(seed, f"which {of} change"), np.arange(count)).tolist()
    there, gone = list(range(clients)), list[int]()
    turns = []
    for number, (at_ns, draw) in enumerate(zip(moments, draws, strict=True)):
        leaves = number % 2 == 0
        origin, goal = (there, gone) if leaves else (gone, there)
        client = origin.pop(int(draw * len(origin)))
        goal.append(client)
        turns.append(Turn(at_ns, client, leaves))
    return turns
