"""The session of a client with a broker: what a connection carries, and what is left when it breaks.

A session is known by the broker's secret and by how many frames of each side have arrived. A broker that still knows
it goes on where it broke off; any other begins a new one, with everything that stands in the registry, and then the
journal from where it was confirmed. Sessions are the `Owner` of channels (see `channel.py`).
"""

from collections.abc import Callable
from typing import Any, Protocol

from octopia.errors import RefusedError
from octopia.net.channel import Channel
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.registry import Registry
from octopia.wire import (
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Accepted,
    Ack,
    Delivery,
    Dropped,
    Hello,
    Refused,
    Welcome,
)

Lost = Callable[[Channel, str], None]


class Keeping(Protocol):
    """Takes a part of what comes, before it is confirmed (`durable.py`)."""

    def began(self, channel: Channel) -> None:
        """A session began that knows nothing."""

    def resumed(self, channel: Channel, received: int) -> None:
        """A session goes on, of which the broker has so many frames."""

    def keep(self, channel: Channel, messages: list[Any]) -> list[Any]:
        """Keep what is to be kept of one read; returns the rest."""

    def kept(self, channel: Channel) -> None:
        """The rest was dealt with, too."""


class Session:
    """What outlives the connections of one client."""

    def __init__(
        self, journal: Journal, registry: Registry, life: Life, *, name: str, token: str, session_s: float
    ) -> None:
        self.name = name
        self.broker = ""
        self.secret = b""
        self.received = 0
        self.dropped = 0
        self.box = journal.box
        self.keeping: Keeping | None = None
        self._journal = journal
        self._registry = registry
        self._life = life
        self._token = token
        self.session_s = session_s
        self._when_lost: Lost = lambda channel, reason: None

    def when_lost(self, call: Lost) -> None:
        """Have this called when the connection is gone."""
        self._when_lost = call

    @property
    def expects_deliveries(self) -> bool:
        """Whether anything may wait for us at the broker."""
        return bool(self._registry.subscriptions)

    # -- handshake

    def take_up(self, secret: bytes, received: int, name: str) -> None:
        """Go on with the session that another process had."""
        self.secret, self.received = secret, received
        self.name = self.name or name

    def forget(self) -> None:
        """Another broker is asked, which does not know the session."""
        self.secret, self.received = b"", 0

    def hello(self) -> Hello:
        return Hello(
            [VERSION],
            ROLE_CLIENT,
            self.name,
            self._token,
            ["trace"],
            session=self.secret,
            received=self.received,
            session_s=self.session_s,
        )

    def welcomed(self, channel: Channel, welcome: Welcome) -> None:
        """The broker let us in."""
        self.name, self.broker = welcome.name, welcome.broker
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

    # -- messages

    def take_in(self, channel: Channel, messages: list[Any]) -> None:
        """What one read brought."""
        if self.keeping is None:
            self._take_in(channel, messages)
        else:
            self._take_in(channel, self.keeping.keep(channel, messages))
            self.keeping.kept(channel)

    def _take_in(self, channel: Channel, messages: list[Any]) -> None:
        subscriptions = self._registry.subscriptions
        for message in messages:
            kind = type(message)
            if kind is Delivery:
                for id in message.subscriptions:
                    subscription = subscriptions.get(id)
                    if subscription is not None:
                        subscription.take_in(message, channel)
            elif kind is Accepted:
                self._registry.answered(message.request, message.id, None)
            elif kind is Refused:
                self._refused(message)
            elif kind is Dropped:
                self.dropped += message.count
                for subscription in subscriptions.values():
                    subscription.dropped += message.count
            else:
                channel.manage(message)
                if kind is Ack:
                    self._journal.note_confirmed()
                    self._registry.note_confirmed()

    def _refused(self, message: Refused) -> None:
        refusal = RefusedError(message.reason)
        if message.request == "publish":
            self._life.refuse(refusal)
        else:
            self._registry.answered(message.request, message.id, refusal)

    def lost(self, channel: Channel, reason: str) -> None:
        self.received = channel.connection.received
        self.box.detach()
        self._when_lost(channel, reason)
