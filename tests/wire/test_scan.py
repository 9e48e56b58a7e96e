"""The compiled reader finds the same as the ordinary reader, and accepts nothing that the ordinary reader refuses."""

import random
import string
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_notification
from octopia.matching import kernels_in_use
from octopia.matching.tokens import NUMBER, TEXT
from octopia.wire import (
    Codec,
    Haul,
    Kind,
    WireLimits,
    encode_parcel,
    notification_frame,
    publish_frame,
    split_frames,
    timed,
)
from tests.effort import cases
from tests.wire.peers import WRONG_PARCELS

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")

LIMITS = WireLimits(frame_bytes_max=4000, attributes_max=20)
HEAD_BYTES = 5
TEXTS = ["", "a", "AAPL", "x" * 31, "y" * 40, "z" * 300, "é", "日本語", "🦑" * 9, "a\x00b", "\ud7ff"]
NUMBERS = [
    0, 1, -1, -32, -33, 127, 128, 255, 256, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63,
    2**63 + 1024, -(2**63), -(2**63) + 1, -(2**53) - 1, -(2**54) + 1, 2**64 - 1, 2**64 - 2048,
]  # fmt: skip


def drawn_value(draw: random.Random) -> Any:
    return draw.choice(  # type: ignore[no-untyped-call]
        [
            lambda: draw.choice(TEXTS),
            lambda: draw.choice(NUMBERS),
            lambda: draw.uniform(-1e3, 1e3),
            lambda: draw.random() < 0.5,
            lambda: 2**80 if draw.random() < 0.1 else 7,
            lambda: draw.choice((float("inf"), float("-inf"), 0.5)),
            lambda: draw.getrandbits(64) >> draw.randrange(64),
            lambda: -(draw.getrandbits(63) >> draw.randrange(63)),
        ]
    )()


def drawn_frame(draw: random.Random, sequence: int, kind: Kind = Kind.PUBLISH) -> bytes:
    names = draw.choice([["price", "symbol"], ["symbol", "price", "volume"], [f"a{n}" for n in range(18)], ["é"]])
    names = names if draw.random() < 0.9 else [draw.choice(string.ascii_letters) * draw.randint(1, 40)]
    values = {name: drawn_value(draw) for name in names}
    parcel = encode_parcel(parse_notification(values), draw.choice(["p", "q", "é" * 5]), sequence)
    return notification_frame(kind, b"", timed(parcel, sequence) if draw.random() < 0.1 else parcel)


def mutated(draw: random.Random, frame: bytes) -> bytes:
    """The same frame with a few bytes changed, left out or repeated; its length is that which it has then."""
    body = bytearray(frame[4:])
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(HEAD_BYTES, len(body))
        how = draw.random()
        if how < 0.6:
            body[at] = draw.choice([draw.randrange(256), body[at] ^ 1 << draw.randrange(8)])
        elif how < 0.8:
            del body[at : at + draw.randint(1, 4)]
        else:
            body[at:at] = body[at : at + draw.randint(1, 8)]
        if len(body) <= HEAD_BYTES + 1:
            break
    return len(body).to_bytes(4, "big") + bytes(body)


def hauls(codec: Codec, data: bytes) -> Iterator[tuple[Haul | None, bytes]]:
    """All that the compiled reader takes of some bytes, and the rest for the ordinary one, in order."""
    at = 0
    while at < len(data):
        assert codec.scanner is not None
        haul, after = codec.scanner.take(data, at, HEAD_BYTES, False, LIMITS.frame_bytes_max)
        if haul is None:
            after = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield haul, data[at:after]
        at = after


def columns(haul: Haul, note: int) -> tuple[dict[str, Any], str, int]:
    """A notification as its columns say it is."""
    tokens = haul.tokens
    _, _, _, sequence, first, width, _, publisher = tokens.notes[note].tolist()
    values: dict[str, Any] = {}
    for token in range(first, first + width):
        name, kind, start, stop = tokens.tokens[token].tolist()
        number = float(tokens.numbers[token])
        text = tokens.raw[start:stop].decode() if kind == TEXT else ""
        # a number that has a rest is no float
        whole = int(number) + start if kind == NUMBER and start else number
        values[tokens.names.words[name]] = (whole, text, bool(number))[kind]
    return values, tokens.publisher(publisher), sequence


