"""The simulation step by step, for runs in which the fate of a message depends on later ones.

Cores that brokers share, inputs that fill up, and output queues in which urgent messages overtake others: the moment a
message is served is not known when it arrives. So every step is an event here: a message arrives, a broker begins and
is done, a link has sent, a card has sent. It is several times slower than `Simulation`, and gives the same run without
machines, bounded inputs and priorities, apart from the draws of jitter; tests compare the two.

A message waits in the output queue of its link, then is sent over it, then passes the network card of the sender's
machine (unless both ends share a machine), then takes the delay of the wire, then waits in the receiver's input for a
core of its machine. A link that sends, or waits for its card, does not begin with the next message; a link begins only
while the receiver has room.

Invariants: a broker handles one message at a time, in order of arrival. A core is idle only while no broker of its
machine has a message that it could begin with. An input never holds more than its bound. At one moment, departures from
queues come first, then ticks, faults, requests, brokers that are done, and arrivals, each in the order of their causes;
so equal inputs give equal runs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

from msgspec import UNSET

from octopia.protocol import AskConfirm, Confirm, Message, Notify, Waits
from octopia.routing import (
    Action,
    Decision,
    Event,
    LinkCameUp,
    LinkWentDown,
    Published,
    Received,
    Recipient,
    Refusal,
    Refuse,
    Send,
)
from octopia.sim.disciplines import Lanes, Servers
from octopia.sim.faults import Fault, LinkFault
from octopia.sim.links import FAIR, QUEUED, Arrival, OutLink
from octopia.sim.model import machines_of
from octopia.sim.node import SECOND_NS, Node
from octopia.sim.recorder import CODE_OF, FIRST_NOTIFICATION
from octopia.sim.requests import Asked, Request
from octopia.sim.simulation import ABOUT_SUBSCRIPTIONS, DELAYS, Simulation, request_sent_again
from octopia.topology import BrokerId
from octopia.trace import FATES, NO_REQUEST

# Order of events at one moment.
_LEAVES, _TICKS, _FAILS, _ASKS, _ENDS, _COMES = range(6)
# The arrival that caused a message, and its place among the orders.
Cause = tuple[int, int]
_NO_CAUSE: Cause = (-1, 0)
# Kinds that may overtake, and be overtaken, in an output queue; everything else is a fence (see `octopia.net.outbox`).
_NO_FENCES = frozenset({Notify, Confirm, AskConfirm, Waits})
_EVENTS_PER_CHECK = 1 << 16


class Waiting:
    """A message in an output queue."""

    __slots__ = (
        "begun_ns",
        "cause",
        "code",
        "delay_ns",
        "found",
        "hop",
        "message",
        "number",
        "priority",
        "queued_ns",
        "serial",
        "size",
        "weather",
    )

    def __init__(self, message: Message, number: int, hop: int, queued_ns: int, cause: Cause, code: int) -> None:
        self.message = message
        self.number = number
        self.hop = hop
        self.queued_ns = queued_ns
        self.cause = cause
        self.code = code
        self.found = self.serial = self.size = self.delay_ns = 0
        # None: it neither overtakes nor is overtaken
        self.priority: int | None = 0
        # when sending began, and what faults did to it then
        self.begun_ns = 0
        self.weather = FAIR


class StepLink(OutLink):
    """A link with the messages in it. `room` is the free room in the receiver's input, None without a bound."""

    __slots__ = ("before", "lanes", "room", "sending")

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.plain = False
        self.lanes: Lanes[Waiting] = Lanes()
        # held up by the limit on a broker's total output
        self.before: deque[Waiting] = deque()
        self.sending: Waiting | None = None
        self.room: int | None = None

    def length_at(self, at_ns: int) -> int:
        """Q_l now; called when the moment has come."""
        return len(self.lanes) + len(self.before) + (self.sending is not None)


