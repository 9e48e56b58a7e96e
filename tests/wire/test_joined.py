"""A connection that joins plain notifications gives the same result as one that does not, however input is split."""

import random
from typing import Any

import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_filter, parse_notification
from octopia.protocol import Civ, Notify
from octopia.wire import (
    Codec,
    Connection,
    CopyHeader,
    Heads,
    Kind,
    Parcels,
    Ping,
    WireLimits,
    WireNotification,
    advertise_frame,
    deliver_frame,
    deliver_heads,
    delivered_for,
    encode_parcel,
    frame,
    link_frames,
    message_frame,
    notification_frame,
    publish_frame,
    wire_notification,
)
from tests.effort import cases
from tests.wire.peers import WRONG_PARCELS, at_broker

CODEC = Codec(WireLimits(frame_bytes_max=2000))


def parcel(draw: random.Random, sequence: int) -> bytes:
    """Plain ones most of the time, now and then what only the slower way can read."""
    values: dict[str, Any] = {"n": sequence, "price": draw.random(), "name": "x" * draw.randrange(40)}
    if draw.random() < 0.1:
        values["long"] = 2**100
    if draw.random() < 0.05:
        values["far"] = float("inf")
    if draw.random() < 0.05:
        values |= {f"a{n}": True for n in range(20)}
    return encode_parcel(parse_notification(values), draw.choice(["p", "q"]), sequence)


def stream(draw: random.Random, role: str, wrong: bool) -> bytes:
    kind = Kind.PUBLISH if role == "client" else Kind.NOTIFY
    frames = []
    for sequence in range(1, draw.randrange(2, 30)):
        what = draw.random()
        made = parcel(draw, sequence)
        if what < 0.75:
            frames.append(notification_frame(kind, b"", made))
        elif role == "client":
            frames.append(draw.choice([publish_frame(made, traced=True), advertise_frame("a", parse_filter("n > 1"))]))
        else:
            seen = wire_notification(parse_notification({"n": 1}), "p", sequence)
            header = draw.choice([CopyHeader(traced=True), CopyHeader(earlier=3, hold_ms=9)])
            frames += link_frames(Notify("p", str(sequence), seen, Civ(draw.choice([0, 2]))), header)
        if what > 0.95:
            frames.append(message_frame(Ping(sequence)))
    if wrong:
        bad = [
            *(notification_frame(kind, b"", each) for each in WRONG_PARCELS.values()),
            b"\x00\x00\x00\x05" + bytes([kind, 0, 0, 0, 0]),
            b"\x00\x00\x00\x06" + bytes([kind, 0, 0, 0, 1, 0]),
            b"\x7f\x00\x00\x00" + bytes([kind, 0, 0, 0, 0]),
            frame(Kind.DELIVER, b"\x00\x00\x00\x00\x93"),
        ]
        frames.insert(draw.randrange(len(frames) + 1), draw.choice(bad))
    return b"".join(frames)


def one_by_one(role: str, messages: list[Any]) -> list[Any]:
    """The same messages, with the members of a batch separate."""
    apart: list[Any] = []
    for message in messages:
        if not isinstance(message, Parcels):
            apart.append(message)
            continue
        for at in range(len(message)):
            seen = message.notification(at)
            assert seen.header is None
            apart.append(seen if role == "client" else Notify(seen.publisher, str(seen.sequence), seen))
    return apart


def received(connection: Connection, pieces: list[bytes]) -> tuple[list[Any], str]:
    messages: list[Any] = []
    for piece in pieces:
        try:
            messages += connection.receive(piece)
        except RemoteProtocolError as error:
            return messages + connection.messages, str(error)
    return messages, ""


@pytest.mark.parametrize("role", ["client", "broker"])
@pytest.mark.parametrize("wrong", [False, True])
def test_joined_or_not_it_is_the_same(role: str, wrong: bool) -> None:
    batches = 0
    for seed in range(cases(300)):
        draw = random.Random(seed)
        data = stream(draw, role, wrong)
        cuts = sorted(draw.randrange(len(data)) for _ in range(draw.choice([0, 1, 5])))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        joining, plain = at_broker(role, CODEC, joins=True), at_broker(role, CODEC)
        together, fault = received(joining, pieces)
        apart, other_fault = received(plain, pieces)
        assert one_by_one(role, together) == apart, f"seed {seed}"
        assert parcels_of(one_by_one(role, together)) == parcels_of(apart), f"seed {seed}"
        assert (fault, joining.received) == (other_fault, plain.received), f"seed {seed}"
        assert bool(fault) == wrong
        batches += sum(isinstance(message, Parcels) for message in together)
    assert batches > cases(300)


def parcels_of(messages: list[Any]) -> list[tuple[bytes, Any, str, int]]:
    seen = [getattr(message, "notification", message) for message in messages]
    return [(s.parcel, s.header, s.publisher, s.sequence) for s in seen if isinstance(s, WireNotification)]


def test_a_run_of_plain_notifications_is_one_batch() -> None:
    connection = at_broker("client", joins=True)
    made = [encode_parcel(parse_notification({"n": n}), "p", n) for n in range(1, 51)]
    (batch,) = connection.receive(b"".join(map(publish_frame, made)))
    assert isinstance(batch, Parcels)
    assert (batch.parcels, batch.sequences) == (made, list(range(1, 51)))
    assert batch.values == [{"n": n} for n in range(1, 51)]
    assert batch.publishers == ["p"] * 50
    some = batch.chosen([3, 7])
    assert (some.parcels, some.sequences, some.values) == ([made[3], made[7]], [4, 8], [{"n": 4}, {"n": 8}])


@pytest.mark.parametrize("ids", [("s1",), ("s1", "s22"), tuple(f"s{n}" for n in range(100))])
def test_heads_make_the_same_frames(ids: tuple[str, ...]) -> None:
    heads = deliver_heads(ids)
    for length in [*range(1, 200), 70_000, *range(200, 1, -1)]:
        made = b"p" * length
        assert heads[length] + made == deliver_frame(ids, made)
        assert delivered_for(heads[length] + made) == ids
    assert len(heads) <= 32
    assert Heads(Kind.NOTIFY)[3] + b"abc" == notification_frame(Kind.NOTIFY, b"", b"abc")
