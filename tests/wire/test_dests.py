"""Headers with destinations, stamps, confirmations and news: round trips, bytes by hand, and each way to be wrong."""

import random
from math import lgamma, log
from typing import Any

import msgspec
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
    Confirmation,
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


def test_many_destinations_take_little_more_than_they_must() -> None:
    """1,000 of 10,248 at random: there are 2 to the 4,721 such sets, which takes 590 bytes. The header and the stamp of
    what goes to all of them have a set each."""
    brokers, draw = 10_248, random.Random(1)
    least = (lgamma(brokers + 1) - lgamma(1_001) - lgamma(brokers - 999)) / log(2) / 8
    assert 590 < least < 600
    for _ in range(cases(20)):
        dests = sum(1 << place for place in draw.sample(range(brokers), 1_000))
        header = header_bytes(Dests(dests))
        assert len(header) < 1.1 * least
        assert len(header) + len(stamp_bytes(Stamp(7, 1_000, dests, (1,) * 1_000))) < 1_300
        assert DestsReader(brokers).header(header) == (Dests(dests), False, False)


def test_bytes_written_by_hand() -> None:
    # four of twelve: a bitmap
    assert header_bytes(Dests(0b1000_0001_0011)) == b"\x00\x08\x13"
    # (b,0) and (c,3), places 1 and 11: 1 and 9 with two low bits are 1 01 and 00 1 01
    assert header_bytes(Dests(1 << 1 | 1 << 11)) == bytes([0b001_00001, 0b1_01_001_01])
    # 11 with four low bits is 1 1011
    assert header_bytes(Dests(1 << 11)) == bytes([0b010_00001, 0b1_1011_000])
    assert header_bytes(Dests(1 << 11), True) == bytes([0b010_00011, 0b1_1011_000])
    assert header_bytes(Dests(1 << 11, 2), True) == bytes([0b010_01011, 0b1_1011_000])
    # places 3, 300, 301 of 1,000: 3, 296 and 0 with six low bits
    assert header_bytes(Dests(1 << 3 | 1 << 300 | 1 << 301)) == bytes([0b011_00001]) + int(
        "1_000011_00001_101000_1_000000_0000000".replace("_", ""), 2
    ).to_bytes(4, "big")
    # of (a,0), sequence 7, for places 1 and 11; before it 6 and none
    stamp = Stamp(0, 7, 1 << 1 | 1 << 11, (1, 7))
    assert stamp_bytes(stamp) == b"\x21" + b"\x00\x00\x00\x00\x00\x00\x00\x07" + b"\x00" + b"\x01\xa5" + b"\x01\x00"
    # one gap for both
    same = Stamp(3, 300, 1 << 1 | 1 << 11, (2, 2))
    assert stamp_bytes(same) == b"\x23" + b"\x00\x00\x00\x00\x00\x00\x01\x2c" + b"\x03" + b"\x01\xa5" + b"\x02"
    (sent,) = link_frames(Notify("p", "7", seen(), Dests(1 << 11), stamp))
    assert sent == (b"\x00\x00\x00\x1e\x3d" + b"\x00\x00\x00\x02" + b"\x41\xd8" + b"\x0e" + stamp_bytes(stamp) + PARCEL)
    assert copy_heads(Dests(1 << 11))[len(stamp_block(stamp) + PARCEL)] + stamp_block(stamp) + PARCEL == sent
    assert publisher_of(sent) == "p"