class Work:
    """Work of a broker: a message or a request (with its arrival), or an event from its host (without)."""

    __slots__ = ("actions", "arrival", "event", "number")

    def __init__(self, event: Any, number: int, arrival: Arrival | None = None) -> None:
        self.event = event
        self.number = number
        self.arrival = arrival
        self.actions: list[Action] = []


class Machine:
    """The resources that the brokers of one machine share."""

    __slots__ = ("card", "cores")

    def __init__(self, cores: int) -> None:
        self.cores: Servers[Station] = Servers(cores)
        self.card: Servers[tuple[StepLink, Waiting]] = Servers(1)


class Station:
    """A broker on its machine, and the messages that wait for it."""

    __slots__ = ("begun_ns", "doing", "in_line", "input", "machine", "node", "said")

    def __init__(self, node: Node, machine: Machine) -> None:
        self.node = node
        self.machine = machine
        self.input: deque[Work] = deque()
        # it waits for a core or has one
        self.in_line = False
        self.doing: Work | None = None
        self.begun_ns = 0
        # orders caused by its queues; sent when it has finished its current work
        self.said: list[Action] = []


class Stepwise(Simulation):
    """An overlay of simulated brokers, played step by step."""

    links: list[StepLink]  # type: ignore[assignment]  # all its links are made here

    def __init__(self, *parts: Any, deadlines_ns: Mapping[str, int] | None = None, **named: Any) -> None:
        """`deadlines_ns` are those of clients, counted from acceptance by the publisher's broker."""
        super().__init__(*parts, **named)
        self._deadlines_ns = dict(deadlines_ns or {})
        # when each notification was accepted; kept only if there are deadlines
        self._accepted_ns: dict[int, int] = {}
        machines, receiver = self._model.machines, self._model.receiver
        self._cards = machines is not UNSET and bool(machines.card_mbit_per_s or machines.card_per_message_ns)
        cores = 1 if machines is UNSET else machines.cores
        places = machines_of(self._model, self.overlay)
        self.machines = [Machine(cores) for _ in range(max(places) + 1)]
        self.stations = [
            Station(node, self.machines[place]) for node, place in zip(self.nodes.values(), places, strict=True)
        ]
        if receiver is not UNSET:
            for link in self.links:
                link.room = receiver.frames
        self._events: list[tuple[int, int, Cause, int, Callable[[], None]]] = []
        self._count = 0
        self._arrivals = 0
        self._next_tick_ns = 0
        self._rows_max = self._recorder.take_in()
        self._cause = _NO_CAUSE

    def _make_link(self, *parts: Any) -> StepLink:
        return StepLink(*parts)

    # -- time

    def play(self, requests: Iterator[Request]) -> None:
        """Carry out requests, sorted by time, and everything they cause, until nothing moves."""
        asked = Asked(requests, self._model.client.delay_ns, self.nodes)
        events = self._events
        while True:
            if asked.next_ns >= 0 and (not events or asked.next_ns <= events[0][0]):
                for arrival in asked.take_until(asked.next_ns + 1):
                    self._then(arrival[0], _ASKS, _NO_CAUSE, partial(self._arrive, arrival))
            if not events:
                break
            moment, rank = events[0][:2]
            self._tick_until(moment, rank)
            *_, do = heappop(events)
            self.now_ns = max(self.now_ns, moment)
            do()
            if self._count % _EVENTS_PER_CHECK == 0:
                self._check_bound()
        self._recorder.take_in()
        self._check_bound()
        self._tick_until(self.now_ns, _COMES)
        self._finish()

    def _then(self, at_ns: int, rank: int, cause: Cause, do: Callable[[], None]) -> None:
        heappush(self._events, (at_ns, rank, cause, self._count, do))
        self._count += 1

    def _at(self, at_ns: int, do: Callable[[int], None]) -> None:
        self._then(at_ns, _FAILS, _NO_CAUSE, lambda: do(at_ns))

    def _tick_until(self, moment: int, rank: int) -> None:
        """Show brokers their queues at every tick before the next event."""
        while (self._next_tick_ns, _TICKS) < (moment, rank):
            busy = [node for node in self.nodes.values() if node.busy]
            for node in busy:
                node.catch_up(self._next_tick_ns)
            if not busy:
                self._next_tick_ns = max(self._next_tick_ns, moment // self._window_ns * self._window_ns)
            self._next_tick_ns += self._window_ns

    # -- the input and the processor

    def _arrive(self, arrival: Arrival) -> None:
        """A message or a request reaches its broker."""
        now, index, event, *_ = arrival
        number = self._number()
        if index < 0:
            station = self.stations[-1 - index]
            if type(event.event) is not Published:
                station.node.registers(event.event)
            if station.node.down and station.node.is_down(now, now):
                self._lose(arrival, "broker down")
            else:
                self._give(station, Work(event.event, number, arrival))
            return
        link = self.links[index]
        node = link.receiver
        if node.down and node.is_down(now, now):
            self._lose(arrival, "broker down")
            self._taken(link)
        elif type(event) is not Notify and arrival[QUEUED] < link.renewed_ns:
            # of a closed connection; the new one repeats its contents
            self._lose(arrival, "link down")
            self._taken(link)
        else:
            self._give(self.stations[node.index], Work(event, number, arrival))

    def _number(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _give(self, station: Station, work: Work) -> None:
        station.input.append(work)
        if not station.in_line:
            self._stand_in_line(station)

    def _stand_in_line(self, station: Station) -> None:
        station.in_line = True
        served = station.machine.cores.join(station)
        if served is not None:
            self._begin(served)

    def _begin(self, station: Station) -> None:
        """A core starts with the first message of a broker."""
        work = station.doing = station.input.popleft()
        station.begun_ns = self.now_ns
        node, arrival = station.node, work.arrival
        if arrival is not None and arrival[1] >= 0:
            self._taken(self.links[arrival[1]])
        if work.event is None:
            self._is_due(station, work)
        elif type(work.event) in (Notify, Published):
            self._soon(station, node.notify_ns, self._notified)
        else:
            self._soon(station, node.control_ns(0, False), self._controlled)

    def _soon(self, station: Station, after_ns: int, do: Callable[[Station, Work], None]) -> None:
        """Continue a broker's current work, unless it dies before."""
        work = station.doing

        def go_on() -> None:
            if station.doing is work and work is not None:
                self._look_up(station, work)
                do(station, work)

        self._then(station.begun_ns + after_ns, _ENDS, _NO_CAUSE, go_on)

    def _look_up(self, station: Station, work: Work) -> None:
        """Before it goes on, a broker sees its queues and sends what these made it say."""
        station.node.catch_up(self.now_ns)
        said, station.said = station.said, []
        if said:
            self._cause = (work.number, -len(said))
            self._carry_out(station.node, said, self.now_ns)

    def _end(self, station: Station) -> None:
        """A core has finished a message; its broker queues again if it has more."""
        station.doing = None
        station.in_line = False
        following = station.machine.cores.leave()
        if station.input:
            self._stand_in_line(station)
        if following is not None:
            self._begin(following)

    # -- what brokers do

    def _ordered(self, node: Node, actions: list[Action], done: int) -> None:
        self.stations[node.index].said += actions

    def _notified(self, station: Station, work: Work) -> None:
        """A broker decides where a notification goes."""
        node, now, arrival, event = station.node, self.now_ns, work.arrival, work.event
        assert arrival is not None  # noqa: S101  # notifications come by messages and requests only
        _, index, _, number, hop, *_ = arrival
        if index < 0 and self._deadlines_ns:
            self._accepted_ns[number] = now
        notification, refused, stamp = event.notification, None, None
        decision: Decision | Refusal
        if index >= 0:
            publisher, stamp, carried = event.publisher, event.stamp, event.header
            decision = node.receive(self.links[index].sender_id, carried, notification)
        else:
            publisher, carried = event.client, None
            decision = node.publish(publisher, (notification,), now / SECOND_NS)[0]
            if type(decision) is Refusal:
                refused = decision.reason
            elif self._streams:
                stamp = node.streams.sent(publisher, "", notification, decision)
        recipients: tuple[Recipient, ...] | None = decision.recipients or None
        if self._streams and decision.here:
            recipients = node.at_once(publisher, stamp, notification)
            if recipients is None:
                self._cause = (work.number, -1)
                recipients = self._arrived(node, event, hop, now)
        self._record(arrival, now, self._in_time(number, node, hop, recipients) or None, refused)
        name = publisher if self._streams else ""
        priorities = None if isinstance(decision, Refusal) else decision.priorities
        for place, (to, header) in enumerate(decision.copies):
            self._cause = (work.number, place)
            sent = event if header is carried else Notify(name, "", notification, header, stamp)
            priority = 0 if priorities is None else priorities[place]
            code = FIRST_NOTIFICATION + decision.case
            self._pass(node.links[to], sent, number, hop + 1, now, code, priority)
        self._end(station)

    def _controlled(self, station: Station, work: Work) -> None:
        """A broker handles a message other than a notification; it takes longer if that changes a table."""
        node, event = station.node, work.event
        srt, prt = node.broker.state.srt, node.broker.state.prt
        before = len(srt), len(prt)
        if work.arrival is not None and work.arrival[1] >= 0:
            event = Received(self.links[work.arrival[1]].sender_id, event)
        work.actions = node.broker.handle_whole(event, self.now_ns / SECOND_NS)
        if (len(srt), len(prt)) == before:
            self._control_done(station, work)
            return
        node.tables_changed()
        # subscriptions are compared with the SRT, advertisements with the PRT
        entries = before[0] if type(work.event) in ABOUT_SUBSCRIPTIONS else before[1]
        self._soon(station, node.control_ns(entries, True), self._control_done)

    def _control_done(self, station: Station, work: Work) -> None:
        number, hop = NO_REQUEST, 0
        if work.arrival is not None:
            number, hop = work.arrival[3:5]
            refused = next((action.reason for action in work.actions if type(action) is Refuse), None)
            self._record(work.arrival, self.now_ns, None, refused)
        self._orders_done(station, work, lambda message: number, hop + 1)

    def _orders_done(self, station: Station, work: Work, request_of: Callable[[Any], int], hop: int) -> None:
        """Carry out a broker's orders; then it is done with its current work."""
        for place, action in enumerate(work.actions):
            if type(action) is Send:
                self._cause = (work.number, place)
                link, message = station.node.links[action.to], action.message
                code = CODE_OF[type(message)]
                self._pass(link, message, request_of(message), hop, self.now_ns, code, action.priority)
        if self._streams:
            self._cause = (work.number, -1)
            self._release(station.node, work.actions, self.now_ns)
        self._end(station)

    def _act(self, node: Node, event: Event, now: int) -> None:
        if not (node.down and node.is_down(now, now)):
            self._give(self.stations[node.index], Work(event, self._number()))

    # -- deadlines

    def _in_time(
        self, number: int, node: Node, hop: int, recipients: tuple[Recipient, ...] | None
    ) -> tuple[Recipient, ...] | None:
        """The recipients for whom a notification, delivered now, is not too old."""
        if not recipients or not self._deadlines_ns:
            return recipients
        age_ns = self.now_ns - self._accepted_ns[number]
        kept = []
        for recipient in recipients:
            if age_ns > self._deadlines_ns.get(recipient[0], age_ns):
                self._recorder.expired(number, recipient[0], node, hop, self.now_ns)
            else:
                kept.append(recipient)
        return recipients if len(kept) == len(recipients) else tuple(kept)

    def _released(self, number: int, node: Node, hop: int, done: int, to: tuple[Recipient, ...]) -> None:
        in_time = self._in_time(number, node, hop, to)
        if in_time:
            super()._released(number, node, hop, done, in_time)

    # -- streams: time that brokers wait for

    def _wake(self, node: Node, at_ns: int) -> None:
        self._then(at_ns, _COMES, (self._cause[0], -1), lambda: self._time_comes(node, at_ns))

    def _time_comes(self, node: Node, at_ns: int) -> None:
        if node.due_ns == at_ns and not (node.down and node.is_down(at_ns, at_ns)):
            node.due_ns = -1
            self._give(self.stations[node.index], Work(None, self._number()))

    def _is_due(self, station: Station, work: Work) -> None:
        self._look_up(station, work)
        work.actions = station.node.broker.tick(self.now_ns / SECOND_NS)
        self._soon(station, station.node.control_ns(0, False) if work.actions else 0, self._due_done)

    def _due_done(self, station: Station, work: Work) -> None:
        self._orders_done(station, work, request_sent_again, 1)

    # -- output queues, links and cards

    def _pass(self, out: Any, message: Message, number: int, hop: int, now: int, code: int, priority: int = 0) -> None:
        """A message enters an output queue."""
        node = out.sender
        waiting = Waiting(message, number, hop, now, self._cause, code)
        waiting.priority = priority if type(message) in _NO_FENCES else None
        waiting.found, waiting.serial, waiting.size = out.length_at(now), out.entered, self._size(message)
        waiting.delay_ns = out.delays_ns[self._made % DELAYS]
        self._made += 1
        out.entered += 1
        node.busy[out] = None
        ready = self._through_egress(node, waiting.size, now)
        if ready > now:
            out.before.append(waiting)
            self._then(ready, _LEAVES, waiting.cause, lambda: self._ready(out, waiting))
        else:
            out.lanes.push(waiting, waiting.priority)
            self._send(out)

    def _ready(self, out: StepLink, waiting: Waiting) -> None:
        if out.before and out.before[0] is waiting:
            out.lanes.push(out.before.popleft(), waiting.priority)
            self._send(out)

    def _send(self, out: StepLink) -> None:
        """Start with the next message of a link, if there is one and nothing blocks it."""
        if not out.lanes:
            return
        if out.down_at(self.now_ns) is not None:
            if out.drops:
                for waiting in out.lanes.clear():
                    self._lose(self._arrival(out, waiting, self.now_ns), "link down")
            return
        if out.sending is not None or (out.room is not None and out.room <= 0):
            return
        if out.room is not None:
            out.room -= 1
        waiting = out.sending = out.lanes.pop()
        waiting.begun_ns, waiting.weather = self.now_ns, out.weather(self.now_ns, waiting.serial)
        sending_ns = out.model.per_message_ns + waiting.size * out.model.per_byte_ns
        sent_ns = self.now_ns + sending_ns * waiting.weather.factor
        self._then(sent_ns, _LEAVES, waiting.cause, lambda: self._sent(out, waiting))

    def _sent(self, out: StepLink, waiting: Waiting) -> None:
        """A link has sent a message; if it leaves the machine, the card is next."""
        if out.sending is not waiting:
            return  # its broker died
        machine = self.stations[out.sender.index].machine
        if not self._cards or machine is self.stations[out.receiver.index].machine:
            self._left(out, waiting)
            return
        served = machine.card.join((out, waiting))
        if served is not None:
            self._on_card(machine, *served)

    def _on_card(self, machine: Machine, out: StepLink, waiting: Waiting) -> None:
        machines = self._model.machines
        # the remains of a dead broker take no time
        takes_ns = machines.card_ns(waiting.size) if machines is not UNSET and out.sending is waiting else 0
        self._then(self.now_ns + takes_ns, _LEAVES, waiting.cause, lambda: self._off_card(machine, out, waiting))

    def _off_card(self, machine: Machine, out: StepLink, waiting: Waiting) -> None:
        following = machine.card.leave()
        if following is not None:
            self._on_card(machine, *following)
        if out.sending is waiting:
            self._left(out, waiting)

    def _left(self, out: StepLink, waiting: Waiting) -> None:
        """A message is on the wire."""
        weather = waiting.weather
        out.sending = None
        out.free_ns = self.now_ns
        arrived_ns = max(self.now_ns + waiting.delay_ns + weather.extra_ns, out.last_arrival_ns)
        out.last_arrival_ns = arrived_ns
        arrival = self._arrival(out, waiting, arrived_ns)
        fate = "link down" if out.cut(waiting.begun_ns, arrived_ns) else weather.fate
        if fate != "handled":
            self._lose(arrival, fate)
            self._taken(out)
            return
        for copy in range(2 if weather.twice else 1):
            if copy and out.room is not None:
                out.room -= 1
            self._then(arrived_ns, _COMES, waiting.cause, partial(self._arrive, arrival))
        self._send(out)

    def _arrival(self, out: StepLink, waiting: Waiting, arrived_ns: int) -> Arrival:
        """The record of a message that leaves its queue now."""
        return (
            arrived_ns,
            out.index,
            waiting.message,
            waiting.number,
            waiting.hop,
            waiting.queued_ns,
            self.now_ns,
            waiting.found,
            waiting.code,
        )

    def _taken(self, link: StepLink) -> None:
        """The receiver of a link has room for one more."""
        if link.room is not None:
            link.room += 1
        self._send(link)

    # -- faults

    def set_faults(self, faults: Iterable[Fault], from_ns: int) -> None:
        """Schedule these faults; their times count from `from_ns`, which must not have passed."""
        several = tuple(faults)
        super().set_faults(several, from_ns)
        for fault in several:
            if isinstance(fault, LinkFault) and fault.kind == "down":
                ends = BrokerId(*fault.sender), BrokerId(*fault.receiver)
                for one, other in (ends, ends[::-1]) if fault.both else (ends,):
                    link: Any = self.nodes[one].links[other]
                    for at_ns in (fault.from_ns, fault.until_ns):
                        self._at(from_ns + at_ns, partial(self._poke, link))

    def _poke(self, link: StepLink, now: int) -> None:
        self._send(link)

    def _crash(self, node: Node, now: int) -> None:
        """Everything in a broker is lost: waiting messages, its current work, and unsent output."""
        station = self.stations[node.index]
        works = ([] if station.doing is None else [station.doing]) + list(station.input)
        taken = 0 if station.doing is None else 1
        station.input.clear()
        station.said.clear()
        if station.doing is not None:
            self._end(station)
        elif station.in_line:
            station.in_line = False
            station.machine.cores.forget(station)
        for place, work in enumerate(works):
            if work.arrival is not None:
                self._lose(work.arrival, "broker down")
                if work.arrival[1] >= 0 and place >= taken:
                    self._taken(self.links[work.arrival[1]])
        for out in node.links.values():
            self._lose_queue(out)
        super()._crash(node, now)

    def _lose_queue(self, out: Any) -> None:
        sending = out.sending
        lost = ([] if sending is None else [sending]) + out.lanes.clear() + list(out.before)
        out.sending = None
        out.before.clear()
        for waiting in lost:
            self._lose(self._arrival(out, waiting, self.now_ns), "broker down")
        if sending is not None:
            self._taken(out)

    def _is_up(self, node: Node, neighbour: BrokerId) -> bool:
        """Whether a broker will consider a link up after its waiting work."""
        station = self.stations[node.index]
        for work in (*reversed(station.input), station.doing):
            event = None if work is None else work.event
            if isinstance(event, LinkWentDown | LinkCameUp) and event.neighbour == neighbour:
                return isinstance(event, LinkCameUp)
        return super()._is_up(node, neighbour)

    # -- the record

    def _record(
        self, arrival: Arrival, handled: int, recipients: tuple[Recipient, ...] | None, refused: str | None
    ) -> None:
        recorder = self._recorder
        recorder.arrivals.extend(arrival)
        recorder.handled.append(handled)
        recorder.delivered_to.append(recipients)
        if arrival[1] < 0:
            recorder.request(arrival[2], None if handled < 0 else handled, refused)
        if len(recorder.handled) >= self._rows_max:
            self._rows_max = recorder.take_in()

    def _lose(self, arrival: Arrival, fate: str) -> None:
        self._record(arrival, -1 - FATES.index(fate), None, None)
