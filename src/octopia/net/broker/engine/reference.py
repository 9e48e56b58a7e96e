"""The engine in Python: decodes notifications, asks the core, and makes a frame for each queue.

It is the definition of what a broker does with a notification. A run of frames of one kind and header is decoded and
decided together; then there is one loop over its notifications. The frames that a plain decision asks for are worked
out once per decision. Frames are gathered per queue, in order.

Steps that most notifications need nothing of: a *stamp* where the routing has streams; *order* where copies may
overtake each other (`order.py`); a *trace* where the publisher asked for one. A *probe* is a notification without
recipients: it is traced, and everything else is as usual.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import repeat
from typing import Final, Protocol

import numpy as np

from octopia.errors import RemoteProtocolError
from octopia.net.broker.engine.order import Order
from octopia.net.broker.engine.outcome import (
    FRAME_COLUMNS,
    NOTE_END,
    Addressed,
    Carried,
    Destination,
    Outcome,
    Sample,
    is_chosen,
)
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.traces import Traces
from octopia.net.frame_queue import NEVER, Bundle
from octopia.protocol import Notify
from octopia.routing import Accept, Action, Broker, Decision, Deliver, Recipient, Refusal, Refuse
from octopia.topology import BrokerId
from octopia.wire import (
    Batch,
    Codec,
    CopyHeader,
    Heads,
    Unread,
    WireNotification,
    accepted_ms,
    copy_heads,
    deliver_heads,
    is_probe,
    split_stamp,
    stamp_block,
)

# A lane of a queue.
Lane = tuple[Destination, int]
# For each frame that a decision asks for: its heads, and where it goes.
FramePlan = list[tuple[Heads, list[Lane]]]
# Cached plans; at the bound all are forgotten.
PLANS_MAX: Final = 16_384
_ALL: Final = 1 << 30


class ClientDestination(Destination, Protocol):
    """The queue of a client, and what its subscriptions ask for. `policies` has their ids."""

    @property
    def policies(self) -> Container[str]: ...
    def priority_of(self, subscriptions: tuple[str, ...]) -> int: ...
    def takes_any(self, subscriptions: tuple[str, ...]) -> bool: ...


class EngineClient(Protocol):
    """A client of this broker, as far as an engine sees it."""

    publisher: Publisher

    @property
    def deliveries(self) -> ClientDestination: ...


class EngineLink(Protocol):
    """A link of this broker, as far as an engine sees it."""

    @property
    def outgoing(self) -> Destination: ...


class Frames:
    """The frames for each queue, gathered in order."""

    __slots__ = ("_lanes", "deliveries")

    def __init__(self) -> None:
        self._lanes: dict[Lane, list[bytes]] = {}
        self.deliveries = 0

    def add(self, plan: FramePlan, tail: bytes) -> None:
        """Add a notification's frames, which end with these bytes."""
        lanes, length = self._lanes, len(tail)
        for heads, targets in plan:
            frame = heads[length] + tail
            for target in targets:
                if target in lanes:
                    lanes[target].append(frame)
                else:
                    lanes[target] = [frame]

    def bundles(self) -> list[Addressed]:
        made: list[Addressed] = []
        for (destination, lane), frames in self._lanes.items():
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            made.append((destination, lane, Bundle(data, len(frames), _oldest_ms(frames))))
        return made


class BatchNotes:
    """The notifications of a batch, and the decisions about them, for observers."""

    __slots__ = ("_batch", "_decisions")

    def __init__(self, batch: Batch, decisions: Sequence[Decision | Refusal]) -> None:
        self._batch = batch
        self._decisions = decisions

    @property
    def told(self) -> int:
        """None: some frames may be of earlier notifications."""
        return 0

    def sample(self, below: int, parcels: bool) -> Sample | None:
        batch = self._batch
        names = {name: number for number, name in enumerate(dict.fromkeys(batch.publishers))}
        lines, kept = [], []
        for at, (publisher, sequence) in enumerate(zip(batch.publishers, batch.sequences, strict=True)):
            if is_chosen(publisher, sequence, below):
                kept.append(batch.parcels[at] if parcels else b"")
                lines.append((names[publisher], sequence, 0, at, len(kept[-1])))
        if not lines:
            return None
        notes = np.array(lines, dtype=np.int64)
        notes[:, NOTE_END] = np.cumsum(notes[:, NOTE_END])
        carried = Carried(list(names), np.empty((0, FRAME_COLUMNS), dtype=np.int64))
        probes = is_probe(batch.header)
        return Sample(notes, b"".join(kept), (batch.carried,), self._decisions, carried, is_probe=probes)


