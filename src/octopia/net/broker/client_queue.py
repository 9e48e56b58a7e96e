"""The deliveries of one client: its queue, and the policy at the queue's bound.

At the bound the policy of the subscription decides: `drop_oldest` and `drop_newest` drop and count, `disconnect` ends
the session. `block` asks publishers to pause from half of the bound until a quarter of it; notifications in flight have
room up to twice the bound, and then sources of more are not read from. A client that is away cannot hold up others: for
it, `block` acts as `drop_newest`; for one that is too slow (`privilege.py`), as `drop_oldest`. A client that is held
asks for no pauses, since its confirmations are not read. If subscriptions of different policies match, the first in the
order block, disconnect, drop_oldest, drop_newest decides.

Deliveries wait in lanes by priority (`net/frame_queue.py`), each in that of its most urgent subscription; at the bound,
the lowest priority is dropped first. If all subscriptions of a delivery have a deadline and it is older than the
longest of them at its turn, it is dropped and counted. `qos.py` has the settings of a cluster.
"""

from collections.abc import Callable

from octopia.net.broker.intake import Intake, Member
from octopia.net.broker.policies import Policies
from octopia.net.broker.privilege import BlockPrivilege
from octopia.net.broker.qos import Granted
from octopia.net.channel import Channel
from octopia.net.frame_queue import Bundle, FrameQueue, beyond
from octopia.wire import POLICY_DEFAULT, Kind, delivered_at, delivered_for

# The fate of a delivery for a client whose session is over.
LEAVING = "dropped: the client is leaving"
_STRENGTH = {"block": 0, "disconnect": 1, "drop_oldest": 2, "drop_newest": 3}
_POLICY_OF = {strength: policy for policy, strength in _STRENGTH.items()}


