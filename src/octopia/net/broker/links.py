"""A link to a neighbour: what waits for it, whether it is up, and how it is taken up again when it breaks.

    down ──fresh handshake──▶ up ──connection lost──▶ broken ──resumed in time──▶ up
                                                        └──grace over, or the neighbour restarted──▶ down

Rules of this file: the smaller broker of the two dials, again and again (`dialler.py`); so brokers may start in any
order. Each process of a broker has a life, a random number; when both ends still know each other's life and what
they had sent, the link goes on as if nothing had happened: nothing is lost or doubled, and the core is told nothing.
Otherwise the link is fresh: the core is told that it went down and came up, and brings the tables in line. What waits
for a link that is down are notifications that were never sent, up to the bound; more are dropped and counted. While it
is up nothing is dropped: from a mark on the publishers of what goes there are asked to pause, until half of that is
gone. While it is connected the mark keeps the queue short (`marks.py`); while it is broken it is half of the bound. At
the bound, the last resort, whoever brings more is not read from, and a link that is broken is down.
"""

from collections.abc import Callable, Iterable
from typing import Any, get_args

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.barriers import Barriers
from octopia.net.broker.identity import Identity
from octopia.net.broker.intake import Intake
from octopia.net.broker.marks import Marks
from octopia.net.broker.operations.log import Log
from octopia.net.broker.router import Router
from octopia.net.broker.stall import StallWatch
from octopia.net.channel import Channel
from octopia.net.limits import NetLimits
from octopia.net.outbox import Outbox, Turn
from octopia.routing import PLAIN, Message, Notify
from octopia.topology import BrokerId
from octopia.wire import (
    HELD_PER_FRAME_MAX,
    ROLE_BROKER,
    VERSION,
    Barrier,
    BarrierDone,
    Hello,
    Hold,
    Kind,
    Parcels,
    Welcome,
    message_frame,
    publisher_of,
)

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
        intake: Intake,
        log: Log,
        now: Callable[[], float],
        soon: Callable[..., Any],
    ) -> None:
        self.neighbour = neighbour
        self._identity = identity
        self._limits = limits
        self._router = router
        self._barriers = barriers
        self._intake = intake
        self._log = log
        self._now = now
        self._soon = soon
        self.box = Outbox(turn, limits.link_queue_frames_max, limits.link_queue_bytes_max, limits.window_frames)
        self.stall = StallWatch(self.box, limits.stall_s)
        self._marks = Marks(limits.link_queue_frames_max, limits.link_queue_bytes_max)
        self._mark: tuple[int, int] | None = None  # frames and bytes; None where nobody is asked to pause
        self._asks = False  # whether the publishers of what goes there are to pause
        self._names = False  # whether the neighbour named publishers that are to pause
        self.channel: Channel | None = None
        self.broken_since: float | None = None
        self.is_up = False  # as far as the core knows
        self.down_since: float | None = now()  # None also when it was given up
        self.their_life = b""
        self.received = 0
        self.notified_s = float("-inf")  # when it last brought notifications
        self._brings: list[str] = []  # whose notifications it brings at present
        self.dropped = 0
        self.gathered: list[bytes] = []  # of the batch that is being carried out
        self._sampled = (0, 0, 0)
        self._closed = False

    @property
    def dials(self) -> bool:
        """Whether it is us who dial."""
        return self._identity.broker < self.neighbour

    # -- sending

    def send(self, message: Message, frames: list[bytes]) -> None:
        """Queue a core message, which was encoded already."""
        if isinstance(message, Notify):
            if not self.box.put_if_room(frames):
                self._put_slowly(frames)
            return
        box = self.box
        for frame in frames:
            box.put(frame)
        if box.is_full:
            self._overflow()
        self._barriers.control_sent(self.neighbour)

    def put_all(self, frames: list[bytes]) -> None:
        """Queue notifications, which were encoded already."""
        if not self.box.put_if_room(frames):
            self._put_slowly(frames)

    def _put_slowly(self, frames: list[bytes]) -> None:
        """As `put_all`, where the mark would be reached, or is 0."""
        box = self.box
        bounds = box.frames_max, box.bytes_max
        unwanted: list[bytes] = []
        at = 0
        while (at := box.put_below(frames, at, *(self._mark or bounds))) < len(frames):
            box.put(frames[at])
            if box.is_full:
                self._overflow()
            stop = at + 1
            if self._is_over_mark():
                # The socket took all that it takes, and so it stays until this read is over.
                stop = box.put_below(frames, stop, *bounds)
                unwanted += frames[at:stop]
            at = stop
        if unwanted:
            self._intake.went_in(self, unwanted)
        if self._names:
            self._intake.passed_on(self, frames)

    def _is_over_mark(self) -> bool:
        """Whether publishers of what goes here are to pause."""
        mark, box = self._mark, self.box
        if mark is None or not box.reaches(*mark):
            return False
        if not self._asks:
            self._asks = True
            self._intake.fills(self)
            box.when_low(mark[0] // 2, mark[1] // 2, self._stop_asking)
        return True

    def _stop_asking(self) -> None:
        if self._asks:
            self._asks = False
            self.box.never_mind()
            self._intake.has_room(self)

    def _set_mark(self) -> None:
        """Frames are looked at from the mark on, or all of them where the neighbour has named some publishers."""
        box = self.box
        if self.channel is not None:
            self._mark = self._marks.frames, self._marks.bytes
        else:
            self._mark = (box.frames_max // 2, box.bytes_max // 2) if self.is_up else None
        if self._names:
            box.mark_frames = box.mark_bytes = 0
        else:
            box.mark_frames, box.mark_bytes = self._mark or (box.frames_max, box.bytes_max)

    def _overflow(self) -> None:
        if self.channel is not None:
            self._intake.hold_back(self.box)
        elif self.is_up:
            # Broken, and no room to wait for it: everything that follows would have a gap.
            self._soon(self.go_down)
        else:
            self.box.discard_newest()
            self.dropped += 1

    def shed(self, memory_bytes: int) -> int:
        """Drop the oldest that wait for a link that is down until they take no more memory than this; how many."""
        if self.is_up:
            return 0
        dropped = self.box.shed(memory_bytes, _is_notification)
        self.dropped += dropped
        return dropped

    def send_barrier(self, message: Barrier | BarrierDone) -> None:
        self.box.put(message_frame(message))

    # -- receiving

    def take_in(self, channel: Channel, messages: list[Any]) -> None:
        sender, now = self.neighbour, self._now()
        self._intake.source = channel
        try:
            for message in messages:
                kind = type(message)
                if kind is Parcels:
                    self.notified_s = now
                    self._brings = message.publishers
                    self._router.receive_copies(sender, PLAIN, message, now)
                elif kind is Notify:
                    self.notified_s = now
                    self._brings = [message.publisher]
                    self._router.receive_copies(sender, message.header, Parcels.of(message.notification), now)
                elif kind in _CORE_MESSAGES:
                    self._router.receive(sender, message, now)
                elif kind is Hold:
                    self._names = self._intake.neighbour_said(self, message)
                    self._set_mark()
                elif kind is Barrier:
                    self._barriers.received(sender, message)
                elif kind is BarrierDone:
                    self._barriers.answered(sender, message)
                else:
                    channel.manage(message)
        finally:
            self._intake.done()

    def publishers_of(self, frames: list[bytes]) -> Iterable[str]:
        """Whose notifications these are, each once."""
        brings = self._brings
        if brings and brings.count(brings[0]) == len(brings):
            return brings[:1]
        return dict.fromkeys(map(publisher_of, frames))

    def pause(self, publishers: list[str], held: bool) -> None:
        """Ask the neighbour to bring no more of these, or to bring them again."""
        if self.channel is not None:
            for start in range(0, len(publishers), HELD_PER_FRAME_MAX):
                self.channel.say(Hold(publishers[start : start + HELD_PER_FRAME_MAX], held))

    # -- handshake

    def hello(self, nonce: bytes) -> Hello:
        """What we say when we dial."""
        own = self._identity
        return Hello(
            [VERSION],
            ROLE_BROKER,
            str(own.broker),
            session=own.life,
            peer=self.their_life,
            received=self.received,
            overlay=own.overlay_digest,
            to=str(self.neighbour),
            nonce=nonce,
        )

    def welcomed(self, channel: Channel, welcome: Welcome) -> None:
        """Our call was answered, by the neighbour itself."""
        if welcome.version != VERSION or welcome.broker != str(self.neighbour):
            raise RemoteProtocolError(f"{welcome.broker} answered (version {welcome.version}), not {self.neighbour}")
        resumed = welcome.resumed and welcome.session == self.their_life
        if welcome.resumed and not resumed:
            # It went down here while we dialled, and the neighbour goes on as before: the next call begins anew.
            channel.close("replaced", "the link went down while it was being taken up again")
            return
        self._take_up(channel, welcome.session, resumed, welcome.received)

    def accept(self, channel: Channel, hello: Hello) -> None:
        """The neighbour dialled, and is who it says."""
        own = self._identity
        if self.dials:
            raise RefusedError(f"{own.broker} dials {self.neighbour}, not the other way round")
        resumed = hello.peer == own.life and hello.session == self.their_life and self.their_life != b""
        if self.channel is not None:
            # The old connection is dead, and we had not noticed.
            old, self.channel = self.channel, None
            self._hold_nobody()
            self.received = old.connection.received
            old.disown()
            old.abort()
        channel.say(
            Welcome(
                VERSION,
                str(own.broker),
                hello.name,
                session=own.life,
                resumed=resumed,
                received=self.received if resumed else 0,
                frame_bytes_max=own.frame_bytes_max,
                heartbeat_s=own.heartbeat_s,
            )
        )
        self._take_up(channel, hello.session, resumed, hello.received)

    def _take_up(self, channel: Channel, life: bytes, resumed: bool, confirmed: int) -> None:
        if not resumed:
            self.go_down()
            confirmed = self.received = 0
        self.their_life = life
        self.channel = channel
        self.broken_since = None
        self._set_mark()
        self.box.attach(channel.transport, confirmed)
        channel.carry(self, ROLE_BROKER, self.received)
        self.down_since = None
        if not self.is_up:
            self.is_up = True
            self._router.link_up(self.neighbour)
        self._log.info("link up", neighbour=str(self.neighbour), resumed=resumed)

    # -- losing and finding

    def lost(self, channel: Channel, reason: str) -> None:
        self.received = channel.connection.received
        self.channel = None
        self._hold_nobody()
        self.box.detach()
        self.broken_since = self._now()
        if not self._closed:
            self._log.warning("link broken", neighbour=str(self.neighbour))

    def _hold_nobody(self) -> None:
        """Holds end with the connection, those that we asked for and those that the neighbour did."""
        self._stop_asking()
        self._intake.gone(self)
        self._names = False
        self._set_mark()

    def check_time(self, now: float) -> None:
        """Broken for too long is down; down for too long is given up; what takes nothing for too long is broken."""
        self._sample(now)
        if self.channel is not None and self.stall.is_stalled(now):
            self._log.warning("link stalled", neighbour=str(self.neighbour))
            self.channel.abort()
        limits = self._limits
        if self.broken_since is not None and now - self.broken_since > limits.link_grace_s:
            self.go_down()
        if self.down_since is not None and now - self.down_since > limits.link_give_up_s:
            self.down_since = None
            self.dropped += self.box.clear()
            self._router.link_given_up(self.neighbour)

    def _sample(self, now: float) -> None:
        """Tell the core what waits here, where there is anything to tell (Eq. 10)."""
        self._marks.check(self.box.confirmed, self.box.confirmed_bytes, now)
        self._set_mark()
        waiting, left = len(self.box.waiting), self.box.left_total
        sample = (waiting, left + waiting, left)
        if sample != self._sampled or waiting:
            self._sampled = sample
            self._router.link_sampled(self.neighbour, sample, now)

    def go_down(self) -> None:
        """The link cannot be resumed: only what was never sent, and is no change of tables, may still go."""
        self.broken_since = None
        self.their_life = b""
        if self.is_up:
            self.is_up = False
            self._stop_asking()
            self._set_mark()
            self.down_since = self._now()
            self.dropped += self.box.keep_unsent(_is_notification)
            self._router.link_down(self.neighbour)

    def close(self) -> None:
        """The broker stops."""
        self._closed = True
        if self.channel is not None:
            self.channel.close("shutdown", "the broker stops")


def _is_notification(frame: bytes) -> bool:
    return frame[4] in (Kind.NOTIFY, Kind.NOTIFY_TREE, Kind.NOTIFY_ROUTES)
