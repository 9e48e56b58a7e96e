"""A second simulator, as plain as can be: explicit queues, one event per step, every tick told to every broker.

It shares the brokers and the workload with the simulator it judges, and no code beyond that. Slow on purpose.

**What arrives at one moment** is taken in an order that both keep: requests first, then what was sent because of an
earlier arrival, and what was sent because of the same one as it was ordered. Such moments are no accident. All links
take the same time, so two messages that each waited for a third, on two links that it took one after the other, go on
in step; and where two ways of the same length lead to a broker, as around a square of two aLinks and two iLinks under
`fdr`, they arrive there together. What is sent at one moment over several links comes to the network card in the same
order.

**Machines**: each has some cores and a line of brokers that have something to do and no core; a broker that is done
goes to the end, before what arrives at that moment. A card sends one message after the other. **Bounded inputs**: per
link, so many messages may have left the queue, or be leaving it, that their receiver has not begun with.

**Priorities**: the next message of a queue is looked for among those before its first fence (anything but
notifications, confirmations and waits). It is the first of the highest priority that has turns left in this round, of
64, 16, 4 and 1; where none has, a new round begins. **Deadlines**: a notification counts its age from when the broker
of its publisher was done with it, and is not delivered if it is older than the client wants.
"""

import heapq
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any

from msgspec import UNSET

from octopia.language import Notification
from octopia.protocol import Advertise, AskConfirm, Confirm, Notify, Subscribe, Waits
from octopia.routing import (
    Action,
    Advertised,
    Broker,
    CongestionParameters,
    Deliver,
    LinkSampled,
    Published,
    Received,
    Send,
    Subscribed,
)
from octopia.sim.model import Model
from octopia.topology import BrokerId, Scot, Sites
from octopia.topology import place as place_brokers
from octopia.workload import Wish, Workload

SECOND = 1_000_000_000
TICK = 50_000_000
Ends = tuple[BrokerId, BrokerId]
Order = tuple[int, int]  # of what arrives at one moment: the arrival it was sent for, and its place among the orders


