"""Faults of a run: what goes wrong, where and when; written down or drawn from the seed.

Rules of this file: all faults are known before the run begins, so what becomes of a message can be said the moment it
is sent, and the same faults give the same run. Times count from the start of publishing. A link is named as its two
brokers and fails in the direction given; `both` takes the other direction too.

    down       a link: what is in its queue waits, what is on the wire is lost; if it is down both ways, its brokers are
               told. A broker: everything in it is lost, its tables too; it starts again with empty tables, its
               neighbours are told, and its clients register anew (`outages.py`; not under TID routing, which has no
               recovery and stays out of line).
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


class BrokerFault(Struct, frozen=True, forbid_unknown_fields=True, tag_field="what", tag="broker"):
    """A broker is down from `from_ns` until `until_ns`."""

    broker: tuple[str, int]
    from_ns: Annotated[int, Meta(ge=0)]
    until_ns: Annotated[int, Meta(ge=0)]


Fault = LinkFault | BrokerFault


def check_faults(faults: Sequence[Fault], overlay: Scot) -> None:
    """Every fault names something that is there and ends after it begins; `InputError` otherwise."""
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
    """So many links (both ways) and brokers, down for `length_ns` each, at moments within `span_ns`."""
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
