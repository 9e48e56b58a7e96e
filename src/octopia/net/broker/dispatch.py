"""From decisions to queues: carries out the decisions of one broker's core.

Actions are carried out at once and in order; a message is encoded once for all its links. Notifications are carried out
queue by queue: the effect of a decision on the queues is computed once and cached with the decision; frames are
gathered per destination and put into each queue together, in order. A notification takes the slow path, on its own,
only if it may overtake another (a copy is diverted, or something is held back), is refused, or came with a header.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from octopia.net.broker.barriers import CLUSTER, REGION, Barriers
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.traces import Traces
from octopia.net.broker.order import Reorder, Ways
from octopia.net.limits import NetLimits
from octopia.routing import Accept, Action, Decision, Deliver, Message, Notify, Policy, Refusal, Send
from octopia.topology import BrokerId
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
    from octopia.net.broker.lane import Lane
    from octopia.net.broker.links import Link
    from octopia.net.broker.sessions import Session

# Requests whose answer must wait until they are in force, and the scope.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}


# A queue that frames go to, or one lane of it.
Destination: TypeAlias = "Session | Link | Lane"
# For each frame that a decision asks for: its heads, and the queues it goes to.
Outgoing = list[tuple[Heads, list[Destination]]]


class Dispatch:
    """Carries out the decisions of one broker's core."""

    def __init__(
        self,
        id: BrokerId,
        policy: Policy[Any],
        limits: NetLimits,
        *,
        sessions: "Mapping[str, Session]",
        links: "Mapping[BrokerId, Link]",
        barriers: Barriers,
        counters: Counters,
        traces: Traces,
        now: Callable[[], float],
        soon: Callable[..., Any],
    ) -> None:
        self._sessions = sessions
        self._links = links
        self._barriers = barriers
        self._counters = counters
        self._traces = traces
        self._now = now
        self._soon = soon
        self.ways = Ways(id, limits.reorder_hold_s)
        self.reorder = Reorder(self.deliver, limits.reorder_notifications_max, limits.reorder_bytes_max)
        self._overtakes = policy.overtakes
        self._confirms = policy.confirms
        self.cases = CaseCounts(policy.cases)

    def check_time(self, now: float) -> None:
        """Release notifications that waited long enough for an earlier one, and forget unneeded state."""
        self.ways.forget_old(now)
        self.reorder.release_due(now)

    # -- tables and answers

    def carry_out(self, actions: list[Action]) -> None:
        """Carry out the core's actions for an event other than a notification."""
        last: Message | None = None
        frames: list[bytes] = []
        links = self._links
        for action in actions:
            if type(action) is Send:
                message = action.message
                if message is not last:
                    last, frames = message, link_frames(message)
                links[action.to].send(message, frames, action.priority)
            elif type(action) is Deliver:
                self.deliver(action)
            else:
                self._answer(action)

    def _answer(self, action: Any) -> None:
        session = self._sessions.get(action.client)
        if session is None:
            return
        if not isinstance(action, Accept):
            session.refuse(action.request, action.id, action.reason)
            return
        scope = _IN_FORCE.get(action.request) if self._confirms else None
        if scope is None:
            session.accept(action.request, action.id)
        else:
            session.owe(action.request, action.id)
            # The messages of this registration come later in the same list of actions: ask after them.
            self._soon(self._confirm_later, session, action.request, action.id, scope)

    def _confirm_later(self, session: "Session", request: str, id: str, scope: bool) -> None:
        self._barriers.when_in_force(scope, lambda: session.accept(request, id))

    # -- notifications

    def carry_out_batch(self, batch: Parcels, decisions: Sequence[Decision | Refusal], came_from: str) -> None:
        """Carry out the core's decision for each notification of a batch from this client or neighbour."""
        start, end = 0, len(decisions)
        if self.cases.names:
            self.cases.count(decisions)
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
            self._traces.note(came_from, seen, decision)
            self._carry_out_one(seen, decision)

    def _carry_out_together(self, batch: Parcels, decisions: Sequence[Decision | Refusal], start: int) -> int:
        """Carry out decisions from `start` up to one that must take the slow path; returns its index, or the end."""
        touched: list[Destination] = []
        parcels = batch.parcels
        deliveries = 0
        for stop in range(start, len(decisions)):
            each = decisions[stop]
            # Empty if nobody subscribed to it: that is a cached result, too.
            plan: Outgoing | None = each.memo
            if plan is None and (plan := self._plan(each)) is None:
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
        put_gathered(touched)
        self._counters.deliveries += deliveries
        if self._overtakes and deliveries:
            self._note_delivered(batch, decisions, start, stop)
        return stop

    def _carry_out_alone(self, batch: Parcels, decision: Decision | Refusal) -> int:
        """Like `_carry_out_together` for a batch of one, which needs no gathering."""
        plan: Outgoing | None = decision.memo
        if plan is None and (plan := self._plan(decision)) is None:
            return 0
        (parcel,) = batch.parcels
        for heads, owners in plan:
            frames = [heads[len(parcel)] + parcel]
            for owner in owners:
                owner.put_all(frames)
        deliveries = len(decision.recipients)
        if deliveries:
            self._counters.deliveries += deliveries
            if self._overtakes:
                self.reorder.last[batch.publishers[0]] = batch.sequences[0]
        return 1

    def _plan(self, decision: Decision | Refusal) -> Outgoing | None:
        """The frames for each queue; None if a notification must take the slow path.

        It is valid as long as the decision: a session ends with the withdrawal of its subscriptions, which invalidates
        all decisions.
        """
        if isinstance(decision, Refusal):
            return None
        plan = deliveries_of(decision, self._sessions)
        for (to, header), priority in zip(decision.copies, decision.priorities or repeat(0), strict=False):
            if header.civ and self._overtakes:
                return None
            if id(header) not in plan:
                plan[id(header)] = (copy_heads(header), [])
            plan[id(header)][1].append(self._links[to].lane(priority))
        decision.memo = list(plan.values())
        return decision.memo  # type: ignore[no-any-return]

    def _note_delivered(self, batch: Parcels, decisions: Sequence[Decision | Refusal], start: int, stop: int) -> None:
        """Note for each publisher its last notification delivered here."""
        last, publishers, sequences = self.reorder.last, batch.publishers, batch.sequences
        alone = publishers.count(publishers[0]) == len(publishers)
        for at in range(stop - 1, start - 1, -1) if alone else range(start, stop):
            if decisions[at].recipients:
                last[publishers[at]] = sequences[at]
                if alone:
                    return

    # -- the slow path

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
        priorities = decision.priorities
        for at, (to, header) in enumerate(decision.copies):
            stamped = self._overtakes and (header.civ or self.ways)
            if last is None or last.header is not header or stamped:
                last = Notify(publisher, id, seen, header)
                frames = link_frames(last, self.ways.header(to, last, self._now()) if stamped else _kept(seen))
            self._links[to].send(last, frames, 0 if priorities is None else priorities[at])

    def _deliver_in_order(self, order: Deliver) -> None:
        seen = order.notification
        if seen.header is None and not self.reorder.waiting:  # type: ignore[attr-defined]
            # Nothing was diverted, nothing waits.
            self.reorder.last[order.publisher] = seen.sequence  # type: ignore[attr-defined]
            self.deliver(order)
            return
        now = self._now()
        sessions = self._sessions
        anyhow = tuple(r for r in order.recipients if r.client in sessions and sessions[r.client].takes_any(r[1]))
        if not anyhow:
            self.reorder.take(order, now)
            return
        self.deliver(Deliver(order.publisher, order.id, order.notification, anyhow))
        if len(anyhow) < len(order.recipients):
            rest = tuple(r for r in order.recipients if r not in anyhow)
            self.reorder.take(Deliver(order.publisher, order.id, order.notification, rest), now)

    def deliver(self, order: Deliver) -> None:
        """Put a notification into the queues of its recipients: one frame for all whose subscription ids are equal."""
        # Every notification here came by a wire.
        parcel = order.notification.parcel  # type: ignore[attr-defined]
        frames: dict[tuple[str, ...], bytes] = {}
        sessions = self._sessions
        for client, subscriptions in order.recipients:
            frame = frames.get(subscriptions)
            if frame is None:
                frame = frames[subscriptions] = deliver_frame(subscriptions, parcel)
            session = sessions.get(client)
            if session is not None:
                session.put(frame, session.priority_of(subscriptions) if session.priorities else 0)
        self._counters.deliveries += len(order.recipients)


def deliveries_of(decision: Decision, sessions: "Mapping[str, Session]") -> dict[int, tuple[Heads, list[Destination]]]:
    """The frames for recipients here: one for all whose subscription ids are equal."""
    found: dict[int, tuple[Heads, list[Destination]]] = {}
    for client, subscriptions in decision.recipients:
        session = sessions.get(client)
        if session is not None:
            heads = deliver_heads(subscriptions)
            found.setdefault(id(heads), (heads, []))[1].append(lane_of(session, subscriptions))
    return found


def put_gathered(touched: list[Destination]) -> None:
    """Put what was gathered into each queue at once."""
    for owner in touched:
        frames, owner.gathered = owner.gathered, []
        owner.put_all(frames)


def lane_of(session: "Session", subscriptions: tuple[str, ...]) -> Destination:
    """Where deliveries for these subscriptions of a client wait."""
    return session.lane(session.priority_of(subscriptions)) if session.priorities else session


def _kept(seen: WireNotification) -> CopyHeader:
    """Header fields of the received notification that its copies repeat."""
    came = seen.header
    if isinstance(came, CopyHeader):
        return CopyHeader(b"", came.traced, came.earlier, came.hold_ms)
    return CopyHeader(traced=True) if came is True else PLAIN
