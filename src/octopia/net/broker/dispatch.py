"""From orders to queues: what the core decided is carried out here, for one broker.

Rules of this file: actions are carried out at once and in order; a delivery is encoded once for all its recipients, a
message once for all its links. A batch is carried out queue by queue: its frames are gathered per destination and put
into each queue in one go, in their order. A batch goes the long way, one notification after the other, only where
one may overtake another (a copy was diverted, or something is held back) or is refused or traced.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from octopia.net.broker.barriers import CLUSTER, REGION, Barriers
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.order import Reorder, Ways
from octopia.net.limits import NetLimits
from octopia.routing import (
    NOTIFICATION_MESSAGES,
    Accepted,
    Action,
    Deliver,
    Message,
    Notify,
    Orders,
    Send,
    policy_named,
)
from octopia.topology import BrokerId
from octopia.wire import CopyHeader, Heads, Kind, Parcels, deliver_frame, deliver_heads, link_frames

# A request whose answer must wait until it is in force, and where.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}
_PLAIN_COPY = Heads(Kind.NOTIFY)


class Destination(Protocol):
    """A queue that frames go to."""

    gathered: list[bytes]  # of the batch that is being carried out

    def put_all(self, frames: list[bytes], /) -> None: ...


class ClientQueue(Destination, Protocol):
    """What dispatch needs of a session."""

    def put(self, delivery: bytes) -> None: ...
    def takes_any(self, subscriptions: tuple[str, ...]) -> bool: ...
    def accept(self, request: str, id: str) -> None: ...
    def refuse(self, request: str, id: str, reason: str) -> None: ...


class LinkQueue(Destination, Protocol):
    """What dispatch needs of a link."""

    def send(self, message: Message, frames: list[bytes]) -> None: ...


# For each frame that orders ask for: its heads, and the queues it goes to.
Plan = list[tuple[Heads, list[Destination]]]


class Dispatch:
    """Carries out the orders of one broker's core."""

    def __init__(
        self,
        id: BrokerId,
        routing: str,
        limits: NetLimits,
        *,
        sessions: Mapping[str, ClientQueue],
        links: Mapping[BrokerId, LinkQueue],
        barriers: Barriers,
        counters: Counters,
        now: Callable[[], float],
        soon: Callable[..., Any],
    ) -> None:
        self._sessions = sessions
        self._links = links
        self._barriers = barriers
        self._counters = counters
        self._now = now
        self._soon = soon
        self.ways = Ways(id, limits.reorder_hold_s)
        self.reorder = Reorder(self.deliver, limits.reorder_notifications_max)
        # Static routing keeps order by itself.
        self._orders = routing == "idr"
        # TID routing registers along advertisement trees, which questions to neighbours do not follow.
        self._confirms_in_force = policy_named(routing).uses_civ

    def check_time(self, now: float) -> None:
        """Let go what has waited long enough for an earlier one, and forget what nobody waits for."""
        self.ways.forget_old(now)
        self.reorder.release_due(now)

    # -- one after the other

    def carry_out(self, actions: list[Action]) -> None:
        """Do what the core ordered."""
        last: Message | None = None
        frames: list[bytes] = []
        links = self._links
        for action in actions:
            kind = type(action)
            if kind is Deliver:
                if self._orders:
                    self._deliver_in_order(action)  # type: ignore[arg-type]
                else:
                    self.deliver(action)  # type: ignore[arg-type]
            elif kind is Send:
                message = action.message  # type: ignore[union-attr]
                if type(message) is Notify and (message.civ or self.ways):
                    self._send_stamped(action.to, message)  # type: ignore[union-attr]
                    continue
                if message is not last:
                    last, frames = message, frames_of(message)
                links[action.to].send(message, frames)  # type: ignore[union-attr]
            else:
                self._answer(action)

    def _send_stamped(self, to: BrokerId, message: Notify) -> None:
        """A copy that is diverted, or follows one that was: it may overtake others, and says so."""
        header = self.ways.header(to, message, self._now())
        self._links[to].send(message, link_frames(message, header))

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
                session.put(frame)
        self._counters.deliveries += len(order.recipients)

    # -- many at once

    def carry_out_batch(self, batch: Parcels, orders: list[Orders]) -> None:
        """Do what the core ordered for each notification of a batch."""
        start = 0
        while start < len(orders):
            if not self.ways and not self.reorder.waiting:
                start = self._carry_out_together(batch, orders, start)
            if start < len(orders):
                self._carry_out_one(batch, start, orders[start])
                start += 1

    def _carry_out_together(self, batch: Parcels, orders: list[Orders], start: int) -> int:
        """Carry out orders from there on, up to the first that must go the long way; returns its place, or the end."""
        touched: list[Destination] = []
        parcels = batch.parcels
        deliveries = 0
        for stop in range(start, len(orders)):
            each = orders[stop]
            plan: Plan | None = each.memo
            if plan is None:
                plan = self._plan(each)
                if plan is None:
                    break
                each.memo = plan
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
            stop = len(orders)
        for owner in touched:
            frames, owner.gathered = owner.gathered, []
            owner.put_all(frames)
        self._counters.deliveries += deliveries
        if self._orders and deliveries:
            self._note_delivered(batch, orders, start, stop)
        return stop

    def _plan(self, orders: Orders) -> Plan | None:
        """Which frames go where; None where a notification must go the long way.

        It holds as long as the orders do: a session ends with the withdrawal of its subscriptions, which makes others.
        """
        if orders.refusal:
            return None
        plan: dict[int, tuple[Heads, list[Destination]]] = {}
        sessions, links = self._sessions, self._links
        for client, subscriptions in orders.recipients:
            session = sessions.get(client)
            if session is not None:
                heads = deliver_heads(subscriptions)
                plan.setdefault(id(heads), (heads, []))[1].append(session)
        for copy in orders.copies:
            message = copy.message
            if type(message) is not Notify or message.civ:
                return None
            plan.setdefault(id(_PLAIN_COPY), (_PLAIN_COPY, []))[1].append(links[copy.to])
        return list(plan.values())

    def _carry_out_one(self, batch: Parcels, at: int, orders: Orders) -> None:
        notification = batch.notification(at)
        self.carry_out(orders.actions(notification.publisher, str(notification.sequence), notification))

    def _note_delivered(self, batch: Parcels, orders: list[Orders], start: int, stop: int) -> None:
        """Remember for each publisher the last of its notifications that was delivered here."""
        last, publishers, sequences = self.reorder.last, batch.publishers, batch.sequences
        alone = publishers.count(publishers[0]) == len(publishers)
        for at in range(stop - 1, start - 1, -1) if alone else range(start, stop):
            if orders[at].recipients:
                last[publishers[at]] = sequences[at]
                if alone:
                    return

    # -- answers

    def _answer(self, action: Any) -> None:
        session = self._sessions.get(action.client)
        if session is None:
            return
        if not isinstance(action, Accepted):
            session.refuse(action.request, action.id, action.reason)
            return
        scope = _IN_FORCE.get(action.request) if self._confirms_in_force else None
        if scope is None:
            session.accept(action.request, action.id)
        else:
            # The messages of this registration come later in the same list of actions: ask after them.
            self._soon(self._confirm_later, session, action.request, action.id, scope)

    def _confirm_later(self, session: ClientQueue, request: str, id: str, scope: bool) -> None:
        self._barriers.when_in_force(scope, lambda: session.accept(request, id))


def frames_of(message: Message) -> list[bytes]:
    """A core message as frames; a copy of a notification keeps what its header said of it."""
    if not isinstance(message, NOTIFICATION_MESSAGES):
        return link_frames(message)
    header: Any = getattr(message.notification, "header", None)
    if header is None:
        return link_frames(message)
    if header is True:
        header = CopyHeader(traced=True)
    return link_frames(message, CopyHeader(b"", header.traced, header.earlier, header.hold_ms))
