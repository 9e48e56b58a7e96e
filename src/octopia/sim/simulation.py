"""The simulation: a virtual clock, and messages that arrive in order.

Time is in whole nanoseconds. The order of events is total: by time and then by order of creation, with requests of
clients first, so equal inputs give equal runs. There is one kind of event, the arrival of a message at a broker:
processors and queues serve in order, so everything between two arrivals follows from the first. The brokers' own code
handles every message, and all its orders are carried out and recorded. Nothing here depends on a routing.

Events wait in a calendar: a list per day, which is sorted when the day comes. A day is at most the time of a message
from one broker to the next, so its events create only events of later days, which need no sorting yet; the rare event
of the same day is inserted at its place.

The loop is a single function on purpose: it runs ten million times in one experiment, and a call for each step would
double its time.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from msgspec import structs

from octopia.errors import LocalProtocolError
from octopia.protocol import CibSet, Message, Notify, Subscribe, Unsubscribe
from octopia.routing import (
    Action,
    Broker,
    CongestionParameters,
    Decision,
    Deliver,
    Event,
    Limits,
    MakeIndex,
    Published,
    Received,
    Recipient,
    Refusal,
    Refuse,
    Send,
    Subscribed,
    Unsubscribed,
    policy_named,
)
from octopia.sim.faults import BrokerFault, Fault
from octopia.sim.links import ARRIVAL_FIELDS, NO_MESSAGE, QUEUED, Arrival, OutLink
from octopia.sim.model import Model, links_of
from octopia.sim.node import SECOND_NS, Node
from octopia.sim.outages import Outages
from octopia.sim.recorder import CODE_OF, FIRST_NOTIFICATION, FOLLOWS, Recorder
from octopia.sim.requests import Asked, Request
from octopia.topology import BrokerId, Scot, Sites
from octopia.trace import FATES, NO_REQUEST
from octopia.workload import draws

MESSAGES_MAX = 2_000_000_000
# A message with as many hops as if it had visited every broker this often is in a loop.
ROUNDS_MAX = 10
# The LST measures a full window between two ticks, though the difference of two floats may be less.
_WINDOW_SLACK = 1 - 1e-6
# Delays of links, drawn once: message n takes the n-th, modulo this prime.
DELAYS = 65_521
# Bounds of a day, as powers of 2 in ns: below a millisecond it has hardly an event.
_DAY_BITS_MIN, _DAY_BITS_MAX = 20, 30
_CALL = -2
ABOUT_SUBSCRIPTIONS = frozenset({Subscribe, Unsubscribe, Subscribed, Unsubscribed})
_NO_LINK = -1
_MOMENT = itemgetter(0)
_SIZES = {
    "advertise": "advertise_bytes",
    "subscribe": "subscribe_bytes",
    "unadvertise": "withdraw_bytes",
    "unsubscribe": "withdraw_bytes",
    "cib_set": "cib_bytes",
    "cib_clear": "cib_bytes",
    "subscriptions_complete": "cib_bytes",
    "subscriptions_incomplete": "cib_bytes",
    "advertisements_complete": "cib_bytes",
    "link_news": "cib_bytes",
    "waits": "cib_bytes",
    "confirm": "cib_bytes",
    "ask_confirm": "cib_bytes",
    "notify": "notify_bytes",
}


class Simulation:
    """An overlay of simulated brokers. `play` lets requests happen and time pass."""

    def __init__(
        self,
        overlay: Scot,
        routing: str,
        model: Model,
        recorder: Recorder,
        *,
        make_index: MakeIndex,
        congestion: CongestionParameters,
        seed: int = 0,
        queue_sample_ns: int = SECOND_NS,
        sites: Sites | None = None,
        covering: str = "none",
    ) -> None:
        self.overlay = overlay
        self.now_ns = 0
        self._routing = routing
        self._covering = covering
        self._model = model
        self._recorder = recorder
        self._make_index = make_index
        self._window_ns = round(congestion.window_s * SECOND_NS)
        self._congestion = CongestionParameters(congestion.tau, congestion.window_s * _WINDOW_SLACK)
        links = links_of(model, overlay, sites)
        least_ns = min((link.per_message_ns + link.delay_ns for link in links.values()), default=0)
        lookahead_ns = model.processor.base_ns + least_ns
        self._day_bits = min(max(lookahead_ns.bit_length() - 1, _DAY_BITS_MIN), _DAY_BITS_MAX)
        # by day, the arrivals of that day, flattened: tuples would be many and rarely looked at
        self._calendar: dict[int, list[Any]] = {}
        # the days in the calendar, as a heap
        self._days: list[int] = []
        self._today: list[Arrival] = []
        self._day_end_ns = 0
        self._made = 0
        # messages lost by the orders being carried out, and how
        self._lost: list[tuple[Arrival, str]] = []
        self._lives = dict.fromkeys(overlay.brokers, 0)
        policy = policy_named(routing)
        self._streams = policy.streams is not None
        self._outages = Outages(policy.recovery is not None, self._act, self._at, self._is_up)
        sample_ns = max(1, queue_sample_ns // self._window_ns) * self._window_ns
        service_ns = cache(model.processor.service_ns)
        self.nodes = {
            id: Node(
                index,
                self._new_broker(id),
                model.processor,
                service_ns,
                self._window_ns,
                sample_ns,
                recorder.sample,
                self._ordered,
            )
            for index, id in enumerate(overlay.brokers)
        }
        delays_ns = cache(partial(_delays, seed))
        self.links: list[OutLink] = []
        for node in self.nodes.values():
            for neighbour in overlay.a_links(node.id) + overlay.i_links(node.id):
                link_model = links[node.id, neighbour]
                plain = not (link_model.per_byte_ns or model.egress.per_message_ns or model.egress.per_byte_ns)
                delays = delays_ns(link_model.delay_ns, link_model.jitter_ns)
                link = self._make_link(len(self.links), node, self.nodes[neighbour], seed, link_model, delays, plain)
                link.drops = self._streams
                node.links[neighbour] = link
                self.links.append(link)
        recorder.take_links(self.links, model, policy.cases)

    @property
    def hops(self) -> int:
        return self._recorder.hops

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        return {id: node.broker for id, node in self.nodes.items()}

    def _make_link(self, *parts: Any) -> OutLink:
        return OutLink(*parts)

    def set_faults(self, faults: Iterable[Fault], from_ns: int) -> None:
        """Schedule these faults; their times count from `from_ns`, which must not have passed."""
        for fault in faults:
            begin, end = from_ns + fault.from_ns, from_ns + fault.until_ns
            if isinstance(fault, BrokerFault):
                node = self.nodes[BrokerId(*fault.broker)]
                node.goes_down(begin, end)
                for link in node.links.values():
                    link.plain = link.receiver.links[node.id].plain = False
                self._at(begin, partial(self._crash, node))
                self._at(end, partial(self._restart, node))
            else:
                ends = self.nodes[BrokerId(*fault.sender)], self.nodes[BrokerId(*fault.receiver)]
                for sender, receiver in (ends, ends[::-1]) if fault.both else (ends,):
                    link = sender.links[receiver.id]
                    link.faults.append(structs.replace(fault, from_ns=begin, until_ns=end))
                    link.plain = False
                if fault.kind == "down" and fault.both:
                    self._at(begin, partial(self._outages.link_down, *ends))
                    self._at(end, partial(self._outages.link_up, *ends))

    def play(self, requests: Iterator[Request]) -> None:  # noqa: C901  # one piece, see above
        """Carry out requests, sorted by time, and everything they cause, until nothing moves."""
        calendar, days, day_bits = self._calendar, self._days, self._day_bits
        recorder = self._recorder
        nodes, brokers = self.nodes, list(self.nodes.values())
        senders, receivers = [link.sender_id for link in self.links], [link.receiver for link in self.links]
        handled_arrival, handled_at = recorder.arrivals.extend, recorder.handled.append
        delivered_to = recorder.delivered_to.append
        made, row, rows_max = self._made, 0, recorder.take_in()
        numbers_copies = self._streams
        asked = Asked(requests, self._model.client.delay_ns, nodes)
        decision: Decision | Refusal
        # neighbours, and what is sent there: the header of a copy, or a message
        copies: Sequence[tuple[BrokerId, Any]]
        while self._next_day(asked):
            today, day_end = self._today, self._day_end_ns
            for arrival in today:
                now, link, event, number, hop, _, _, _, code = arrival
                # -- where
                if link >= 0:
                    node = receivers[link]
                elif code == _CALL:
                    self._made = made
                    event(now)
                    made, row = self._made, recorder.lost(self._lost)
                    continue
                else:
                    request, node, event, refused = event, brokers[-1 - link], event.event, None
                    code = FIRST_NOTIFICATION if type(event) is Published else NO_MESSAGE
                # -- the processor
                begin = node.free_ns
                if begin < now:
                    begin = now
                carried = recipients = stamp = None
                if code >= FIRST_NOTIFICATION:
                    handled = done = begin + node.notify_ns
                    if done >= node.alarm_ns and not node.wakes(now, done):
                        handled, copies = _LOST_AT_BROKER, _NOTHING
                    else:
                        node.free_ns = done
                        notification = event.notification
                        if link >= 0:
                            carried = event.header
                            decision = node.receive(senders[link], carried, notification)
                        else:
                            decision = node.publish(event.client, (notification,), done / 1e9)[0]
                            if type(decision) is Refusal:
                                refused = decision.reason
                            elif numbers_copies:
                                stamp = node.streams.sent(event.client, "", notification, decision)
                        copies, recipients = decision.copies, decision.recipients or None
                        # the case in which the copies were made, for the record
                        code = FIRST_NOTIFICATION + decision.case
                        if numbers_copies and decision.here:
                            recipients = node.at_once(event.publisher, event.stamp, notification)
                            if recipients is None:
                                recipients = self._arrived(node, event, hop, done)
                            elif not recipients:
                                recipients = None
                elif link >= 0 and arrival[QUEUED] < self.links[link].renewed_ns:
                    # of a closed connection; the new one repeats its contents
                    done, handled, copies = begin, _LOST_WITH_LINK, _NOTHING
                else:
                    if link >= 0:
                        event = Received(senders[link], event)
                    done, handled, actions = self._control(node, event, now, begin)
                    copies = [(action.to, action.message) for action in actions if type(action) is Send]
                    if numbers_copies and (len(copies) < len(actions) or node.streams.due is not None):
                        self._release(node, actions, done)
                    if link < 0:
                        node.registers(event)
                        refused = next((action.reason for action in actions if type(action) is Refuse), None)
                # -- the record
                handled_arrival(arrival)
                handled_at(handled)
                row += 1
                if link < 0:
                    row = recorder.request(request, None if handled < 0 else done, refused)
                if row >= rows_max:
                    rows_max = recorder.take_in()
                    row = 0
                # -- the orders
                sent = event
                for to, what in copies:
                    out = node.links[to]
                    if what is not carried:
                        carried = what
                        if numbers_copies and code >= FIRST_NOTIFICATION:
                            if link >= 0:
                                sent = Notify(event.publisher, "", notification, what, event.stamp)
                            else:
                                sent = Notify(event.client, "", notification, what, stamp)
                        elif code >= FIRST_NOTIFICATION:
                            sent = Notify("", "", notification, what)
                        else:
                            sent, code = what, CODE_OF[type(what)]
                    if out.plain:
                        left = out.free_ns
                        if left <= done:
                            left = done
                            node.busy[out] = None
                        left += out.sending_ns
                        out.free_ns = left
                        arrives = left + out.delays_ns[made % DELAYS]
                        made += 1
                        if arrives < out.last_arrival_ns:
                            arrives = out.last_arrival_ns
                        else:
                            out.last_arrival_ns = arrives
                        out.entered += 1
                        coming = (arrives, out.index, sent, number, hop + 1, done, left, FOLLOWS, code)
                        if arrives < day_end:
                            insort(today, coming, key=_MOMENT)
                        else:
                            try:
                                calendar[arrives >> day_bits].extend(coming)
                            except KeyError:
                                calendar[arrives >> day_bits] = list(coming)
                                heappush(days, arrives >> day_bits)
                    else:
                        self._made = made
                        self._pass(out, sent, number, hop + 1, done, code)
                        made = self._made
                delivered_to(recipients)
                if self._lost:
                    row = recorder.lost(self._lost)
            self.now_ns = max(self.now_ns, today[-1][0])
            self._made = made
        self.now_ns = max([self.now_ns, *(node.free_ns for node in self.nodes.values())])
        self._finish()

    def _next_day(self, asked: Asked) -> bool:
        """Advance to the next day with an event; False if there is none."""
        self._check_bound()
        day = asked.next_ns >> self._day_bits
        if self._days and (day < 0 or self._days[0] <= day):
            day = heappop(self._days)
        elif day < 0:
            return False
        self._day_end_ns = (day + 1) << self._day_bits
        # in this order, since sorting keeps the order of events at one moment
        self._today = asked.take_until(self._day_end_ns)
        self._today += zip(*[iter(self._calendar.pop(day, ()))] * ARRIVAL_FIELDS, strict=True)
        self._today.sort(key=_MOMENT)
        return True

    def _put(self, arrival: Arrival) -> None:
        """Add an event to the calendar, as the loop does inline."""
        at_ns = arrival[0]
        if at_ns < self._day_end_ns:
            insort(self._today, arrival, key=_MOMENT)
        else:
            day = at_ns >> self._day_bits
            if day not in self._calendar:
                self._calendar[day] = []
                heappush(self._days, day)
            self._calendar[day].extend(arrival)

    def _finish(self) -> None:
        for link in self.links:
            self.now_ns = max(self.now_ns, link.free_ns)
        for node in self.nodes.values():
            node.catch_up(self.now_ns)

    def _check_bound(self) -> None:
        if self.hops > MESSAGES_MAX:
            raise LocalProtocolError(f"more than {MESSAGES_MAX:,} messages: the routing does not come to rest")
        hops, request = self._recorder.farthest
        if hops > ROUNDS_MAX * len(self.nodes):
            of = "no request" if request == NO_REQUEST else f"request {request}"
            raise LocalProtocolError(
                f"routing {self._routing!r} goes in circles: a message of {of} made {hops:,} hops among "
                f"{len(self.nodes):,} brokers"
            )

    def _control(self, node: Node, event: Event, now: int, begin: int) -> tuple[int, int, list[Action]]:
        """Let a broker handle a message other than a notification: its cost depends on whether it changes a table."""
        srt, prt = node.broker.state.srt, node.broker.state.prt
        before = len(srt), len(prt)
        # subscriptions are compared with the SRT, advertisements with the PRT
        about = event.message if type(event) is Received else event
        done = begin + node.control_ns(before[0] if type(about) in ABOUT_SUBSCRIPTIONS else before[1], True)
        if node.down and node.is_down(now, done):
            return done, _LOST_AT_BROKER, []
        unchanged = begin + node.control_ns(0, False)
        if unchanged >= node.alarm_ns:
            node.catch_up(unchanged)
        actions = node.broker.handle_whole(event, unchanged / SECOND_NS)
        if (len(srt), len(prt)) == before:
            node.free_ns = unchanged
            return unchanged, unchanged, actions
        node.tables_changed()
        node.free_ns = done
        # its orders come after the ticks until then
        node.catch_up(done)
        return done, done, actions

    def _pass(
        self, out: OutLink, message: Message, number: int, hop: int, now: int, code: int, priority: int = 0
    ) -> None:
        """Send with all features of a model: bytes, jitter, egress limit, faults. All messages have one priority."""
        node = out.sender
        found = out.length_at(now)
        size = self._size(message)
        ready = self._through_egress(node, size, now)
        sending_ns = out.model.per_message_ns + size * out.model.per_byte_ns
        delay_ns = out.delays_ns[self._made % DELAYS]
        left_ns, arrived_ns, fate, twice = out.pass_with_faults(ready, sending_ns, delay_ns)
        if node.down and node.is_down(now, left_ns):
            fate = "broker down"
        else:
            out.last_arrival_ns = arrived_ns
        out.free_ns = left_ns
        if not out.plain:
            out.leaving.append(left_ns)
        out.entered += 1
        node.busy[out] = None
        arrival = (arrived_ns, out.index, message, number, hop, now, left_ns, found, code)
        if fate != "handled":
            self._lost.append((arrival, fate))
            return
        for _ in range(2 if twice else 1):
            self._put(arrival)
            self._made += 1

    def _through_egress(self, node: Node, size: int, now: int) -> int:
        """When a message that is sent now may enter its link."""
        egress = self._model.egress
        if not (egress.per_message_ns or egress.per_byte_ns):
            return now
        node.egress_free_ns = max(now, node.egress_free_ns) + egress.per_message_ns + size * egress.per_byte_ns
        return node.egress_free_ns

    def _size(self, message: Message) -> int:
        sizes = self._model.sizes
        size: int = getattr(sizes, _SIZES[message.kind])
        if isinstance(message, Notify):
            return size + sizes.routing_bytes * message.header.entries
        return size + sizes.subscribe_bytes * len(message.subscriptions) if isinstance(message, CibSet) else size

    def _new_broker(self, id: BrokerId) -> Broker:
        life = self._lives[id]
        self._lives[id] = life + 1
        return Broker(
            id,
            self.overlay,
            self._routing,
            congestion=self._congestion,
            limits=_LIMITS,
            make_index=self._make_index,
            first_serial=life * _SERIALS_PER_LIFE,
            # the first brokers of a run start together; one that starts later has to learn what the others know
            links_up=life == 0 or not self._outages.recovers,
            covering=self._covering,
        )

    def _crash(self, node: Node, now: int) -> None:
        self._outages.broker_down(node, now)

    def _restart(self, node: Node, now: int) -> None:
        node.take(self._new_broker(node.id))
        node.free_ns = node.egress_free_ns = now
        for link in node.links.values():
            link.free_ns = now
            link.leaving.clear()
        self._outages.broker_up(node, now)

    def _act(self, node: Node, event: Event, now: int) -> None:
        """Let a broker handle an event that no message or request caused, and carry out its orders."""
        if node.down and node.is_down(now, now):
            return
        done, _, actions = self._control(node, event, now, max(now, node.free_ns))
        self._carry_out(node, actions, done)

    def _is_up(self, node: Node, neighbour: BrokerId) -> bool:
        """Whether a broker considers one of its links up."""
        return neighbour in node.broker.state.up

    def _ordered(self, node: Node, actions: list[Action], done: int) -> None:
        """A broker sampled its queues and ordered something."""
        self._carry_out(node, actions, done)

    def _carry_out(self, node: Node, actions: list[Action], done: int) -> None:
        """Send messages that no request caused."""
        for action in actions:
            if type(action) is Send:
                message = action.message
                code = CODE_OF[type(message)]
                self._pass(node.links[action.to], message, NO_REQUEST, 1, done, code, action.priority)
        if self._streams:
            self._release(node, actions, done)

    # -- streams: what `octopia.routing.streams` requires of a host

    def _arrived(self, node: Node, message: Notify, hop: int, done: int) -> tuple[Recipient, ...] | None:
        """A copy reached one of its destinations; returns its recipients now. Other notifications it releases are
        noted.
        """
        recipients, streams, notification = None, node.streams, message.notification
        released = streams.arrived(message.publisher, message.stamp, notification, hop, done / SECOND_NS)
        for _, other, hops, to in released:
            if other is notification:
                recipients = to
            else:
                self._released(other.request, node, hops, done, to)
        due = streams.due
        if due is not None and (node.due_ns < 0 or due * SECOND_NS < node.due_ns - 1):
            self._watch(node, done)
        return recipients

    def _released(self, number: int, node: Node, hop: int, done: int, to: tuple[Recipient, ...]) -> None:
        """Deliver a notification that arrived earlier, with this hop."""
        self._recorder.released(number, node, hop, done, to)

    def _release(self, node: Node, actions: list[Action], done: int) -> None:
        for action in actions:
            if type(action) is Deliver:
                # what `_arrived` passed on
                notification: Any = action.notification
                hop: Any = action.id
                self._released(notification.request, node, hop, done, action.recipients)
        self._watch(node, done)

    def _watch(self, node: Node, now: int) -> None:
        """Tell the broker the time when something is due."""
        due = node.streams.due
        if due is None:
            return
        at_ns = max(now, int(due * SECOND_NS) + 1)
        if node.due_ns < 0 or at_ns < node.due_ns:
            node.due_ns = at_ns
            self._wake(node, at_ns)

    def _wake(self, node: Node, at_ns: int) -> None:
        self._at(at_ns, partial(self._tick, node))

    def _tick(self, node: Node, now: int) -> None:
        if now < node.due_ns or node.due_ns < 0 or (node.down and node.is_down(now, now)):
            # an earlier one replaced it, or its broker is gone
            return
        node.due_ns = -1
        begin = max(now, node.free_ns)
        node.catch_up(begin)
        actions = node.broker.tick(begin / SECOND_NS)
        if actions:
            node.free_ns = begin = begin + node.control_ns(0, False)
            # its orders come after the ticks until then
            node.catch_up(begin)
        for action in actions:
            if type(action) is Send:
                message, code = action.message, CODE_OF[type(action.message)]
                self._pass(node.links[action.to], message, request_sent_again(message), 1, begin, code)
        self._release(node, actions, begin)

    def _at(self, at_ns: int, do: Callable[[int], None]) -> None:
        self._put((at_ns, _NO_LINK, do, 0, 0, 0, 0, 0, _CALL))


def request_sent_again(message: Any) -> int:
    """The request of a message that a broker sends because time has passed: that of a notification, if it is one."""
    return message.notification.request if message.kind == Notify.kind else NO_REQUEST


def _delays(seed: int, delay_ns: int, jitter_ns: int) -> list[int]:
    """The delays of messages on a link: the same draws for every link, each within its own jitter."""
    jitter = draws.below(draws.stream(seed, "jitter"), range(DELAYS), jitter_ns + 1)
    return (delay_ns + jitter).tolist()  # type: ignore[no-any-return]


_NOTHING: tuple[tuple[BrokerId, Any], ...] = ()
_LOST_AT_BROKER = -1 - FATES.index("broker down")
_LOST_WITH_LINK = -1 - FATES.index("link down")
# A simulated run has as many clients and registrations as its workload.
_NO_BOUND = 1 << 40
_LIMITS = Limits(
    clients_max=_NO_BOUND,
    advertisements_per_client_max=_NO_BOUND,
    subscriptions_per_client_max=_NO_BOUND,
    advertised_conjunctions_per_client_max=_NO_BOUND,
    patterns_per_client_max=_NO_BOUND,
)
_SERIALS_PER_LIFE = 1 << 40
