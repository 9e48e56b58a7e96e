"""From decisions to queues: what the core decided is carried out here, for one broker.

Actions are carried out at once and in order; a message is encoded once for all its links. Notifications are carried out
queue by queue: what a decision means for the queues is worked out once and kept with the decision, frames are gathered
per destination and put into each queue in one go, in their order. A notification goes the long way, by itself, only
where it may overtake another (a copy is diverted, or something is held back), is refused, or came with a header.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from octopia.net.barriers import CLUSTER, REGION
from octopia.net.links import Link
from octopia.net.order import Reorder, Ways
from octopia.net.sessions import Session
from octopia.routing import Accepted, Action, Decision, Deliver, Message, Notify, Policy, Refusal, Send
from octopia.wire import (
    PLAIN,
    CopyHeader,
    Heads,
    Parcels,
    WireNotification,
    copy_heads,
    deliver_frame,
    deliver_heads,
    link_frames,
)

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost

# A request whose answer must wait until it is in force, and where.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}

# For each frame that a decision asks for: its heads, and the queues it goes to.
Plan = list[tuple[Heads, list[Session | Link]]]


class Dispatch:
    """Carries out what one broker's core decided."""

    def __init__(self, host: "BrokerHost", policy: Policy[Any]) -> None:
        self.host = host
        limits = host.net_limits
        self.ways = Ways(host.id, limits.reorder_hold_s)
        self.reorder = Reorder(self.deliver, limits.reorder_notifications_max)
        self.unordered_subscriptions = 0
        self._overtakes = policy.overtakes
        self._confirms = policy.confirms

    # -- tables and answers

    def carry_out(self, actions: list[Action]) -> None:
        """Do what the core ordered about an event that is no notification."""
        last: Message | None = None
        frames: list[bytes] = []
        links = self.host.links
        for action in actions:
            if type(action) is Send:
                message = action.message
                if message is not last:
                    last, frames = message, link_frames(message)
                links[action.to].send(message, frames)
            else:
                self._answer(action)

    def _answer(self, action: Any) -> None:
        session = self.host.sessions.get(action.client)
        if session is None:
            return
        if not isinstance(action, Accepted):
            session.refuse(action.request, action.id, action.reason)
            return
        scope = _IN_FORCE.get(action.request) if self._confirms else None
        if scope is None:
            session.accept(action.request, action.id)
        else:
            # The messages of this registration come later in the same list of actions: ask after them.
            self.host.loop.call_soon(self._confirm_later, session, action.request, action.id, scope)

    def _confirm_later(self, session: Session, request: str, id: str, scope: bool) -> None:
        self.host.barriers.when_in_force(scope, lambda: session.accept(request, id))

    # -- notifications

    def carry_out_batch(self, batch: Parcels, decisions: Sequence[Decision | Refusal], came_from: str) -> None:
        """Do what the core decided about each notification of a batch, which came from this client or neighbour."""
        start, end = 0, len(decisions)
        if batch.header is None:
            if end == 1 and not self.ways and not self.reorder.waiting:
                start = self._carry_out_alone(batch, decisions[0])
            while start < end:
                if not self.ways and not self.reorder.waiting:
                    start = self._carry_out_together(batch, decisions, start)
                if start < end:
                    self._carry_out_one(batch.notification(start), decisions[start])
                    start += 1
            return
        for at, decision in enumerate(decisions):
            seen = batch.notification(at)
            self.host.note_trace(came_from, seen, decision)
            self._carry_out_one(seen, decision)

    def _carry_out_together(self, batch: Parcels, decisions: Sequence[Decision | Refusal], start: int) -> int:
        """Carry out decisions from there on, up to one that must go the long way; returns its place, or the end."""
        touched: list[Session | Link] = []
        parcels = batch.parcels
        deliveries = 0
        for stop in range(start, len(decisions)):
            each = decisions[stop]
            plan: Plan | None = each.memo or self._plan(each)
            if plan is None:
                break
            parcel = parcels[stop]
            length = len(parcel)
            for heads, owners in plan:
                frame = heads[length] + parcel
                for owner in owners:
                    gathered = owner.gathered
                    if not gathered:
                        touched.append(owner)
                    gathered.append(frame)
            deliveries += len(each.recipients)
        else:
            stop = len(decisions)
        for owner in touched:
            frames, owner.gathered = owner.gathered, []
            owner.put_all(frames)
        self.host.counters.deliveries += deliveries
        if self._overtakes and deliveries:
            self._note_delivered(batch, decisions, start, stop)
        return stop

    def _carry_out_alone(self, batch: Parcels, decision: Decision | Refusal) -> int:
        """As `_carry_out_together` for a batch of one, which needs no gathering."""
        plan: Plan | None = decision.memo or self._plan(decision)
        if plan is None:
            return 0
        (parcel,) = batch.parcels
        for heads, owners in plan:
            frames = [heads[len(parcel)] + parcel]
            for owner in owners:
                owner.put_all(frames)
        deliveries = len(decision.recipients)
        if deliveries:
            self.host.counters.deliveries += deliveries
            if self._overtakes:
                self.reorder.last[batch.publishers[0]] = batch.sequences[0]
        return 1

    def _plan(self, decision: Decision | Refusal) -> Plan | None:
        """Which frames go where; None where a notification must go the long way.

        It holds as long as the decision does: a session ends with the withdrawal of its subscriptions, after which all
        is decided anew.
        """
        if isinstance(decision, Refusal):
            return None
        plan: dict[int, tuple[Heads, list[Session | Link]]] = {}
        sessions, links = self.host.sessions, self.host.links
        for client, subscriptions in decision.recipients:
            session = sessions.get(client)
            if session is not None:
                heads = deliver_heads(subscriptions)
                plan.setdefault(id(heads), (heads, []))[1].append(session)
        for to, header in decision.copies:
            if header.civ and self._overtakes:
                return None
            if id(header) not in plan:
                plan[id(header)] = (copy_heads(header), [])
            plan[id(header)][1].append(links[to])
        decision.memo = list(plan.values())
        return decision.memo  # type: ignore[no-any-return]

    def _note_delivered(self, batch: Parcels, decisions: Sequence[Decision | Refusal], start: int, stop: int) -> None:
        """Remember for each publisher the last of its notifications that was delivered here."""
        last, publishers, sequences = self.reorder.last, batch.publishers, batch.sequences
        alone = publishers.count(publishers[0]) == len(publishers)
        for at in range(stop - 1, start - 1, -1) if alone else range(start, stop):
            if decisions[at].recipients:
                last[publishers[at]] = sequences[at]
                if alone:
                    return

    # -- the long way

    def _carry_out_one(self, seen: WireNotification, decision: Decision | Refusal) -> None:
        publisher, id = seen.publisher, str(seen.sequence)
        if isinstance(decision, Refusal):
            self.carry_out(decision.actions(publisher, id, seen))
            return
        if decision.recipients:
            order = Deliver(publisher, id, seen, decision.recipients)
            if self._overtakes:
                self._deliver_in_order(order)
            else:
                self.deliver(order)
        last: Notify | None = None
        for to, header in decision.copies:
            stamped = self._overtakes and (header.civ or self.ways)
            if last is None or last.header is not header or stamped:
                last = Notify(publisher, id, seen, header)
                frames = link_frames(last, self.ways.header(to, last, self.host.now()) if stamped else _kept(seen))
            self.host.links[to].send(last, frames)

    def _deliver_in_order(self, order: Deliver) -> None:
        seen = order.notification
        if seen.header is None and not self.reorder.waiting:  # type: ignore[attr-defined]
            # Nothing was diverted, nothing waits.
            self.reorder.last[order.publisher] = seen.sequence  # type: ignore[attr-defined]
            self.deliver(order)
            return
        now = self.host.now()
        if not self.unordered_subscriptions:
            self.reorder.take(order, now)
            return
        sessions = self.host.sessions
        anyhow = tuple(r for r in order.recipients if r.client in sessions and sessions[r.client].takes_any(r[1]))
        if anyhow:
            self.deliver(Deliver(order.publisher, order.id, order.notification, anyhow))
        if len(anyhow) < len(order.recipients):
            rest = tuple(r for r in order.recipients if r not in anyhow)
            self.reorder.take(Deliver(order.publisher, order.id, order.notification, rest), now)

    def deliver(self, order: Deliver) -> None:
        """Put a notification into the queues of its recipients: one frame for all whose subscription ids are equal."""
        # Every notification here came by a wire.
        parcel = order.notification.parcel  # type: ignore[attr-defined]
        frames: dict[tuple[str, ...], bytes] = {}
        sessions = self.host.sessions
        for client, subscriptions in order.recipients:
            frame = frames.get(subscriptions)
            if frame is None:
                frame = frames[subscriptions] = deliver_frame(subscriptions, parcel)
            session = sessions.get(client)
            if session is not None:
                session.put(frame)
        self.host.counters.deliveries += len(order.recipients)


def _kept(seen: WireNotification) -> CopyHeader:
    """What a copy says of a notification because the one that came said it."""
    came = seen.header
    if isinstance(came, CopyHeader):
        return CopyHeader(b"", came.traced, came.earlier, came.hold_ms)
    return CopyHeader(traced=True) if came is True else PLAIN
