"""The session of a client with a broker, which outlives its connections.

A session is identified by the broker's secret and by the number of frames received on each side. A broker that still
knows it resumes it; any other begins a new one, with all registrations of the registry and then the journal from its
confirmed position. Sessions are the `Owner` of channels (see `channel.py`).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from octopia.errors import RefusedError
from octopia.net.channel import Channel
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.questions import Questions
from octopia.net.client.registry import Registry
from octopia.wire import (
    COUNTS,
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
    Hello,
    Refused,
    TooOld,
    Welcome,
)

if TYPE_CHECKING:
    from octopia.net.client.durable import KeptClient
    from octopia.net.client.overlap import Move

Lost = Callable[[Channel, str], None]


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
        self.queue = journal.queue
        self.keeping: KeptClient | None = None  # stores deliveries before they are confirmed
        self._journal = journal
        self._registry = registry
        self._life = life
        self._token = token
        self.session_s = session_s
        self.when_lost: Lost = lambda channel, reason: None
        self.overlap: Move | None = None  # to another broker, in progress
        self.questions = Questions()
        self.moves = False  # whether the client moves when its broker is overloaded
        self.when_crowded: Callable[[], None] = lambda: None

    @property
    def expects_deliveries(self) -> bool:
        """Whether deliveries may be queued for us at the broker."""
        return bool(self._registry.subscriptions)

    # -- handshake

    def take_up(self, secret: bytes, received: int, name: str) -> None:
        """Resume the session of another process."""
        self.secret, self.received = secret, received
        self.name = self.name or name

    def forget(self) -> None:
        """Drop the session before dialling a broker that does not know it."""
        self.secret, self.received = b"", 0

    def hello(self, *, fresh: bool = False) -> Hello:
        """The Hello to the broker of the session or, with `fresh`, to one that begins a new session."""
        return Hello(
            [VERSION],
            ROLE_CLIENT,
            self.name,
            self._token,
            ["trace", COUNTS, MOVE] if self.moves else ["trace", COUNTS],
            session=b"" if fresh else self.secret,
            received=0 if fresh else self.received,
            session_s=self.session_s,
        )

    def welcomed(self, channel: Channel, welcome: Welcome) -> None:
        """The broker accepted us."""
        self.name, self.broker = welcome.name, welcome.broker
        self.questions.connected(channel, counts=COUNTS in welcome.capabilities)
        journal = self._journal
        journal.frame_bytes_max = welcome.frame_bytes_max or journal.frame_bytes_max
        if not welcome.resumed:
            self.secret, self.received = welcome.session, 0
        channel.carry(self, ROLE_BROKER, self.received)
        channel.watch(welcome.heartbeat_s)
        if welcome.resumed:
            if self.keeping is not None:
                self.keeping.resumed(channel, welcome.received)
            journal.resume(channel.transport, welcome.received)
            self._registry.note_confirmed()
            return
        journal.begin(channel.transport, self._registry.begin_anew())
        if not self._registry.is_registering:
            journal.open()
        if self.keeping is not None:
            self.keeping.began(channel)

    def moved(self, channel: Channel, welcome: Welcome, dropped: int) -> None:
        """Switch to another broker's session, which has dropped `dropped` deliveries so far."""
        self.questions.connected(channel, counts=COUNTS in welcome.capabilities)
        self.name, self.broker, self.secret = welcome.name, welcome.broker, welcome.session
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
        subscriptions = self._registry.subscriptions
        for message in messages:
            kind = type(message)
            if kind is Delivery:
                if self.overlap is not None and not self._is_old(channel, message):
                    continue
                for id in message.subscriptions:
                    subscription = subscriptions.get(id)
                    if subscription is not None:
                        subscription.take_in(message, channel)
                        if subscription.joins:
                            channel.connection.join_deliveries()
            elif kind is Deliveries:
                self._take_joined(channel, message)
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
        elif kind is Crowded:
            self.when_crowded()
        else:
            channel.manage(message)
            if kind is Ack:
                self._journal.note_confirmed()
                self._registry.note_confirmed()

    def _take_joined(self, channel: Channel, joined: Deliveries) -> None:
        """Hand on deliveries that arrive as bytes: whole to subscriptions that build columns, to others one by one."""
        if self.overlap is not None:
            # During a move, each is compared with the deliveries of the other broker.
            self._take_in(channel, list(joined.decoded()))
            return
        one_by_one: list[Delivery] = []
        for id in joined.ids():
            subscription = self._registry.subscriptions.get(id)
            if subscription is None:
                continue
            if subscription.joins:
                subscription.take_in_joined(joined.for_subscription(id), channel)
                continue
            one_by_one = one_by_one or joined.decoded()
            for delivery in one_by_one:
                if id in delivery.subscriptions:
                    subscription.take_in(delivery, channel)

    def _is_old(self, channel: Channel, delivery: Delivery) -> bool:
        """During a move: whether to hand on this delivery, as one of the old broker; the new one's are held back."""
        overlap = self.overlap
        if overlap is None or channel is overlap.old:
            if overlap is not None:
                overlap.note(delivery, delivery.subscriptions)
            return True
        overlap.hold_back(delivery, channel)
        return False

    def count_dropped(self, count: int) -> None:
        """The broker dropped `count` deliveries."""
        self.dropped += count
        for subscription in self._registry.subscriptions.values():
            subscription.dropped += count

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
        self.when_lost(channel, reason)
