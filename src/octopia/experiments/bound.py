"""The bound of an experiment: the same workload on a single tree that is k times as fast. Not a routing.

A notification must cross every needed edge of the tree at least once, and there are k copies of each edge, so k aLinks.
Together they are one link that is k times as fast, and the k brokers of a region are one broker with a processor that
is k times as fast; iLinks cost nothing. This overlay is simulated with the brokers' own code (SNR, which has no choice
on a single tree), with clients in their regions, and the times of links and processors divided by k, rounded down.

It is a yardstick for routings, it is labelled as such wherever it is shown, and it is omitted when something fails. It
is not a strict lower bound of a mean over deliveries: queues serve in order of arrival, and a schedule that put copies
for many subscribers first could be some per cent lower.
"""

from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs

from octopia.errors import InputError
from octopia.sim import Fault, Model
from octopia.topology import BrokerId, Scot
from octopia.workload import Registration, Workload

BOUND: Final = "bound"
# The routing that carries notifications there.
ROUTING: Final = "snr"
WHAT_IT_IS: Final = (
    "BOUND is computed, not a routing: the same workload on one tree whose links and brokers are k times as fast"
)


def check_no_faults(faults: tuple[Fault, ...]) -> None:
    """A folded overlay does not have brokers or links that could fail."""
    if faults:
        raise InputError("systems: bound is worked out for an overlay in which nothing goes wrong; leave it out here")


def folded_overlay(overlay: Scot) -> Scot:
    """All clusters in one."""
    return Scot(overlay.tree, 1)


def folded_workload(workload: Workload) -> Workload:
    """The same clients, filters and publications, with every client in its region."""
    return replace(
        workload,
        advertisements=tuple(map(_folded, workload.advertisements)),
        subscriptions=tuple(map(_folded, workload.subscriptions)),
        changes=tuple(replace(change, registration=_folded(change.registration)) for change in workload.changes),
    )


def folded_model(model: Model, clusters: int) -> Model:
    """Links and processors this many times as fast; wire delays stay. All remaining links are aLinks."""
    for part in ("links", "machines", "receiver"):
        if getattr(model, part) is not UNSET:
            raise InputError(f"systems: bound cannot be worked out for a model with [{part}]; leave it out here")
    link = model.link if model.a_link is UNSET else model.a_link.on(model.link)
    model = structs.replace(model, link=link, a_link=UNSET, i_link=UNSET)
    values: dict[str, Any] = msgspec.to_builtins(model)
    for part, names in (("link", ("per_message_ns", "per_byte_ns")), ("egress", ("per_message_ns", "per_byte_ns"))):
        for name in names:
            values[part][name] //= clusters
    values["processor"]["base_ns"] //= clusters
    values["processor"]["matching"] = [[size, ns // clusters] for size, ns in values["processor"]["matching"]]
    return msgspec.convert(values, Model)


def _folded(registration: Registration) -> Registration:
    return replace(registration, broker=BrokerId(registration.broker.region, 0))
