"""The sessions of one broker: how they begin, how long they are remembered, and how they end.

A session is found by its client's name, which stays reserved as long as the session lives, and by its secret. It ends
when its client says goodbye, when it has been without a connection for too long, or when the broker ends it because its
queue is full. The core is then told that the client left. The client's registrations are withdrawn in slices, one per
iteration of the event loop, so that other clients are served in between. Until that is done, the name stays reserved,
and a new client that asks for it waits.

When the broker restarts, sessions that may outlive a connection are saved with their registrations. The next process
resumes them with the rights that its configuration gives to the same client; without any, the session ends.
"""

from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import Any

from octopia.language import Filter
from octopia.net.broker.aliases import Aliases
from octopia.net.broker.counting import Done
from octopia.net.broker.identity import new_secret
from octopia.net.broker.intake import Intake
from octopia.net.broker.memory import MEMORY
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.privilege import BlockPrivilege
from octopia.net.broker.qos import Qos
from octopia.net.broker.rights import Rights
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedSession
from octopia.net.broker.sessions import Session
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import Holder
from octopia.net.frame_queue import FrameObserver, FrameQueue, Ledger, Turn
from octopia.net.limits import NetLimits
from octopia.wire import AdvertiseRequest, FlushRequest, SubscribeRequest

# Clients remembered as too slow to block, in case they come back with a new session.
SLOW_MAX = 10_000
# Calls a function with arguments in the next iteration of the event loop.
Soon = Callable[..., Any]