class ClientQueue:
    """The deliveries of one client. `owner` is its session, as queue and source of notifications."""

    __slots__ = (
        "_deadline_of",
        "_deadlines",
        "_end",
        "_intake",
        "_only_policy",
        "_owner",
        "_shortest_ms",
        "_wall",
        "_watch",
        "asks",
        "channel",
        "ended",
        "frames",
        "policies",
        "priorities",
        "privilege",
        "returns",
        "unordered",
    )

    def __init__(
        self,
        owner: Member,
        frames: FrameQueue,
        privilege: BlockPrivilege,
        intake: Intake,
        wall: Callable[[], float],
        end: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """`end` ends the session of a client whose policy is to be disconnected, for this reason; `watch` asks for
        checks at each tick while the queue is long."""
        self._owner = owner
        self.frames = frames
        self.privilege = privilege
        self._intake = intake
        self._wall = wall
        self._end = end
        self._watch = watch
        self.channel: Channel | None = None  # the client's connection
        self.returns = False  # it is away because this broker restarted
        self.ended = False
        self.asks = False  # whether its publishers are to pause
        self.policies = Policies()
        self.priorities: dict[str, int] = {}  # those above 0
        self.unordered: dict[str, None] = {}
        self._deadlines: dict[str, int] = {}  # in ms; only of subscriptions that have one
        self._shortest_ms = 0
        self._deadline_of: dict[bytes, int] = {}  # by the header of a delivery, 0 for none: looked up once each
        # The policy shared by all subscriptions, or None if they differ. Deliveries that arrive after the last
        # unsubscribe use the default.
        self._only_policy: str | None = POLICY_DEFAULT

    # -- subscriptions

    def subscribed(self, id: str, granted: Granted, ordered: bool) -> None:
        """A subscription begins, or changes."""
        self.policies.put(id, granted.policy)
        if ordered:
            self.unordered.pop(id, None)
        else:
            self.unordered[id] = None
        if granted.priority:
            self.priorities[id] = granted.priority
        self._deadlines.pop(id, None)
        if granted.deadline_ms:
            self._deadlines[id] = granted.deadline_ms
        self._note_policies()

    def unsubscribed(self, id: str) -> None:
        self.policies.drop(id)
        self.unordered.pop(id, None)
        self.priorities.pop(id, None)
        self._deadlines.pop(id, None)
        self._note_policies()

    def _note_policies(self) -> None:
        self._deadline_of.clear()
        self._shortest_ms = min(self._deadlines.values(), default=0)
        frames = self.frames
        frames.still_wanted = self._still_wanted if self._deadlines else None
        distinct = self.policies.distinct
        # Deliveries are checked from half of the bound on if some subscription may ask for a pause.
        parts = 2 if "block" in distinct else 1
        frames.mark_frames, frames.mark_bytes = max(frames.frames_max // parts, 1), max(frames.bytes_max // parts, 1)
        self._only_policy = distinct.pop() if len(distinct) == 1 else None if distinct else POLICY_DEFAULT

    def priority_of(self, subscriptions: tuple[str, ...]) -> int:
        """The priority of the most urgent of these."""
        priorities = self.priorities
        return max(priorities.get(id, 0) for id in subscriptions) if priorities else 0

    def takes_any(self, subscriptions: tuple[str, ...]) -> bool:
        """Whether all of these allow reordering."""
        unordered = self.unordered
        return bool(unordered) and all(id in unordered for id in subscriptions)

    def deadline_ms_of(self, id: str) -> int:
        """The deadline of a subscription; 0 for none."""
        return self._deadlines.get(id, 0)

    # -- deliveries come

    def put(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Queue deliveries that came by this connection."""
        frames = self.frames
        # as `FrameQueue.has_room`: this is called for each destination of each read
        if (
            frames.waits + bundle.frames < frames.mark_frames
            and frames.waiting_bytes + len(bundle.data) < frames.mark_bytes
        ):
            frames.put_bundle(bundle, lane)
        else:
            self._put_slowly(bundle, lane, source)

    def _put_slowly(self, bundle: Bundle, lane: int, source: Channel | None) -> None:
        """Like `put`, where the mark may be reached: as if deliveries were put one by one.

        They are put together once the socket takes no more, if they all have the same policy.
        """
        frames = self.frames
        self._watch()
        unwanted: list[bytes] = []
        rest = frames.put_below(bundle, frames.mark_frames, frames.mark_bytes, lane)
        while rest is not None:
            alone = rest.frames > 1 and (self._only_policy is None or frames.may_write)
            some = rest.cut(1) if alone else rest
            rest = rest if alone else None
            frames.put_bundle(some, lane)
            if frames.is_over_mark:
                unwanted += self._went_over(some, source)
            if rest is not None:
                rest = frames.put_below(rest, frames.mark_frames, frames.mark_bytes, lane)
        if unwanted:
            self._intake.went_in(self._owner, unwanted, source)

    def _went_over(self, bundle: Bundle, source: Channel | None) -> list[bytes]:
        """These deliveries were just put into the queue: handle the mark and the bound.

        Returns those whose publishers are to pause.
        """
        frames = self.frames
        policy = self._policy_of(bytes(bundle.data))
        asks = policy == "block" and not (self.channel is not None and self.channel.is_held)
        unwanted = beyond(frames, frames.mark_frames, frames.mark_bytes, bundle.split()) if asks else []
        if frames.is_full:
            self._overflow(policy, bundle, source)
        if asks and not self.asks:
            self.asks = True
            self._intake.fills(self._owner)
            frames.when_low(frames.frames_max // 4, frames.bytes_max // 4, self.stop_asking)
        return unwanted

    def _overflow(self, policy: str, bundle: Bundle, source: Channel | None) -> None:
        """The queue was full when this bundle, with this policy, was put into it."""
        frames = self.frames
        if policy == "block" and not self.ended:
            if frames.reaches(2 * frames.frames_max, 2 * frames.bytes_max):
                self._last_resort(bundle, source)
            return
        if policy == "disconnect" and not self.ended:
            self._end("its queue is full, and its policy is disconnect")
        # Deliveries with the policy `block` may have gone beyond the bound: others do not make these give way.
        bounds = frames.frames_max, frames.bytes_max
        if policy == "drop_oldest" and not self.ended:
            frames.drop_oldest(bundle, *bounds, is_delivery)
        else:
            frames.drop_newest(bundle, *bounds)

    def _last_resort(self, bundle: Bundle, source: Channel | None) -> None:
        """More was in flight than there is room for although publishers pause, for example after a restart of a broker.

        The source is then not read from. If the source is the client itself, or it is held by others, it would wait for
        itself: in that case the newest deliveries are dropped.
        """
        own, frames = self.channel, self.frames
        if own is not None and (own.is_held or source is own):
            frames.drop_newest(bundle, 2 * frames.frames_max, 2 * frames.bytes_max)
        else:
            self._intake.hold_back(frames, source)

    # -- policies in force

    def _policy_of(self, delivery: bytes) -> str:
        """The policy that currently applies to a delivery."""
        return self._effective(self._only_policy or self._policy_for(delivered_for(delivery)))

    def _effective(self, policy: str) -> str:
        """The effective form of a policy at present."""
        if policy == "block":
            if self.is_away:
                return "drop_newest"
            if self.privilege.lost:
                return "drop_oldest"
        return policy

    def policy_now(self, subscriptions: tuple[str, ...]) -> str:
        """The policy that currently applies to deliveries for these subscriptions."""
        return self._effective(self._policy_for(subscriptions))

    def _policy_for(self, subscriptions: tuple[str, ...]) -> str:
        return _POLICY_OF[min(_STRENGTH[self.policies.get(id, POLICY_DEFAULT)] for id in subscriptions)]

    def fate(self, subscriptions: tuple[str, ...]) -> tuple[int, str]:
        """The length of the queue, and what would happen to a delivery now; empty if it would be queued as usual."""
        frames = self.frames
        if self.ended:
            return 0, LEAVING
        # a full queue drops at once, so it holds one less than its bound
        if not frames.reaches(frames.frames_max - 1, frames.bytes_max):
            return frames.waits, ""
        full = f"its queue is full ({frames.waits:,} frames)"
        told = {
            "drop_newest": f"dropped: {full}, and the policy is drop_newest",
            "drop_oldest": f"the oldest would be dropped for it: {full}, and the policy is drop_oldest",
            "disconnect": f"the client would be disconnected: {full}, and the policy is disconnect",
        }
        return frames.waits, told.get(self.policy_now(subscriptions), "")

    # -- deadlines

    def _still_wanted(self, bundle: Bundle) -> list[Bundle]:
        """The deliveries of a bundle that are not too old for all of their subscriptions."""
        now_ms = self._wall() * 1000
        if now_ms - bundle.oldest_ms <= self._shortest_ms:
            return [bundle]
        wanted: list[Bundle] = []
        rest: Bundle | None = bundle
        while rest is not None:
            one = rest.cut(1) if rest.frames > 1 else rest
            rest = None if one is rest else rest
            if not self._is_too_old(bytes(one.data), now_ms):
                wanted.append(one)
            elif self.frames.observer is not None:
                self.frames.observer.expired(self.frames, one)
        return wanted

    def _is_too_old(self, frame: bytes, now_ms: float) -> bool:
        if not is_delivery(frame) or (accepted_ms := delivered_at(frame)) is None:
            return False
        header = frame[9 : 9 + int.from_bytes(frame[5:9], "big")]
        deadline_ms = self._deadline_of.get(header)
        if deadline_ms is None:
            each = [self._deadlines.get(id, 0) for id in delivered_for(frame)]
            deadline_ms = self._deadline_of[header] = max(each) if all(each) else 0
        return bool(deadline_ms) and now_ms - accepted_ms > deadline_ms

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
            return self.frames.shed(memory_bytes, self._gives_way, one_by_one=self._only_policy is None)
        dropped = self.frames.shed(memory_bytes, is_delivery)
        return dropped + self.frames.shed_sent(memory_bytes, is_delivery)

    def _gives_way(self, frame: bytes | memoryview) -> bool:
        return is_delivery(frame) and self._policy_of(bytes(frame)) in ("drop_oldest", "drop_newest")

    # -- flow control

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to check: the client is there, and its queue holds up nobody and has room."""
        frames = self.frames
        is_long = frames.waits >= frames.frames_max or frames.waiting_bytes >= frames.bytes_max
        held_up = self.asks or frames.holds_up or is_long
        return self.channel is not None and not held_up and self.privilege.rests

    def stop_asking(self) -> None:
        """There is room again, or the right to ask for pauses is gone."""
        if self.asks:
            self.asks = False
            self.frames.never_mind()
            self._intake.has_room(self._owner)
            self.frames.release_all()

    def check_block(self, passed_s: float) -> bool:
        """Account for the time passed; returns whether it turned out to be too slow to hold up its publishers."""
        frames = self.frames
        lost = self.privilege.check(passed_s, self.asks, (frames.confirmed, frames.confirmed_bytes), not frames.held)
        if lost:
            self.stop_asking()
        return lost


def is_delivery(frame: bytes | memoryview) -> bool:
    """Whether a frame for a client is a delivery; others are answers to requests, which are never dropped."""
    return frame[4] == Kind.DELIVER
