"""A link to a neighbour: its queue, its state, and how it resumes after a break.

    down ──fresh handshake──▶ up ──connection lost──▶ broken ──resumed in time──▶ up
                                                        └──grace over, or the neighbour restarted──▶ down
    up ──the neighbour says Drain──▶ leaving ──it says that it restarts──▶ away ──fresh handshake──▶ down, up at once

The smaller broker of the two dials until it succeeds (`dialler.py`), so brokers may start in any order. Each process of
a broker has a life, a random number. When both ends still know each other's life and sent frames, the link resumes as
if nothing had happened: nothing is lost or duplicated, and the core is not told. Otherwise the link is fresh: the core
is told that it went down and came up, and resyncs the tables. `link_queue.py` says what its queue holds meanwhile.

**A neighbour's restart loses nothing.** From its `Drain` on, the core treats the link as overloaded, so notifications
take a detour if there is one. Frames waiting at that moment are still written; later ones wait. The neighbour's goodbye
says that it took no unconfirmed frames, so those wait again, too. While it is away, the core is told nothing; at the
bound of the queue, sources of more are held for as long as it may stay away. When it returns as a fresh link, the
notifications go first and then the resync. The same holds the other way round: a broker that restarted holds sources
rather than drop notifications for a neighbour that has not connected yet.

A neighbour whose connection broke just before has heard nothing, and would take the broker for dead. So a broker that
is about to restart waits for such neighbours, and still admits them. What a neighbour has not confirmed when the time
to drain is over is saved: it may arrive twice.

**If the routing has streams** (`fdr`), its paths may form cycles, and brokers waiting for each other could wait
forever. So neighbours are always read from: traffic in flight is bounded by what the publishers' brokers keep until it
is confirmed, and these make publishers pause. A broken link goes down after a moment, and nothing waits for it:
messages in flight are sent again on another path. A restarting neighbour is waited for all the same.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.barriers import Barriers
from octopia.net.broker.counting import Counting
from octopia.net.broker.identity import Identity
from octopia.net.broker.intake import Intake
from octopia.net.broker.link_queue import LinkQueue, is_notification
from octopia.net.broker.operations.log import Log
from octopia.net.broker.router import Router
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import SILENT, SILENT_HEARTBEATS, Channel
from octopia.net.frame_queue import FrameQueue, Turn
from octopia.net.limits import NetLimits
from octopia.protocol import Message
from octopia.topology import BrokerId
from octopia.wire import (
    COUNTS,
    HELD_PER_FRAME_MAX,
    ROLE_BROKER,
    VERSION,
    Barrier,
    BarrierDone,
    Counted,
    CountRequest,
    Drain,
    Drained,
    Hello,
    Hold,
    Unread,
    Welcome,
    message_frame,
    publisher_of,
)

# The code of a goodbye before a restart: unconfirmed frames were not taken, and this broker will be back.
RESTART = "restart"
# The code of a final goodbye.
SHUTDOWN = "shutdown"
# The queue length reported to the core for a neighbour that is leaving or whose connection broke: longer than any real
# queue, so that every other path is better.
AWAY_FRAMES = 1 << 40
_CORE_MESSAGES: frozenset[type[Any]] = frozenset(get_args(Message))


class Link:
    """One end of the connection between two neighbours."""

    def __init__(
        self,
        neighbour: BrokerId,
        identity: Identity,
        limits: NetLimits,
        *,
        turn: Turn,
        router: Router,
        barriers: Barriers,
        counting: Counting,
        intake: Intake,
        log: Log,
        now: Callable[[], float],
        soon: Callable[..., Any],
        on_connected: Callable[[], None],
        repeats: bool = False,
    ) -> None:
        self.neighbour = neighbour
        self._identity = identity
        self._limits = limits
        self._router = router
        self._barriers = barriers
        self._counting = counting
        self._questions: dict[type[Any], Callable[[BrokerId, Any], None]] = {
            Barrier: barriers.received,
            BarrierDone: barriers.answered,
            CountRequest: counting.received,
            Counted: counting.answered,
        }
        self._intake = intake
        self._log = log
        self._now = now
        self._soon = soon
        # Whether the routing has streams: the broker that notifications came from resends those that a broken link
        # held.
        self._repeats = repeats
        self._on_connected = on_connected  # the backlog for the neighbour is sent all at once
        bounds = limits.link_queue_frames_max, limits.link_queue_bytes_max, limits.window_frames
        self.queue = FrameQueue(turn, *bounds)
        self.outgoing = LinkQueue(self, self.queue, intake, repeats=repeats)
        self.stall = StallWatch(self.queue, limits.stall_s)
        self._counts = False  # whether the neighbour supports questions about counts
        self.channel: Channel | None = None
        self.broken_since: float | None = None
        self.is_up = False  # as far as the core knows
        self.down_since: float | None = now()  # None also after it was given up
        self.their_life = b""
        self.received = 0
        self.leaves = False  # the neighbour announced that it will stop
        self.has_drained = False  # as we asked, it sends nothing more
        self._sampled = (0, 0, 0)
        self._grace_s = 0.0  # how long it may be broken this time
        self._give_up_s = limits.link_give_up_s
        self._was_up = False
        self._sure_until_s = 0.0
        self.keeps_all = False  # while it is not connected
        self._said_drained = False
        self._may_return = False  # its connection broke, and it did not say that it would
        self._stopping = ""  # the code of the goodbye, once this broker is stopping
        self._closed = False

    @property
    def dials(self) -> bool:
        """Whether this end dials."""
        return self._identity.broker < self.neighbour

    @property
    def awaited_s(self) -> float:
        """For how long in all the neighbour is awaited because something depends on it; 0 if nothing does."""
        if self.broken_since is not None:
            return self._grace_s
        return 0.0 if self._was_up or self.down_since is None else self._give_up_s

    # -- sending

    def send(self, message: Message, frames: list[bytes], priority: int = 0) -> None:
        """Queue a message of the core, already encoded."""
        if self.outgoing.send(message, frames, priority, None):
            self._barriers.control_sent(self.neighbour)

    def shed(self, memory_bytes: int) -> int:
        """Drop notifications for a link that is down, oldest first, down to this much memory; returns their number."""
        return self.outgoing.shed(memory_bytes)

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing may wait for the neighbour: all brokers know that it is down, or are about to."""
        lost = self._repeats and not self.is_up and not self.keeps_all
        return lost and (self._was_up or self.down_since is None)

    def send_barrier(self, message: Barrier | BarrierDone) -> None:
        self.queue.put_fence(message_frame(message))

    def send_beside(self, frame: bytes) -> bool:
        """Send a question or answer about counts; returns whether the neighbour is connected and supports them."""
        if self.channel is None or not self._counts:
            return False
        self.channel.write_beside(frame)
        return True

    # -- receiving

    def take_in(self, channel: Channel, messages: Iterator[Any]) -> None:
        sender, now = self.neighbour, self._now()
        self._intake.read_began()
        try:
            for message in messages:
                kind = type(message)
                if kind is Unread:
                    self._router.receive_copies(sender, message, channel, now)
                elif kind in _CORE_MESSAGES:
                    self._router.receive(sender, message, now)
                elif kind is Hold:
                    self.outgoing.neighbour_said(message)
                elif kind in self._questions:
                    self._questions[kind](sender, message)
                elif kind is Drain:
                    self._neighbour_leaves(now)
                elif kind is Drained:
                    self.has_drained = True
                else:
                    channel.manage(message)
        finally:
            self._intake.read_ended()

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """The publishers of these notifications, each once."""
        return dict.fromkeys(map(publisher_of, frames))

    def pause(self, publishers: list[str], held: bool) -> None:
        """Ask the neighbour to pause these publishers, or to resume them."""
        if self.channel is not None:
            for start in range(0, len(publishers), HELD_PER_FRAME_MAX):
                self.channel.say(Hold(publishers[start : start + HELD_PER_FRAME_MAX], held))

    # -- handshake

    def hello(self, nonce: bytes) -> Hello:
        """Our Hello when we dial."""
        own = self._identity
        return Hello(
            [VERSION],
            ROLE_BROKER,
            str(own.broker),
            capabilities=[COUNTS],
            session=own.life,
            peer=self.their_life,
            received=self.received,
            overlay=own.overlay.nameless_digest,
            to=str(self.neighbour),
            nonce=nonce,
            overlay_name=own.overlay.spoken_name,
        )

    def welcomed(self, channel: Channel, welcome: Welcome) -> None:
        """The neighbour itself answered our call."""
        if self._is_too_late(channel):
            return
        if welcome.version != VERSION or welcome.broker != str(self.neighbour):
            raise RemoteProtocolError(f"{welcome.broker} answered (version {welcome.version}), not {self.neighbour}")
        resumed = welcome.resumed and welcome.session == self.their_life
        if welcome.resumed and not resumed:
            # The link went down here while we dialled, and the neighbour continues as before: the next call starts
            # afresh.
            channel.close("replaced", "the link went down while it was being resumed")
            return
        self._counts = COUNTS in welcome.capabilities
        self._take_up(channel, welcome.session, resumed, welcome.received)

    def accept(self, channel: Channel, hello: Hello) -> None:
        """The neighbour dialled and is authenticated."""
        if self._is_too_late(channel):
            return
        own = self._identity
        if self.dials:
            raise RefusedError(f"{own.broker} dials {self.neighbour}, not the other way round")
        resumed = hello.peer == own.life and hello.session == self.their_life and self.their_life != b""
        if self.channel is not None:
            # The old connection is dead, and we had not noticed.
            old, self.channel = self.channel, None
            self._hold_nobody()
            self.received = old.taken
            old.disown()
            old.abort()
        if not resumed and hello.session == self.their_life and self._now() < self._sure_until_s:
            # It never got our last welcome, or it would know our life: it has taken none of the frames that followed.
            self.queue.take_back()
        channel.say(
            Welcome(
                VERSION,
                str(own.broker),
                hello.name,
                [name for name in hello.capabilities if name == COUNTS],
                session=own.life,
                resumed=resumed,
                received=self.received if resumed else 0,
                frame_bytes_max=own.frame_bytes_max,
                heartbeat_s=own.heartbeat_s,
            )
        )
        self._counts = COUNTS in hello.capabilities
        self._take_up(channel, hello.session, resumed, hello.received)

    def _is_too_late(self, channel: Channel) -> bool:
        """Whether this broker takes nothing more, which it then says."""
        if self._closed:
            channel.close(self._stopping or SHUTDOWN, "this broker has stopped")
        return self._closed

    def _take_up(self, channel: Channel, life: bytes, resumed: bool, confirmed: int) -> None:
        if not resumed:
            self.go_down(returns=True)
            confirmed = self.received = 0
        self.their_life = life
        self.channel = channel
        self.broken_since = None
        self.leaves = self.has_drained = self._said_drained = self.keeps_all = self._may_return = False
        self._was_up = True
        self._give_up_s = self._limits.link_give_up_s
        # For this long, a neighbour that was welcomed remembers it, whatever happens to the connection.
        self._sure_until_s = self._now() + self._limits.link_grace_s
        self.outgoing.set_mark()
        self.queue.attach(channel.transport, confirmed)
        channel.carry(self, ROLE_BROKER, self.received)
        self.down_since = None
        if not self.is_up:
            self.is_up = True
            self._router.link_up(self.neighbour)
        if self._stopping:
            channel.say(Drain())
        self._on_connected()
        self._log.info("link up", neighbour=str(self.neighbour), resumed=resumed)

    # -- losing and finding

    def lost(self, channel: Channel, reason: str) -> None:
        self.received = channel.taken
        self.channel = None
        self._hold_nobody()
        self.queue.detach()
        self.broken_since = self._now()
        limits = self._limits
        code = channel.goodbye.code if channel.goodbye is not None else ""
        self._may_return = code not in (RESTART, SHUTDOWN)
        if code == RESTART:
            self.leaves = self.keeps_all = True
            self._grace_s = limits.restart_grace_s
            self.queue.take_back()
        else:
            self.leaves = False
            # The dialling side may have noticed later than we did, and has the whole grace period from then on.
            noticed_s = 0.0 if self.dials else SILENT_HEARTBEATS * limits.link_heartbeat_s
            self._grace_s = limits.link_grace_s + noticed_s
            if self._repeats:
                # A silent neighbour has already had its time.
                self._grace_s = 0.0 if reason.startswith(SILENT) else limits.detour_grace_s
        # At once: a neighbour may have noticed before us and send us notifications that it can no longer forward.
        self._sample(self.broken_since)
        if not self._closed:
            self._log.warning("link broken", neighbour=str(self.neighbour), reason=reason)

    def _hold_nobody(self) -> None:
        """Holds end with the connection, ours and the neighbour's, and so do questions about counts."""
        self._counting.gone(self.neighbour)
        self.outgoing.connection_lost()

    def check_time(self, now: float) -> None:
        """Check timeouts: broken for too long is down, down for too long is given up, stalled is broken."""
        self._sample(now)
        if self.leaves:
            self._answer_drain()
        if self.channel is not None and self.stall.is_stalled(now):
            self._log.warning("link stalled", neighbour=str(self.neighbour))
            self.channel.abort()
        if self.broken_since is not None and now - self.broken_since > self._grace_s:
            self.go_down()
        if self.down_since is not None and now - self.down_since > self._give_up_s:
            self.down_since = None
            self.keeps_all = self._may_return = False
            self.outgoing.clear()
            self._router.link_given_up(self.neighbour)

    def _sample(self, now: float) -> None:
        """Report the queue to the core, if anything changed (Eq. 10)."""
        self.outgoing.check_marks(now)
        waiting, left = self.queue.waits, self.queue.left_total
        away = self.leaves or self.broken_since is not None
        sample = (AWAY_FRAMES if away else waiting, left + waiting, left)
        if sample != self._sampled or waiting:
            self._sampled = sample
            self._router.link_sampled(self.neighbour, sample, now)

    def wait_no_longer(self) -> None:
        """The link is broken, and its queue has no room left to wait."""
        self._soon(self._go_down_if_broken)

    def _go_down_if_broken(self) -> None:
        """It broke a moment ago. If it has resumed since, there is no gap and nothing to wait for."""
        if self.channel is None:
            self.go_down()

    def go_down(self, *, returns: bool = False) -> None:
        """The link cannot be resumed: only frames that were never sent and change no tables may still be sent.

        `returns`: the neighbour is there, with a new life.
        """
        self.broken_since = None
        self.their_life = b""
        # These are the only copies of notifications for a restarting neighbour: no broker was told that it was away.
        keeps = self.keeps_all or not self._repeats
        self.leaves = self.keeps_all = False
        if self.is_up:
            self.is_up = False
            self.outgoing.stop_asking()
            self.outgoing.set_mark()
            self.down_since = self._now()
            self.outgoing.keep_notifications(keeps)
            self._router.link_down(self.neighbour, returns=returns)

    # -- the neighbour is about to stop

    def _neighbour_leaves(self, now: float) -> None:
        self.leaves = True
        # At once: anything queued from now on would be overtaken by traffic that goes around.
        self._sample(now)
        self.queue.write_no_more()
        self.queue.flush()
        self._answer_drain()

    def _answer_drain(self) -> None:
        if self.channel is not None and not self._said_drained and self.queue.has_written_all:
            self._said_drained = True
            self.channel.say(Drained())

    # -- this broker is about to stop

    def drain(self, code: str) -> None:
        """Ask the neighbour to send nothing more; the goodbye will have this code."""
        self._stopping = code
        if self.channel is not None:
            self.channel.say(Drain())

    @property
    def is_drained(self) -> bool:
        """Whether the neighbour sends nothing more and has confirmed everything that it takes.

        Before a restart, a neighbour that may be back soon is waited for: it is to hear of the restart.
        """
        if self.channel is None:
            return not (self._may_return and self._stopping == RESTART)
        queue = self.queue
        has_all = self._said_drained or not queue.waits
        return self.has_drained and has_all and queue.sent == queue.confirmed

    def freeze(self) -> None:
        """Accept nothing more, so that unconfirmed frames stay with the neighbour, and write nothing more."""
        self._closed = True
        if self.channel is not None:
            self.channel.freeze()
        self.queue.detach()

    def unsent(self) -> list[bytes]:
        """Notifications that the neighbour has not confirmed, for our next life: none that was sent, if it drained."""
        return [frame for frame in self.queue.unconfirmed() if is_notification(frame)]

    def restore(self, unsent: list[bytes]) -> None:
        """We restarted before these were sent; neither they nor new notifications for this neighbour are dropped."""
        self.queue.refill(0, [], unsent, 0)
        self.keeps_all = True
        # It may be restarting, too.
        self._give_up_s = max(self._limits.link_give_up_s, self._limits.restart_grace_s)
