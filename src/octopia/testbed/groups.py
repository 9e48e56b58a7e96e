"""Assignment of brokers to processes and machines.

Without machines, everything runs here on loopback, with ports chosen by the system, in the requested number of
processes or one per core. In an overlay file, `[placement]` assigns brokers to machines, and `[brokers]` has the
machines' addresses. A machine at a loopback address is this one. Without machines, brokers are assigned to processes
as they are placed on machines: neighbours apart, as far as possible.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from octopia.errors import InputError
from octopia.net import Address, load_config
from octopia.topology import BrokerId, Scot, place

HERE: Final = "here"
ANYWHERE: Final = "127.0.0.1:0"
PROCESSES_MAX: Final = 1000
Processes = Annotated[int, Meta(ge=0, le=PROCESSES_MAX)]


class Place(Struct, frozen=True):
    """Where a broker runs and listens."""

    broker: str
    machine: str
    address: str


class Group(Struct, frozen=True):
    """The brokers of one process, and their addresses."""

    machine: str
    brokers: dict[str, str]

    @property
    def is_here(self) -> bool:
        """Whether the experiment can start it itself."""
        return all(Address.parse(address).is_loopback for address in self.brokers.values())


def places_of(overlay_file: str, overlay: Scot) -> tuple[Place, ...]:
    """The broker locations in an overlay file; empty if it names no machines."""
    config = load_config(overlay_file, secrets=False)
    if config.placement is None:
        return ()
    if config.tls is not None or config.authority.clients or config.authority.link_token:
        raise InputError(
            f"{overlay_file}: an experiment runs brokers without TLS, tokens and [[clients]]; "
            "leave [tls], [links] and [[clients]] out of its overlay file"
        )
    machine = config.placement.machine
    return tuple(Place(str(id), machine(id), str(config.addresses[id])) for id in overlay.brokers)


def groups_of(overlay: Scot, processes: int, places: Sequence[Place] = ()) -> tuple[Group, ...]:
    """The processes of a run: `processes` on each machine; if 0, one per core here and one elsewhere."""
    if not places:
        return tuple(_split(HERE, dict.fromkeys(overlay.brokers, ANYWHERE), overlay, processes or cores()))
    _check(overlay, places)
    machines: dict[str, dict[BrokerId, str]] = {}
    for each in places:
        machines.setdefault(each.machine, {})[BrokerId.parse(each.broker)] = each.address
    groups = [
        group for machine, brokers in machines.items() for group in _split(machine, brokers, overlay, processes or 1)
    ]
    here = [group.machine for group in groups if group.is_here]
    away = [group.machine for group in groups if not group.is_here]
    if here and away:
        raise InputError(
            f"machine {here[0]} is at a loopback address, where {away[0]} cannot reach it; "
            "give it an address of its own under [brokers] machines"
        )
    return tuple(groups)


def _check(overlay: Scot, places: Sequence[Place]) -> None:
    placed = [BrokerId.parse(each.broker) for each in places]
    missing = [id for id in overlay.brokers if id not in set(placed)]
    strange = [id for id in placed if id not in overlay]
    if missing or strange or len(set(placed)) < len(placed):
        wrong = f"{missing[0]} has no machine" if missing else f"{(strange or placed)[0]} is placed wrongly"
        raise InputError(f"the placement does not fit the overlay: {wrong}")
    hosts: dict[str, dict[str, None]] = {}
    for each in places:
        hosts.setdefault(each.machine, {})[Address.parse(each.address).host] = None
    for machine, addresses in hosts.items():
        if len({Address.parse(address).is_loopback for address in addresses}) > 1:
            raise InputError(f"machine {machine} has addresses here and elsewhere: {', '.join(addresses)}")


def _split(machine: str, brokers: Mapping[BrokerId, str], overlay: Scot, processes: int) -> list[Group]:
    count = min(processes, len(brokers))
    if len(brokers) == overlay.broker_count:
        shares: Iterable[Sequence[BrokerId]] = place(overlay, count).brokers.values()
    else:
        # neighbours are on other machines already
        shares = [list(brokers)[first::count] for first in range(count)]
    return [Group(machine, {str(id): brokers[id] for id in share}) for share in shares]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
