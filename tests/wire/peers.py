"""Connections whose handshake is done, what they make of bytes, and parcels that every reader refuses."""

from collections.abc import Iterable
from typing import Any

from octopia.errors import RemoteProtocolError
from octopia.protocol import Notify
from octopia.wire import (
    Batch,
    Codec,
    Connection,
    Hello,
    Side,
    Unread,
    Welcome,
    WireLimits,
    message_frame,
    split_stamp,
)

CODEC = Codec(WireLimits())
HELLO = Hello([1], "client", "c")


def at_broker(role: str, codec: Codec = CODEC) -> Connection:
    """The accepting side."""
    connection = Connection(Side.ACCEPTING_BROKER, codec)
    assert connection.receive(message_frame(HELLO)) == [HELLO]
    connection.open(role)
    return connection


def at_client(codec: Codec = CODEC) -> Connection:
    connection = Connection(Side.CLIENT, codec)
    welcome = Welcome(1, "(b,2)", "c")
    assert connection.receive(message_frame(welcome)) == [welcome]
    connection.open("broker")
    return connection


def received(connection: Connection, data: bytes, sizes: Iterable[int]) -> list[Any]:
    """The messages of these bytes, which come in pieces of these sizes and the rest."""
    came: list[Any] = []
    for size in sizes:
        came += connection.receive(data[:size])
        data = data[size:]
    return came + connection.receive(data)


def until_fault(
    connection: Connection, data: bytes, codec: Codec = CODEC, most: int = 1 << 30
) -> tuple[list[Any], str]:
    """The messages before a fault, and what it is; notifications are in batches, with at most so many in each."""
    connection.feed(data)
    came: list[Any] = []
    try:
        for message in connection.messages():
            if isinstance(message, Unread):
                batch = codec.batches.read(message.data, message.at, message.frame_bytes_max, most)
                message.took(batch.stops[-1], len(batch))
                came.append(batch)
            else:
                came.append(message)
    except RemoteProtocolError as error:
        return came, str(error)
    return came, ""


def published(messages: list[Any]) -> list[Any]:
    """The messages of a client, with notifications one by one."""
    return [each for message in messages for each in _members(message)]


def copied(messages: list[Any], codec: Codec = CODEC) -> list[Any]:
    """The messages of a neighbour, with copies one by one."""
    found: list[Any] = []
    for message in messages:
        for at, seen in enumerate(_members(message)):
            if isinstance(message, Batch):
                stamp = split_stamp(message.stamped[at])[0] if message.stamped else b""
                read = codec.dests.stamp(stamp) if stamp else None
                found.append(Notify(seen.publisher, str(seen.sequence), seen, message.carried, read))
            else:
                found.append(seen)
    return found


def _members(message: Any) -> list[Any]:
    return [message.notification(at) for at in range(len(message))] if isinstance(message, Batch) else [message]


WRONG_PARCELS = {
    "an attribute twice": b"\x93\x82\xa1a\x01\xa1a\x02\xa1p\x01",
    "one without a name": b"\x93\x81\xa0\x01\xa1p\x01",
    "NaN": b"\x93\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\xa1p\x01",
    "no attribute": b"\x93\x80\xa1p\x01",
    "nil": b"\x93\x81\xa1a\xc0\xa1p\x01",
    "a byte too many": b"\x93\x81\xa1a\x01\xa1p\x01\x00",
    "no sequence": b"\x92\x81\xa1a\x01\xa1p",
    "not UTF-8": b"\x93\x81\xa1\xff\x01\xa1p\x01",
    "a surrogate": b"\x93\x81\xa1a\xa3\xed\xa0\x80\xa1p\x01",
    "a longer form than needed": b"\x93\x81\xa1a\xa2\xc0\x80\xa1p\x01",
    "no publisher": b"\x93\x81\xa1a\x01\xa0\x01",
    "a negative sequence": b"\x93\x81\xa1a\x01\xa1p\xff",
}
