"""A second simulator, as plain as can be: explicit queues, one event per step, every tick told to every broker.

It shares the brokers and the workload with the simulator it judges, and no code beyond that. Slow on purpose.

**What arrives at one moment** is taken in an order that both keep: requests first, then what was sent because of an
earlier arrival, and what was sent because of the same one as it was ordered. Such moments are no accident. All links
take the same time, so two messages that each waited for a third, on two links that it took one after the other, go on
in step; and where two ways of the same length lead to a broker, as around a square of two aLinks and two iLinks under
`fdr`, they arrive there together.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from octopia.language import Notification
from octopia.routing import (
    Action,
    Advertised,
    Broker,
    CongestionParameters,
    Deliver,
    LinkSampled,
    Notify,
    Published,
    Received,
    Send,
    Subscribed,
)
from octopia.sim.model import Model
from octopia.topology import BrokerId, Scot
from octopia.workload import Workload

SECOND = 1_000_000_000
TICK = 50_000_000
Order = tuple[int, int]  # of what arrives at one moment: the arrival it was sent for, and its place among the orders


class Naive:
    """Plays a workload phase by phase; `hops` and `deliveries` are what a trace would say."""

    def __init__(self, overlay: Scot, routing: str, model: Model) -> None:
        congestion = CongestionParameters(window_s=0.05 * (1 - 1e-6))
        self.brokers = {id: Broker(id, overlay, routing, congestion=congestion) for id in overlay.brokers}
        self.model = model
        self.now = 0
        self.events: list[tuple[int, int, Order, int, Callable[[], None]]] = []
        self.count = 0
        self.arrivals = 0
        self.inbox: dict[BrokerId, deque[Callable[[], None]]] = {id: deque() for id in overlay.brokers}
        self.working = dict.fromkeys(overlay.brokers, False)
        links = [(a, b) for a in overlay.brokers for b in overlay.neighbours(a)]
        self.queue: dict[tuple[BrokerId, BrokerId], deque[Any]] = {link: deque() for link in links}
        self.entered = dict.fromkeys(links, 0)
        # what brokers order because of their queues; it is sent when they have done what they are at
        self.said: dict[BrokerId, list[Any]] = {id: [] for id in overlay.brokers}
        self.hops: list[tuple[Any, ...]] = []
        self.deliveries: list[tuple[Any, ...]] = []
        # with how many hops each notification came to each broker, and when brokers are to be told of the time
        self.came: dict[tuple[BrokerId, str], int] = {}
        self.due: dict[BrokerId, int] = {}

    def at(self, moment: int, do: Callable[[], None], rank: int = 1, order: Order = (-1, 0)) -> None:
        heapq.heappush(self.events, (moment, rank, order, self.count, do))
        self.count += 1

    def play(self, workload: Workload, advertise_every: int, subscribe_every: int) -> None:
        for number, each in enumerate(workload.advertisements):
            self._ask(number * advertise_every, each.broker, Advertised(each.client, each.id, each.filter))
        self._until_quiet()
        begin = self._next_second()
        for number, each in enumerate(workload.subscriptions):
            self._ask(begin + number * subscribe_every, each.broker, Subscribed(each.client, each.id, each.filter))
        self._until_quiet()
        begin = self._next_second()
        values = workload.notifications.to_pylist()
        for number, (at, publisher, row) in enumerate(
            zip(*(getattr(workload.publications, name).tolist() for name in ("at_ns", "publisher", "row")), strict=True)
        ):
            each = workload.advertisements[publisher]
            notification = Notification.of(values[row])
            self._ask(begin + at, each.broker, Published(each.client, str(number), notification))
        self._until_quiet()

    def _next_second(self) -> int:
        return -(-self.now // SECOND) * SECOND

    def _until_quiet(self) -> None:
        next_tick = (self.now // TICK + 1) * TICK
        while self.events:
            if self.events[0][0] >= next_tick:
                self._tick(next_tick)
                next_tick += TICK
                continue
            self.now, *_, do = heapq.heappop(self.events)
            do()

    def _tick(self, now: int) -> None:
        for (sender, receiver), queue in self.queue.items():
            entered = self.entered[sender, receiver]
            sample = LinkSampled(receiver, len(queue), entered, entered - len(queue))
            self.said[sender] += self.brokers[sender].handle(sample, now / SECOND)

    def _ask(self, moment: int, broker: BrokerId, event: Any) -> None:
        self.at(moment + self.model.client.delay_ns, lambda: self._arrive(broker, event, 0, None))

    def _arrive(self, broker: BrokerId, event: Any, hop: int, passed: Any) -> None:
        arrived, number = self.now, self.arrivals
        self.arrivals += 1
        self.inbox[broker].append(lambda: self._work(broker, event, hop, passed, arrived, number))
        if not self.working[broker]:
            self._next(broker)

    def _next(self, broker: BrokerId) -> None:
        if self.inbox[broker]:
            self.working[broker] = True
            self.inbox[broker].popleft()()

    def _work(self, broker: BrokerId, event: Any, hop: int, passed: Any, arrived: int, number: int) -> None:
        def done() -> None:
            self.working[broker] = False
            self._say(broker, number)
            if isinstance(event, Received) and isinstance(event.message, Notify):
                self.came[broker, event.message.id] = hop
            actions = self.brokers[broker].handle(event, self.now / SECOND)
            if passed is not None:
                self.hops.append((*passed, arrived, self.now))
            self._carry_out(broker, actions, hop, number)

        self.at(self.now + self.model.processor.base_ns, done)

    def _say(self, broker: BrokerId, number: int) -> None:
        said, self.said[broker] = self.said[broker], []
        for place, action in enumerate(said, -len(said)):
            self._enter(broker, action.to, action.message, 1, (number, place))

    def _carry_out(self, broker: BrokerId, actions: list[Action], hop: int, number: int) -> None:
        self.working[broker] = False
        self._say(broker, number)
        for place, action in enumerate(actions):
            if isinstance(action, Send):
                self._enter(broker, action.to, action.message, hop + 1, (number, place))
            elif isinstance(action, Deliver):
                came = self.came.get((broker, action.id), hop)
                for client, subscriptions in action.recipients:
                    delivered = self.now + self.model.client.delay_ns
                    self.deliveries.append((int(action.id), client, broker, came, delivered, len(subscriptions)))
        due = self.brokers[broker].due
        if due is not None:
            moment = max(self.now, int(due * SECOND) + 1)
            if broker not in self.due or moment < self.due[broker]:
                self.due[broker] = moment
                self.at(moment, lambda: self._is_due(broker), order=(number, -1))
        self._next(broker)

    def _is_due(self, broker: BrokerId) -> None:
        if self.due.get(broker) == self.now:
            del self.due[broker]
            number = self.arrivals
            self.arrivals += 1
            self.inbox[broker].append(lambda: self._do_what_is_due(broker, number))
            if not self.working[broker]:
                self._next(broker)

    def _do_what_is_due(self, broker: BrokerId, number: int) -> None:
        self._say(broker, number)
        actions = self.brokers[broker].tick(self.now / SECOND)
        if actions:
            self.at(self.now + self.model.processor.base_ns, lambda: self._carry_out(broker, actions, 0, number))
        else:
            self._carry_out(broker, [], 0, number)

    def _enter(self, sender: BrokerId, receiver: BrokerId, message: Any, hop: int, order: Order) -> None:
        queue = self.queue[sender, receiver]
        self.entered[sender, receiver] += 1
        queue.append((message, hop, self.now, len(queue), order))
        if len(queue) == 1:
            self._send(sender, receiver)

    def _send(self, sender: BrokerId, receiver: BrokerId) -> None:
        queue = self.queue[sender, receiver]
        message, hop, queued, found, order = queue[0]

        def left() -> None:
            queue.popleft()
            civ = getattr(message, "civ", 0)
            passed = (message.kind, sender, receiver, hop, civ, queued, self.now, found)
            event = Received(sender, message)
            arrives = self.now + self.model.link.delay_ns
            self.at(arrives, lambda: self._arrive(receiver, event, hop, passed), order=order)
            if queue:
                self._send(sender, receiver)

        # before anything else that happens at this moment: a message that leaves now is no longer in the queue
        self.at(self.now + self.model.link.per_message_ns, left, rank=0)
