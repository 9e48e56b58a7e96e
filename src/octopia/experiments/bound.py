"""The bound of an experiment: how fast the same workload would be on one tree that is k times as fast. No routing.

A notification must cross every needed edge of the tree at least once, and there are k copies of each edge, so k aLinks.
Put together they are one link that is k times as fast, and the k brokers of a region are one broker with a processor
that is k times as fast; iLinks cost nothing. This overlay is simulated, with the brokers' own code (SNR, which on one
tree has no choice), with clients in their regions, and the times of links and processors divided by k, rounded down.

Rules of this file: it is a mark to measure routings by, it says so wherever it is shown, and it is left out where
something fails. It is no strict lower bound of a mean over deliveries: queues serve in the order of arrival, and a
schedule that put copies for many subscribers first could come below it by some per cent.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec

from octopia.errors import InputError
from octopia.sim import Fault, Model
from octopia.topology import BrokerId, Scot
from octopia.workload import Registration, Workload

BOUND: Final = "bound"
# What carries notifications there.
ROUTING: Final = "snr"
WHAT_IT_IS: Final = (
    "BOUND is computed and no routing: the same workload on one tree whose links and brokers are k times as fast"
)


def check_no_faults(faults: tuple[Fault, ...]) -> None:
    """What is folded into one has no brokers or links of the overlay that could fail."""
    if faults:
        raise InputError("systems: bound is worked out for an overlay in which nothing goes wrong; leave it out here")


def folded_overlay(overlay: Scot) -> Scot:
    """All clusters in one."""
    return Scot(overlay.tree, 1)


def folded_workload(workload: Workload) -> Workload:
    """The same clients, filters and publications; every client in its region."""
    return replace(
        workload,
        advertisements=tuple(map(_folded, workload.advertisements)),
        subscriptions=tuple(map(_folded, workload.subscriptions)),
    )


def folded_model(model: Model, clusters: int) -> Model:
    """Links and processors this many times as fast; the delay of a wire stays."""
    values: dict[str, Any] = msgspec.to_builtins(model)
    for part, names in (("link", ("per_message_ns", "per_byte_ns")), ("egress", ("per_message_ns", "per_byte_ns"))):
        for name in names:
            values[part][name] //= clusters
    values["processor"]["base_ns"] //= clusters
    values["processor"]["matching"] = [[size, ns // clusters] for size, ns in values["processor"]["matching"]]
    return msgspec.convert(values, Model)


def _folded(registration: Registration) -> Registration:
    return replace(registration, broker=BrokerId(registration.broker.region, 0))
