"""A simulated broker: the product's own `Broker`, its processor and its output queues.

The node keeps time, the broker decides. The processor takes messages in order of arrival, so the end of each service is
known when the message arrives. A broker's actions depend only on its past and on its own output queues, so it may act
at the arrival, with the time at which it will be done: the result is the same as if it acted then. Queues are sampled
at ticks of t_w, which are caught up before the broker acts.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from octopia.routing import (
    Action,
    Advertised,
    Broker,
    Event,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    policy_named,
)
from octopia.sim.links import OutLink
from octopia.sim.model import Processor
from octopia.topology import BrokerId

SECOND_NS = 1_000_000_000
# Samples of one moment are reported in the order of the links.
_index = attrgetter("index")
# Called with the moment, the link and its Q_l.
OnSample = Callable[[int, OutLink, int], None]
# Called with a broker's orders caused by its queues, and the time.
OnOrders = Callable[["Node", list[Action], int], None]
# For a message that is matched with a table of this many entries.
ServiceTime = Callable[[int], int]
_WITHDRAWS: Mapping[type, type] = {Unadvertised: Advertised, Unsubscribed: Subscribed}


class Node:
    """One broker of a run."""

    __slots__ = (
        "_base_ns",
        "_next_tick_ns",
        "_on_orders",
        "_on_sample",
        "_registered",
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
        # from when on `wakes` must be checked before the broker acts
        self.alarm_ns = 0
        # links whose queue was not empty at the previous tick, or that something has entered since
        self.busy: dict[OutLink, None] = {}
        # registrations of its clients, by kind, client and id, in order; they register again after a restart
        self._registered: dict[tuple[type, str, str], Event] = {}
        # when it is down, as pairs of moments
        self.down: list[tuple[int, int]] = []
        self._base_ns = processor.base_ns
        # by number of entries; one for each size that a table ever had
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
        self.streams: Any = broker.streams  # None if the routing has no streams; then it is never read
        self.at_once: Any = None if broker.streams is None else broker.streams.at_once
        # when the broker must be told the time; -1 if nothing is due
        self.due_ns = -1
        self.receive = broker.receive_one
        self.sampled = broker.sampled
        self.tables_changed()

    def registers(self, event: Advertised | Subscribed | Unadvertised | Unsubscribed) -> None:
        """Note a client's request, whether the broker was up or not: clients remember their own registrations."""
        withdraws = _WITHDRAWS.get(type(event))
        if withdraws is None:
            self._registered[type(event), event.client, event.id] = event
        else:
            self._registered.pop((withdraws, event.client, event.id), None)

    @property
    def registered(self) -> list[Event]:
        """The registrations that its clients hold at the moment."""
        return list(self._registered.values())

    def tables_changed(self) -> None:
        self.notify_ns = self._service_ns(len(self.broker.state.prt))

    def control_ns(self, entries: int, changed: bool) -> int:
        """Service time of a message other than a notification; one that changed nothing was not matched either."""
        return self._service_ns(entries) if changed else self._base_ns

    def wakes(self, arrived_ns: int, done_ns: int) -> bool:
        """Whether the broker is up from one moment to the other and may act; its queues are reported first."""
        if self.down and self.is_down(arrived_ns, done_ns):
            return False
        self.catch_up(done_ns)
        return True

    def catch_up(self, now_ns: int) -> None:
        """Report the queues to the broker and the trace at every tick until now."""
        at = self._next_tick_ns
        if at > now_ns:
            return
        tick_ns, tells, busy = self._tick_ns, self._tells_broker, self.busy
        orders: list[Action] = []
        last = now_ns - now_ns % tick_ns
        while at <= last and busy:
            at_s, sampled = at / SECOND_NS, at % self._sample_ns == 0
            # in a fixed order, since a routing may compare earlier reports of this moment
            for link in sorted(busy, key=_index):
                # like `length_at`, inlined: with a routing that uses queue lengths this runs at every tick
                if not link.plain:
                    length = link.length_at(at)
                elif link.free_ns > at:
                    length = -((at - link.free_ns) // link.sending_ns)
                else:
                    length = 0
                entered = link.entered
                if tells and (length or link.told_length or entered > link.entered_at_tick + 1):
                    if link.told_ns < at - tick_ns:
                        self._tell_before(link, at - tick_ns)
                    orders += self.sampled(link.receiver_id, length, entered, entered - length, at_s)
                    link.told_ns, link.told_length = at, length
                link.entered_at_tick = entered
                if not length:
                    # an entry into an empty queue puts it back
                    del busy[link]
                elif sampled:
                    self._on_sample(at, link, length)
            at += tick_ns
        self._next_tick_ns = last + tick_ns
        self.alarm_ns = 0 if self.down else self._next_tick_ns
        if orders:
            self._on_orders(self, orders, now_ns)

    def _tell_before(self, link: OutLink, at_ns: int) -> None:
        """Skip an empty queue that was empty before, until it fills, or more than one message has passed it.

        Then the previous tick, at which it was still empty, is reported first: the broker counts what entered and left
        since.
        """
        self.sampled(link.receiver_id, 0, link.entered_at_tick, link.entered_at_tick, at_ns / SECOND_NS)

    def goes_down(self, from_ns: int, until_ns: int) -> None:
        self.down.append((from_ns, until_ns))
        self.alarm_ns = 0

    def is_down(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it is down at any moment of a span."""
        return any(begin_ns < until and end_ns >= start for start, until in self.down)
