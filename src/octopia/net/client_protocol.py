"""One connection of a client: bytes between the socket and the client that owns it.

Rules of this file: it lives as long as the connection and knows nothing of what came before or will come after. What
one read brings is handed on as one batch, and confirmed once, soon after.
"""

import asyncio
from typing import Any, Protocol, cast

from octopia.errors import RemoteProtocolError
from octopia.net.outbox import Outbox
from octopia.wire import ROLE_BROKER, Ack, Codec, Connection, Goodbye, Hello, Ping, Pong, Side, Welcome, message_frame

CONFIRM_FRAMES = 512
CONFIRM_S = 0.025
WRITE_BUFFER_BYTES = 64 * 1024
CLOSED = "the connection was closed"


class Owner(Protocol):
    """What the connection needs of its client."""

    box: Outbox

    def welcomed(self, protocol: "ClientProtocol", welcome: Welcome) -> None: ...
    def refused(self, protocol: "ClientProtocol", goodbye: Goodbye) -> None: ...
    def take_in(self, messages: list[Any]) -> None: ...
    def lost(self, protocol: "ClientProtocol", reason: str) -> None: ...


class ClientProtocol(asyncio.Protocol):
    """From connection made to connection lost."""

    def __init__(self, owner: Owner, codec: Codec, hello: Hello) -> None:
        self._owner = owner
        self._hello = hello
        self.connection = Connection(Side.CLIENT, codec)
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._confirmed = 0
        self._confirm_timer: asyncio.TimerHandle | None = None
        self._reason = ""
        self._loop = asyncio.get_running_loop()
        self.closed = False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._heard_s = self._loop.time()
        self._life_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.closed:
            # Nobody waits for it any more.
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.transport.write(message_frame(self._hello))

    def carry(self, received: int, heartbeat_s: float = 0.0) -> None:
        """The handshake is done; so many frames of the session had come before."""
        if heartbeat_s > 0:
            self._life_timer = self._loop.call_later(heartbeat_s, self._check_life, heartbeat_s)
        self.connection.open(ROLE_BROKER, received)
        self._confirmed = received
        self._loop.call_soon(self.data_received, b"")

    def _check_life(self, heartbeat_s: float) -> None:
        """A broker gives a sign of life to whoever is silent; one that gives none is not there any more."""
        if self._loop.time() - self._heard_s > 3 * heartbeat_s and self.transport.is_reading():
            self._reason = f"no sign of life for {3 * heartbeat_s:g} s"
            self.abort()
        else:
            self._life_timer = self._loop.call_later(heartbeat_s, self._check_life, heartbeat_s)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        self._heard_s = self._loop.time()
        try:
            messages = self.connection.receive(data)
            if messages:
                self._hand_on(messages)
        except RemoteProtocolError as error:
            self._reason = f"the broker broke the protocol: {error}"
            self.abort()
            return
        unconfirmed = self.connection.received - self._confirmed
        if unconfirmed >= CONFIRM_FRAMES:
            self.confirm()
        elif unconfirmed and self._confirm_timer is None:
            self._confirm_timer = self._loop.call_later(CONFIRM_S, self.confirm)

    def _hand_on(self, messages: list[Any]) -> None:
        if not self.connection.is_open:
            for message in messages:
                if isinstance(message, Welcome):
                    self._owner.welcomed(self, message)
                elif isinstance(message, Goodbye):
                    self._owner.refused(self, message)
            return
        management = [message for message in messages if type(message) in (Ack, Ping, Goodbye)]
        for message in management:
            if isinstance(message, Ack):
                self._owner.box.confirm(message.received)
            elif isinstance(message, Ping):
                self.transport.write(message_frame(Pong(message.number)))
            else:
                self._reason = f"{message.code}: {message.reason}"
        self._owner.take_in(messages)

    def confirm(self) -> None:
        """Tell the broker how many of its frames have arrived."""
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
            self._confirm_timer = None
        if not self.closed and self._confirmed != self.connection.received:
            self._confirmed = self.connection.received
            self.transport.write(message_frame(Ack(self._confirmed)))

    def pause_writing(self) -> None:
        if self._owner.box.transport is self.transport:
            self._owner.box.writable = False

    def resume_writing(self) -> None:
        if self._owner.box.transport is self.transport:
            self._owner.box.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
        if self._life_timer is not None:
            self._life_timer.cancel()
        if not self._gone.done():
            self._gone.set_result(None)
        self._owner.lost(self, self._reason or (str(exc) if exc else CLOSED))

    async def close(self, at_most_s: float) -> None:
        """Write what was said and close, in order for so long, then anyhow."""
        self.transport.close()
        try:
            async with asyncio.timeout(at_most_s):
                await self._gone
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.abort()
