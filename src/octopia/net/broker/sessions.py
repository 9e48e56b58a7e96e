"""A client at its host broker: its rights, its queue, and the lifetime of its session.

A session outlives its connection by the time agreed in the handshake; meanwhile everything for the client is queued up
to the bound. At the bound the policy of the subscription decides: `drop_oldest` and `drop_newest` drop and count,
`disconnect` ends the session. `block` asks publishers to pause from half of the bound until a quarter of it;
notifications in flight have room up to twice the bound, and then sources of more are not read from. A client that is
away cannot hold up others: for it, `block` acts as `drop_newest`; for one that is too slow (`privilege.py`), as
`drop_oldest`. A client that is held asks for no pauses, since its confirmations are not read. If subscriptions of
different policies match, the first in the order block, disconnect, drop_oldest, drop_newest decides.

Deliveries wait in lanes by priority (`net/outbox.py`), each in that of its most urgent subscription; at the bound, the
lowest priority is dropped first. If all subscriptions of a delivery have a deadline and it is older than the longest of
them at its turn, it is dropped and counted. `qos.py` has the settings of a cluster.

A session also outlives a restart of its broker (`saved` and `restore`). The client's absence is then not its fault, and
it counts as connected until it had time to return.

Answers to requests are never dropped. If the box is full and the client does not read, the broker stops reading from
it. A client that reads but confirms nothing is disconnected when `ANSWERS_MAX` answers wait; our client, with a window
of 4,096 frames, never has that many.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.counting import count_for
from octopia.net.broker.intake import Intake
from octopia.net.broker.lane import Lane
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.own import own_and_new
from octopia.net.broker.permits import Permit
from octopia.net.broker.policies import Policies
from octopia.net.broker.privilege import BlockPrivilege
from octopia.net.broker.probing import why_not_probe
from octopia.net.broker.qos import Granted, Qos
from octopia.net.broker.rights import Rights
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedSession
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import Channel
from octopia.net.outbox import Outbox
from octopia.routing import PRIORITY_MAX, Advertised, Refuse, Subscribed, Unadvertised, Unsubscribed
from octopia.wire import (
    POLICY_DEFAULT,
    Accepted,
    AdvertiseRequest,
    BadRequest,
    CountRequest,
    Haul,
    Kind,
    Parcels,
    ProbeRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    WireNotification,
    delivered_at,
    delivered_for,
    message_frame,
    reason_text,
    split_frames,
)

if TYPE_CHECKING:
    from octopia.net.broker.session_table import Sessions

# Answers waiting for a client. They are counted once this many have been given since the last count, so that counting
# costs nothing; the client is disconnected if more than half of them wait.
ANSWERS_MAX = 2 * 16_384

_STRENGTH = {"block": 0, "disconnect": 1, "drop_oldest": 2, "drop_newest": 3}
_POLICY_OF = {strength: policy for policy, strength in _STRENGTH.items()}


class Session:
    """One client of one broker."""

    __slots__ = (
        "_answers",
        "_counters",
        "_deadline_of",
        "_deadlines",
        "_intake",
        "_lanes",
        "_log",
        "_now",
        "_only_policy",
        "_router",
        "_table",
        "_wall",
        "asks",
        "box",
        "channel",
        "ended",
        "gathered",
        "last_sequence",
        "left_s",
        "name",
        "permit",
        "policies",
        "priorities",
        "privilege",
        "probed",
        "published",
        "qos",
        "received",
        "returns",
        "rights",
        "secret",
        "session_s",
        "stall",
        "unanswered",
        "unordered",
    )

    def __init__(
        self,
        name: str,
        secret: bytes,
        session_s: float,
        rights: Rights,
        *,
        box: Outbox,
        stall: StallWatch,
        privilege: BlockPrivilege,
        table: "Sessions",
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
        self.permit = rights.permit()
        self.box = box
        self.stall = stall
        self.privilege = privilege
        self.asks = False  # whether its publishers are to pause
        self.channel: Channel | None = None
        self.probed: Channel | None = None  # the connection asked for a sign of life on behalf of a newcomer
        self.ended = False
        self.left_s: float | None = None  # when its connection was lost
        self.returns = False  # because this broker restarted
        self.qos = qos
        self._wall = wall
        self.policies = Policies()
        self.priorities: dict[str, int] = {}  # those above 0
        self._deadlines: dict[str, int] = {}  # in ms; only of those that have one
        self._deadline_of: dict[bytes, int] = {}  # by the header of a delivery, 0 for none: looked up once each
        self._lanes: tuple[Lane, ...] = ()
        self.unordered: dict[str, None] = {}
        self.unanswered: dict[tuple[str, str], None] = {}  # requests carried out but not yet in force
        self.last_sequence = -1
        self.published = 0
        self.received = 0
        self.gathered: list[bytes] = []  # of the current batch
        self._answers = 0  # at most so many wait
        # The policy, where all subscriptions have the same; what comes where there is none was under way.
        self._only_policy: str | None = POLICY_DEFAULT

    # -- what the client asks

    def take_in(self, channel: Channel, messages: list[Any]) -> None:
        now = self._now()
        published = self.published
        self._intake.source = channel
        try:
            for message in messages:
                if type(message) is Haul:
                    self._publish_haul(message, now)
                    message.done()
                elif type(message) is Parcels:
                    self._publish(message, now)
                elif type(message) is WireNotification:
                    self._publish(Parcels.of(message), now)
                elif type(message) in _REQUESTS:
                    _REQUESTS[type(message)](self, message, now)
                else:
                    channel.manage(message)
        finally:
            self._intake.done()
            self._counters.notifications += self.published - published

    def _publish_haul(self, haul: Haul, now: float) -> None:
        """Like `_publish`, for many usual ones: new, its own, without a time, and within its rights."""
        usual = haul.follows(self.last_sequence) and haul.publishers == [self.name] and not haul.is_timed
        if not usual or (self.permit is not None and not self.permit.allows_all(haul.tokens, haul.notification)):
            self._publish(haul.parcels(), now)
            return
        self.last_sequence = haul.sequence(len(haul) - 1)
        self.published += len(haul)
        accepted_ms = int(self._wall() * 1000) if self.qos.is_timed else -1
        self._router.publish_haul(self.name, haul, now, accepted_ms)

    def _publish(self, batch: Parcels, now: float) -> None:
        """Publish notifications, one after the other."""
        mine, wrong, repeated = own_and_new(batch, self.name, self.last_sequence)
        self._counters.duplicates += repeated
        if mine.sequences:
            self.last_sequence = mine.sequences[-1]
            self.published += len(mine)
            if self.permit is not None:
                mine = self._permitted(mine, self.permit)
            if mine.sequences:
                if mine.is_timed:
                    raise RemoteProtocolError(f"{self.name} said when it was accepted, which is for brokers to say")
                if self.qos.is_timed:
                    mine.accept(int(self._wall() * 1000))
                self._router.publish(self.name, mine, now)
        if wrong is not None:
            raise RemoteProtocolError(f"{self.name} published in the name of {wrong}")

    def _permitted(self, batch: Parcels, permit: Permit) -> Parcels:
        """The publications that the client may make; each of the others is refused."""
        refused = permit.refused(batch.values)
        if not refused:
            return batch
        for at in refused:
            self.refuse("publish", str(batch.sequences[at]), permit.reason(batch.notification(at)))
        outside = frozenset(refused)
        return batch.chosen([at for at in range(len(batch)) if at not in outside])

    def _probe(self, request: ProbeRequest, now: float) -> None:
        """Trace a notification without delivering it; it does not count as published."""
        seen, batch = request.notification, Parcels.of(request.notification)
        id = str(seen.sequence)
        if batch.is_timed:
            raise RemoteProtocolError(f"{self.name} said when it was accepted, which is for brokers to say")
        reason = why_not_probe(self, seen, self._table.get, self._router.id)
        if reason is None:
            if self.qos.is_timed:
                batch.accept(int(self._wall() * 1000))
            reason = self._router.probe(seen.publisher, batch, now)
        if reason is None:
            self.accept("probe", id)
        else:
            self.refuse("probe", id, reason)

    def _count(self, request: CountRequest, now: float) -> None:
        """Tell the client how many advertisements overlap a filter, if it may subscribe to it."""
        if self.channel is not None:
            count_for(request, self.channel.say, self.rights.check_subscribe, self._table.count)

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
            self._apply(request, granted)

    def _subscribed(self, request: SubscribeRequest, granted: Granted) -> Subscribed:
        return Subscribed(self.name, request.id, request.filter, request.ordered, granted.priority)

    def _apply(self, request: SubscribeRequest, granted: Granted) -> None:
        self.policies.put(request.id, granted.policy)
        if request.ordered:
            self.unordered.pop(request.id, None)
        else:
            self.unordered[request.id] = None
        if granted.priority:
            self.priorities[request.id] = granted.priority
        self._deadlines.pop(request.id, None)
        if granted.deadline_ms:
            self._deadlines[request.id] = granted.deadline_ms
        self._note_policies()

    def _unsubscribe(self, request: UnsubscribeRequest, now: float) -> None:
        self._router.handle(Unsubscribed(self.name, request.id), now)
        self.policies.drop(request.id)
        self.unordered.pop(request.id, None)
        self.priorities.pop(request.id, None)
        self._deadlines.pop(request.id, None)
        self._note_policies()

    def _refuse_bad(self, request: BadRequest, now: float) -> None:
        self.refuse(request.request, request.id, request.reason)

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

    def _answer(self, frame: bytes) -> None:
        if self.ended:
            return
        self.box.put_fence(frame)
        self._answers += 1
        if self._answers >= ANSWERS_MAX:
            self._answers = sum(not self._is_droppable(frame) for frame in self.box.waiting)  # in no other lane
            if 2 * self._answers > ANSWERS_MAX:
                self._table.end(self, "slow", f"it does not confirm answers, and {self._answers} wait for it")
        if self.channel is not None and self.box.is_full:
            self.channel.hold_while_unread()

    def takes_any(self, subscriptions: tuple[str, ...]) -> bool:
        """Whether all of these allow reordering."""
        unordered = self.unordered
        return bool(unordered) and all(id in unordered for id in subscriptions)

    def _note_policies(self) -> None:
        self._deadline_of.clear()
        self.box.too_old = self._is_too_old if self._deadlines else None
        distinct = self.policies.distinct
        # Deliveries are checked from half of the bound on if some subscription may ask for a pause.
        parts, box = 2 if "block" in distinct else 1, self.box
        box.mark_frames, box.mark_bytes = max(box.frames_max // parts, 1), max(box.bytes_max // parts, 1)
        self._only_policy = distinct.pop() if len(distinct) == 1 else None if distinct else POLICY_DEFAULT

    # -- what comes for the client

    def priority_of(self, subscriptions: tuple[str, ...]) -> int:
        """The priority of the most urgent of these."""
        priorities = self.priorities
        return max(priorities.get(id, 0) for id in subscriptions)

    def lane(self, priority: int) -> "Session | Lane":
        """The queue for deliveries of this priority."""
        if not priority:
            return self
        self._lanes = self._lanes or tuple(Lane(self, each) for each in range(PRIORITY_MAX + 1))
        return self._lanes[priority]

    def put(self, delivery: bytes, lane: int = 0) -> None:
        """Queue a delivery."""
        box = self.box
        box.put(delivery, lane)
        if (box.waits >= box.mark_frames or box.waiting_bytes >= box.mark_bytes) and self._asks_for(delivery):
            self._intake.went_in(self, [delivery])

    def put_all(self, deliveries: list[bytes], lane: int = 0) -> None:
        """Queue deliveries."""
        box = self.box
        if box.put_if_room(deliveries, lane):
            return
        unwanted: list[bytes] = []
        at = 0
        while (at := box.put_below(deliveries, at, box.mark_frames, box.mark_bytes, lane)) < len(deliveries):
            box.put(deliveries[at], lane)
            stop = at + 1
            if self._asks_for(deliveries[at]):
                if self._only_policy:
                    # The socket has taken all it can, and will take no more during this read.
                    stop = box.put_below(deliveries, stop, box.frames_max, box.bytes_max, lane)
                unwanted += deliveries[at:stop]
            at = stop
        if unwanted:
            self._intake.went_in(self, unwanted)

    def put_bundle(self, data: bytes, frames: int, lane: int = 0) -> None:
        """Queue consecutive deliveries."""
        if lane or not self.box.put_bundle(data, frames):
            self.put_all(split_frames(data), lane)

    def _asks_for(self, delivery: bytes) -> bool:
        """This delivery was just put into the box: handle the mark and the bound.

        Returns whether its publisher is to pause.
        """
        box = self.box
        if not box.is_over_mark:
            return False
        policy = self._policy_of(delivery)
        if box.is_full:
            self._overflow(policy)
        if policy != "block" or (self.channel is not None and self.channel.is_held):
            return False
        if not self.asks:
            self.asks = True
            self._intake.fills(self)
            box.when_low(box.frames_max // 4, box.bytes_max // 4, self._stop_asking)
        return True

    def _overflow(self, policy: str) -> None:
        """The box was full when a delivery with this policy was put into it."""
        box = self.box
        if self.ended:
            box.drop_newest()
        elif policy == "block":
            if box.reaches(2 * box.frames_max, 2 * box.bytes_max):
                self._last_resort()
        elif policy == "disconnect":
            self._table.end(self, "slow", "its queue is full, and its policy is disconnect")
        elif policy != "drop_oldest" or not box.drop_oldest(self._is_droppable):
            box.drop_newest()

    def _last_resort(self) -> None:
        """More was in flight than there is room for although publishers pause, for example after a restart of a broker.

        The source is then not read from. If the source is the client itself, or it is held by others, it would wait for
        itself: in that case the newest delivery is dropped.
        """
        own = self.channel
        if own is not None and (own.is_held or self._intake.source is own):
            self.box.drop_newest()
        else:
            self._intake.hold_back(self.box)

    def _policy_of(self, delivery: bytes) -> str:
        """The policy that currently applies to a delivery."""
        return self._effective(self._only_policy or self._policy_for(delivered_for(delivery)))

    def _effective(self, policy: str) -> str:
        """The effective form of a policy at present."""
        if policy == "block":
            if self.channel is None and not self.returns:
                return "drop_newest"
            if self.privilege.lost:
                return "drop_oldest"
        return policy

    def policy_now(self, subscriptions: tuple[str, ...]) -> str:
        """The policy that currently applies to deliveries for these subscriptions."""
        return self._effective(self._policy_for(subscriptions))

    def _policy_for(self, subscriptions: tuple[str, ...]) -> str:
        return _POLICY_OF[min(_STRENGTH[self.policies.get(id, POLICY_DEFAULT)] for id in subscriptions)]

    def _is_too_old(self, frame: bytes) -> bool:
        """Whether a frame is too old for all of its subscriptions when its turn comes."""
        if frame[4] != Kind.DELIVER or (accepted_ms := delivered_at(frame)) is None:
            return False
        header = frame[9 : 9 + int.from_bytes(frame[5:9], "big")]
        deadline_ms = self._deadline_of.get(header)
        if deadline_ms is None:
            each = [self._deadlines.get(id, 0) for id in delivered_for(frame)]
            deadline_ms = self._deadline_of[header] = max(each) if all(each) else 0
        return bool(deadline_ms) and self._wall() * 1000 - accepted_ms > deadline_ms

    def deadline_ms_of(self, id: str) -> int:
        """The deadline of one of its subscriptions; 0 for none."""
        return self._deadlines.get(id, 0)

    def _is_droppable(self, frame: bytes) -> bool:
        # Other frames are answers to requests, which are never dropped.
        return frame[4] == Kind.DELIVER

    # -- when the broker needs memory

    @property
    def is_away(self) -> bool:
        """Whether the client left, as opposed to this broker being away."""
        return self.channel is None and not self.returns

    @property
    def may_shed(self) -> bool:
        """Whether some of its deliveries may be dropped."""
        if self.is_away or (self._only_policy == "block" and self.privilege.lost):
            return True
        return self._only_policy not in ("block", "disconnect")

    @property
    def may_end(self) -> bool:
        """Whether it asked to be disconnected when its queue is full."""
        return self._only_policy == "disconnect"

    def shed(self, memory_bytes: int) -> int:
        """Drop deliveries, the oldest first, until its queue takes at most this much memory. Returns their number.

        While it is connected, only those whose subscription's policy is to drop, and none that were sent.
        """
        if not self.is_away:
            return self.box.shed(memory_bytes, self._gives_way)
        dropped = self.box.shed(memory_bytes, self._is_droppable)
        return dropped + self.box.shed_sent(memory_bytes, self._is_droppable)

    def _gives_way(self, frame: bytes) -> bool:
        return self._is_droppable(frame) and self._policy_of(frame) in ("drop_oldest", "drop_newest")

    # -- flow control

    def _stop_asking(self) -> None:
        """There is room again, or the right to ask for pauses is gone."""
        if self.asks:
            self.asks = False
            self.box.never_mind()
            self._intake.has_room(self)
            self.box.release_all()

    def check_block(self, passed_s: float) -> bool:
        """Account for the time passed; returns whether it turned out to be too slow to hold up its publishers."""
        box = self.box
        lost = self.privilege.check(passed_s, self.asks, (box.confirmed, box.confirmed_bytes), not box.held)
        if lost:
            self._stop_asking()
        return lost

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
            self._stop_asking()
        else:
            channel.release(self._intake)

    # -- connections come and go

    def attach(self, channel: Channel, received: int) -> None:
        self.channel = channel
        self._router.offer_short_cut(self, channel)
        self.left_s, self.returns = None, False
        self.box.attach(channel.transport, received)

    def lost(self, channel: Channel, reason: str) -> None:
        self._detach(channel)
        if channel.goodbye is not None or not self.session_s:
            self._table.forget(self)
        else:
            self.left_s = self._now()
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
        self.channel = None
        self.box.detach()
        # An absent client holds up no publisher.
        self._stop_asking()
        self._intake.gone(self)

    def stay_away(self) -> None:
        """It had time to return, and did not."""
        self.returns = False
        self._stop_asking()
        self.box.release_all()

    # -- from one life of the broker to the next

    def saved(self, registrations: list[bytes]) -> SavedSession:
        """The state that our next life needs to resume the session."""
        box, channel = self.box, self.channel
        return SavedSession(
            name=self.name,
            owner=self.rights.name,
            secret=self.secret,
            session_s=self.session_s,
            received=self.received if channel is None else channel.taken,
            last_sequence=self.last_sequence,
            published=self.published,
            confirmed=box.confirmed,
            unconfirmed=box.under_way,
            waiting=box.in_order(),
            dropped=box.untold,
            dropped_total=box.dropped_total,
            registrations=registrations,
            unanswered=list(self.unanswered),
            too_old_total=box.too_old_total,
        )

    def restore(self, saved: SavedSession, registrations: list[AdvertiseRequest | SubscribeRequest]) -> None:
        """Resume from the state saved by our previous life; the client is expected back."""
        self.received = saved.received
        self.last_sequence = saved.last_sequence
        self.published = saved.published
        self.box.refill(saved.confirmed, saved.unconfirmed, saved.waiting, saved.dropped)
        self.box.dropped_total = saved.dropped_total
        self.box.too_old_total = saved.too_old_total
        self.left_s = now = self._now()
        self.returns = True
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
                self._apply(request, granted)
                self._router.restore(self._subscribed(request, granted), now)
        except RefusedError as error:
            self.refuse(name, request.id, str(error))

    def leave(self) -> None:
        """The client is gone for good, and its queue is empty."""
        self.box.clear()


_REQUESTS: dict[type, Any] = {
    AdvertiseRequest: Session._advertise,  # noqa: SLF001  own class
    UnadvertiseRequest: Session._unadvertise,  # noqa: SLF001
    SubscribeRequest: Session._subscribe,  # noqa: SLF001
    UnsubscribeRequest: Session._unsubscribe,  # noqa: SLF001
    BadRequest: Session._refuse_bad,  # noqa: SLF001
    ProbeRequest: Session._probe,  # noqa: SLF001
    CountRequest: Session._count,  # noqa: SLF001
}
