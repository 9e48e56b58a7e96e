"""Two engines side by side: everything that happens to one broker happens to another, whose engine is the other one.

The queues only keep what is put into them. After each read both brokers must have written the same bytes to the same
lanes, said the same to their clients, and have read as far.
"""

from typing import Any

from octopia.errors import RemoteProtocolError
from octopia.language import Filter
from octopia.net.broker.engine.compiled import CompiledEngine
from octopia.net.broker.engine.order import Order
from octopia.net.broker.engine.outcome import (
    ALL,
    IDS_END,
    NOTE_DECISION,
    NOTE_END,
    NOTE_HEADER,
    NOTE_PUBLISHER,
    NOTE_SEQUENCE,
    Outcome,
    is_chosen,
)
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.engine.reference import ReferenceEngine
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.traces import Traces
from octopia.net.broker.rights import Rights
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle
from octopia.routing import Action, Broker, Event, Refusal, Send, Subscribed, Unsubscribed, policy_named
from octopia.topology import BrokerId, Scot
from octopia.wire import Codec, Connection, Kind, Side, Unread, WireLimits, read_parcel, split_frames, split_stamp

WALL_S = 1_700_000_000.0


class Queue:
    """Keeps frames by lane, and when the oldest was accepted."""

    def __init__(self) -> None:
        self.lanes: dict[int, bytes] = {}
        self.count = 0
        self.oldest_ms = 1 << 62
        self.priorities: dict[str, int] = {}
        self.unordered: set[str] = set()
        self.policies: dict[str, str] = {}

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        self.lanes[lane] = self.lanes.get(lane, b"") + bytes(bundle.data)
        self.count += bundle.frames
        self.oldest_ms = min(self.oldest_ms, bundle.oldest_ms)

    def priority_of(self, subscriptions: tuple[str, ...]) -> int:
        return max(self.priorities.get(id, 0) for id in subscriptions)

    def takes_any(self, subscriptions: tuple[str, ...]) -> bool:
        return all(id in self.unordered for id in subscriptions)

    def taken(self) -> dict[int, list[bytes]]:
        """All frames by lane; none are left."""
        lanes, self.lanes = self.lanes, {}
        found = {lane: split_frames(data) for lane, data in lanes.items()}
        assert sum(map(len, found.values())) == self.count
        self.count = 0
        return found


class Client:
    """A client as engines see it."""

    def __init__(self, name: str, right: Filter | None = None) -> None:
        rights = Rights(name) if right is None else Rights(name, advertise=right)
        self.publisher = Publisher(name, rights.permit(), rights)
        self.deliveries = Queue()


class Link:
    def __init__(self) -> None:
        self.outgoing = Queue()


class Half:
    """One broker and its engine."""

    def __init__(self, id: BrokerId, scot: Scot, routing: str, *, compiled: bool, timed: bool, observed: bool) -> None:
        self.core = Broker(id, scot, routing)
        self.codec = Codec(WireLimits(), scot)
        self.clients: dict[str, Client] = {}
        self.links = {neighbour: Link() for neighbour in self.core.state.neighbours}
        self.cases = CaseCounts(policy_named(routing).cases)
        self.counters = Counters()
        self.order = Order(id, 1.0, 100, 100_000) if routing == "idr" else None
        traces = Traces(id, scot.brokers, scot.clusters, lambda to: (True, 0), lambda client, ids: (0, ""))
        shared: dict[str, Any] = {
            "clients": self.clients,
            "links": self.links,
            "order": self.order,
            "cases": self.cases,
            "wall": (lambda: WALL_S) if timed else None,
        }
        reference = ReferenceEngine(self.core, self.codec, counters=self.counters, traces=traces, **shared)
        self.engine: Any = CompiledEngine(self.core, self.codec, reference, **shared) if compiled else reference
        self.engine.observed = reference.observed = observed
        self._below = ALL if timed else ALL // 3
        self._noted: list[Any] = []

    def read(self, data: bytes, client: str | None, sender: BrokerId | None, now: float) -> Any:
        """Route the notifications of a read; returns all that is said about them."""
        connection = Connection(Side.ACCEPTING_BROKER, self.codec)
        connection.open("client" if sender is None else "broker")
        connection.feed(data)
        said: list[Any] = []
        deliveries = 0
        try:
            for message in connection.messages():
                if not isinstance(message, Unread):
                    said.append(type(message))
                    continue
                if sender is None:
                    assert client is not None
                    outcome = self.engine.publish(self.clients[client].publisher, message, now)
                else:
                    outcome = self.engine.receive(sender, message, now)
                for destination, lane, bundle in outcome.bundles:
                    destination.put(bundle, lane, None)
                said += outcome.actions
                deliveries += outcome.deliveries
                if outcome.notes is not None:
                    self._observe(outcome)
                message.took(outcome.after, outcome.frames)
        except RemoteProtocolError as error:
            said.append(str(error))
        return said, deliveries, connection.received

    def _observe(self, outcome: Outcome) -> None:
        """Note what an observer is told: notifications that are chosen, and the frames that carry them."""
        assert outcome.notes is not None
        sample = outcome.notes.sample(self._below, True)
        if sample is None:
            return
        names, at = sample.carried.publishers, 0
        for note in sample.notes.tolist():
            parcel, at = sample.parcels[at : note[NOTE_END]], note[NOTE_END]
            header, decision = sample.headers[note[NOTE_HEADER]], sample.decisions[note[NOTE_DECISION]]
            copies = () if isinstance(decision, Refusal) else decision.copies
            who = names[note[NOTE_PUBLISHER]], note[NOTE_SEQUENCE]
            self._noted.append((*who, header, copies, read_parcel(parcel), sample.is_probe))
        for (_, _, bundle), span in zip(outcome.bundles, sample.spans, strict=False):
            first, last = sample.starts[span], sample.starts[span + 1]
            begin = int(sample.carried.frames[first - 1, IDS_END]) if first else 0
            carried = []
            for place, publisher, sequence, kind, end in sample.carried.frames[first:last].tolist():
                carried.append((place, names[publisher], sequence, kind, sample.carried.ids[begin:end]))
                begin = end
            assert carried == [
                each for each in carried_by(bytes(bundle.data)) if is_chosen(each[1], each[2], self._below)
            ]

    def told(self) -> Any:
        """What clients and neighbours were sent since the last time, and what is remembered of publishers."""
        clients = {
            name: (client.deliveries.taken(), client.deliveries.oldest_ms) for name, client in self.clients.items()
        }
        links = {neighbour: link.outgoing.taken() for neighbour, link in self.links.items()}
        published = {name: (c.publisher.last_sequence, c.publisher.published) for name, c in self.clients.items()}
        counted = {name: getattr(self.counters, name) for name in self.counters.__slots__}
        last = None if self.order is None else self.order.reorder.last
        noted, self._noted = self._noted, []
        return clients, links, published, counted, last, self.cases.report(), noted


