"""The session of a client with a broker, which outlives its connections.

A session is identified by the broker's secret and by the number of frames received on each side. A broker that still
knows it resumes it; any other begins a new one, with all registrations of the registry and then the journal from its
confirmed position. Then subscriptions may have missed something that nobody can count: this is a gap, which the program
is told of (`note_gap`). Sessions are the `Owner` of channels (see `channel.py`).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from octopia.errors import RefusedError, UnconfirmedError
from octopia.net.channel import Channel
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.questions import Questions
from octopia.net.client.registry import FLUSH, Registry
from octopia.net.client.subscription import Subscription
from octopia.wire import (
    COUNTS,
    FLUSHES,
    MOVE,
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Accepted,
    Ack,
    Counted,
    Crowded,
    Deliveries,
    Delivery,
    Dropped,
    Flushed,
    Hello,
    Refused,
    TooOld,
    Welcome,
)

LOGGER = logging.getLogger("octopia.net.client")

Lost = Callable[[Channel, str], None]


class Keeping(Protocol):
    """Stores the deliveries of a session before they are confirmed."""

    def began(self, channel: Channel) -> None:
        """A new session began."""

    def resumed(self, channel: Channel, received: int) -> None:
        """A session resumes; the broker has `received` of its frames."""

    def keep(self, channel: Channel, given: Iterable[Any]) -> list[Any]:
        """Take the deliveries of one read; returns the rest, which the session handles before `kept`."""

    def kept(self, channel: Channel) -> None:
        """All of this read has been handled: store its deliveries."""


class Overlap(Protocol):
    """A move to another broker, while both deliver."""

    old: Channel

    def note(self, delivery: Delivery, ids: tuple[str, ...]) -> None:
        """Note a delivery of the old broker that was handed on to these subscriptions."""

    def hold_back(self, delivery: Delivery, channel: Channel) -> None:
        """Hold a delivery of the new broker until the old one is left."""


class Session:
    """The state that outlives the connections of one client."""

    def __init__(
        self, journal: Journal, registry: Registry, life: Life, *, name: str, token: str, session_s: float
    ) -> None:
        self.name = name
        self.broker = ""
        self.secret = b""
        self.received = 0
        self.dropped = 0
        self.too_old = 0
        self.gaps = 0
        self.queue = journal.queue
        self.keeping: Keeping | None = None
        self._journal = journal
        self._registry = registry
        self._life = life
        self._token = token
        self.session_s = session_s
        self.restart_s = 0.0  # how long a restart of the broker may take
        self.when_lost: Lost = lambda channel, reason: None
        self.overlap: Overlap | None = None
        self.questions = Questions()
        self.moves = False  # whether the client moves when its broker is overloaded
        self.when_crowded: Callable[[], None] = lambda: None
        self.flushes = False  # whether the broker answers flush(hosts=True)
        self.when_left: Callable[[str], None] = lambda broker: None

    @property
    def expects_deliveries(self) -> bool:
        """Whether deliveries may be queued for us at the broker."""
        return bool(self._registry.subscriptions) and self.session_s > 0

    # -- handshake

    def take_up(self, secret: bytes, received: int, name: str) -> None:
        """Resume the session of another process."""
        self.secret, self.received = secret, received
        self.name = self.name or name

    def hello(self, *, fresh: bool = False) -> Hello:
        """The Hello to the broker of the session or, with `fresh`, to one that begins a new session."""
        return Hello(
            [VERSION],
            ROLE_CLIENT,
            self.name,
            self._token,
            ["trace", COUNTS, FLUSHES, MOVE] if self.moves else ["trace", COUNTS, FLUSHES],
            session=b"" if fresh else self.secret,
            received=0 if fresh else self.received,
            session_s=self.session_s,
        )

    def welcomed(self, channel: Channel, welcome: Welcome, *, late: bool = False) -> None:
        """The broker accepted us. `late`: its restart took so long that its neighbours did not wait for it."""
        if not welcome.resumed:
            self.when_left(self.broker)
        self.name, self.broker, self.restart_s = welcome.name, welcome.broker, welcome.restart_s
        self.flushes = FLUSHES in welcome.capabilities
        self.questions.connected(channel, counts=COUNTS in welcome.capabilities)
        journal = self._journal
        journal.frame_bytes_max = welcome.frame_bytes_max or journal.frame_bytes_max
        if not welcome.resumed:
            self.secret, self.received = welcome.session, 0
        channel.carry(self, ROLE_BROKER, self.received)
        channel.watch(welcome.heartbeat_s)
        standing = self._registry.standing_subscriptions()
        if welcome.resumed:
            if late:
                self.note_gap(standing, f"{self.broker} was away for more than {self.restart_s:g} s")
            if self.keeping is not None:
                self.keeping.resumed(channel, welcome.received)
            journal.resume(channel.transport, welcome.received)
            self._registry.note_confirmed()
            return
        self.note_gap(standing, "its session is over, and they were registered again")
        journal.begin(channel.transport, self._registry.begin_anew())
        if not self._registry.is_registering:
            journal.open()
        if self.keeping is not None:
            self.keeping.began(channel)

    def moved(self, channel: Channel, welcome: Welcome, dropped: int) -> None:
        """Switch to another broker's session, which has dropped `dropped` deliveries so far."""
        self.questions.connected(channel, counts=COUNTS in welcome.capabilities)
        self.when_left(self.broker)
        self.flushes = FLUSHES in welcome.capabilities
        self.name, self.broker, self.restart_s = welcome.name, welcome.broker, welcome.restart_s
        self.secret = welcome.session
        self._journal.frame_bytes_max = welcome.frame_bytes_max or self._journal.frame_bytes_max
        self.count_dropped(dropped)

    # -- messages

    def take_in(self, channel: Channel, messages: Iterable[Any]) -> None:
        """Handle the messages of one read."""
        if self.keeping is None:
            self._take_in(channel, messages)
        else:
            self._take_in(channel, self.keeping.keep(channel, messages))
            self.keeping.kept(channel)

    def _take_in(self, channel: Channel, messages: Iterable[Any]) -> None:
        for message in messages:
            kind = type(message)
            if isinstance(message, Deliveries):
                self._deliver(channel, message)
            elif kind is Accepted:
                self._registry.answered(message.request, message.id, None)
            elif kind is Refused:
                self._refused(message)
            else:
                self._take_notice(channel, message)

    def _take_notice(self, channel: Channel, message: Any) -> None:
        """Handle a message about the session or the connection."""
        kind = type(message)
        if kind is Dropped:
            self.count_dropped(message.count)
        elif kind is TooOld:
            self.too_old += message.count
        elif kind is Counted:
            self.questions.answered(message)
        elif kind is Flushed:
            missing = tuple(message.missing)
            self._registry.answered(FLUSH, message.id, UnconfirmedError(missing) if missing else None)
        elif kind is Crowded:
            self.when_crowded()
        else:
            channel.manage(message)
            if kind is Ack:
                self._journal.note_confirmed()
                self._registry.note_confirmed()

    def _deliver(self, channel: Channel, deliveries: Deliveries) -> None:
        """Hand on deliveries to their subscriptions. During a move, those of the new broker are held back."""
        overlap = self.overlap
        if overlap is not None:
            single = deliveries.decoded()
            if channel is not overlap.old:
                for delivery in single:
                    overlap.hold_back(delivery, channel)
                return
            for delivery in single:
                overlap.note(delivery, delivery.subscriptions)
        for id, part in deliveries.by_subscription().items():
            subscription = self._registry.subscriptions.get(id)
            if subscription is not None:
                subscription.take_in(part, channel)
                if subscription.joins:
                    channel.connection.join_deliveries()

    def count_dropped(self, count: int) -> None:
        """The broker dropped `count` deliveries."""
        self.dropped += count
        for subscription in self._registry.subscriptions.values():
            subscription.dropped += count

    def note_gap(self, subscriptions: Iterable[Subscription], reason: str) -> None:
        """These subscriptions may have missed notifications, whose number nobody knows."""
        missed = list(subscriptions)
        if not missed:
            return
        self.gaps += 1
        for subscription in missed:
            subscription.gaps += 1
        LOGGER.warning(
            "octopia: %d subscriptions of client %s at %s may have missed notifications: %s",
            len(missed),
            self.name,
            self.broker,
            reason,
        )

    def _refused(self, message: Refused) -> None:
        refusal = RefusedError(message.reason)
        if message.request == "publish":
            self._life.refuse(refusal)
        else:
            self._registry.answered(message.request, message.id, refusal)

    def lost(self, channel: Channel, reason: str) -> None:
        self.received = channel.connection.received
        self.queue.detach()
        self.questions.lost(channel)
        if channel.goodbye is not None:
            # It stops, and its next life does not know what has arrived.
            self.when_left(self.broker)
        self.when_lost(channel, reason)
