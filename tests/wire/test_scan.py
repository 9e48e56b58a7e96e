"""The compiled reader finds what the ordinary reader finds, and accepts nothing that the ordinary reader refuses."""

import random
import string
import struct
from itertools import accumulate
from typing import Any, NamedTuple

import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_notification
from octopia.matching import Matcher, kernels_in_use
from octopia.matching.tokens import NUMBER, TEXT
from octopia.net.broker.engine.arrays import COUNTS, FOUND, Arrays
from octopia.protocol import Stamp
from octopia.topology import Scot, parse_tree
from octopia.wire import (
    COPIES,
    Batch,
    Codec,
    Kind,
    Scanner,
    WireLimits,
    encode_parcel,
    notification_frame,
    split_frames,
    stamp_block,
    timed,
)
from octopia.wire.scanner import (
    HEADERS,
    HEADERS_MAX,
    NAMES_MAX,
    NOTES,
    NOTES_MAX,
    NUMBERS,
    PUBLISHERS,
    PUBLISHERS_MAX,
    TOKENS,
    TOKENS_MAX,
)
from tests.effort import cases
from tests.wire.peers import WRONG_PARCELS

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")

LIMITS = WireLimits(frame_bytes_max=4000, attributes_max=20)
SCOT = Scot(parse_tree("path:3"), 4)
TEXTS = ["", "a", "AAPL", "x" * 31, "y" * 40, "z" * 300, "é", "日本語", "🦑" * 9, "a\x00b", "\ud7ff"]
WHOLE_NUMBERS = [
    0, 1, -1, -32, -33, 127, 128, 255, 256, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63,
    2**63 + 1024, -(2**63), -(2**63) + 1, -(2**53) - 1, -(2**54) + 1, 2**64 - 1, 2**64 - 2048,
]  # fmt: skip
LONG = 2**80
STAMP = Stamp(0, 7, 1 << 1 | 1 << 11, (1, 7))
# Reasons for which a scan ends, as in `scan_numba`.
ENDED, UNUSUAL, NEW, FULL = range(4)
NO_MATCH, NO_GROUPS = -2, -1


class Note(NamedTuple):
    """A notification as a reader says it is, with the kind, the header and the rest of its frame."""

    values: dict[str, Any]
    publisher: str
    sequence: int
    kind: int
    header: bytes
    forwarded: bytes
    parcel: bytes
    stop: int