class Sessions(Mapping[str, Session]):
    """Sessions by name. Engines use the same `by_name`."""

    def __init__(
        self,
        by_name: dict[str, Session],
        limits: NetLimits,
        *,
        tick_s: float,
        turn: Turn,
        router: Router,
        intake: Intake,
        counters: Counters,
        log: Log,
        now: Callable[[], float],
        soon: Soon,
        count: Callable[[Filter, Done], None],
        flush: Callable[[Session, FlushRequest], None],
        qos: Qos,
        wall: Callable[[], float],
        aliases: Aliases | None,
        ledger: Ledger,
    ) -> None:
        self.observe: Callable[[str], FrameObserver] | None = None  # makes the observer of a client's queue
        self._aliases = aliases
        self._ledger = ledger
        self._by_name = by_name
        self._by_secret: dict[bytes, Session] = {}
        self._limits = limits
        self._tick_s = tick_s
        self._checked_s = now()
        self._rush_until_s = now()  # until then no client counts as too slow
        self._slow: dict[str, float] = {}  # by name: until when a client that was too slow may not block
        self._turn = turn
        self._router = router
        self._intake = intake
        self._counters = counters
        self._log = log
        self._now = now
        self._soon = soon
        self.count = count
        self.flush = flush
        self.qos = qos
        self._wall = wall
        self._watched: dict[Session, None] = {}  # those that are away, slow, or whose queue is long
        self._dropped_before = 0
        self._too_old_before = 0
        # by the name of a leaving client: calls to make when it has left
        self._leaving: dict[str, list[Callable[[], None]]] = {}

    def __getitem__(self, name: str) -> Session:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def values(self) -> ValuesView[Session]:
        """All sessions, without the overhead of a mapping view, since every tick iterates over them."""
        return self._by_name.values()

    def of_secret(self, secret: bytes) -> Session | None:
        """The session with this secret."""
        return self._by_secret.get(secret) if secret else None

    def begin(self, name: str, session_s: float, rights: Rights) -> Session:
        """Begin a session for a client whose name is free."""
        return self._add(name, new_secret(), session_s, rights)

    def _add(self, name: str, secret: bytes, session_s: float, rights: Rights) -> Session:
        limits = self._limits
        bounds = limits.client_queue_frames_max, limits.client_queue_bytes_max, limits.window_frames
        queue = FrameQueue(self._turn, *bounds)
        queue.ledger = self._ledger
        if self._aliases is not None:
            queue.disguise = self._aliases.disguise
        if self.observe is not None:
            queue.observer = self.observe(name)
        session = Session(
            name,
            secret,
            min(session_s, limits.session_s_max),
            rights,
            queue=queue,
            stall=StallWatch(queue, limits.stall_s),
            privilege=BlockPrivilege(limits.block_s, limits.block_frames_per_s_min, limits.block_again_s),
            table=self,
            router=self._router,
            intake=self._intake,
            counters=self._counters,
            log=self._log,
            now=self._now,
            qos=self.qos,
            wall=self._wall,
        )
        if name in self._slow:
            session.deliveries.privilege.lose()
            self.watch(session)
        self._by_name[name] = self._by_secret[session.secret] = session
        return session

    def watch(self, session: Session) -> None:
        """Check a session at each tick, until it is at rest: a tick costs nothing for idle clients."""
        self._watched[session] = None

    @property
    def away(self) -> list[Session]:
        """The sessions of clients that are away."""
        return [session for session in self._watched if session.is_away]

    def forget(self, session: Session) -> None:
        """Remove a client that is gone for good; nothing is delivered to it from now on."""
        if self._by_name.get(session.name) is session:
            self._dropped_before += session.queue.dropped_total
            self._too_old_before += session.queue.too_old_total
            session.leave()
            del self._by_name[session.name]
            del self._by_secret[session.secret]
            self._watched.pop(session, None)
            self._log.event("client left", client=session.name)
            self._leaving[session.name] = []
            self._withdraw_some(session.name)

    def _withdraw_some(self, name: str) -> None:
        if self._router.client_left(name, self._now()):
            self._soon(self._withdraw_some, name)
            return
        for call in self._leaving.pop(name):
            call()

    def put_off(self, name: str, call: Callable[[], None]) -> bool:
        """Whether a client of this name is still leaving; if so, `call` is called when it has left."""
        if name not in self._leaving:
            return False
        self._leaving[name].append(call)
        return True

    def end(self, session: Session, code: str, reason: str) -> None:
        """End a session and tell the client why."""
        if session.ended:
            return
        session.deliveries.ended = True
        if code == MEMORY:
            self._counters.sessions_ended_for_memory += 1
        else:
            self._counters.sessions_ended_slow += 1
        self._log.warning("client disconnected", client=session.name, reason=reason)
        session.drop_channel(code, reason)
        # Not from inside the delivery that filled its queue.
        self._soon(self.forget, session)

    def check_time(self, now: float) -> None:
        """Remove clients that have been away too long, and end those that read nothing."""
        # If this tick is late, there may be confirmations that have not been read yet.
        passed_s, self._checked_s = min(now - self._checked_s, 2 * self._tick_s), now
        if self._slow:
            self._slow = {name: until_s for name, until_s in self._slow.items() if until_s > now}
        for session in list(self._watched):
            if session.deliveries.is_at_rest:
                del self._watched[session]
                continue
            away_s = 0.0 if session.left_s is None else now - session.left_s
            if session.deliveries.returns:
                if away_s > self._limits.link_grace_s:
                    session.stay_away()
            elif now >= self._rush_until_s and (session.deliveries.asks or not session.deliveries.privilege.rests):
                self._check_block(session, passed_s, now)
            if session.left_s is not None and away_s > session.session_s:
                self.forget(session)
            elif session.stall.is_stalled(now):
                self.end(session, "stalled", f"it took nothing for {self._limits.stall_s:g} s")

    def expect_a_rush(self) -> None:
        """A link was resumed: what was queued at both ends arrives at once, and clients may need a while to read it."""
        self._rush_until_s = self._now() + self._limits.link_grace_s

    def _check_block(self, session: Session, passed_s: float, now: float) -> None:
        if session.deliveries.check_block(passed_s):
            self._counters.blocks_lost += 1
            self._log.warning("client too slow to block", client=session.name, waiting=session.queue.waits)
            if len(self._slow) < SLOW_MAX:
                self._slow[session.name] = now + self._limits.block_again_s

    def hold_sources(self, holder: Holder) -> None:
        """Stop reading from publishers, except those with queued deliveries, which may confirm them."""
        for session in self._by_name.values():
            if session.channel is not None and session.publisher.published and not session.queue.waits:
                session.channel.hold(holder)

    def release_sources(self, holder: Holder) -> None:
        for session in self._by_name.values():
            if session.channel is not None:
                session.channel.release(holder)

    def freeze(self) -> None:
        """Accept nothing more; unconfirmed frames stay with the clients."""
        for session in self._by_name.values():
            if session.channel is not None:
                session.channel.freeze()

    def save(self, registrations: Callable[[Session], list[bytes]]) -> list[SavedSession]:
        """The sessions that the next process is to resume."""
        return [
            session.saved(registrations(session))
            for session in self._by_name.values()
            if session.session_s and not session.ended
        ]

    def restore(
        self, saved: SavedSession, rights: Rights, registrations: list[AdvertiseRequest | SubscribeRequest]
    ) -> None:
        """Resume a session of the previous process, whose client now has these rights."""
        session = self._add(saved.name, saved.secret, saved.session_s, rights)
        self.watch(session)
        session.restore(saved, registrations)

    def dropped_total(self) -> int:
        """Deliveries dropped at full queues, of current and former clients."""
        return self._dropped_before + sum(session.queue.dropped_total for session in self._by_name.values())

    def too_old_total(self) -> int:
        """Deliveries dropped because their deadline had passed, of current and former clients."""
        return self._too_old_before + sum(session.queue.too_old_total for session in self._by_name.values())
