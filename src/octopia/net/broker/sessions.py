"""A client at its host broker: its rights, its requests, and the lifetime of its session.

A session outlives its connection by the time agreed in the handshake; meanwhile everything for the client is queued up
to the bound (`client_queue.py`). It also outlives a restart of its broker (`saved` and `restore`). The client's absence
is then not its fault, and it counts as connected until it had time to return.

Answers to requests are never dropped. If the queue is full and the client does not read, the broker stops reading from
it. A client that reads but confirms nothing is disconnected when `ANSWERS_MAX` answers wait; our client, with a window
of 4,096 frames, never has that many.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from octopia.errors import RefusedError
from octopia.net.broker.client_queue import ClientQueue, is_delivery
from octopia.net.broker.counting import count_for
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.intake import Intake
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.privilege import BlockPrivilege
from octopia.net.broker.qos import Granted, Qos
from octopia.net.broker.rights import Rights
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedSession
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import Channel
from octopia.net.frame_queue import FrameQueue
from octopia.routing import Advertised, Refuse, Subscribed, Unadvertised
from octopia.wire import (
    Accepted,
    AdvertiseRequest,
    BadRequest,
    CountRequest,
    Flushed,
    FlushRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    Unread,
    UnsubscribeRequest,
    message_frame,
    reason_text,
)

# Answers waiting for a client. They are counted once this many have been given since the last count, so that counting
# costs nothing; the client is disconnected if more than half of them wait.
ANSWERS_MAX = 2 * 16_384


class SessionTable(Protocol):
    """Ends sessions, and answers questions about counts and about what has arrived."""

    count: Callable[..., None]
    flush: Callable[..., None]

    def end(self, session: "Session", code: str, reason: str) -> None:
        """End a session and tell the client why."""

    def forget(self, session: "Session") -> None:
        """Remove a client that is gone for good."""

    def watch(self, session: "Session") -> None:
        """Check a session at each tick, until it is at rest."""


class Session:
    """One client of one broker."""

    __slots__ = (
        "_answers",
        "_counters",
        "_intake",
        "_log",
        "_now",
        "_router",
        "_table",
        "deliveries",
        "left_s",
        "name",
        "probed",
        "publisher",
        "qos",
        "queue",
        "received",
        "rights",
        "secret",
        "session_s",
        "stall",
        "unanswered",
    )

    def __init__(
        self,
        name: str,
        secret: bytes,
        session_s: float,
        rights: Rights,
        *,
        queue: FrameQueue,
        stall: StallWatch,
        privilege: BlockPrivilege,
        table: SessionTable,
        router: Router,
        intake: Intake,
        counters: Counters,
        log: Log,
        now: Callable[[], float],
        qos: Qos,
        wall: Callable[[], float],
    ) -> None:
        self._table = table
        self._router = router
        self._intake = intake
        self._counters = counters
        self._log = log
        self._now = now
        self.name = name
        self.secret = secret
        self.session_s = session_s
        self.rights = rights
        self.publisher = Publisher(name, rights.permit(), rights)
        self.queue = queue
        self.deliveries = ClientQueue(self, queue, privilege, intake, wall, self._end_slow, lambda: table.watch(self))
        self.stall = stall
        self.probed: Channel | None = None  # the connection asked for a sign of life on behalf of a newcomer
        self.left_s: float | None = None  # when its connection was lost
        self.qos = qos
        self.unanswered: dict[tuple[str, str], None] = {}  # requests carried out but not yet in force
        self.received = 0
        self._answers = 0  # at most so many wait

    @property
    def channel(self) -> Channel | None:
        """Its connection."""
        return self.deliveries.channel

    # -- what the client asks

    def take_in(self, channel: Channel, messages: Iterator[Any]) -> None:
        now = self._now()
        publisher = self.publisher
        published = publisher.published
        self._intake.read_began()
        try:
            for message in messages:
                if type(message) is Unread:
                    self._router.publish(publisher, message, channel, now)
                elif type(message) in _REQUESTS:
                    _REQUESTS[type(message)](self, message, now)
                else:
                    channel.manage(message)
        finally:
            self._intake.read_ended()
            self._counters.notifications += publisher.published - published

    def _count(self, request: CountRequest, now: float) -> None:
        """Tell the client how many advertisements overlap a filter, if it may subscribe to it."""
        if self.channel is not None:
            count_for(request, self.channel.say, self.rights.check_subscribe, self._table.count)

    def _flush(self, request: FlushRequest, now: float) -> None:
        self._table.flush(self, request)

    def _advertise(self, request: AdvertiseRequest, now: float) -> None:
        try:
            self.rights.check_advertise(request.filter)
            self._router.handle(Advertised(self.name, request.id, request.filter), now)
        except RefusedError as error:
            self.refuse("advertise", request.id, str(error))

    def _unadvertise(self, request: UnadvertiseRequest, now: float) -> None:
        self._router.handle(Unadvertised(self.name, request.id), now)

    def _subscribe(self, request: SubscribeRequest, now: float) -> None:
        try:
            granted = self.qos.granted(request)
            self.rights.check_policy(granted.policy)
            self.rights.check_subscribe(request.filter)
            actions = self._router.handle(self._subscribed(request, granted), now)
        except RefusedError as error:
            self.refuse("subscribe", request.id, str(error))
            return
        if not any(type(action) is Refuse for action in actions):
            # A refused request changes nothing: its id may be that of a live subscription.
            self.deliveries.subscribed(request.id, granted, request.ordered)

    def _subscribed(self, request: SubscribeRequest, granted: Granted) -> Subscribed:
        return Subscribed(self.name, request.id, request.filter, request.ordered, granted.priority)

    def _unsubscribe(self, request: UnsubscribeRequest, now: float) -> None:
        self._router.unsubscribe(self.name, request.id, now)
        self.deliveries.unsubscribed(request.id)

    def _refuse_bad(self, request: BadRequest, now: float) -> None:
        self.refuse(request.request, request.id, request.reason)

    # -- answers

    def refuse(self, request: str, id: str, reason: str) -> None:
        self._counters.refusals += 1
        self._log.event(f"{request} refused", client=self.name, request=request, reason=reason)
        self._answer(message_frame(Refused(request, id, reason_text(reason))))

    def owe(self, request: str, id: str) -> None:
        """Answer this request when it is in force."""
        self.unanswered[request, id] = None

    def accept(self, request: str, id: str) -> None:
        self.unanswered.pop((request, id), None)
        self._answer(message_frame(Accepted(request, id)))

    def flushed(self, id: str, missing: list[str]) -> None:
        self._answer(message_frame(Flushed(id, missing)))

    def _answer(self, frame: bytes) -> None:
        if self.ended:
            return
        self.queue.put_fence(frame)
        self._answers += 1
        if self._answers >= ANSWERS_MAX:
            self._answers = self.queue.count(lambda frame: not is_delivery(frame))
            if 2 * self._answers > ANSWERS_MAX:
                self._end_slow(f"it does not confirm answers, and {self._answers} wait for it")
        if self.channel is not None and self.queue.is_full:
            self.channel.hold_while_unread()

    # -- deliveries

    @property
    def is_away(self) -> bool:
        """Whether the client left, as opposed to this broker being away."""
        return self.deliveries.is_away

    @property
    def may_shed(self) -> bool:
        """Whether some of its deliveries may be dropped."""
        return self.deliveries.may_shed

    @property
    def may_end(self) -> bool:
        """Whether it asked to be disconnected when its queue is full."""
        return self.deliveries.may_end

    def shed(self, memory_bytes: int) -> int:
        """Drop deliveries, the oldest first, down to this much memory; returns how many were dropped."""
        return self.deliveries.shed(memory_bytes)

    def _end_slow(self, reason: str) -> None:
        self._table.end(self, "slow", reason)

    @property
    def ended(self) -> bool:
        return self.deliveries.ended

    # -- as a source of notifications

    def publishers_of(self, frames: list[bytes]) -> tuple[str, ...]:
        """The publishers of its notifications: itself."""
        return (self.name,)

    def pause(self, publishers: list[str], held: bool) -> None:
        """Stop or resume reading from the client."""
        channel = self.channel
        if channel is None:
            return
        if held:
            self._counters.sources_held += not channel.is_held
            channel.hold(self._intake)
            self.deliveries.stop_asking()
        else:
            channel.release(self._intake)

    # -- connections come and go

    def attach(self, channel: Channel, received: int) -> None:
        self.deliveries.channel = channel
        self.left_s, self.deliveries.returns = None, False
        self.queue.attach(channel.transport, received)

    def lost(self, channel: Channel, reason: str) -> None:
        self._detach(channel)
        if channel.goodbye is not None or not self.session_s:
            self._table.forget(self)
        else:
            self.left_s = self._now()
            self._table.watch(self)
            self._log.event("client away", client=self.name, reason=reason)

    def drop_channel(self, code: str, reason: str) -> None:
        """Close the connection with a reason; the session continues."""
        channel = self.channel
        if channel is not None:
            self._detach(channel)
            channel.disown()
            channel.close(code, reason)

    def _detach(self, channel: Channel) -> None:
        self.received = channel.taken
        self.deliveries.channel = None
        self.queue.detach()
        # An absent client holds up no publisher.
        self.deliveries.stop_asking()
        self._intake.gone(self)

    def stay_away(self) -> None:
        """It had time to return, and did not."""
        self.deliveries.returns = False
        self.deliveries.stop_asking()
        self.queue.release_all()

    # -- from one life of the broker to the next

    def saved(self, registrations: list[bytes]) -> SavedSession:
        """The state that our next life needs to resume the session."""
        queue, channel = self.queue, self.channel
        return SavedSession(
            name=self.name,
            owner=self.rights.name,
            secret=self.secret,
            session_s=self.session_s,
            received=self.received if channel is None else channel.taken,
            last_sequence=self.publisher.last_sequence,
            published=self.publisher.published,
            confirmed=queue.confirmed,
            unconfirmed=queue.under_way,
            waiting=queue.in_order(),
            dropped=queue.untold,
            dropped_total=queue.dropped_total,
            registrations=registrations,
            unanswered=list(self.unanswered),
            too_old_total=queue.too_old_total,
        )

    def restore(self, saved: SavedSession, registrations: list[AdvertiseRequest | SubscribeRequest]) -> None:
        """Resume from the state saved by our previous life; the client is expected back."""
        self.received = saved.received
        self.publisher.last_sequence = saved.last_sequence
        self.publisher.published = saved.published
        self.queue.refill(saved.confirmed, saved.unconfirmed, saved.waiting, saved.dropped)
        self.queue.dropped_total = saved.dropped_total
        self.queue.too_old_total = saved.too_old_total
        self.left_s = now = self._now()
        self.deliveries.returns = True
        unanswered = set(saved.unanswered)
        for request in registrations:
            name = "advertise" if isinstance(request, AdvertiseRequest) else "subscribe"
            if (name, request.id) in unanswered:
                _REQUESTS[type(request)](self, request, now)
            else:
                self._restore(request, name, now)

    def _restore(self, request: AdvertiseRequest | SubscribeRequest, name: str, now: float) -> None:
        try:
            if isinstance(request, AdvertiseRequest):
                self.rights.check_advertise(request.filter)
                self._router.restore(Advertised(self.name, request.id, request.filter), now)
            else:
                granted = self.qos.granted(request)
                self.rights.check_subscribe(request.filter)
                self.deliveries.subscribed(request.id, granted, request.ordered)
                self._router.restore(self._subscribed(request, granted), now)
        except RefusedError as error:
            self.refuse(name, request.id, str(error))

    def leave(self) -> None:
        """The client is gone for good, and its queue is empty."""
        self.queue.clear()


_REQUESTS: dict[type, Any] = {
    AdvertiseRequest: Session._advertise,  # noqa: SLF001  own class
    UnadvertiseRequest: Session._unadvertise,  # noqa: SLF001
    SubscribeRequest: Session._subscribe,  # noqa: SLF001
    UnsubscribeRequest: Session._unsubscribe,  # noqa: SLF001
    BadRequest: Session._refuse_bad,  # noqa: SLF001
    CountRequest: Session._count,  # noqa: SLF001
    FlushRequest: Session._flush,  # noqa: SLF001
}