class Readers:
    """Both readers of copies. The compiled one learns names as a broker's engine lets it learn."""

    def __init__(self, limits: WireLimits = LIMITS) -> None:
        from octopia.net.broker.engine import read_numba

        self._scan: Any = read_numba.read_copies
        self._match: Any = read_numba.match
        self._codec = Codec(limits, SCOT)
        self._arrays = Arrays(SCOT.broker_count)
        self._bytes_max = limits.frame_bytes_max
        self.scanner = Scanner(limits)

    def scanned(self, data: bytes, at: int) -> tuple[list[Note], int, int]:
        """The notifications that the compiled reader finds from a place on, where it ends, and why."""
        scanner = self.scanner
        while True:
            scanner.scans += 1
            # nothing is matched, so no matcher and no rows are needed
            count, after, why, *_ = self._scan(
                bytes_of(data), at, self._bytes_max, *scanner.limits, scanner.scans, scanner.sheet.address,
                self._arrays.sheet.address, NO_MATCH, 0, 0, False, 0,
            )  # fmt: skip
            notes = [self._note(data, each) for each in scanner.sheet[NOTES][:count].tolist()]
            if why != NEW:
                return notes, after, why
            new = self.ordinary(data, after)
            if new is None or not scanner.can_learn(tuple(new.values)):
                return notes, after, why
            scanner.learn(tuple(new.values))

    def matched(self, data: bytes, matcher: Matcher[Any]) -> list[list[int]]:
        """The rows of a matcher that each notification matches; all of them must be for the compiled reader."""
        notes, after, _ = self.scanned(data, 0)
        assert after == len(data)
        scanner, arrays = self.scanner, self._arrays
        while True:
            matcher.attend(len(notes))
            found = self._match(
                bytes_of(data), len(notes), NO_GROUPS, False, scanner.sheet.address, matcher.ready(scanner.names), 0,
                arrays.sheet.address,
            )  # fmt: skip
            if found >= 0:
                break
            arrays.need_rows(2 * len(arrays.sheet[FOUND]))
        rows = iter(arrays.sheet[FOUND].tolist())
        return [[next(rows) for _ in range(count)] for count in arrays.sheet[COUNTS][: len(notes)].tolist()]

    def _note(self, data: bytes, line: list[int]) -> Note:
        sheet = self.scanner.sheet
        tail, parcel, stop, sequence, first, width, signature, publisher, header = line
        values: dict[str, Any] = {}
        for token in range(first, first + width):
            name, kind, start, end = sheet[TOKENS][token].tolist()
            number = float(sheet[NUMBERS][token])
            # a number that has a rest is no float
            whole = int(number) + start if kind == NUMBER and start else number
            text = data[start:end].decode() if kind == TEXT else ""
            values[self.scanner.names.words[name]] = (whole, text, bool(number))[kind]
        assert self.scanner.signatures[signature] == tuple(values)
        at, size, _ = sheet[PUBLISHERS][publisher].tolist()
        begin, length, of = sheet[HEADERS][header].tolist()
        name, head = data[at : at + size].decode(), data[begin : begin + length]
        return Note(values, name, sequence, of, head, data[tail:stop], data[parcel:stop], stop)

    def ordinary(self, data: bytes, at: int) -> Note | None:
        """The notification that the ordinary reader finds at a place; None if it refuses the frame."""
        try:
            batch = self._codec.batches.read(data, at, self._bytes_max, 1)
        except RemoteProtocolError as error:
            # a header is checked where copies are routed
            if "header" not in str(error) or "no room" in str(error):
                return None
            return self._with_another_header(data, at)
        return self._note_of(batch, data, at)

    @staticmethod
    def _note_of(batch: Batch, data: bytes, at: int) -> Note:
        header_bytes = int.from_bytes(data[at + 5 : at + 9], "big")
        tail = at + 9 + header_bytes
        kind, stop = data[at + 4], at + 4 + int.from_bytes(data[at : at + 4], "big")
        (values,), (publisher,), (sequence,), (parcel,) = batch.values, batch.publishers, batch.sequences, batch.parcels
        return Note(values, publisher, sequence, kind, data[at + 9 : tail], data[tail:stop], parcel, stop)

    def _with_another_header(self, data: bytes, at: int) -> Note | None:
        """What the ordinary reader finds in the frame if its header is right."""
        stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
        tail = at + 9 + int.from_bytes(data[at + 5 : at + 9], "big")
        kind = Kind.NOTIFY_DESTS if data[at + 4] == Kind.NOTIFY_DESTS else Kind.NOTIFY
        header = b"\x01\x0b" if kind == Kind.NOTIFY_DESTS else b""
        try:
            batch = self._codec.batches.read(notification_frame(kind, header, data[tail:stop]), 0, 1 << 30, 1)
        except RemoteProtocolError:
            return None
        return self._note_of(batch, data, at)

    def check(self, data: bytes) -> int:
        """Read frames both ways; returns how many the compiled reader took."""
        at = taken = 0
        while at < len(data):
            notes, after, why = self.scanned(data, at)
            for note in notes:
                right = self.ordinary(data, at)
                assert right is not None, f"refused by the ordinary reader: {data[at : note.stop].hex()}"
                assert note == right, data[at : note.stop].hex()
                assert list(note.values) == list(right.values)
                assert [type(each) is bool for each in note.values.values()] == [
                    type(each) is bool for each in right.values.values()
                ]
                at = note.stop
            assert at == after
            taken += len(notes)
            if why != FULL and at < len(data):
                at += 4 + int.from_bytes(data[at : at + 4], "big")
        return taken


def bytes_of(data: bytes) -> Any:
    import numpy as np

    return np.frombuffer(data, np.uint8)