def carried_by(data: bytes) -> list[tuple[int, str, int, int, bytes]]:
    """For each frame its place, the publisher and number of its notification, its kind, and whom it is for."""
    found = []
    for place, frame in enumerate(split_frames(data)):
        tail = 9 + int.from_bytes(frame[5:9], "big")
        seen = read_parcel(split_stamp(frame[tail:])[1] if frame[4] == Kind.NOTIFY_DESTS else frame[tail:])
        ids = frame[9:tail] if frame[4] == Kind.DELIVER else b""
        found.append((place, seen.publisher, seen.sequence, frame[4], ids))
    return found


class Twins:
    """A broker with the reference engine, and one with the compiled engine."""

    def __init__(self, id: BrokerId, scot: Scot, routing: str, *, timed: bool = False, observed: bool = False) -> None:
        self.id = id
        self.halves = [
            Half(id, scot, routing, compiled=compiled, timed=timed, observed=observed) for compiled in (False, True)
        ]

    @property
    def core(self) -> Broker:
        return self.halves[0].core

    def connect(self, name: str, right: Filter | None = None) -> None:
        for half in self.halves:
            half.clients[name] = Client(name, right)

    def disconnect(self, name: str) -> None:
        for half in self.halves:
            half.clients.pop(name, None)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Both handle an event, in the same way."""
        first, second = (half.core.handle(event, now) for half in self.halves)
        assert first == second
        for half in self.halves:
            if isinstance(event, Subscribed) and event.client in half.clients:
                queue = half.clients[event.client].deliveries
                queue.priorities[event.id] = event.priority
                queue.policies[event.id] = "block"
                if not event.ordered:
                    queue.unordered.add(event.id)
            if isinstance(event, Unsubscribed) and event.client in half.clients:
                queue = half.clients[event.client].deliveries
                queue.priorities.pop(event.id, None)
                queue.policies.pop(event.id, None)
                queue.unordered.discard(event.id)
        return first

    def tick(self, now: float) -> list[Action]:
        first, second = (half.core.tick(now) for half in self.halves)
        assert first == second
        return first

    def publish(self, client: str, data: bytes, now: float) -> dict[BrokerId, bytes]:
        """Both read what a client sent; returns the copies for each neighbour, as bytes."""
        return self._read(data, client, None, now)

    def receive(self, sender: BrokerId, data: bytes, now: float) -> dict[BrokerId, bytes]:
        """The same for what a neighbour sent."""
        return self._read(data, None, sender, now)

    def _read(self, data: bytes, client: str | None, sender: BrokerId | None, now: float) -> dict[BrokerId, bytes]:
        first, second = (half.read(data, client, sender, now) for half in self.halves)
        assert first == second
        told, other = (half.told() for half in self.halves)
        for one, two in zip(told, other, strict=True):
            assert one == two
        return {
            neighbour: b"".join(frame for lane in sorted(lanes, reverse=True) for frame in lanes[lane])
            for neighbour, lanes in told[1].items()
        }

    def check_time(self, now: float) -> None:
        for half in self.halves:
            outcome = half.engine.check_time(now)
            for destination, lane, bundle in () if outcome is None else outcome.bundles:
                destination.put(bundle, lane, None)
        told, other = (half.told() for half in self.halves)
        for one, two in zip(told, other, strict=True):
            assert one == two


def sent(actions: list[Action], to: BrokerId) -> list[Any]:
    """The messages for a neighbour."""
    return [action.message for action in actions if isinstance(action, Send) and action.to == to]
