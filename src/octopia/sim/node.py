"""A simulated broker: the product's own `Broker`, its processor and its output queues.

Rules of this file: the node keeps time, the broker decides. The processor takes messages in the order of arrival, so
the moment it is done with one is known when it arrives. What a broker does depends only on what it did before and on
its own output queues, so it may act at the arrival, with the time at which it will be done: the result is the same as
if it acted then. Queues are looked at in ticks of t_w, which are caught up with before the broker acts.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from octopia.routing import Action, Broker, Event, policy_named
from octopia.sim.links import OutLink
from octopia.sim.model import Processor
from octopia.topology import BrokerId

SECOND_NS = 1_000_000_000
# Samples of one moment are told in the order of the links.
_index = attrgetter("index")
# Told the moment, the link and its Q_l.
OnSample = Callable[[int, OutLink, int], None]
# Told what a broker orders because of its queues, and the moment.
OnOrders = Callable[["Node", list[Action], int], None]
# Of a message that is matched with a table of so many entries.
ServiceTime = Callable[[int], int]


class Node:
    """One broker of a run."""

    __slots__ = (
        "_base_ns",
        "_next_tick_ns",
        "_on_orders",
        "_on_sample",
        "_sample_ns",
        "_service_ns",
        "_tells_broker",
        "_tick_ns",
        "alarm_ns",
        "at_once",
        "broker",
        "busy",
        "down",
        "due_ns",
        "egress_free_ns",
        "free_ns",
        "handle",
        "id",
        "index",
        "links",
        "notify_ns",
        "publish",
        "receive",
        "registered",
        "sampled",
        "streams",
    )

    def __init__(
        self,
        index: int,
        broker: Broker,
        processor: Processor,
        service_ns: ServiceTime,
        window_ns: int,
        sample_ns: int,
        on_sample: OnSample,
        on_orders: OnOrders,
    ) -> None:
        self.index = index
        self.id: BrokerId = broker.id
        self.links: dict[BrokerId, OutLink] = {}
        self.free_ns = 0
        self.egress_free_ns = 0
        self._next_tick_ns = 0
        # from when on `wakes` must be asked before the broker acts
        self.alarm_ns = 0
        # links whose queue was not empty at the tick before, or that something entered since
        self.busy: dict[OutLink, None] = {}
        # what its clients asked for, other than to publish, to ask for it again after a restart
        self.registered: list[Event] = []
        # when it is down, as pairs of moments
        self.down: list[tuple[int, int]] = []
        self._base_ns = processor.base_ns
        # by the number of entries; there are as many as sizes that a table ever had
        self._service_ns = service_ns
        self._sample_ns = sample_ns
        self._tells_broker = policy_named(broker.routing).links is not None
        # a broker that never looks at its LST need not be told; then only the trace's samples matter
        self._tick_ns = window_ns if self._tells_broker else sample_ns
        self._on_sample = on_sample
        self._on_orders = on_orders
        self.take(broker)

    def take(self, broker: Broker) -> None:
        """Run this broker: the first, or the one after a restart."""
        self.broker = broker
        self.handle: Callable[[Event, float], list[Action]] = broker.handle
        self.publish = broker.publish
        self.streams: Any = broker.streams  # None where the routing has none, and then nobody looks
        self.at_once: Any = None if broker.streams is None else broker.streams.at_once
        # when the broker is to be told of the time, -1 where nothing is due
        self.due_ns = -1
        self.receive = broker.receive_one
        self.sampled = broker.sampled
        self.tables_changed()

    def tables_changed(self) -> None:
        self.notify_ns = self._service_ns(len(self.broker.state.prt))

    def control_ns(self, entries: int, changed: bool) -> int:
        """Service time of a message that is no notification; one that changed nothing was not matched either."""
        return self._service_ns(entries) if changed else self._base_ns

    def wakes(self, arrived_ns: int, done_ns: int) -> bool:
        """Whether the broker, up all the time from one moment to the other, may act; its queues are told first."""
        if self.down and self.is_down(arrived_ns, done_ns):
            return False
        self.catch_up(done_ns)
        return True

    def catch_up(self, now_ns: int) -> None:
        """Tell the broker, and the trace, of its queues at every tick until now."""
        at = self._next_tick_ns
        if at > now_ns:
            return
        tick_ns, tells, busy = self._tick_ns, self._tells_broker, self.busy
        orders: list[Action] = []
        last = now_ns - now_ns % tick_ns
        while at <= last and busy:
            at_s, sampled = at / SECOND_NS, at % self._sample_ns == 0
            # in one order, since a routing may compare what it was told before at this moment
            for link in sorted(busy, key=_index):
                # as `length_at`, written out: for a routing that goes by queues this is done at every tick
                if not link.plain:
                    length = link.length_at(at)
                elif link.free_ns > at:
                    length = -((at - link.free_ns) // link.sending_ns)
                else:
                    length = 0
                entered = link.entered
                if tells and (length or link.told_length):
                    if link.told_ns < at - tick_ns:
                        self._tell_before(link, at - tick_ns)
                    orders += self.sampled(link.receiver_id, length, entered, entered - length, at_s)
                    link.told_ns, link.told_length = at, length
                link.entered_at_tick = entered
                if not length:
                    # what enters an empty queue puts it back
                    del busy[link]
                elif sampled:
                    self._on_sample(at, link, length)
            at += tick_ns
        self._next_tick_ns = last + tick_ns
        self.alarm_ns = 0 if self.down else self._next_tick_ns
        if orders:
            self._on_orders(self, orders, now_ns)

    def _tell_before(self, link: OutLink, at_ns: int) -> None:
        """An empty queue that was empty before is not worth a word, until it fills.

        Then the tick before comes first, when it was still empty: the broker counts what entered and left since.
        """
        self.sampled(link.receiver_id, 0, link.entered_at_tick, link.entered_at_tick, at_ns / SECOND_NS)

    def goes_down(self, from_ns: int, until_ns: int) -> None:
        self.down.append((from_ns, until_ns))
        self.alarm_ns = 0

    def is_down(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it is down at any moment of a span."""
        return any(begin_ns < until and end_ns >= start for start, until in self.down)