def test_bytes_of_control_messages_written_by_hand() -> None:
    (incomplete,) = link_frames(SubscriptionsIncomplete((A0, C3)))
    assert incomplete == b"\x00\x00\x00\x0b\x3e" + b"\x91\x92" + b"\x92\xa1a\x00" + b"\x92\xa1c\x03"
    (news,) = link_frames(LinkNews((LinkReport(A0, B0, 5, False),)))
    assert news == b"\x00\x00\x00\x0e\x3f" + b"\x91\x91\x94" + b"\x92\xa1a\x00" + b"\x92\xa1b\x00" + b"\x05\xc2"
    (confirm,) = link_frames(
        Confirm(
            (
                Confirmation(B1, A0, (Confirmed("p", 9), Confirmed("q", 3, True)), at_once=True, life=5),
                Confirmation(C3, A0, (Confirmed("p", 8),)),
            )
        )
    )
    assert confirm == (
        b"\x00\x00\x00\x2a\x40\x91\x92"
        b"\x95\x92\xa1b\x01\x92\xa1a\x00\x92\x93\xa1p\x09\xc2\x93\xa1q\x03\xc3\xc3\x05"
        b"\x95\x92\xa1c\x03\x92\xa1a\x00\x91\x93\xa1p\x08\xc2\xc2\x00"
    )
    (asks,) = link_frames(AskConfirm(B1, A0, (Asked("p", 9), Asked("q", 0))))
    assert asks == (
        b"\x00\x00\x00\x13\x42\x93" + b"\x92\xa1b\x01" + b"\x92\xa1a\x00" + b"\x92\x92\xa1p\x09\x92\xa1q\x00"
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
    Waits(0, 0),
    Waits(60_000, 60_000_000),
    Confirm(
        (
            Confirmation(C3, A0, (Confirmed("p", 9), Confirmed("q", 2**50, True))),
            Confirmation(B1, A0, (Confirmed("p", 9),), at_once=True, life=2**62),
        )
    ),
    AskConfirm(C3, A0, (Asked("p", 9), Asked("q", 2**50), Asked("r", 0))),
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
    confirm = Confirm(
        (Confirmation(B1, A0, streams[:700]), Confirmation(C3, A0, streams), Confirmation(C3, B1, streams))
    )
    confirms = [at_broker().receive(each)[0] for each in link_frames(confirm)]
    for by, to, told, _, _ in confirm.confirmations:
        came = [each for message in confirms for each in message.confirmations if (each.by, each.to) == (by, to)]
        assert tuple(stream for each in came for stream in each.streams) == told
    asked = tuple(Asked(f"p{n}", n) for n in range(2500))
    asks = [at_broker().receive(each)[0] for each in link_frames(AskConfirm(C3, A0, asked))]
    assert tuple(stream for each in asks for stream in each.streams) == asked


def stamped(header: bytes, stamp: bytes, parcel: bytes = PARCEL) -> bytes:
    return notification_frame(Kind.NOTIFY_DESTS, header, bytes([len(stamp)]) + stamp + parcel)


ONE, GOOD = b"\x41\xd8", stamp_bytes(STAMP)
SEQUENCE = b"\x00\x00\x00\x00\x00\x00\x00\x07"
BAD_HEADERS = {
    "no header": (b"", "flags"),
    "low bits of no list": (b"\x20\x08\x02", "flags"),
    "nobody in a bitmap": (b"\x00\x00", "no destination"),
    "nobody in a list": (b"\x01", "no destination"),
    "unknown broker in a bitmap": (b"\x00\x10\x00", "the overlay has not: there are 12"),
    "too long a bitmap": (b"\x00\x00\x08\x02", "the overlay has not: there are 12"),
    "unknown broker in a list": (bytes([0x41, 0b1_1100_000]), "broker 12; the overlay has 12"),
    "unknown broker by distance": (bytes([0x41, 0b1_1011_1_00, 0]), "broker 12; the overlay has 12"),
    "number without end": (b"\xe1\x80", "a number that ends too late"),
    "a byte more than needed": (b"\x41\xd8\x00", "a list that ends too late"),
    "zeros": (b"\x01\x00", "a list that ends too late"),
    "too long a list": (b"\x41\x00\x00\xd8", "longer than a bitmap of all brokers"),
}
BAD_STAMPS = {
    "too short": (GOOD[:8], "8 bytes"),
    "unknown flag": (b"\x04" + GOOD[1:], "flags"),
    "sequence 0": (b"\x00" + bytes(8) + GOOD[9:], "sequence is 0"),
    "huge sequence": (b"\x00" + b"\xff" * 8 + GOOD[9:], "its sequence is"),
    "unknown host": (b"\x00" + SEQUENCE + b"\x0c" + GOOD[10:], "made by broker 12; the overlay has 12"),
    "unknown broker": (b"\x00" + SEQUENCE + b"\x00\x02\x10\x02\x01\x01", "the overlay has not"),
    "low bits of no list": (b"\x20" + SEQUENCE + b"\x00\x02\x08\x02\x01\x01", "flags"),
    "unknown broker in a list": (b"\x41" + SEQUENCE + b"\x00\x01\xe0\x01", "broker 12; the overlay has 12"),
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


def confirm(by: BrokerId, to: BrokerId, *streams: Confirmed) -> Confirm:
    return Confirm((Confirmation(by, to, streams),))


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
    "waits too long": (link_frames(Waits(60_001, 0))[0], "<= 60000"),
    "waits less than nothing": (link_frames(Waits(-1, 0))[0], ">= 0"),
    "waits with a pace too long": (link_frames(Waits(1, 60_000_001))[0], "<= 60000000"),
    "confirmed to nobody": (link_frames(confirm(A0, BrokerId("x", 0), Confirmed("p", 1)))[0], "overlay has not"),
    "confirmed by nobody": (link_frames(confirm(BrokerId("x", 0), A0, Confirmed("p", 1)))[0], "overlay has not"),
    "publisher twice": (link_frames(confirm(A0, B0, Confirmed("p", 1), Confirmed("p", 2)))[0], "publisher twice"),
    "confirms twice": (
        link_frames(Confirm(2 * confirm(A0, B0, Confirmed("p", 1)).confirmations))[0],
        "a,0.*confirms to .*b,0.* twice",
    ),
    "too much confirmed": (
        frame(
            Kind.CONFIRM,
            msgspec.msgpack.encode(
                ([(A0, to, [("p" + str(n), 1, False) for n in range(600)], True, 0) for to in (B0, C3)],)
            ),
        ),
        "1200 confirmed streams",
    ),
    "no confirmation": (body(Kind.CONFIRM, "9190"), "length >= 1"),
    "nothing confirmed": (
        body(Kind.CONFIRM, "9191" + "95" + "92a16100" + "92a16200" + "90" + "c2" + "00"),
        "length >= 1",
    ),
    "no life": (body(Kind.CONFIRM, "9191" + "94" + "92a16100" + "92a16200" + "9193a17001c2" + "c2"), "length 5"),
    "nobody is asked": (link_frames(AskConfirm(A0, BrokerId("x", 0), (Asked("p", 1),)))[0], "overlay has not"),
    "nobody asks": (link_frames(AskConfirm(BrokerId("x", 0), A0, (Asked("p", 1),)))[0], "overlay has not"),
    "asked twice": (link_frames(AskConfirm(A0, B0, (Asked("p", 1), Asked("p", 2))))[0], "publisher twice"),
    "nothing asked": (body(Kind.ASK_CONFIRM, "93" + "92a16100" + "92a16200" + "90"), "length >= 1"),
    "asked below 0": (body(Kind.ASK_CONFIRM, "93" + "92a16100" + "92a16200" + "9192a170ff"), ">= 0"),
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