def drawn_value(draw: random.Random) -> Any:
    return draw.choice(  # type: ignore[no-untyped-call]
        [
            lambda: draw.choice(TEXTS),
            lambda: draw.choice(WHOLE_NUMBERS),
            lambda: draw.uniform(-1e3, 1e3),
            lambda: draw.random() < 0.5,
            lambda: LONG if draw.random() < 0.1 else 7,
            lambda: draw.choice((float("inf"), float("-inf"), 0.5)),
            lambda: draw.getrandbits(64) >> draw.randrange(64),
            lambda: -(draw.getrandbits(63) >> draw.randrange(63)),
        ]
    )()


def drawn_frame(draw: random.Random, sequence: int) -> bytes:
    """A copy with any attributes, of any kind, with any header."""
    names = draw.choice([["price", "symbol"], ["symbol", "price", "volume"], [f"a{n}" for n in range(18)], ["é", "日"]])
    if draw.random() < 0.1:
        names = [draw.choice(string.ascii_letters) * draw.randint(1, 40) for _ in range(draw.randint(1, 3))]
    draw.shuffle(names)
    values = {name: drawn_value(draw) for name in names}
    parcel = encode_parcel(parse_notification(values), draw.choice(["p", "q", "é" * 5]), sequence)
    parcel = timed(parcel, sequence) if draw.random() < 0.1 else parcel
    kind = draw.choice(sorted(COPIES))
    header = draw.choice((b"", b"", b"\x01\x0b", draw.randbytes(draw.randrange(12))))
    return notification_frame(kind, header, stamp_block(STAMP) + parcel if kind == Kind.NOTIFY_DESTS else parcel)


def has_long(frame: bytes) -> bool:
    """Whether a frame as drawn has an integer of more than 64 bits, which has the type 1 of an extension."""
    return LONG.to_bytes(11, "big", signed=True) in frame


def mutated(draw: random.Random, frame: bytes) -> bytes:
    """The same frame with a few bytes changed, left out or repeated; its length is that which it has then."""
    body = bytearray(frame[4:])
    for _ in range(draw.randint(1, 3)):
        # mostly behind the kind and the length of the header
        at = draw.randrange(5 if draw.random() < 0.9 else 0, len(body))
        how = draw.random()
        if how < 0.6:
            body[at] = draw.choice([draw.randrange(256), body[at] ^ 1 << draw.randrange(8)])
        elif how < 0.8:
            del body[at : at + draw.randint(1, 4)]
        else:
            body[at:at] = body[at : at + draw.randint(1, 8)]
        if len(body) <= 6:
            break
    return len(body).to_bytes(4, "big") + bytes(body)


@pytest.fixture(scope="module")
def readers() -> Readers:
    return Readers()


def test_copies_of_all_kinds_are_read_as_the_ordinary_reader_reads_them(readers: Readers) -> None:
    draw = random.Random(1)
    frames = [drawn_frame(draw, n) for n in range(cases(6000))]
    # everything that clients write, except longer integers
    assert readers.check(b"".join(frames)) == sum(not has_long(frame) for frame in frames)
    assert sum(readers.check(frame) for frame in frames[:300]) == sum(not has_long(frame) for frame in frames[:300])


def test_mutated_frames_are_accepted_and_refused_alike_alone_and_among_others(readers: Readers) -> None:
    draw = random.Random(2)
    frames = [mutated(draw, drawn_frame(draw, n)) for n in range(cases(20_000))]
    together = readers.check(b"".join(frames))
    assert together > len(frames) // 10
    assert sum(map(readers.check, frames)) == together


def test_mutated_streams_are_cut_into_the_same_frames(readers: Readers) -> None:
    """Lengths are mutated, too: after a wrong one, what follows is read from another place."""
    draw = random.Random(6)
    taken = 0
    for _ in range(cases(1500)):
        data = bytearray(b"".join(drawn_frame(draw, n) for n in range(draw.randint(1, 6))))
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        taken += readers.check(bytes(data))
    assert taken > cases(1500)


