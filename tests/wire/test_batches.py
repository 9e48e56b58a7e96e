"""Notifications of a read that are read together are those that are read one by one, however input is split."""

import random
from itertools import accumulate
from typing import Any

import pytest

from octopia.language import parse_filter, parse_notification
from octopia.protocol import Civ, Notify
from octopia.wire import (
    Batch,
    Codec,
    CopyHeader,
    Heads,
    Kind,
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
from tests.wire.peers import WRONG_PARCELS, at_broker, copied, published, until_fault

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


def received(role: str, pieces: list[bytes], most: int) -> tuple[list[Any], str, int]:
    """The messages of these pieces before a fault, the fault, and how many frames count."""
    connection = at_broker(role, CODEC)
    messages: list[Any] = []
    fault = ""
    for piece in pieces:
        came, fault = until_fault(connection, piece, CODEC, most)
        messages += came
        if fault:
            break
    return messages, fault, connection.received


@pytest.mark.parametrize("role", ["client", "broker"])
@pytest.mark.parametrize("wrong", [False, True])
def test_together_or_one_by_one_it_is_the_same(role: str, wrong: bool) -> None:
    apart_of = published if role == "client" else copied
    joined = 0
    for seed in range(cases(300)):
        draw = random.Random(seed)
        data = stream(draw, role, wrong)
        cuts = sorted(draw.randrange(len(data)) for _ in range(draw.choice([0, 1, 5])))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        together, fault, counted = received(role, pieces, 1 << 30)
        one_by_one, other_fault, other_counted = received(role, [data], 1)
        assert apart_of(together) == apart_of(one_by_one), f"seed {seed}"
        assert parcels_of(apart_of(together)) == parcels_of(apart_of(one_by_one)), f"seed {seed}"
        assert (fault, counted) == (other_fault, other_counted), f"seed {seed}"
        assert bool(fault) == wrong
        assert all(len(message) == 1 for message in one_by_one if isinstance(message, Batch))
        joined += sum(len(message) > 1 for message in together if isinstance(message, Batch))
    assert joined > cases(300)


def parcels_of(messages: list[Any]) -> list[tuple[bytes, Any, str, int]]:
    seen = [getattr(message, "notification", message) for message in messages]
    return [(s.parcel, s.header, s.publisher, s.sequence) for s in seen if isinstance(s, WireNotification)]


def test_a_run_of_plain_notifications_is_one_batch() -> None:
    connection = at_broker("client")
    made = [encode_parcel(parse_notification({"n": n}), "p", n) for n in range(1, 51)]
    frames = list(map(publish_frame, made))
    (batch,) = connection.receive(b"".join(frames))
    assert isinstance(batch, Batch)
    assert (batch.parcels, batch.sequences) == (made, list(range(1, 51)))
    assert batch.values == [{"n": n} for n in range(1, 51)]
    assert batch.publishers == ["p"] * 50
    assert batch.stops == list(accumulate(map(len, frames)))
    some = batch.first(2)
    assert (some.parcels, some.sequences, some.values) == (made[:2], [1, 2], [{"n": 1}, {"n": 2}])
    assert some.stops == batch.stops[:2]


@pytest.mark.parametrize("ids", [("s1",), ("s1", "s22"), tuple(f"s{n}" for n in range(100))])
def test_heads_make_the_same_frames(ids: tuple[str, ...]) -> None:
    heads = deliver_heads(ids)
    for length in [*range(1, 200), 70_000, *range(200, 1, -1)]:
        made = b"p" * length
        assert heads[length] + made == deliver_frame(ids, made)
        assert delivered_for(heads[length] + made) == ids
    assert len(heads) <= 32
    assert Heads(Kind.NOTIFY)[3] + b"abc" == notification_frame(Kind.NOTIFY, b"", b"abc")
