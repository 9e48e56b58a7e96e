"""Faults on live brokers: each is injected at its time and later reverted.

    broker       killed without a goodbye and restarted with empty tables; its clients reconnect by themselves
    link down    its connection is aborted, and not made again until the end of the fault
    link slow    each message takes `factor` times the sending time of the run's model
    link delay   messages that leave the queue are handed to the socket that much later

TCP neither loses nor duplicates messages, and a connection is down both ways or not at all, so `loss`, `duplicate` and
`down` in one direction are refused. A phase ends only when nothing is down; a link may stay slow. Times are noted by
the clock of the experiment.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET

from octopia.errors import InputError
from octopia.sim import BrokerFault, Fault, LinkFault, LiveFault, RunSpec, check_faults, links_of
from octopia.testbed.control import Alive, Done, LinkState
from octopia.testbed.recorded import Outage
from octopia.testbed.workers import Workers
from octopia.topology import BrokerId, Scot

SECOND_NS: Final = 1_000_000_000
_NOT_OF_TCP: Final = ("loss", "duplicate")


def check_live(faults: Sequence[Fault]) -> None:
    """Refuse faults that live brokers cannot have."""
    for number, fault in enumerate(faults):
        if not isinstance(fault, LinkFault):
            continue
        if fault.kind in _NOT_OF_TCP:
            raise InputError(
                f"faults[{number}]: {fault.kind} is for the simulator only, since TCP neither loses nor duplicates "
                "messages; leave out host = live, or use down, slow or delay"
            )
        if fault.kind == "down" and not fault.both:
            raise InputError(
                f"faults[{number}]: connections of live brokers are down in both directions; set both = true, or "
                "leave out host = live"
            )


class Faults:
    """The faults of a run, as they begin and end."""

    def __init__(self, spec: RunSpec, overlay: Scot, workers: Workers) -> None:
        check_live(spec.faults)
        check_faults(spec.faults, overlay)
        self._faults = spec.faults
        self._workers = workers
        self._sites = None if spec.sites is UNSET else spec.sites
        self._links = links_of(spec.model, overlay)
        self._present: list[Fault] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._passing: list[asyncio.Task[None]] = []
        self.outages: list[Outage] = []
        self.certain: list[LiveFault] = []

    @property
    def mortal(self) -> tuple[str, ...]:
        """The brokers that will be killed."""
        return tuple(dict.fromkeys(str(BrokerId(*f.broker)) for f in self._faults if isinstance(f, BrokerFault)))

    @property
    def breaks(self) -> bool:
        """Whether a link breaks."""
        return any(isinstance(fault, BrokerFault) or fault.kind == "down" for fault in self._faults)

    def begin(self, phase: str, begin_ns: int) -> None:
        """Start the faults of this phase."""
        for number, fault in enumerate(self._faults):
            if fault.phase == phase:
                task = asyncio.create_task(self._play(number, fault, begin_ns))
                self._tasks.append(task)
                if isinstance(fault, BrokerFault) or fault.kind == "down":
                    self._passing.append(task)

    async def end(self) -> None:
        """Wait until nothing is down."""
        passing, self._passing = self._passing, []
        await asyncio.gather(*passing)

    def stop(self) -> None:
        """The run is over."""
        for task in self._tasks:
            task.cancel()

    async def _play(self, number: int, fault: Fault, begin_ns: int) -> None:
        await _until(begin_ns + fault.from_ns)
        from_ns = time.monotonic_ns()
        self._present.append(fault)
        await self._set(fault, begins=True)
        begun_ns = time.monotonic_ns()
        await _until(begin_ns + fault.until_ns)
        self.certain.append(LiveFault(number, begun_ns, time.monotonic_ns()))
        self._present.remove(fault)
        await self._set(fault, begins=False)
        if isinstance(fault, BrokerFault):
            self.outages.append(Outage((BrokerId(*fault.broker),), from_ns, time.monotonic_ns()))
        elif fault.kind == "down":
            self.outages.append(Outage(_ends(fault), from_ns, time.monotonic_ns()))

    async def _set(self, fault: Fault, *, begins: bool) -> None:
        """A fault begins or has ended: apply it together with all others."""
        if isinstance(fault, BrokerFault):
            down = [one for one in self._present if isinstance(one, BrokerFault) and one.broker == fault.broker]
            # the first to begin, or the last to end
            if len(down) == int(begins):
                await self._ask(str(BrokerId(*fault.broker)), Alive(str(BrokerId(*fault.broker)), not down))
            return
        one, other = _ends(fault)
        both = fault.both or fault.kind == "down"
        states = [self._state(*ends) for ends in ((one, other), (other, one))[: 2 if both else 1]]
        await asyncio.gather(*(self._ask(state.sender, state) for state in states))

    def _state(self, sender: BrokerId, receiver: BrokerId) -> LinkState:
        """The current weather of a link."""
        model, factor = self._links[sender, receiver], 1
        delay_ns = 0 if self._sites is None else self._sites.delay_ns(sender, receiver)
        is_up, is_slow = True, False
        for fault in self._of(sender, receiver):
            is_up = is_up and fault.kind != "down"
            if fault.kind == "slow":
                is_slow, factor = True, factor * fault.factor
            elif fault.kind == "delay":
                delay_ns += fault.delay_ns
        times = (factor * model.per_message_ns, factor * model.per_byte_ns) if is_slow else (0, 0)
        return LinkState(str(sender), str(receiver), is_up, delay_ns, *times)

    def _of(self, sender: BrokerId, receiver: BrokerId) -> Iterator[LinkFault]:
        for fault in self._present:
            if isinstance(fault, LinkFault):
                ends = _ends(fault)
                if ends == (sender, receiver) or (fault.both and ends == (receiver, sender)):
                    yield fault

    async def _ask(self, broker: str, question: Alive | LinkState) -> None:
        worker = next(each for each in self._workers.workers if broker in each.group.brokers)
        await worker.ask(question, Done)


def _ends(fault: LinkFault) -> tuple[BrokerId, BrokerId]:
    return BrokerId(*fault.sender), BrokerId(*fault.receiver)


async def _until(at_ns: int) -> None:
    left_ns = at_ns - time.monotonic_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / SECOND_NS)
