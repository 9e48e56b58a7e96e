"""A peer that sends exactly what a test tells it to: frames over a socket, without the client's own checks."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Self

from octopia.wire import (
    ROLE_BROKER,
    Ack,
    Codec,
    Connection,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Side,
    Welcome,
    WireLimits,
    message_frame,
)
from tests.net.live import Live


def is_no_sign_of_life(message: Any) -> bool:
    """Whether a message says more than that the broker is there. It gives such signs unasked, too."""
    return not isinstance(message, Ack | Ping) and message != Pong()


class RawPeer:
    """A connection to a broker. Nothing is answered unless the test does so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side = Side.CLIENT) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = Connection(side, Codec(WireLimits()))
        self._messages: list[Any] = []
        self.welcome: Welcome | None = None

    @classmethod
    async def dial(cls, live: Live, broker: str, side: Side = Side.CLIENT) -> Self:
        """Connect. The overlay closes the connection when it ends."""
        host, port = live.url(broker).removeprefix("octopia://").rsplit(":", 1)
        peer = cls(*await asyncio.open_connection(host, int(port)), side)
        live.clients.append(peer)
        return peer

    @classmethod
    async def enter(cls, live: Live, broker: str, hello: Hello) -> Self:
        """Connect and be admitted."""
        peer = await cls.dial(live, broker)
        answer = await peer.said(hello)
        assert isinstance(answer, Welcome), answer
        return peer

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    async def next(self, wanted: Callable[[Any], bool] = is_no_sign_of_life) -> Any:
        """The next message that is wanted; None when the broker closed."""
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if wanted(message):
                    return message
            try:
                data = await self._reader.read(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._take(data)

    def _take(self, data: bytes) -> None:
        for message in self._connection.receive(data):
            self._messages.append(message)
            if isinstance(message, Welcome):
                self.welcome = message
                self._connection.open(ROLE_BROKER, 0)
                self._take(b"")

    async def said(self, hello: Hello) -> Any:
        """The answer to a greeting: a `Welcome` or a `Goodbye`."""
        self.send(message_frame(hello))
        return await self.next(lambda message: isinstance(message, Welcome | Goodbye))

    def vanish(self) -> None:
        """Close without a word."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self.vanish()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
