"""A peer that speaks the wire protocol by hand, and sends anything.

Blocking sockets: hostile peers live in processes and threads of their own. Filters are written as they travel, so that
nothing of the product's language is needed: `[[[attribute, operator number, value], …], …]`.
"""

import socket
import time
from typing import Any

import msgspec

from octopia.errors import OctopiaError
from octopia.wire import (
    ROLE_BROKER,
    VERSION,
    Ack,
    Codec,
    Connection,
    Goodbye,
    Hello,
    Kind,
    Side,
    Welcome,
    WireLimits,
    frame,
    message_frame,
    notification_frame,
)

EVERYTHING: list[Any] = [[]]
EQ, NE, LT, LE, GT, GE, PREFIX, POSTFIX, CONTAINS, NOT_PREFIX = range(10)
PRESENT = 12


class Peer:
    """One connection."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 10.0, broker: bool = False) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.name = ""
        self._connection = Connection(Side.DIALLING_BROKER if broker else Side.CLIENT, Codec(WireLimits()))
        self._sequence = 0

    def hello(self, role: str = "client", **fields: Any) -> Welcome | Goodbye | None:
        """Say who we are; the answer, or None where the connection was closed without one."""
        self.send(message_frame(Hello([VERSION], role, **fields)))
        for answer in self.receive():
            if isinstance(answer, Welcome):
                self._connection.open(ROLE_BROKER, 0)
                self.name = answer.name
            if isinstance(answer, Welcome | Goodbye):
                return answer
        return None

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> list[Any]:
        """The messages of the next reads, at least one; none if the connection is closed or silent."""
        while True:
            try:
                data = self.socket.recv(256 * 1024)
                messages = self._connection.receive(data) if data else []
            except (OSError, OctopiaError):
                return []
            if messages or not data:
                return messages

    def wait_for(self, kind: type, limit_s: float = 10.0) -> Any:
        """The next message of this kind; None where the connection ends, or nothing like it comes in time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            messages = self.receive()
            if not messages:
                return None
            for message in messages:
                if isinstance(message, kind):
                    return message
        return None

    def confirm(self, count: int | None = None) -> None:
        self.send(message_frame(Ack(self._connection.received if count is None else count)))

    def publish(self, **content: Any) -> None:
        self._sequence += 1
        self.send(publish(self.name, self._sequence, content))

    def close(self) -> None:
        self.socket.close()


def subscribe(id: str, filter: list[Any] | str, policy: str = "drop_oldest") -> bytes:
    return frame(Kind.SUBSCRIBE, msgspec.msgpack.encode((id, filter, policy, True)))


def unsubscribe(id: str) -> bytes:
    return frame(Kind.UNSUBSCRIBE, msgspec.msgpack.encode((id,)))


def advertise(id: str, filter: list[Any] | str) -> bytes:
    return frame(Kind.ADVERTISE, msgspec.msgpack.encode((id, filter)))


def parcel(publisher: str, sequence: int, content: dict[str, Any]) -> bytes:
    return msgspec.msgpack.encode((content, publisher, sequence))


def publish(publisher: str, sequence: int, content: dict[str, Any]) -> bytes:
    return notification_frame(Kind.PUBLISH, b"", parcel(publisher, sequence, content))
