"""Frames byte by byte, written by hand from the MessagePack specification: what another language would have to send."""

import struct

from octopia.language import parse_filter, parse_notification
from octopia.protocol import Advertise, CibSet, Civ, Key, Notify, TreeHeader, Unsubscribe
from octopia.topology import BrokerId
from octopia.wire import (
    PROBE,
    Ack,
    CopyHeader,
    Dropped,
    Goodbye,
    Hello,
    Refused,
    advertise_frame,
    deliver_frame,
    encode_parcel,
    link_frames,
    message_frame,
    publish_frame,
    publisher_of,
    subscribe_frame,
    unsubscribe_frame,
    wire_notification,
)

PRICE = b"\x93" + b"\x81\xa5price\x0a" + b"\xa1p" + b"\x07"  # [{"price": 10}, "p", 7]
KEY = b"\x93\xa1b\x02\x05"  # (b,2), serial 5
B2 = BrokerId("b", 2)


def test_a_parcel_is_attributes_publisher_sequence() -> None:
    assert encode_parcel(parse_notification({"price": 10}), "p", 7) == PRICE


def test_a_parcel_keeps_order_kinds_and_long_integers() -> None:
    given = parse_notification({"s": "é", "i": -1, "f": 1.5, "b": True, "long": 2**64, "low": -(2**63) - 1})
    assert encode_parcel(given, "p", 2**40) == (
        b"\x93\x86"
        b"\xa1s\xa2\xc3\xa9"
        b"\xa1i\xff"
        b"\xa1f\xcb" + struct.pack(">d", 1.5) + b"\xa1b\xc3"
        b"\xa4long\xc7\x09\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\xa3low\xc7\x09\x01\xff\x7f\xff\xff\xff\xff\xff\xff\xff"
        b"\xa1p\xcf" + struct.pack(">Q", 2**40)
    )


def test_publish_with_and_without_trace() -> None:
    assert publish_frame(PRICE) == b"\x00\x00\x00\x11" + b"\x14" + b"\x00\x00\x00\x00" + PRICE
    assert (
        publish_frame(PRICE, traced=True) == b"\x00\x00\x00\x13" + b"\x14" + b"\x00\x00\x00\x02" + b"\x91\xc3" + PRICE
    )


def test_deliver_names_the_subscriptions() -> None:
    assert deliver_frame(("s1", "s2"), PRICE) == (
        b"\x00\x00\x00\x18" + b"\x22" + b"\x00\x00\x00\x07" + b"\x92\xa2s1\xa2s2" + PRICE
    )


def test_requests() -> None:
    price = b"\x91\x91\x93\xa5price\x04\x0a"  # [[["price", 4, 10]]]: price > 10
    assert advertise_frame("a1", parse_filter("price > 10")) == b"\x00\x00\x00\x10\x10\x92\xa2a1" + price
    assert subscribe_frame("s1", parse_filter("price > 10"), "drop_oldest", True) == (
        b"\x00\x00\x00\x1d\x12\x94\xa2s1" + price + b"\xabdrop_oldest\xc3"
    )
    assert unsubscribe_frame("s1") == b"\x00\x00\x00\x05\x13\x91\xa2s1"


def test_simple_messages() -> None:
    assert message_frame(Ack(300)) == b"\x00\x00\x00\x05\x04\x91\xcd\x01\x2c"
    assert message_frame(Goodbye("idle", "no")) == b"\x00\x00\x00\x0a\x03\x92\xa4idle\xa2no"
    assert message_frame(Refused("publish", "7", "x")) == b"\x00\x00\x00\x0e\x21\x93\xa7publish\xa17\xa1x"
    assert message_frame(Dropped(3)) == b"\x00\x00\x00\x03\x23\x91\x03"


def test_hello_is_a_map() -> None:
    body = message_frame(Hello([1], "client", "me", "secret"))
    assert body[4:].startswith(b"\x01\x8d\xa8versions\x91\x01\xa4role\xa6client\xa4name\xa2me\xa5token\xa6secret")


def test_messages_between_brokers() -> None:
    key = Key(B2, 5)
    assert link_frames(Advertise(key, parse_filter("x is not null"))) == [
        b"\x00\x00\x00\x0e\x30\x92" + KEY + b"\x91\x91\x93\xa1x\x0c\xc0"
    ]
    assert link_frames(Unsubscribe(key)) == [b"\x00\x00\x00\x08\x33\x92" + KEY + b"\x90"]
    assert link_frames(CibSet((key, key))) == [b"\x00\x00\x00\x0d\x34\x91\x92" + KEY + KEY]


def test_copies_of_a_notification() -> None:
    seen = wire_notification(parse_notification({"price": 10}), "p", 7)
    assert link_frames(Notify("p", "7", seen)) == [b"\x00\x00\x00\x11\x38\x00\x00\x00\x00" + PRICE]
    assert link_frames(Notify("p", "7", seen, Civ(0b100000001))) == [
        b"\x00\x00\x00\x19\x38\x00\x00\x00\x08" + b"\x94\xc4\x02\x01\x01\xc2\x00\x00" + PRICE
    ]
    assert link_frames(Notify("p", "7", seen), CopyHeader(traced=True, earlier=6, hold_ms=50)) == [
        b"\x00\x00\x00\x17\x38\x00\x00\x00\x06" + b"\x94\xc4\x00\xc3\x06\x32" + PRICE
    ]
    assert link_frames(Notify("p", "7", seen, Civ(0b101, 2)), PROBE) == [
        b"\x00\x00\x00\x1a\x38\x00\x00\x00\x09" + b"\x96\xc4\x01\x05\xc3\x00\x00\x02\xc3" + PRICE
    ]
    assert link_frames(Notify("p", "7", seen), PROBE) == [
        b"\x00\x00\x00\x19\x38\x00\x00\x00\x08" + b"\x96\xc4\x00\xc3\x00\x00\x00\xc3" + PRICE
    ]
    assert link_frames(Notify("p", "7", seen, TreeHeader(Key(B2, 5)))) == [
        b"\x00\x00\x00\x1d\x39\x00\x00\x00\x0c" + b"\x92" + KEY + b"\x94\xc4\x00\xc2\x00\x00" + PRICE
    ]


def test_the_publisher_of_a_frame_is_found_whatever_comes_before_it() -> None:
    seen = wire_notification(parse_notification({"price": 2**80, "s": "x" * 60_000}), "öffentlich", 2**60)
    frames = [
        publish_frame(seen.parcel),
        deliver_frame(("s1", "s2"), seen.parcel),
        *link_frames(Notify("p", "7", seen, Civ(0b100000001)), CopyHeader(traced=True, earlier=6, hold_ms=50)),
        *link_frames(Notify("p", "7", seen, TreeHeader(Key(B2, 5)))),
    ]
    assert [publisher_of(frame) for frame in frames] == ["öffentlich"] * 4


def test_a_long_list_of_keys_is_cut() -> None:
    keys = tuple(Key(B2, serial) for serial in range(20_000))
    frames = link_frames(CibSet(keys))
    assert len(frames) == 3
    assert all(len(frame) < 100_000 for frame in frames)