def expected(frame: bytes, codec: Codec) -> tuple[dict[str, Any], str, int]:
    """The same by the ordinary reader, or `RemoteProtocolError`."""
    seen = codec._parcels.read(frame[9:])
    return seen.to_dict(), seen.publisher, seen.sequence


def check(codec: Codec, frames: list[bytes]) -> int:
    """Read frames both ways; returns how many the compiled reader took."""
    taken = 0
    for haul, data in hauls(codec, b"".join(frames)):
        if haul is None:
            continue
        own = split_frames(data)
        assert len(own) == len(haul)
        for note, frame in enumerate(own):
            values, publisher, sequence = columns(haul, note)
            # whatever the ordinary reader refuses raises here
            right = expected(frame, codec)
            assert (values, publisher, sequence) == right, frame
            assert list(values) == list(right[0])
            assert [type(value) is bool for value in values.values()] == [type(v) is bool for v in right[0].values()]
        assert haul.parcels().values == [haul.notification(note).to_dict() for note in range(len(haul))]
        taken += len(haul)
        haul.done()
    return taken


@pytest.fixture(scope="module")
def codec() -> Codec:
    made = Codec(LIMITS)
    assert made.start_scanning()
    return made


def test_notifications_of_all_kinds_are_read_as_the_ordinary_reader_reads_them(codec: Codec) -> None:
    draw = random.Random(1)
    frames = [drawn_frame(draw, n) for n in range(cases(3000))]
    assert check(codec, frames) > len(frames) // 3


def test_no_mutated_frame_is_accepted_that_the_ordinary_reader_refuses_and_none_with_other_values(codec: Codec) -> None:
    draw = random.Random(2)
    frames = [mutated(draw, drawn_frame(draw, n)) for n in range(cases(20_000))]
    assert check(codec, frames) > len(frames) // 10


@pytest.mark.parametrize("value", [0.5, -2.25, float("inf"), float("-inf"), 2**64 - 1, -(2**63)])
def test_numbers_are_read_in_the_forms_of_other_clients(codec: Codec, value: float) -> None:
    """Floats of 32 bits, and integers in more bytes than they need."""
    parcel = encode_parcel(parse_notification({"x": 0.25}), "p", 1)
    forms = [b"\xca" + struct.pack(">f", value), b"\xcb" + struct.pack(">d", value)]
    forms += [b"\xcf" + struct.pack(">Q", value)] if isinstance(value, int) and value > 0 else []
    forms += [b"\xd3" + struct.pack(">q", value)] if isinstance(value, int) and value < 0 else []
    frames = []
    for form in forms:
        written = parcel.replace(b"\xcb" + struct.pack(">d", 0.25), form)
        assert written != parcel
        frames.append(notification_frame(Kind.PUBLISH, b"", written))
    assert check(codec, frames) == len(frames)


def test_what_is_wrong_is_left_to_the_ordinary_reader_which_says_so(codec: Codec) -> None:
    good = publish_frame(encode_parcel(parse_notification({"x": 1}), "p", 1))
    for parcel in WRONG_PARCELS.values():
        bad = notification_frame(Kind.PUBLISH, b"", parcel)
        (first, _), (second, rest), (third, _) = hauls(codec, good + bad + good)
        assert (first is not None, second, rest, third is not None) == (True, None, bad, True)
        with pytest.raises(RemoteProtocolError):
            expected(bad, codec)


def test_a_batch_ends_where_its_arrays_are_full_and_the_next_goes_on(codec: Codec) -> None:
    draw = random.Random(3)
    many = [{f"{draw.randrange(10**6)}": n} for n in range(600)]
    frames = [publish_frame(encode_parcel(parse_notification(v), f"p{n}", n)) for n, v in enumerate(many)]
    assert check(codec, frames) == len(frames)


def test_an_end_in_the_midst_of_a_frame_is_seen_at_every_byte(codec: Codec) -> None:
    draw = random.Random(4)
    frame = drawn_frame(draw, 5)
    for cut in range(len(frame)):
        data = frame + frame[:cut]
        assert codec.scanner is not None
        haul, after = codec.scanner.take(data, 0, HEAD_BYTES, False, LIMITS.frame_bytes_max)
        assert haul is None or (len(haul), after) == (1, len(frame))
