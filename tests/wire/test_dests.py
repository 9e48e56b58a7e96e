"""Headers with destinations, stamps, confirmations and news: round trips, bytes by hand, and each way to be wrong."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.errors import RemoteProtocolError
from octopia.language import parse_filter, parse_notification
from octopia.protocol import (
    AskConfirm,
    Asked,
    CibClear,
    CibSet,
    Confirm,
    Confirmed,
    Dests,
    Key,
    Lent,
    LinkNews,
    LinkReport,
    Message,
    Notify,
    Stamp,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    Waits,
)
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    Codec,
    Connection,
    CopyHeader,
    Kind,
    WireLimits,
    copy_heads,
    encode_parcel,
    frame,
    link_frames,
    notification_frame,
    publisher_of,
    split_stamp,
    stamp_block,
    wire_notification,
)
from octopia.wire.dests import DestsReader, header_bytes, stamp_bytes
from tests.effort import cases
from tests.wire import peers

# 3 regions, 4 clusters: 12 brokers, (a,0) (b,0) (c,0) (a,1) ... at places 0, 1, 2, 3 ...
SCOT = Scot(parse_tree("path:3"), 4)
LARGE = Scot(parse_tree("path:50"), 20)
CODEC, LARGE_CODEC = Codec(WireLimits(), SCOT), Codec(WireLimits(), LARGE)
A0, B0, B1, C3 = BrokerId("a", 0), BrokerId("b", 0), BrokerId("b", 1), BrokerId("c", 3)
FILTER = parse_filter("price > 10 and name like 'A%'")
PARCEL = encode_parcel(parse_notification({"n": 1}), "p", 7)


def seen(sequence: int = 7) -> Any:
    return wire_notification(parse_notification({"n": 1}), "p", sequence)


def at_broker() -> Connection:
    return peers.at_broker("broker", CODEC)


def headers(brokers: int) -> st.SearchStrategy[Dests]:
    few = st.sets(st.integers(0, brokers - 1), min_size=1, max_size=4).map(lambda bits: sum(1 << bit for bit in bits))
    return st.builds(Dests, st.one_of(few, st.integers(1, (1 << brokers) - 1)))


def stamps(brokers: int) -> st.SearchStrategy[Stamp]:
    @st.composite
    def made(draw: st.DrawFn) -> Stamp:
        dests = draw(headers(brokers)).dests
        sequence = draw(st.integers(1, 2**63 - 1) | st.integers(1, 300))
        gap = st.integers(1, min(sequence, 5)) | st.integers(1, sequence) | st.just(sequence)
        gaps = [draw(gap)] * dests.bit_count() if draw(st.booleans()) else None
        gaps = gaps or draw(st.lists(gap, min_size=dests.bit_count(), max_size=dests.bit_count()))
        return Stamp(draw(st.integers(0, brokers - 1)), sequence, dests, tuple(gaps))

    return made()


@pytest.mark.parametrize("overlay", [SCOT, LARGE], ids=["12", "1000"])
@settings(max_examples=cases(200))
@given(data=st.data())
def test_headers_and_stamps_come_back(overlay: Scot, data: st.DataObject) -> None:
    brokers = overlay.broker_count
    reader = DestsReader(brokers)
    header, traced, probe = data.draw(headers(brokers)), data.draw(st.booleans()), data.draw(st.booleans())
    made = header_bytes(header, traced, probe)
    assert reader.header(made) == (header, traced, probe)
    assert reader.header(made) == (header, traced, probe)
    # the shorter of the two forms, and never longer than the overlay asks for
    assert len(made) <= 1 + (brokers + 7) // 8
    stamp = data.draw(stamps(brokers))
    assert reader.stamp(stamp_bytes(stamp)) == stamp
    assert split_stamp(stamp_block(stamp) + PARCEL) == (stamp_bytes(stamp), PARCEL)


def test_bytes_written_by_hand() -> None:
    # (b,0) and (c,3): places 1 and 11. The bitmap has two bytes, as the list has.
    assert header_bytes(Dests(1 << 1 | 1 << 11)) == b"\x00\x08\x02"
    # one broker: a list is shorter
    assert header_bytes(Dests(1 << 11)) == b"\x01\x0b"
    assert header_bytes(Dests(1 << 11), True) == b"\x03\x0b"
    assert header_bytes(Dests(1 << 11, 2), True) == b"\x0b\x0b"
    # places 3, 300, 301 of 1,000: the second and third as distances
    assert header_bytes(Dests(1 << 3 | 1 << 300 | 1 << 301)) == b"\x01\x03\xa9\x02\x01"
    # of (a,0), sequence 7, for places 1 and 11; before it 6 and none
    stamp = Stamp(0, 7, 1 << 1 | 1 << 11, (1, 7))
    assert stamp_bytes(stamp) == b"\x00" + b"\x00\x00\x00\x00\x00\x00\x00\x07" + b"\x00" + b"\x02\x08\x02" + b"\x01\x00"
    # one gap for both
    same = Stamp(3, 300, 1 << 1 | 1 << 11, (2, 2))
    assert stamp_bytes(same) == b"\x02" + b"\x00\x00\x00\x00\x00\x00\x01\x2c" + b"\x03" + b"\x02\x08\x02" + b"\x02"
    (sent,) = link_frames(Notify("p", "7", seen(), Dests(1 << 11), stamp))
    assert sent == (b"\x00\x00\x00\x1f\x3d" + b"\x00\x00\x00\x02" + b"\x01\x0b" + b"\x0f" + stamp_bytes(stamp) + PARCEL)
    assert copy_heads(Dests(1 << 11))[len(stamp_block(stamp) + PARCEL)] + stamp_block(stamp) + PARCEL == sent
    assert publisher_of(sent) == "p"


def test_bytes_of_control_messages_written_by_hand() -> None:
    (incomplete,) = link_frames(SubscriptionsIncomplete((A0, C3)))
    assert incomplete == b"\x00\x00\x00\x0b\x3e" + b"\x91\x92" + b"\x92\xa1a\x00" + b"\x92\xa1c\x03"
    (news,) = link_frames(LinkNews((LinkReport(A0, B0, 5, False),)))
    assert news == b"\x00\x00\x00\x0e\x3f" + b"\x91\x91\x94" + b"\x92\xa1a\x00" + b"\x92\xa1b\x00" + b"\x05\xc2"
    (confirm,) = link_frames(Confirm(B1, (Confirmed("p", 9), Confirmed("q", 3, True)), Dests(1), 5))
    assert confirm == (
        b"\x00\x00\x00\x16\x40\x94" + b"\xc4\x02\x00\x01" + b"\x92\xa1b\x01"
        b"\x92\x93\xa1p\x09\xc2\x93\xa1q\x03\xc3" + b"\x05"
    )
    (asks,) = link_frames(AskConfirm(B1, (Asked("p", 9), Asked("q", 0)), Dests(1)))
    assert asks == (
        b"\x00\x00\x00\x13\x42\x93" + b"\xc4\x02\x00\x01" + b"\x92\xa1b\x01" + b"\x92\x92\xa1p\x09\x92\xa1q\x00"
    )
    (cib,) = link_frames(CibSet((Key(A0, 1),), (Lent(Key(C3, 2), parse_filter("x > 1")),)))
    assert cib == (
        b"\x00\x00\x00\x16\x34" + b"\x92" + b"\x91\x93\xa1a\x00\x01" + b"\x91\x92" + b"\x93\xa1c\x03\x02"
        b"\x91\x91\x93\xa1x\x04\x01"
    )
    assert link_frames(CibClear((), (Key(C3, 2),))) == [
        b"\x00\x00\x00\x09\x35" + b"\x92\x90" + b"\x91\x93\xa1c\x03\x02"
    ]


STAMP = Stamp(0, 7, 1 << 1 | 1 << 11, (1, 7))
MESSAGES: list[Message] = [
    CibSet((Key(A0, 1), Key(A0, 2))),
    CibSet((Key(A0, 1), Key(A0, 2)), (Lent(Key(B1, 2), FILTER), Lent(Key(C3, 2), FILTER))),
    CibSet((Key(A0, 1), Key(A0, 2)), (Lent(Key(B1, 2), FILTER, 3), Lent(Key(C3, 2), FILTER))),
    CibSet((Key(A0, 1), Key(A0, 2)), (), (0, 2)),
    CibClear((Key(A0, 1),)),
    CibClear((), (Key(B1, 1), Key(C3, 4))),
    SubscriptionsComplete((A0, C3)),
    SubscriptionsIncomplete((A0, C3)),
    LinkNews((LinkReport(A0, B0, 0, False), LinkReport(B0, A0, 2**40, True))),
    Waits(0),
    Waits(60_000),
    Confirm(C3, (Confirmed("p", 9), Confirmed("q", 2**50, True)), Dests(1)),
    Confirm(C3, (Confirmed("p", 9),), Dests(1), 2**62),
    AskConfirm(C3, (Asked("p", 9), Asked("q", 2**50), Asked("r", 0)), Dests(1)),
    Notify("p", "7", seen(), Dests(1 << 11), STAMP),
    Notify("p", "7", seen(), Dests(1 << 11 | 1), STAMP),
    Notify("p", "7", seen(), Dests(1 << 11 | 1, 1), STAMP),
    Notify("p", "7", seen(), Dests(1 << 11, 3), STAMP),
    Notify("p", "7", seen(), Dests(1 << 11)),
]


@given(cuts=st.lists(st.integers(1, 400), min_size=1))
def test_messages_come_back_whatever_the_cuts(cuts: list[int]) -> None:
    connection = at_broker()
    came = peers.received(connection, b"".join(link_frames(message)[0] for message in MESSAGES), cuts)
    came = peers.copied(came, CODEC)
    assert came == MESSAGES
    assert [link_frames(message) for message in came] == [link_frames(message) for message in MESSAGES]
    assert connection.received == len(MESSAGES)


def test_long_lists_are_cut_into_frames_that_mean_the_same() -> None:
    keys = tuple(Key(A0, n) for n in range(8193))
    long = parse_filter(f"name = '{'x' * 60_000}'")
    lent = tuple(Lent(Key(C3, n), long) for n in range(20))
    came: list[Any] = []
    for message in (CibSet(keys, lent), CibClear(keys, keys[:2])):
        for each in link_frames(message):
            came += at_broker().receive(each)
    sets = [each for each in came if isinstance(each, CibSet)]
    assert all(each.advertisements and each.subscriptions for each in sets)
    bound = {(key, lent) for each in sets for key in each.advertisements for lent in each.subscriptions}
    assert bound == {(key, each) for key in keys for each in lent}
    clears = [each for each in came if isinstance(each, CibClear)]
    assert [key for each in clears for key in each.subscriptions] == list(keys[:2])
    assert [key for each in clears for key in each.advertisements] == list(keys)
    streams = tuple(Confirmed(f"p{n}", n + 1) for n in range(2500))
    confirms = [at_broker().receive(each)[0] for each in link_frames(Confirm(C3, streams, Dests(1)))]
    assert tuple(stream for each in confirms for stream in each.streams) == streams
    asked = tuple(Asked(f"p{n}", n) for n in range(2500))
    asks = [at_broker().receive(each)[0] for each in link_frames(AskConfirm(C3, asked, Dests(1)))]
    assert tuple(stream for each in asks for stream in each.streams) == asked


def stamped(header: bytes, stamp: bytes, parcel: bytes = PARCEL) -> bytes:
    return notification_frame(Kind.NOTIFY_DESTS, header, bytes([len(stamp)]) + stamp + parcel)


ONE, GOOD = b"\x01\x0b", stamp_bytes(STAMP)
SEQUENCE = b"\x00\x00\x00\x00\x00\x00\x00\x07"
BAD_HEADERS = {
    "no header": (b"", "flags"),
    "unknown flag": (b"\x21\x0b", "flags"),
    "nobody in a bitmap": (b"\x00\x00", "no destination"),
    "nobody in a list": (b"\x01", "no destination"),
    "unknown broker in a bitmap": (b"\x00\x10\x00", "the overlay has not: there are 12"),
    "too long a bitmap": (b"\x00\x00\x08\x02", "the overlay has not: there are 12"),
    "unknown broker in a list": (b"\x01\x0c", "broker 12; the overlay has 12"),
    "unknown broker by distance": (b"\x01\x0b\x01", "broker 12; the overlay has 12"),
    "repeated broker": (b"\x01\x0b\x00", "a broker twice"),
    "endless number": (b"\x01" + b"\xff" * 20, "ends too late"),
    "number without end": (b"\x01\x80", "ends too late"),
}
BAD_STAMPS = {
    "too short": (GOOD[:8], "8 bytes"),
    "unknown flag": (b"\x04" + GOOD[1:], "flags"),
    "sequence 0": (b"\x00" + bytes(8) + GOOD[9:], "sequence is 0"),
    "huge sequence": (b"\x00" + b"\xff" * 8 + GOOD[9:], "its sequence is"),
    "unknown host": (b"\x00" + SEQUENCE + b"\x0c" + GOOD[10:], "made by broker 12; the overlay has 12"),
    "unknown broker": (b"\x00" + SEQUENCE + b"\x00\x02\x10\x02\x01\x01", "the overlay has not"),
    "repeated broker": (b"\x01" + SEQUENCE + b"\x00\x02\x0b\x00\x01\x01", "a broker twice"),
    "no destination": (b"\x00" + SEQUENCE + b"\x00\x00\x01", "no destination"),
    "cut within the set": (b"\x00" + SEQUENCE + b"\x00\x7f\x08\x02", "ends within its destinations"),
    "a gap too few": (GOOD[:-1], "exactly one gap for each of 2"),
    "a gap too many": (GOOD + b"\x01", "exactly one gap for each of 2"),
    "gap above the sequence": (GOOD[:-1] + b"\x08", "a gap of 8 before sequence 7"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_wrong_header_is_the_neighbours_fault(name: str) -> None:
    header, reason = BAD_HEADERS[name]
    data = stamped(ONE, GOOD) + stamped(header, GOOD)
    connection = at_broker()
    with pytest.raises(RemoteProtocolError, match=reason):
        connection.receive(data)
    assert connection.closed
    (batch,), _ = peers.until_fault(at_broker(), data, CODEC)
    assert len(batch) == 1


@pytest.mark.parametrize("name", BAD_STAMPS)
def test_a_wrong_stamp_is_passed_on_and_refused_where_it_is_read(name: str) -> None:
    stamp, reason = BAD_STAMPS[name]
    (batch,) = at_broker().receive(stamped(ONE, stamp))
    assert split_stamp(batch.stamped[0]) == (stamp, PARCEL)
    with pytest.raises(RemoteProtocolError, match=f"stamp is wrong.*{reason}"):
        CODEC.dests.stamp(stamp)


def test_a_stamp_leaves_room_for_its_notification() -> None:
    wrong = notification_frame(Kind.NOTIFY_DESTS, ONE, b"\x7f" + GOOD + PARCEL)
    with pytest.raises(RemoteProtocolError, match="no room for a notification"):
        at_broker().receive(wrong)


def body(kind: Kind, hexed: str) -> bytes:
    return frame(kind, bytes.fromhex(hexed))


BAD_MESSAGES = {
    "unknown host": (link_frames(SubscriptionsIncomplete((BrokerId("x", 0),)))[0], "x,0.*overlay has not"),
    "host twice": (link_frames(SubscriptionsIncomplete((A0, A0)))[0], "named twice"),
    "too many hosts": (link_frames(SubscriptionsComplete((A0,) * 13))[0], "13 brokers are named; the overlay has 12"),
    "news of no link": (link_frames(LinkNews((LinkReport(A0, C3, 1, True),)))[0], "which the overlay has not"),
    "news of nobody": (link_frames(LinkNews((LinkReport(BrokerId("x", 1), A0, 1, True),)))[0], "overlay has not"),
    "news twice": (
        link_frames(LinkNews((LinkReport(A0, B0, 1, True), LinkReport(A0, B0, 2, False))))[0],
        "reports twice",
    ),
    "waits too long": (link_frames(Waits(60_001))[0], "<= 60000"),
    "waits less than nothing": (link_frames(Waits(-1))[0], ">= 0"),
    "confirmed to two": (link_frames(Confirm(A0, (Confirmed("p", 1),), Dests(3)))[0], "for 2 brokers"),
    "confirmed to nobody": (body(Kind.CONFIRM, "94c40100" + "92a16100" + "9193a17001c2" + "00"), "no destination"),
    "confirmed by nobody": (
        link_frames(Confirm(BrokerId("x", 0), (Confirmed("p", 1),), Dests(1)))[0],
        "overlay has not",
    ),
    "publisher twice": (
        link_frames(Confirm(A0, (Confirmed("p", 1), Confirmed("p", 2)), Dests(2)))[0],
        "publisher twice",
    ),
    "nothing confirmed": (body(Kind.CONFIRM, "94c4020101" + "92a16100" + "90" + "00"), "length >= 1"),
    "no life": (body(Kind.CONFIRM, "93c4020101" + "92a16100" + "9193a17001c2"), "length 4"),
    "two are asked": (link_frames(AskConfirm(A0, (Asked("p", 1),), Dests(3)))[0], "for 2 brokers"),
    "nobody asks": (link_frames(AskConfirm(BrokerId("x", 0), (Asked("p", 1),), Dests(1)))[0], "overlay has not"),
    "asked twice": (link_frames(AskConfirm(A0, (Asked("p", 1), Asked("p", 2)), Dests(2)))[0], "publisher twice"),
    "nothing asked": (body(Kind.ASK_CONFIRM, "93c4020101" + "92a16100" + "90"), "length >= 1"),
    "asked below 0": (body(Kind.ASK_CONFIRM, "93c4020101" + "92a16100" + "9192a170ff"), ">= 0"),
    "four parts": (body(Kind.LINK_CIB_SET, "9490909090"), "at most length 3|length 1 to 3"),
    "three parts": (body(Kind.LINK_CIB_CLEAR, "93909090"), "at most length 2|length 1 to 2"),
    "priorities for none": (body(Kind.LINK_CIB_SET, "93909091" + "01"), "1 priorities for 0 advertisements"),
    "priority of 4": (body(Kind.LINK_CIB_SET, "93" + "91" + "93a1610001" + "90" + "91" + "04"), "<= 3"),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_wrong_messages_are_the_neighbours_fault(name: str) -> None:
    sent, reason = BAD_MESSAGES[name]
    with pytest.raises(RemoteProtocolError, match=reason):
        at_broker().receive(sent)


def test_copies_with_equal_headers_are_one_batch() -> None:
    draw = random.Random(5)
    for _ in range(cases(200)):
        notifies = []
        for sequence in range(1, draw.randrange(2, 30)):
            header = Dests(draw.choice([1 << 11, 1 << 11, 3, 6]))
            stamp = Stamp(0, sequence, 1 << 1 | 1 << 11, (1, draw.randrange(1, sequence + 1)))
            notifies.append(Notify("p", str(sequence), seen(sequence), header, stamp))
        traced = [draw.random() < 0.1 for _ in notifies]
        frames = [link_frames(n, CopyHeader(traced=t))[0] for n, t in zip(notifies, traced, strict=True)]
        data = b"".join(frames)
        cut = draw.randrange(len(data))
        connection = at_broker()
        batches = connection.receive(data[:cut]) + connection.receive(data[cut:])
        assert peers.copied(batches, CODEC) == notifies
        assert connection.received == len(notifies)
        assert [b.header is not None for b in batches for _ in range(len(b))] == traced
        sent = [copy_heads(b.carried)[len(tail)] + tail for b in batches if b.header is None for tail in b.stamped]
        assert sent == [each for each, t in zip(frames, traced, strict=True) if not t]
        changes = sum(
            a.header != b.header or s != t
            for a, b, s, t in zip(notifies, notifies[1:], traced, traced[1:], strict=False)
        )
        assert len(batches) <= changes + 2


ALL_FRAMES = [each for message in MESSAGES for each in link_frames(message)]


@given(st.sampled_from(ALL_FRAMES), st.data())
def test_a_frame_with_any_byte_changed_gives_messages_or_one_error(sent: bytes, data: Any) -> None:
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = sent[:at] + bytes([data.draw(st.integers(0, 255))]) + sent[at + 1 :]
    connection = at_broker()
    try:
        connection.receive(changed)
    except RemoteProtocolError:
        assert connection.closed


@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_and_a_stamp_or_an_error(data: bytes) -> None:
    for codec, overlay in ((CODEC, SCOT), (LARGE_CODEC, LARGE)):
        try:
            header, *_ = codec.dests.header(data)
        except RemoteProtocolError:
            pass
        else:
            assert 0 < header.dests < 1 << overlay.broker_count
        try:
            stamp = codec.dests.stamp(data)
        except RemoteProtocolError:
            continue
        assert len(stamp.gaps) == stamp.dests.bit_count()
        assert all(0 < gap <= stamp.sequence for gap in stamp.gaps)