class Naive:
    """Plays a workload phase by phase; `hops` and `deliveries` are the rows of a trace."""

    def __init__(self, overlay: Scot, routing: str, model: Model, sites: Sites | None = None) -> None:
        congestion = CongestionParameters(window_s=0.05 * (1 - 1e-6))
        self.brokers = {id: Broker(id, overlay, routing, congestion=congestion) for id in overlay.brokers}
        self.model = model
        self.now = 0
        self.events: list[tuple[int, int, Order, int, Callable[[], None]]] = []
        self.count = 0
        self.arrivals = 0
        self.inbox: dict[BrokerId, deque[tuple[Ends | None, Callable[[], None]]]] = {
            id: deque() for id in overlay.brokers
        }
        links = [(a, b) for a in overlay.brokers for b in overlay.neighbours(a)]
        self.link = {ends: _parameters(model, ends, sites) for ends in links}
        # machines: by broker its machine, by machine the free cores, who waits for one, and what waits for the card
        self.machine: dict[BrokerId, Any] = {id: id for id in overlay.brokers}
        self.cores: Any = dict.fromkeys(overlay.brokers, 1)
        if model.machines:
            given: Any = model.machines.count or model.machines.names
            placed = place_brokers(overlay, given)
            self.machine = {id: placed.machine(id) for id in overlay.brokers}
            self.cores = dict.fromkeys(placed.machines, model.machines.cores)
        self.line: dict[Any, list[BrokerId]] = {machine: [] for machine in self.cores}
        # standing in a line, or at work
        self.engaged = dict.fromkeys(overlay.brokers, False)
        self.card: dict[Any, deque[Callable[[], None]]] = {machine: deque() for machine in self.cores}
        # per link, what was sent and its receiver has not begun with
        self.ahead = dict.fromkeys(links, 0)
        self.on_its_way = dict.fromkeys(links, 0)
        self.queue: dict[Ends, list[Any]] = {link: [] for link in links}
        self.turns: dict[Ends, dict[int, int]] = {link: {} for link in links}
        self.accepted: dict[str, int] = {}
        self.deadlines: dict[str, int] = {}
        self.expired: list[tuple[Any, ...]] = []
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
            wish = workload.wishes.get(each.client, Wish())
            wanted = Subscribed(each.client, each.id, each.filter, wish.ordered, wish.priority)
            if wish.deadline_ns:
                self.deadlines[each.client] = wish.deadline_ns
            self._ask(begin + number * subscribe_every, each.broker, wanted)
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
            length = len(queue) + self.on_its_way[sender, receiver]
            sample = LinkSampled(receiver, length, entered, entered - length)
            self.said[sender] += self.brokers[sender].handle(sample, now / SECOND)

    def _ask(self, moment: int, broker: BrokerId, event: Any) -> None:
        self.at(moment + self.model.client.delay_ns, lambda: self._arrive(broker, event, 0, None))

    def _arrive(self, broker: BrokerId, event: Any, hop: int, passed: Any, ends: Ends | None = None) -> None:
        arrived, number = self.now, self.arrivals
        self.arrivals += 1
        self.inbox[broker].append((ends, lambda: self._work(broker, event, hop, passed, arrived, number)))
        self._engage(broker)

    def _engage(self, broker: BrokerId) -> None:
        if self.inbox[broker] and not self.engaged[broker]:
            self.engaged[broker] = True
            self.line[self.machine[broker]].append(broker)
            self._serve(self.machine[broker])

    def _serve(self, machine: Any) -> None:
        while self.cores[machine] and self.line[machine]:
            broker = self.line[machine].pop(0)
            self.cores[machine] -= 1
            ends, begin = self.inbox[broker].popleft()
            if ends is not None:
                self.ahead[ends] -= 1
                self._send(*ends)
            begin()

    def _done(self, broker: BrokerId) -> None:
        machine = self.machine[broker]
        self.cores[machine] += 1
        self.engaged[broker] = False
        if self.inbox[broker]:
            self.engaged[broker] = True
            self.line[machine].append(broker)
        self._serve(machine)

    def _work(self, broker: BrokerId, event: Any, hop: int, passed: Any, arrived: int, number: int) -> None:
        def done() -> None:
            self._say(broker, number)
            if isinstance(event, Received) and isinstance(event.message, Notify):
                self.came[broker, event.message.id] = hop
            if isinstance(event, Published):
                self.accepted[event.id] = self.now
            actions = self.brokers[broker].handle(event, self.now / SECOND)
            if passed is not None:
                self.hops.append((*passed, arrived, self.now))
            self._carry_out(broker, actions, hop, number)

        self.at(self.now + self.model.processor.base_ns, done)

    def _say(self, broker: BrokerId, number: int) -> None:
        said, self.said[broker] = self.said[broker], []
        for place, action in enumerate(said, -len(said)):
            self._enter(broker, action.to, action.message, 1, (number, place), action.priority)

    def _carry_out(self, broker: BrokerId, actions: list[Action], hop: int, number: int) -> None:
        self._say(broker, number)
        for place, action in enumerate(actions):
            if isinstance(action, Send):
                self._enter(broker, action.to, action.message, hop + 1, (number, place), action.priority)
            elif isinstance(action, Deliver):
                came = self.came.get((broker, action.id), hop)
                for client, subscriptions in action.recipients:
                    if self.now - self.accepted[action.id] > self.deadlines.get(client, self.now):
                        self.expired.append((int(action.id), client, broker, came, self.now))
                        continue
                    delivered = self.now + self.model.client.delay_ns
                    self.deliveries.append((int(action.id), client, broker, came, delivered, len(subscriptions)))
        due = self.brokers[broker].due
        if due is not None:
            moment = max(self.now, int(due * SECOND) + 1)
            if broker not in self.due or moment < self.due[broker]:
                self.due[broker] = moment
                self.at(moment, lambda: self._is_due(broker), order=(number, -1))
        self._done(broker)

    def _is_due(self, broker: BrokerId) -> None:
        if self.due.get(broker) == self.now:
            del self.due[broker]
            number = self.arrivals
            self.arrivals += 1
            self.inbox[broker].append((None, lambda: self._do_what_is_due(broker, number)))
            self._engage(broker)

    def _do_what_is_due(self, broker: BrokerId, number: int) -> None:
        self._say(broker, number)
        actions = self.brokers[broker].tick(self.now / SECOND)
        if actions:
            self.at(self.now + self.model.processor.base_ns, lambda: self._carry_out(broker, actions, 0, number))
        else:
            self._carry_out(broker, [], 0, number)

    def _enter(self, sender: BrokerId, receiver: BrokerId, message: Any, hop: int, order: Order, priority: int) -> None:
        queue = self.queue[sender, receiver]
        self.entered[sender, receiver] += 1
        found = len(queue) + self.on_its_way[sender, receiver]
        fence = not isinstance(message, Notify | Confirm | AskConfirm | Waits)
        queue.append((None if fence else priority, message, hop, self.now, found, order))
        self._send(sender, receiver)

    def _send(self, sender: BrokerId, receiver: BrokerId) -> None:
        ends = sender, receiver
        queue = self.queue[ends]
        receiver_model: Any = self.model.receiver
        full = bool(receiver_model) and self.ahead[ends] >= receiver_model.frames
        if not queue or self.on_its_way[ends] or full:
            return
        self.on_its_way[ends] = 1
        self.ahead[ends] += 1
        _, message, hop, queued, found, order = queue.pop(self._choose(ends))

        def sent() -> None:
            card = self.card[self.machine[sender]]
            if self.machine[sender] == self.machine[receiver] or not self._card_time(message):
                left()
            else:
                card.append(pass_card)
                if len(card) == 1:
                    pass_card()

        def pass_card() -> None:
            self.at(self.now + self._card_time(message), off_card, rank=0, order=order)

        def off_card() -> None:
            card = self.card[self.machine[sender]]
            card.popleft()
            if card:
                card[0]()
            left()

        def left() -> None:
            self.on_its_way[ends] = 0
            civ = getattr(message, "civ", 0)
            passed = (message.kind, sender, receiver, hop, civ, queued, self.now, found)
            event = Received(sender, message)
            arrives = self.now + self.link[ends]["delay_ns"]
            self.at(arrives, lambda: self._arrive(receiver, event, hop, passed, ends), order=order)
            self._send(sender, receiver)

        # before anything else that happens at this moment: a message that leaves now is no longer in the queue
        self.at(self.now + self._link_time(ends, message), sent, rank=0, order=order)

    def _choose(self, ends: Ends) -> int:
        """The position in a queue of the frame that goes next."""
        queue, turns = self.queue[ends], self.turns[ends]
        fences = [place for place, (priority, *_) in enumerate(queue) if priority is None]
        if fences and fences[0] == 0:
            return 0
        free = range(fences[0] if fences else len(queue))
        for _ in range(2):
            for wanted, most in ((3, 64), (2, 16), (1, 4), (0, 1)):
                if turns.get(wanted, 0) < most:
                    for place in free:
                        if queue[place][0] == wanted:
                            turns[wanted] = turns.get(wanted, 0) + 1
                            return place
            turns.clear()
        raise AssertionError("something waits")

    def _link_time(self, ends: Ends, message: Any) -> int:
        return self.link[ends]["per_message_ns"] + _size(message, self.model) * self.link[ends]["per_byte_ns"]

    def _card_time(self, message: Any) -> int:
        machines = self.model.machines
        if not machines:
            return 0
        bits = 8 * _size(message, self.model)
        wire = ceil(Fraction(bits * 1000, machines.card_mbit_per_s)) if machines.card_mbit_per_s else 0
        return machines.card_per_message_ns + wire


def _parameters(model: Model, ends: Ends, sites: Sites | None) -> dict[str, int]:
    one, other = ends
    changes = [model.i_link if one.region == other.region else model.a_link]
    for link in model.links or ():
        if {f"{one.region}.{one.cluster}", f"{other.region}.{other.cluster}"} == set(link.between):
            changes.append(link)
    found = {name: getattr(model.link, name) for name in ("per_message_ns", "per_byte_ns", "delay_ns", "jitter_ns")}
    for change in changes:
        if change:
            for name in found:
                found[name] = getattr(change, name) if getattr(change, name) is not UNSET else found[name]
    assert not found["jitter_ns"], "not built here"
    if sites is not None:
        found["delay_ns"] += sites.between(sites.site_of(one), sites.site_of(other))
    return found


def _size(message: Any, model: Model) -> int:
    sizes = model.sizes
    if isinstance(message, Notify):
        return sizes.notify_bytes + message.header.entries * sizes.routing_bytes
    if isinstance(message, Subscribe):
        return sizes.subscribe_bytes
    if isinstance(message, Advertise):
        return sizes.advertise_bytes
    return sizes.cib_bytes + len(getattr(message, "subscriptions", ())) * sizes.subscribe_bytes
