"""From orders to queues: what the core decided is carried out here, for one broker.

Rules of this file: actions are carried out at once and in order; a delivery is encoded once for all its recipients, a
message once for all its links. A batch is carried out queue by queue: its frames are gathered per destination and put
into each queue in one go, in their order. A batch goes the long way, one notification after the other, only where
one may overtake another (a copy was diverted, or something is held back) or is refused or traced.
"""

from typing import TYPE_CHECKING, Any

from octopia.net.broker.barriers import CLUSTER, REGION
from octopia.net.broker.links import Link, frames_of
from octopia.net.broker.order import Reorder, Ways
from octopia.net.broker.sessions import Session
from octopia.routing import Accepted, Action, Deliver, Message, Notify, Orders, Send
from octopia.topology import BrokerId
from octopia.wire import Heads, Kind, Parcels, deliver_frame, deliver_heads, link_frames

if TYPE_CHECKING:
    from octopia.net.broker.host import BrokerHost

# A request whose answer must wait until it is in force, and where.
_IN_FORCE = {"subscribe": CLUSTER, "advertise": REGION}
_PLAIN_COPY = Heads(Kind.NOTIFY)

# For each frame that orders ask for: its heads, and the queues it goes to.
Plan = list[tuple[Heads, list[Session | Link]]]


class Dispatch:
    """Carries out the orders of one broker's core."""

    def __init__(self, host: "BrokerHost", routing: str, confirms_in_force: bool) -> None:
        self.host = host
        limits = host.net_limits
        self.ways = Ways(host.id, limits.reorder_hold_s)
        self.reorder = Reorder(self.deliver, limits.reorder_notifications_max)
        self.unordered_subscriptions = 0
        # Static routing keeps order by itself.
        self._orders = routing == "idr"
        # TID routing registers along advertisement trees, which questions to neighbours do not follow.
        self._confirms_in_force = confirms_in_force

    # -- one after the other

    def carry_out(self, actions: list[Action]) -> None:
        """Do what the core ordered."""
        last: Message | None = None
        frames: list[bytes] = []
        links = self.host.links
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
        header = self.ways.header(to, message, self.host.now())
        self.host.links[to].send(message, link_frames(message, header))

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
        touched: list[Session | Link] = []
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
        self.host.counters.deliveries += deliveries
        if self._orders and deliveries:
            self._note_delivered(batch, orders, start, stop)
        return stop

    def _plan(self, orders: Orders) -> Plan | None:
        """Which frames go where; None where a notification must go the long way.

        It holds as long as the orders do: a session ends with the withdrawal of its subscriptions, which makes others.
        """
        if orders.refusal:
            return None
        plan: dict[int, tuple[Heads, list[Session | Link]]] = {}
        sessions, links = self.host.sessions, self.host.links
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
        session = self.host.sessions.get(action.client)
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
            self.host.loop.call_soon(self._confirm_later, session, action.request, action.id, scope)

    def _confirm_later(self, session: Session, request: str, id: str, scope: bool) -> None:
        self.host.barriers.when_in_force(scope, lambda: session.accept(request, id))
