"""The sessions of one broker: how they begin, how long they are remembered, and how they end.

Rules of this file: a session is found by its client's name, which is taken as long as it lives, and by its secret. It
ends when its client says goodbye, when it has been without a connection for too long, or when we end it because its
queue is full; then the core is told that the client left, and nothing of it remains. What a client had registered is
withdrawn in slices, one in each turn of the event loop, so that others are served in between. Until that is done its
name is taken, and who asks for it waits.

When the broker restarts, sessions that may outlive a connection are saved with their registrations, and taken up by the
next life with the rights that the configuration then gives to the same client; where it gives none, it is over.
"""

from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import Any

from octopia.net.broker.identity import new_secret
from octopia.net.broker.intake import Intake
from octopia.net.broker.memory import MEMORY
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.privilege import BlockPrivilege
from octopia.net.broker.rights import Rights
from octopia.net.broker.router import Router
from octopia.net.broker.saved import SavedSession
from octopia.net.broker.sessions import Session
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import Holder
from octopia.net.limits import NetLimits
from octopia.net.outbox import Outbox, Turn
from octopia.wire import AdvertiseRequest, SubscribeRequest

# Clients that are remembered for having been too slow to block, when they come back as new.
SLOW_MAX = 10_000
# Calls this with that, in the next turn of the event loop.
Soon = Callable[..., Any]


class Sessions(Mapping[str, Session]):
    """By name. Dispatch looks into the same `by_name`."""

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
    ) -> None:
        self._by_name = by_name
        self._by_secret: dict[bytes, Session] = {}
        self._limits = limits
        self._tick_s = tick_s
        self._checked_s = now()
        self._rush_until_s = now()  # nobody is taken for too slow before
        self._slow: dict[str, float] = {}  # by name, until when who was too slow may not block
        self._turn = turn
        self._router = router
        self._intake = intake
        self._counters = counters
        self._log = log
        self._now = now
        self._soon = soon
        self._dropped_before = 0
        # by the name of a client that is leaving, what waits for its end
        self._leaving: dict[str, list[Callable[[], None]]] = {}

    def __getitem__(self, name: str) -> Session:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def values(self) -> ValuesView[Session]:
        """All sessions; every tick looks at them, so by the shortest way."""
        return self._by_name.values()

    def of_secret(self, secret: bytes) -> Session | None:
        """The session that has this secret."""
        return self._by_secret.get(secret) if secret else None

    def begin(self, name: str, session_s: float, rights: Rights) -> Session:
        """A client with a name that nobody has."""
        return self._add(name, new_secret(), session_s, rights)

    def _add(self, name: str, secret: bytes, session_s: float, rights: Rights) -> Session:
        limits = self._limits
        box = Outbox(self._turn, limits.client_queue_frames_max, limits.client_queue_bytes_max, limits.window_frames)
        session = Session(
            name,
            secret,
            min(session_s, limits.session_s_max),
            rights,
            box=box,
            stall=StallWatch(box, limits.stall_s),
            privilege=BlockPrivilege(limits.block_s, limits.block_frames_per_s_min, limits.block_again_s),
            table=self,
            router=self._router,
            intake=self._intake,
            counters=self._counters,
            now=self._now,
        )
        if name in self._slow:
            session.privilege.lose()
        self._by_name[name] = self._by_secret[session.secret] = session
        return session

    def forget(self, session: Session) -> None:
        """A client is gone for good and leaves nothing behind: nothing is delivered to it from now on."""
        if self._by_name.get(session.name) is session:
            self._dropped_before += session.box.dropped_total
            session.leave()
            del self._by_name[session.name]
            del self._by_secret[session.secret]
            self._leaving[session.name] = []
            self._withdraw_some(session.name)

    def _withdraw_some(self, name: str) -> None:
        if self._router.client_left(name, self._now()):
            self._soon(self._withdraw_some, name)
            return
        for call in self._leaving.pop(name):
            call()

    def put_off(self, name: str, call: Callable[[], None]) -> bool:
        """Whether a client of this name is still leaving; then `call` follows when it has left."""
        if name not in self._leaving:
            return False
        self._leaving[name].append(call)
        return True

    def end(self, session: Session, code: str, reason: str) -> None:
        """We end it, and say why."""
        if session.ended:
            return
        session.ended = True
        if code == MEMORY:
            self._counters.sessions_ended_for_memory += 1
        else:
            self._counters.sessions_ended_slow += 1
        self._log.warning("client disconnected", client=session.name, reason=reason)
        session.drop_channel(code, reason)
        # Not from inside the delivery that filled its queue.
        self._soon(self.forget, session)

    def check_time(self, now: float) -> None:
        """Forget who has been away too long, end who takes nothing."""
        # If we come late, confirmations may have come that were not read yet.
        passed_s, self._checked_s = min(now - self._checked_s, 2 * self._tick_s), now
        if self._slow:
            self._slow = {name: until_s for name, until_s in self._slow.items() if until_s > now}
        for session in list(self._by_name.values()):
            away_s = 0.0 if session.left_s is None else now - session.left_s
            if session.returns:
                if away_s > self._limits.link_grace_s:
                    session.stay_away()
            elif now >= self._rush_until_s and (session.asks or not session.privilege.rests):
                self._check_block(session, passed_s, now)
            if session.left_s is not None and away_s > session.session_s:
                self.forget(session)
            elif session.stall.is_stalled(now):
                self.end(session, "stalled", f"it took nothing for {self._limits.stall_s:g} s")

    def expect_a_rush(self) -> None:
        """A link was taken up: what waited at both ends comes at once, and clients may need a while to take it."""
        self._rush_until_s = self._now() + self._limits.link_grace_s

    def _check_block(self, session: Session, passed_s: float, now: float) -> None:
        if session.check_block(passed_s):
            self._counters.blocks_lost += 1
            self._log.warning("client too slow to block", client=session.name, waiting=len(session.box.waiting))
            if len(self._slow) < SLOW_MAX:
                self._slow[session.name] = now + self._limits.block_again_s

    def hold_sources(self, holder: Holder) -> None:
        """Do not read from clients that publish. One for which something waits is read from: it may confirm that."""
        for session in self._by_name.values():
            if session.channel is not None and session.published and not session.box.waiting:
                session.channel.hold(holder)

    def release_sources(self, holder: Holder) -> None:
        for session in self._by_name.values():
            if session.channel is not None:
                session.channel.release(holder)

    def freeze(self) -> None:
        """Take nothing more from anyone: what is not confirmed stays with the clients."""
        for session in self._by_name.values():
            if session.channel is not None:
                session.channel.freeze()

    def save(self, registrations: Callable[[Session], list[bytes]]) -> list[SavedSession]:
        """What our next life needs to go on with those that may outlive a connection."""
        return [
            session.saved(registrations(session))
            for session in self._by_name.values()
            if session.session_s and not session.ended
        ]

    def restore(
        self, saved: SavedSession, rights: Rights, registrations: list[AdvertiseRequest | SubscribeRequest]
    ) -> None:
        """A session of our earlier life, whose client now has these rights."""
        self._add(saved.name, saved.secret, saved.session_s, rights).restore(saved, registrations)

    def dropped_total(self) -> int:
        """Deliveries dropped at full queues, of clients that are here and of those that have gone."""
        return self._dropped_before + sum(session.box.dropped_total for session in self._by_name.values())
