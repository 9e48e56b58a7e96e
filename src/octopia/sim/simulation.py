"""The simulation: a virtual clock, and messages that arrive in order.

Rules of this file: time is whole nanoseconds; the order of events is total, by time and then by the order in which
they were made, so equal inputs give equal runs. There is one kind of event, the arrival of a message at a broker:
processors and queues serve in order, so all that lies between two arrivals follows from the first. Every message is
handled by the brokers' own code, and every order it gives is carried out and recorded. Nothing here knows a routing.

The loop is written out in one piece on purpose: it runs ten million times in one experiment, and a call for each step
would double its time.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Any, NamedTuple

from octopia.errors import LocalProtocolError
from octopia.routing import (
    NOTIFICATION_MESSAGES,
    Action,
    Broker,
    CongestionParameters,
    Deliver,
    Event,
    Limits,
    MakeIndex,
    Message,
    Notify,
    NotifyRoutes,
    NotifyTree,
    Published,
    Received,
    Refused,
    Send,
)
from octopia.sim.faults import BrokerFault, Fault, LinkFault
from octopia.sim.links import Arrival, OutLink
from octopia.sim.model import Model
from octopia.sim.node import SECOND_NS, Node
from octopia.sim.recorder import Recorder
from octopia.topology import BrokerId, Scot
from octopia.trace import FATES
from octopia.workload import draws

MESSAGES_MAX = 2_000_000_000
# What a broker's LST measures between two ticks is a full window, though the difference of two floats may say less.
_WINDOW_SLACK = 1 - 1e-6
# Delays of links, drawn once: message n takes the n-th, modulo this prime.
_DELAYS = 65_521
_MATCHED = frozenset(NOTIFICATION_MESSAGES)
_SIZES = {
    "advertise": "advertise_bytes",
    "subscribe": "subscribe_bytes",
    "unadvertise": "withdraw_bytes",
    "unsubscribe": "withdraw_bytes",
    "cib_set": "cib_bytes",
    "cib_clear": "cib_bytes",
    "notify": "notify_bytes",
}


class Request(NamedTuple):
    """A client asks its host broker for something at a moment; `number` is its row in the trace."""

    at_ns: int
    broker: BrokerId
    event: Event
    number: int
    row: int | None = None


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
    ) -> None:
        self.overlay = overlay
        self.now_ns = 0
        self.hops = 0
        self._routing = routing
        self._model = model
        self._recorder = recorder
        self._make_index = make_index
        self._window_ns = round(congestion.window_s * SECOND_NS)
        self._congestion = CongestionParameters(congestion.tau, congestion.window_s * _WINDOW_SLACK)
        # of every link the next arrival, which is enough for the order of all, and small however long the queues are
        self._arrivals: list[Arrival] = []
        self._made = 0
        self._faults_from_ns = 0
        jitter = draws.below(draws.stream(seed, "jitter"), range(_DELAYS), model.link.jitter_ns + 1)
        self._delays_ns: list[int] = (model.link.delay_ns + jitter).tolist()
        self._lives = dict.fromkeys(overlay.brokers, 0)
        sample_ns = max(1, queue_sample_ns // self._window_ns) * self._window_ns
        self.nodes = {
            id: Node(index, self._new_broker(id), model.processor, self._window_ns, sample_ns, recorder.sample)
            for index, id in enumerate(overlay.brokers)
        }
        self.links: list[OutLink] = []
        for node in self.nodes.values():
            for neighbour in overlay.a_links(node.id) + overlay.i_links(node.id):
                link = OutLink(len(self.links), node, self.nodes[neighbour], seed)
                node.links[neighbour] = link
                self.links.append(link)
        recorder.take_links(self.links)

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        return {id: node.broker for id, node in self.nodes.items()}

    def set_faults(self, faults: Iterable[Fault], from_ns: int) -> None:
        """Let these go wrong; their times count from `from_ns`, which must not have passed."""
        self._faults_from_ns = from_ns
        for fault in faults:
            if isinstance(fault, BrokerFault):
                node = self.nodes[BrokerId(*fault.broker)]
                node.down.append((from_ns + fault.from_ns, from_ns + fault.until_ns))
                self._at(from_ns + fault.until_ns, self._restarter(node))
            else:
                self._add_link_fault(BrokerId(*fault.sender), BrokerId(*fault.receiver), fault)
                if fault.both:
                    self._add_link_fault(BrokerId(*fault.receiver), BrokerId(*fault.sender), fault)

    def play(self, requests: Iterator[Request]) -> None:  # noqa: C901  # one piece, see above
        """Carry out requests, which come sorted by time, and all they cause, until nothing moves any more."""
        arrivals, recorder = self._arrivals, self._recorder
        model = self._model
        client_ns = model.client.delay_ns
        delays_ns, flat_ns = self._delays_ns, model.link.per_message_ns
        plain = not (model.link.per_byte_ns or model.egress.per_message_ns or model.egress.per_byte_ns)
        hop_numbers, hop_messages = recorder.hop_numbers.extend, recorder.hop_messages
        delivery_row = recorder.delivery_rows.append
        batch_rows = recorder.rows_per_batch
        made, hops = self._made, self.hops
        request = next(requests, None)
        request_ns = request.at_ns + client_ns if request is not None else 0
        message: Any
        while True:
            # -- what happens next, and where
            if request is not None and not (arrivals and arrivals[0][0] < request_ns):
                now, node, message, hop = request_ns, self.nodes[request.broker], request.event, 0
                number = request.number
                event: Event = message
                link = None
                matched = type(message) is Published
            elif arrivals:
                now, _, link, message, number, hop, queued, left, found = arrivals[0]
                if link is None:
                    heappop(arrivals)
                    message(now)
                    continue
                on_its_way = link.on_its_way
                on_its_way.popleft()
                if on_its_way:
                    heapreplace(arrivals, on_its_way[0])
                else:
                    heappop(arrivals)
                node = link.receiver
                event = Received(link.sender_id, message)
                matched = type(message) in _MATCHED
            else:
                break
            # -- the processor
            begin = node.free_ns if node.free_ns > now else now
            lost = False
            if matched:
                done = begin + node.notify_ns
                if node.down and node.is_down(now, done):
                    lost, actions = True, _NOTHING
                else:
                    if done >= node.next_tick_ns:
                        node.catch_up(done)
                    node.free_ns = done
                    actions = node.handle(event, done / SECOND_NS)
            else:
                done, actions, lost = self._control(node, event, now, begin)
            # -- the record
            if link is not None:
                hops += 1
                handled = _LOST_AT_BROKER if lost else done
                hop_numbers((link.index, number, hop, queued, left, now, handled, found))
                hop_messages.append(message)
                if len(hop_messages) >= batch_rows:
                    recorder.flush(keep_requests=1)
                    self._count(hops)
            elif request is not None:
                recorder.request(request, None if lost else done)
                request = next(requests, None)
                request_ns = request.at_ns + client_ns if request is not None else 0
            # -- the orders
            for action in actions:
                if type(action) is Send:
                    out = node.links[action.to]
                    message = action.message
                    leaving = out.leaving
                    while leaving and leaving[0] <= done:
                        leaving.popleft()
                    found = len(leaving)
                    if plain and not out.faults and not node.down:
                        left = (out.free_ns if out.free_ns > done else done) + flat_ns
                        arrives = left + delays_ns[made % _DELAYS]
                        if arrives < out.last_arrival_ns:
                            arrives = out.last_arrival_ns
                        out.last_arrival_ns = arrives
                    else:
                        self._made = made
                        left, arrives = self._pass(out, message, number, done, hop + 1, found)
                        made = self._made
                    out.free_ns = left
                    leaving.append(left)
                    out.entered += 1
                    node.busy[out] = None
                    if arrives >= 0:
                        arrival = (arrives, made, out, message, number, hop + 1, done, left, found)
                        made += 1
                        if not out.on_its_way:
                            heappush(arrivals, arrival)
                        out.on_its_way.append(arrival)
                elif type(action) is Deliver:
                    delivery_row((node.index, number, action, done + client_ns, hop))
                elif type(action) is Refused:
                    recorder.refusal(action)
            if now > self.now_ns:
                self.now_ns = now
        self._made, self.hops = made, hops
        self.now_ns = max([self.now_ns, *(node.free_ns for node in self.nodes.values())])
        self._finish()

    def _finish(self) -> None:
        for link in self.links:
            self.now_ns = max(self.now_ns, link.free_ns)
        for node in self.nodes.values():
            node.catch_up(self.now_ns)

    def _count(self, hops: int) -> None:
        self.hops = hops
        if hops > MESSAGES_MAX:
            raise LocalProtocolError(f"more than {MESSAGES_MAX:,} messages: the routing does not come to rest")

    def _control(self, node: Node, event: Event, now: int, begin: int) -> tuple[int, list[Action], bool]:
        """Let a broker handle what is no notification: its cost is known once it is seen whether it changed a table."""
        state = node.broker.state
        before = len(state.srt), len(state.prt)
        about_srt = _is_about_subscriptions(event)
        done = begin + node.control_ns(before[0] if about_srt else before[1], True)
        if node.down and node.is_down(now, done):
            return done, _NOTHING, True
        node.catch_up(begin)
        actions = node.handle(event, begin / SECOND_NS)
        changed = (len(state.srt), len(state.prt)) != before
        done = begin + node.control_ns(before[0] if about_srt else before[1], changed)
        node.free_ns = done
        node.tables_changed()
        return done, actions, False

    def _pass(self, out: OutLink, message: Message, number: int, now: int, hop: int, found: int) -> tuple[int, int]:
        """Send with everything a model can ask for: bytes, jitter, egress limit, faults. An arrival of -1: lost."""
        model, node = self._model, out.sender
        size = self._size(message)
        ready = now
        if model.egress.per_message_ns or model.egress.per_byte_ns:
            ready = max(now, node.egress_free_ns) + model.egress.per_message_ns + size * model.egress.per_byte_ns
            node.egress_free_ns = ready
        sending_ns = model.link.per_message_ns + size * model.link.per_byte_ns
        delay_ns = self._delays_ns[self._made % _DELAYS]
        passage = out.pass_with_faults(ready, sending_ns, delay_ns, self._faults_from_ns)
        fate = passage.fate
        if node.down and node.is_down(now, passage.left_ns):
            fate = "broker down"
        out.last_arrival_ns = passage.arrived_ns
        if fate != "handled":
            lost = -1 - FATES.index(fate)
            times = (now, passage.left_ns, passage.arrived_ns, lost)
            self._recorder.hop_numbers.extend((out.index, number, hop, *times, found))
            self._recorder.hop_messages.append(message)
            return passage.left_ns, -1
        if passage.twice:
            copy = (passage.arrived_ns, self._made, out, message, number, hop, now, passage.left_ns, found)
            self._made += 1
            if not out.on_its_way:
                heappush(self._arrivals, copy)
            out.on_its_way.append(copy)
        return passage.left_ns, passage.arrived_ns

    def _size(self, message: Message) -> int:
        sizes = self._model.sizes
        size: int = getattr(sizes, _SIZES[message.kind])
        if isinstance(message, NotifyRoutes):
            return size + sizes.routing_bytes * len(message.routes)
        if isinstance(message, NotifyTree) or (isinstance(message, Notify) and message.civ):
            return size + sizes.routing_bytes
        return size

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
        )

    def _restarter(self, node: Node) -> Callable[[int], None]:
        def restart(now: int) -> None:
            node.take(self._new_broker(node.id))
            node.free_ns = node.egress_free_ns = now
            for link in node.links.values():
                link.free_ns = now
                link.leaving.clear()

        return restart

    def _at(self, at_ns: int, do: Callable[[int], None]) -> None:
        heappush(self._arrivals, (at_ns, self._made, None, do, 0, 0, 0, 0, 0))
        self._made += 1

    def _add_link_fault(self, sender: BrokerId, receiver: BrokerId, fault: LinkFault) -> None:
        self.nodes[sender].links[receiver].faults.append(fault)


_NOTHING: list[Action] = []
_LOST_AT_BROKER = -1 - FATES.index("broker down")
# A simulated run has as many clients and registrations as its workload says.
_LIMITS = Limits(clients_max=1 << 40, advertisements_per_client_max=1 << 40, subscriptions_per_client_max=1 << 40)
_SERIALS_PER_LIFE = 1 << 40


def _is_about_subscriptions(event: Event) -> bool:
    """Subscriptions are held against the SRT, advertisements against the PRT."""
    kind = event.message.kind if isinstance(event, Received) else type(event).__name__.lower()
    return "subscribe" in kind
