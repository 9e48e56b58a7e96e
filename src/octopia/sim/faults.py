"""Faults of a run: their kind, place and time, either given or drawn from the seed.

All faults are known before the run begins, so the fate of a message is known when it is sent, and the same faults give
the same run. Times count from the start of the fault's `phase`, by default publishing, and a fault may last beyond its
phase. A link is named by its two brokers and fails in the given direction; `both` adds the other direction.

    down       a link: messages in its queue wait, messages on the wire are lost; if it is down both ways, its brokers
               are told. A broker: everything in it is lost, including its tables; it starts again with empty tables,
               its neighbours are told, and its clients register again (`outages.py`; not under TID routing, which has
               no recovery and stays out of sync).
    loss       each message is lost with a probability
    duplicate  each message arrives twice with a probability
    delay      messages take longer
    slow       sending takes `factor` times as long
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from octopia.errors import InputError
from octopia.sim.chance import Chance
from octopia.topology import BrokerId, Scot

PhaseName = Literal["advertise", "subscribe", "publish"]
Probability = Annotated[float, Meta(ge=0, le=1)]


class LinkFault(Struct, frozen=True, forbid_unknown_fields=True, tag_field="what", tag="link"):
    """One fault of one link (directed, or `both` ways) from `from_ns` until `until_ns`."""

    sender: tuple[str, int]
    receiver: tuple[str, int]
    kind: Literal["down", "loss", "duplicate", "delay", "slow"]
    from_ns: Annotated[int, Meta(ge=0)]
    until_ns: Annotated[int, Meta(ge=0)]
    both: bool = False
    probability: Probability = 1.0
    delay_ns: Annotated[int, Meta(ge=0)] = 0
    factor: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    phase: PhaseName = "publish"


class BrokerFault(Struct, frozen=True, forbid_unknown_fields=True, tag_field="what", tag="broker"):
    """A broker is down from `from_ns` until `until_ns`."""

    broker: tuple[str, int]
    from_ns: Annotated[int, Meta(ge=0)]
    until_ns: Annotated[int, Meta(ge=0)]
    phase: PhaseName = "publish"


Fault = LinkFault | BrokerFault


def check_faults(faults: Sequence[Fault], overlay: Scot) -> None:
    """Raise `InputError` unless every fault names something that exists and ends after it begins."""
    for number, fault in enumerate(faults):
        place = f"faults[{number}]"
        if fault.until_ns <= fault.from_ns:
            raise InputError(f"{place}: until_ns {fault.until_ns} must be after from_ns {fault.from_ns}")
        if isinstance(fault, BrokerFault):
            _known(overlay, fault.broker, place)
        else:
            sender, receiver = _known(overlay, fault.sender, place), _known(overlay, fault.receiver, place)
            if receiver not in overlay.neighbours(sender):
                raise InputError(f"{place}: there is no link between {sender} and {receiver}")


def draw_faults(
    overlay: Scot, seed: int, *, links_down: int = 0, brokers_down: int = 0, span_ns: int, length_ns: int
) -> list[Fault]:
    """A number of links (both ways) and brokers, down for `length_ns` each, at times within `span_ns`."""
    links = [(a, b) for a in overlay.brokers for b in overlay.neighbours(a) if a < b]
    which, when = Chance(seed, "which fails"), Chance(seed, "when it fails")
    faults: list[Fault] = []
    for number in range(links_down):
        sender, receiver = links[which.below(2 * number, len(links))]
        start = when.below(2 * number, max(span_ns, 1))
        faults.append(LinkFault(sender, receiver, "down", start, start + length_ns, both=True))
    for number in range(brokers_down):
        broker = overlay.brokers[which.below(2 * number + 1, len(overlay.brokers))]
        start = when.below(2 * number + 1, max(span_ns, 1))
        faults.append(BrokerFault(broker, start, start + length_ns))
    return faults


def _known(overlay: Scot, broker: tuple[str, int], place: str) -> BrokerId:
    id = BrokerId(*broker)
    if id not in overlay:
        raise InputError(f"{place}: {id} is not a broker of {overlay}")
    return id