class ReferenceEngine:
    """Routes the notifications of one broker."""

    def __init__(
        self,
        core: Broker,
        codec: Codec,
        *,
        clients: Mapping[str, EngineClient],
        links: Mapping[BrokerId, EngineLink],
        order: Order | None,
        cases: CaseCounts,
        counters: Counters,
        traces: Traces,
        wall: Callable[[], float] | None,
    ) -> None:
        """`order` is None if copies do not overtake each other, or streams keep their order.

        `wall`: the clock by which notifications are accepted; None if they carry no time.
        """
        self._core = core
        self._streams = core.streams
        self._read = codec.batches.read
        self._read_stamp = codec.dests.stamp
        self._clients = clients
        self._links = links
        self._order = order
        self._cases = cases
        self._counters = counters
        self._traces = traces
        self._wall = wall
        # the frames for clients and for neighbours
        self._plans: dict[Decision, tuple[FramePlan, FramePlan]] = {}
        # The names of copies' sources in traces.
        self._names = {neighbour: str(neighbour) for neighbour in core.state.neighbours}
        # Notifications after one that is refused or traced are decoded again at their turn: so no more are decoded
        # than a few times what was of use the last time.
        self._decodes = _ALL
        self._decoded = 0
        self.observed = False

    # -- publications

    def publish(self, publisher: Publisher, unread: Unread, now: float, most: int = _ALL) -> Outcome:
        return self._taken(self._publish(publisher, self._first(unread, most), now))

    def _publish(self, publisher: Publisher, batch: Batch, now: float) -> Outcome:
        if is_probe(batch.header):
            return self._probe(publisher, batch, now)
        new = own_and_new(batch, publisher)
        if not new:
            repeated = _leading_repeats(batch, publisher)
            self._counters.duplicates += repeated
            return Outcome(batch.stops[repeated - 1], repeated)
        if batch.is_timed:
            raise RemoteProtocolError(f"{publisher.name} sent an acceptance time; only brokers may set it")
        batch = batch.first(new)
        permit = publisher.permit
        allowed = new if permit is None else permit.allows_first(batch.values)
        decisions: Sequence[Decision | Refusal] = ()
        if allowed:
            decisions = self._core.publish(publisher.name, batch.values[:allowed], now)
        batch = batch.first(len(decisions) or 1)
        publisher.last_sequence = batch.sequences[-1]
        publisher.published += len(batch)
        if permit is not None and not allowed:
            # not traced: the operator's records are of what clients may publish
            refusal, seen = Refusal(permit.reason(batch.notification(0))), batch.notification(0)
            actions = refusal.actions(seen.publisher, str(seen.sequence), seen)
            return self._outcome(batch, [refusal], Frames(), actions)
        if self._wall is not None:
            batch.accept(int(self._wall() * 1000))
        return self._routed(batch, decisions, publisher.name, now)

    def _probe(self, prober: Publisher, batch: Batch, now: float) -> Outcome:
        """Trace a notification without delivering it; it does not count as published."""
        seen = batch.notification(0)
        if batch.is_timed:
            raise RemoteProtocolError(f"{prober.name} sent an acceptance time; only brokers may set it")
        reason = self._why_not_probe(prober, seen)
        if reason is not None:
            return Outcome(batch.stops[0], 1, (), [Refuse(prober.name, "probe", str(seen.sequence), reason)])
        if self._wall is not None:
            batch.accept(int(self._wall() * 1000))
        decisions = self._core.publish(seen.publisher, batch.values, now, probe=True)
        outcome = self._routed(batch, decisions, seen.publisher, now)
        answer: Action = Accept(prober.name, "probe", str(seen.sequence))
        if isinstance(decisions[0], Refusal):
            answer = Refuse(prober.name, "probe", str(seen.sequence), decisions[0].reason)
        outcome.actions = [answer]
        return outcome

    def _why_not_probe(self, prober: Publisher, seen: WireNotification) -> str | None:
        """Why a probe is refused, by its publisher's rights or by the right to probe for others; None if it is not."""
        publisher = prober
        if seen.publisher != prober.name:
            if not prober.rights.probe:
                return (
                    f"{prober.rights.name} may not probe in the name of {seen.publisher}: set probe = true in its "
                    "entry of [[clients]]"
                )
            other = self._clients.get(seen.publisher)
            if other is None:
                return f"no client named {seen.publisher!r} is connected to {self._core.id}"
            publisher = other.publisher
        permit = publisher.permit
        return None if permit is None or permit.allows(seen) else permit.reason(seen)

    # -- copies

    def receive(self, sender: BrokerId, unread: Unread, now: float, most: int = _ALL) -> Outcome:
        batch = self._first(unread, most)
        decisions = self._core.receive(sender, batch.carried, batch.values)
        return self._taken(self._routed(batch, decisions, self._names[sender], now))

    def deliver(self, batch: Batch, now: float) -> Outcome:
        """Handle stamped copies for this broker, which have been forwarded already."""
        frames = Frames()
        for at in range(len(batch)):
            self._arrived(batch, at, now, frames)
        return self._outcome(batch, [Decision()] * len(batch), frames)

    # -- both

    def _first(self, unread: Unread, most: int) -> Batch:
        """The first notifications. Those that are traced come alone: their records show what the queues hold."""
        batch = self._read(unread.data, unread.at, unread.frame_bytes_max, min(most, self._decodes))
        self._decoded = len(batch)
        return batch if batch.header is None else batch.first(1)

    def _taken(self, outcome: Outcome) -> Outcome:
        self._decodes = min(_ALL, 4 * self._decodes) if outcome.frames == self._decoded else 2 * outcome.frames
        return outcome

    def _routed(self, batch: Batch, decisions: Sequence[Decision | Refusal], came_from: str, now: float) -> Outcome:
        """The outcome of decisions about the notifications of a batch; the first may be refused, and is then alone."""
        frames = Frames()
        actions: list[Action] = []
        said = batch.header
        probes = is_probe(said)
        if self._cases.names and not probes:
            self._cases.count(decisions)
        for at, decision in enumerate(decisions):
            if isinstance(decision, Refusal):
                if said is not None:
                    self._traces.note(came_from, batch.notification(at), decision)
                if not probes:
                    seen = batch.notification(at)
                    actions += decision.actions(seen.publisher, str(seen.sequence), seen)
                continue
            if (
                probes
                or decision.here
                or said is not None
                or (self._order is not None and not self._is_plain(decision))
            ):
                self._add_unusual(batch, at, decision, came_from, now, frames)
            else:
                self._add(batch, at, decision, frames)
        return self._outcome(batch, decisions, frames, actions)

    def _outcome(
        self,
        batch: Batch,
        decisions: Sequence[Decision | Refusal],
        frames: Frames,
        actions: Sequence[Action] = (),
    ) -> Outcome:
        notes = BatchNotes(batch, decisions) if self.observed else None
        count = len(batch)
        return Outcome(
            batch.stops[-1] if batch.stops else 0,
            count,
            frames.bundles(),
            actions,
            frames.deliveries,
            notes,
        )

    def _add(self, batch: Batch, at: int, decision: Decision, frames: Frames) -> None:
        """Add the frames of a plain notification."""
        deliveries, copies = self._plans.get(decision) or self._plan(decision)
        parcel = batch.parcels[at]
        if deliveries:
            frames.add(deliveries, parcel)
            frames.deliveries += len(decision.recipients)
            if self._order is not None:
                self._order.reorder.last[batch.publishers[at]] = batch.sequences[at]
        if self._streams is not None:
            self._add_stamped(batch, at, decision, copies, frames)
        elif copies:
            frames.add(copies, parcel)

    def _add_stamped(self, batch: Batch, at: int, decision: Decision, copies: FramePlan, frames: Frames) -> None:
        """Add the copies of a notification of a routing with streams."""
        if batch.stamped:
            # on its way: byte for byte
            frames.add(copies, batch.stamped[at])
        elif decision.dests or decision.missed:
            seen, parcel = batch.notification(at), batch.parcels[at]
            stamp = self._streams.sent(seen.publisher, str(seen.sequence), seen, decision, len(parcel))  # type: ignore[union-attr]
            if stamp is not None:
                frames.add(copies, stamp_block(stamp) + parcel)

    def _is_plain(self, decision: Decision) -> bool:
        """Whether nothing is out of order, and no copy of this decision takes a detour."""
        return not self._order.is_busy and not any(header.civ for _, header in decision.copies)  # type: ignore[union-attr]

    def _add_unusual(
        self, batch: Batch, at: int, decision: Decision, came_from: str, now: float, frames: Frames
    ) -> None:
        """Add the frames of a notification that is traced, a probe, at its destination, or in danger of overtaking."""
        said, seen = batch.header, batch.notification(at)
        recipients: Sequence[Recipient] = decision.recipients
        if is_probe(said):
            if decision.here:
                recipients = self._core.recipients_of(seen)
            self._traces.note(came_from, seen, decision, tuple(recipients))
            tail = (stamp_block(None) if self._streams is not None else b"") + seen.parcel
            frames.add(self._copies(decision, said), tail)
            return
        if self._streams is not None:
            if decision.here:
                recipients = self._arrived(batch, at, now, frames)
            else:
                self._deliver(recipients, seen, frames)
            self._add_stamped(batch, at, decision, self._copies(decision, said), frames)
        else:
            self._add_in_order(seen, decision, now, frames)
        if said is not None:
            self._traces.note(came_from, seen, decision, tuple(recipients))

    # -- frames

    def _plan(self, decision: Decision) -> tuple[FramePlan, FramePlan]:
        """The frames that a decision asks for, for clients and for neighbours.

        They are those as long as the decision is: a session ends with the withdrawal of its subscriptions, which
        invalidates all decisions.
        """
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        made = self._plans[decision] = self._deliveries(decision.recipients), self._copies(decision)
        return made

    def _deliveries(self, recipients: Sequence[Recipient]) -> FramePlan:
        """The frames for clients: one for all whose subscription ids are equal."""
        found: dict[int, tuple[Heads, list[Lane]]] = {}
        for name, subscriptions in recipients:
            client = self._clients.get(name)
            if client is not None:
                heads = deliver_heads(subscriptions)
                lane = client.deliveries, client.deliveries.priority_of(subscriptions)
                found.setdefault(id(heads), (heads, []))[1].append(lane)
        return list(found.values())

    def _copies(self, decision: Decision, said: CopyHeader | None = None) -> FramePlan:
        """The frames for neighbours: one for all whose header is the same."""
        found: dict[int, tuple[Heads, list[Lane]]] = {}
        for (to, header), priority in zip(decision.copies, decision.priorities or repeat(0), strict=False):
            if id(header) not in found:
                found[id(header)] = (copy_heads(header, said), [])
            found[id(header)][1].append((self._links[to].outgoing, priority))
        return list(found.values())

    def _deliver(self, recipients: Sequence[Recipient], seen: WireNotification, frames: Frames) -> None:
        if recipients:
            frames.add(self._deliveries(recipients), seen.parcel)
            frames.deliveries += len(recipients)

    # -- streams

    def _arrived(self, batch: Batch, at: int, now: float, frames: Frames) -> Sequence[Recipient]:
        """A stamped copy is at its destination: deliver what has its turn now; returns all recipients.

        A stamp may come from a distant broker, and brokers on the path do not examine it. An invalid stamp is therefore
        not the fault of the neighbour that sent it: the copy is dropped and counted.
        """
        stamped = batch.stamped[at]
        try:
            stamp = self._read_stamp(split_stamp(stamped)[0])
        except RemoteProtocolError:
            self._counters.stamps_wrong += 1
            return ()
        seen = batch.notification(at)
        delivered: list[Recipient] = []
        for _, released, _, recipients in self._streams.arrived(seen.publisher, stamp, seen, None, now, len(stamped)):  # type: ignore[union-attr]
            self._deliver(recipients, released, frames)  # type: ignore[arg-type]  # it came by a wire
            delivered += recipients
        return delivered

    # -- order

    def _add_in_order(self, seen: WireNotification, decision: Decision, now: float, frames: Frames) -> None:
        """Add a notification that may overtake another, or that others wait for."""
        if self._order is None:
            self._deliver(decision.recipients, seen, frames)
            frames.add(self._copies(decision, seen.header), seen.parcel)
            return
        publisher, id = seen.publisher, str(seen.sequence)
        if decision.recipients:
            self._deliver_in_order(Deliver(publisher, id, seen, decision.recipients), now, frames)
        ways = self._order.ways
        for (to, header), priority in zip(decision.copies, decision.priorities or repeat(0), strict=False):
            said = seen.header
            if header.civ or ways.taken:
                said = ways.header(to, Notify(publisher, id, seen, header), now)
            frames.add([(copy_heads(header, said), [(self._links[to].outgoing, priority)])], seen.parcel)

    def _deliver_in_order(self, order: Deliver, now: float, frames: Frames) -> None:
        reorder, seen = self._order.reorder, order.notification  # type: ignore[union-attr]
        if seen.header is None and not reorder.waiting:  # type: ignore[attr-defined]
            # Nothing was diverted, nothing waits.
            reorder.last[order.publisher] = seen.sequence  # type: ignore[attr-defined]
            self._deliver(order.recipients, seen, frames)  # type: ignore[arg-type]
            return
        clients = self._clients
        anyhow = [r for r in order.recipients if r.client in clients and clients[r.client].deliveries.takes_any(r[1])]
        self._deliver(anyhow, seen, frames)  # type: ignore[arg-type]
        rest = tuple(r for r in order.recipients if r not in anyhow)
        if rest:
            for released in reorder.take(Deliver(order.publisher, order.id, seen, rest), now):
                self._deliver(released.recipients, released.notification, frames)  # type: ignore[arg-type]

    def withdrawn(self, client: str, subscription: str | None) -> Outcome | None:
        if self._order is None:
            return None
        return self._delivered(self._order.reorder.withdrawn(client, subscription))

    def _delivered(self, orders: Sequence[Deliver]) -> Outcome:
        """Deliveries that do not follow from a read."""
        frames = Frames()
        for order in orders:
            self._deliver(order.recipients, order.notification, frames)  # type: ignore[arg-type]
        return Outcome(0, 0, frames.bundles(), (), frames.deliveries)

    # -- time

    def check_time(self, now: float) -> Outcome | None:
        if self._order is None:
            return None
        self._order.ways.forget_old(now)
        return self._delivered(self._order.reorder.release_due(now))


