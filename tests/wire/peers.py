"""Connections whose handshake is done, bytes that come in pieces, and parcels that every reader refuses."""

from collections.abc import Iterable
from typing import Any

from octopia.wire import Codec, Connection, Hello, Side, Welcome, WireLimits, message_frame

CODEC = Codec(WireLimits())
HELLO = Hello([1], "client", "c")


def at_broker(role: str, codec: Codec = CODEC, *, joins: bool = False) -> Connection:
    """The accepting side."""
    connection = Connection(Side.ACCEPTING_BROKER, codec, joins=joins)
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
