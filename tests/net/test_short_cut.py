"""Which frames of a read take the short cut: plain publications up to the first that is not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from octopia.language import parse_filter, parse_notification
from octopia.matching import kernels_in_use
from octopia.net import NetLimits
from octopia.net.broker.warm_up import warm_up
from octopia.topology import Scot, parse_tree
from octopia.wire import (
    Codec,
    Connection,
    Haul,
    Hello,
    Side,
    WireLimits,
    advertise_frame,
    encode_parcel,
    message_frame,
    publish_frame,
    subscribe_frame,
)
from tests.net.piped import PipedOverlay, StoppedLoop, settled

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


def _parcel(sequence: int) -> bytes:
    return encode_parcel(parse_notification({"price": sequence}), "P", sequence)


def _plain(*sequences: int) -> bytes:
    return b"".join(publish_frame(_parcel(sequence)) for sequence in sequences)


def _traced(sequence: int) -> bytes:
    return publish_frame(_parcel(sequence), traced=True)


@pytest.fixture(scope="module")
def loop() -> Iterator[StoppedLoop]:
    warm_up()
    loop = StoppedLoop()
    yield loop
    loop.close()


async def _taken(*reads: bytes) -> tuple[list[bytes], list[int]]:
    """What the short cut left of each read, and the numbers of the notifications that a subscriber to all got."""
    scot = Scot(parse_tree("path:1"), 1)
    overlay = PipedOverlay(scot, True, asyncio.get_running_loop().time, NetLimits())
    (at,) = scot.brokers
    for name in ("S", "P"):
        overlay.connect(name, at)
    overlay.take_all()
    await settled()
    subscriber, publisher = overlay.clients["S"], overlay.clients["P"]
    subscriber.end.write(subscribe_frame("s", parse_filter("price >= 0"), "block", True))
    publisher.end.write(advertise_frame("a", parse_filter("price is not null")))
    left: list[bytes] = []
    channel = publisher.end.other.owner
    # with the first notification the filter enters the index, and the client gets a short cut
    for data in (b"", _plain(1), *reads):
        overlay.take_all()
        await settled()
        take = channel.short_cut

        def watched(channel: Any, data: bytes, take: Any = take) -> bytes:
            left.append(take(channel, data))
            return left[-1]

        channel.short_cut = watched
        publisher.end.write(data)
        overlay.take_all()
        if channel.short_cut is watched:
            channel.short_cut = take
        await settled()
    overlay.take_all()
    overlay.end()
    return left[1:], [delivery.notification.sequence for delivery in subscriber.got]


@pytest.mark.parametrize(
    ("reads", "left"),
    [
        ([_plain(2, 3)], [b""]),
        ([_traced(2), _plain(3)], [_traced(2), b""]),
        ([_traced(2) + _plain(3)], [_traced(2) + _plain(3)]),
        ([_plain(2) + _traced(3) + _plain(4)], [_traced(3) + _plain(4)]),
        ([_plain(2, 3) + _traced(4)[:9], _traced(4)[9:]], [_traced(4)[:9], _traced(4)]),
    ],
)
def test_a_publication_with_a_header_does_not_take_the_short_cut(
    loop: StoppedLoop, monkeypatch: pytest.MonkeyPatch, reads: list[bytes], left: list[bytes]
) -> None:
    monkeypatch.setattr("octopia.matching.kernels_numba.RUN_COSTS_TESTS", 1)
    count = 1 + b"".join(reads).count(b"price")
    assert loop.run_until_complete(_taken(*reads)) == (left, list(range(1, count + 1)))


def test_a_publication_with_a_header_is_not_in_a_haul() -> None:
    codec = Codec(WireLimits())
    assert codec.start_scanning()
    connection = Connection(Side.ACCEPTING_BROKER, codec, joins=True)
    connection.receive(message_frame(Hello([1], "client", "P")))
    connection.open("client", 0)
    read = connection.receive(_plain(*range(1, 9)) + _traced(9) + _plain(*range(10, 20)))
    kinds = [(type(each) is Haul, len(each) if type(each) is Haul else 1) for each in read]
    assert kinds == [(True, 8), (False, 1), (True, 10)]
    assert read[1].header is True