def own_and_new(batch: Batch, publisher: Publisher) -> int:
    """How many notifications of a batch, from its beginning, are the publisher's own and have increasing numbers.

    None of them, for a notification in another name, is an error.
    """
    name, last, sequences = publisher.name, publisher.last_sequence, batch.sequences
    count = len(sequences)
    if batch.publishers.count(name) == count:
        first = sequences[0]
        if first > last and (count == 1 or sequences == list(range(first, first + count))):
            return count
    for at, (other, sequence) in enumerate(zip(batch.publishers, sequences, strict=True)):
        if other != name:
            if not at:
                raise RemoteProtocolError(f"{name} published in the name of {other}")
            return at
        if sequence <= last:
            return at
        last = sequence
    return count


def _leading_repeats(batch: Batch, publisher: Publisher) -> int:
    """How many notifications, from the beginning, were published before: a client sends them after a broken link."""
    for at, (other, sequence) in enumerate(zip(batch.publishers, batch.sequences, strict=True)):
        if other != publisher.name or sequence > publisher.last_sequence:
            return at
    return len(batch)


def _oldest_ms(frames: list[bytes]) -> int:
    """When the oldest of these notifications was accepted, where they say so."""
    oldest = NEVER
    for frame in frames:
        # the parcel begins after the header and, in a copy, after the stamp, which only a subscriber's queue asks for
        at = accepted_ms(frame, 9 + int.from_bytes(frame[5:9], "big"))
        if at is None:
            return NEVER
        oldest = min(oldest, at)
    return oldest
