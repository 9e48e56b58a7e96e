"""A simulated broker: the product's own `Broker`, its processor and its output queues.

Rules of this file: the node keeps time, the broker decides. The processor takes messages in the order of arrival, so
the moment it is done with one is known when it arrives. What a broker does depends only on what it did before and on
its own output queues, so it may act at the arrival, with the time at which it will be done: the result is the same as
if it acted then. Queues are looked at in ticks of t_w, which are caught up with before the broker acts.
"""

from collections.abc import Callable

from octopia.routing import Action, Broker, Event, LinkSampled, policy_named
from octopia.sim.links import OutLink
from octopia.sim.model import Processor
from octopia.topology import BrokerId

SECOND_NS = 1_000_000_000
# Told the moment, the link and its Q_l.
OnSample = Callable[[int, OutLink, int], None]


class Node:
    """One broker of a run."""

    __slots__ = (
        "_on_sample",
        "_processor",
        "_sample_ns",
        "_tells_broker",
        "_tick_ns",
        "broker",
        "busy",
        "down",
        "egress_free_ns",
        "free_ns",
        "handle",
        "id",
        "index",
        "links",
        "next_tick_ns",
        "notify_ns",
    )

    def __init__(
        self, index: int, broker: Broker, processor: Processor, window_ns: int, sample_ns: int, on_sample: OnSample
    ) -> None:
        self.index = index
        self.id: BrokerId = broker.id
        self.links: dict[BrokerId, OutLink] = {}
        self.free_ns = 0
        self.egress_free_ns = 0
        self.next_tick_ns = 0
        # links whose queue was not empty, or that something entered, since the tick before
        self.busy: dict[OutLink, None] = {}
        # when it is down, as pairs of moments
        self.down: list[tuple[int, int]] = []
        self._processor = processor
        self._sample_ns = sample_ns
        self._tells_broker = policy_named(broker.routing).uses_lst
        # a broker that never looks at its LST need not be told; then only the trace's samples matter
        self._tick_ns = window_ns if self._tells_broker else sample_ns
        self._on_sample = on_sample
        self.take(broker)

    def take(self, broker: Broker) -> None:
        """Run this broker: the first, or the one after a restart."""
        self.broker = broker
        self.handle: Callable[[Event, float], list[Action]] = broker.handle
        self.tables_changed()

    def tables_changed(self) -> None:
        self.notify_ns = self._processor.service_ns(len(self.broker.state.prt))

    def control_ns(self, entries: int, changed: bool) -> int:
        """Service time of a message that is no notification; one that changed nothing was not matched either."""
        return self._processor.service_ns(entries) if changed else self._processor.base_ns

    def catch_up(self, now_ns: int) -> None:
        """Tell the broker, and the trace, of its queues at every tick until now."""
        at = self.next_tick_ns
        last = now_ns - now_ns % self._tick_ns
        while at <= last and self.busy:
            for link in list(self.busy):
                length = link.length_at(at)
                if self._tells_broker and (length or link.told_length):
                    self._tell(link, at, length)
                if length and at % self._sample_ns == 0:
                    self._on_sample(at, link, length)
                if not length and link.entered_at_tick == link.entered:
                    del self.busy[link]
                link.entered_at_tick = link.entered
            at += self._tick_ns
        self.next_tick_ns = last + self._tick_ns

    def _tell(self, link: OutLink, at_ns: int, length: int) -> None:
        """Tell the broker of a queue. An empty one that was empty before is not worth a word, until it fills.

        Then the tick before comes first, when it was still empty: the broker counts what entered and left since.
        """
        before_ns = at_ns - self._tick_ns
        if link.told_ns < before_ns:
            before = LinkSampled(link.receiver_id, 0, link.entered_at_tick, link.entered_at_tick)
            self.handle(before, before_ns / SECOND_NS)
        sample = LinkSampled(link.receiver_id, length, link.entered, link.entered - length)
        self.handle(sample, at_ns / SECOND_NS)
        link.told_ns, link.told_length = at_ns, length

    def is_down(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it is down at any moment of a span."""
        return any(begin_ns < until and end_ns >= start for start, until in self.down)