@pytest.mark.parametrize("value", [0.5, -2.25, float("inf"), float("-inf"), 2**64 - 1, -(2**63)])
def test_numbers_are_read_in_the_forms_of_other_clients(readers: Readers, value: float) -> None:
    """Floats of 32 bits, and integers in more bytes than they need."""
    parcel = encode_parcel(parse_notification({"x": 0.25}), "p", 1)
    forms = [b"\xca" + struct.pack(">f", value), b"\xcb" + struct.pack(">d", value)]
    forms += [b"\xcf" + struct.pack(">Q", value)] if isinstance(value, int) and value > 0 else []
    forms += [b"\xd3" + struct.pack(">q", value)] if isinstance(value, int) and value < 0 else []
    frames = []
    for form in forms:
        written = parcel.replace(b"\xcb" + struct.pack(">d", 0.25), form)
        assert written != parcel
        frames.append(notification_frame(Kind.NOTIFY, b"", written))
    assert readers.check(b"".join(frames)) == len(frames)


def test_what_is_wrong_is_left_to_the_ordinary_reader_which_says_so(readers: Readers) -> None:
    good = notification_frame(Kind.NOTIFY, b"", encode_parcel(parse_notification({"x": 1}), "p", 1))
    for parcel in WRONG_PARCELS.values():
        bad = notification_frame(Kind.NOTIFY, b"", parcel)
        notes, after, _ = readers.scanned(good + bad + good, 0)
        assert (len(notes), after) == (1, len(good))
        assert readers.ordinary(bad, 0) is None
        assert readers.check(good + bad + good) == 2


def test_a_scan_ends_where_its_arrays_are_full_and_the_next_goes_on() -> None:
    readers = Readers(WireLimits(attributes_max=100))

    def frame(values: dict[str, Any], publisher: str, sequence: int, header: bytes = b"") -> bytes:
        return notification_frame(Kind.NOTIFY, header, encode_parcel(parse_notification(values), publisher, sequence))

    wide = {f"a{n}": n for n in range(100)}
    streams = {
        "publishers": [frame({"x": n}, f"p{n}", n) for n in range(PUBLISHERS_MAX + 90)],
        "headers": [frame({"x": n}, "p", n, struct.pack(">H", n)) for n in range(HEADERS_MAX + 90)],
        "notifications": [frame({"x": n}, "p", n) for n in range(NOTES_MAX + 90)],
        "tokens": [frame(wide, "p", n) for n in range(TOKENS_MAX // 100 + 90)],
    }
    for name, frames in streams.items():
        data = b"".join(frames)
        notes, after, why = readers.scanned(data, 0)
        assert why == FULL, name
        assert 0 < len(notes) < len(frames)
        assert after == sum(map(len, frames[: len(notes)]))
        assert readers.check(data) == len(frames), name


def test_all_names_are_forgotten_when_there_are_too_many_and_learnt_again() -> None:
    readers = Readers()
    draw = random.Random(3)
    frames = []
    for n in range(NAMES_MAX + 500):
        values = {f"{draw.randrange(10**9)}": n, "price": 1.5}
        frames.append(notification_frame(Kind.NOTIFY, b"", encode_parcel(parse_notification(values), "p", n)))
    before = readers.scanner.names
    assert readers.check(b"".join(frames)) == len(frames)
    assert readers.scanner.names is not before
    assert len(readers.scanner.names.words) < NAMES_MAX
    assert readers.check(b"".join(frames[:50])) == 50


def test_an_end_in_the_midst_of_a_frame_is_seen_at_every_byte(readers: Readers) -> None:
    draw = random.Random(4)
    frames = [drawn_frame(draw, n) for n in range(12)]
    data = b"".join(frames)
    stops = list(accumulate(map(len, split_frames(data))))
    for cut in range(len(data)):
        # a copy, so that nothing lies behind its end
        notes, after, _ = readers.scanned(bytes(bytearray(data[:cut])), 0)
        assert [note.stop for note in notes] == stops[: len(notes)]
        assert after <= cut
