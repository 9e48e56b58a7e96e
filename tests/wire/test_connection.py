"""The connection: round trips whatever the cuts, and each way a peer can be wrong ends in one error with a reason."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.errors import LocalProtocolError, RemoteProtocolError
from octopia.language import Notification, parse_filter, parse_notification
from octopia.protocol import (
    Advertise,
    AdvertisementsComplete,
    CibClear,
    CibSet,
    Civ,
    Key,
    Message,
    Notify,
    Route,
    Routes,
    Subscribe,
    SubscriptionsComplete,
    TreeHeader,
    Unadvertise,
    Unsubscribe,
)
from octopia.topology import BrokerId
from octopia.wire import (
    HELD_PER_FRAME_MAX,
    Accepted,
    Ack,
    AdvertiseRequest,
    BadRequest,
    Barrier,
    BarrierDone,
    Challenge,
    Codec,
    Connection,
    Delivery,
    Drain,
    Drained,
    Dropped,
    Flushed,
    FlushRequest,
    Goodbye,
    Hello,
    Hold,
    Kind,
    Ping,
    Pong,
    Proof,
    Refused,
    Side,
    SubscribeRequest,
    TooOld,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
    WireLimits,
    advertise_frame,
    deliver_frame,
    encode_parcel,
    frame,
    link_frames,
    message_frame,
    notification_frame,
    publish_frame,
    subscribe_frame,
    unadvertise_frame,
    unsubscribe_frame,
    wire_notification,
)
from tests.wire.peers import CODEC, HELLO, at_broker, at_client, copied, published, received, until_fault

QUOTE = parse_notification({"class": "STOCK", "price": 10.5, "volume": 7, "up": True, "long": 2**100, "far": math.inf})
FILTER = parse_filter("class = 'STOCK' and price > 10 or volume in (1, 2) and long > 1e300 and name like 'A%'")
A0, B2 = BrokerId("a", 0), BrokerId("b", 2)


def seen(sequence: int = 1) -> Any:
    return wire_notification(QUOTE, "p", sequence)


FROM_CLIENT = [
    (advertise_frame("a1", FILTER), AdvertiseRequest("a1", FILTER)),
    (unadvertise_frame("a1"), UnadvertiseRequest("a1")),
    (subscribe_frame("s1", FILTER, "disconnect", False), SubscribeRequest("s1", FILTER, "disconnect", False)),
    (subscribe_frame("s1", FILTER, None, True), SubscribeRequest("s1", FILTER, None, True)),
    (subscribe_frame("s1", FILTER, None, True, 3), SubscribeRequest("s1", FILTER, None, True, 3)),
    (subscribe_frame("s1", FILTER, "block", True, None, 0), SubscribeRequest("s1", FILTER, "block", True, None, 0)),
    (unsubscribe_frame("s1"), UnsubscribeRequest("s1")),
    (message_frame(FlushRequest("1", 86_400_000)), FlushRequest("1", 86_400_000)),
    (publish_frame(encode_parcel(QUOTE, "p", 1)), seen()),
    (message_frame(Ack(5)), Ack(5)),
    (message_frame(Ping(1)), Ping(1)),
    (message_frame(Pong(1)), Pong(1)),
]
TO_CLIENT = [
    (message_frame(Accepted("subscribe", "s1")), Accepted("subscribe", "s1")),
    (message_frame(Refused("publish", "7", "no")), Refused("publish", "7", "no")),
    (deliver_frame(("s1", "s2"), encode_parcel(QUOTE, "p", 9)), Delivery(seen(9), "p", "9", ("s1", "s2"))),
    (message_frame(Dropped(3)), Dropped(3)),
    (message_frame(TooOld(3)), TooOld(3)),
    (message_frame(Flushed("1", [])), Flushed("1", [])),
    (message_frame(Flushed("2", ["(b,0)", "(c,1)"])), Flushed("2", ["(b,0)", "(c,1)"])),
]
LINK_MESSAGES: list[Message] = [
    Advertise(Key(A0, 1), FILTER),
    Unadvertise(Key(A0, 1)),
    Subscribe(Key(B2, 2**40), FILTER, (Key(A0, 1), Key(A0, 2))),
    Subscribe(Key(B2, 2**40), FILTER, (Key(A0, 1), Key(A0, 2)), 3),
    Subscribe(Key(B2, 2**40), FILTER, (), 1),
    Unsubscribe(Key(B2, 2), (Key(A0, 1),)),
    CibSet((Key(A0, 1), Key(B2, 2))),
    CibSet((Key(A0, 1), Key(B2, 2)), (), (3, 0)),
    CibClear((Key(A0, 1),)),
    SubscriptionsComplete(),
    SubscriptionsComplete((A0, B2)),
    AdvertisementsComplete(),
    Notify("p", "1", seen()),
    Notify("p", "1", seen(), Civ(1 << 1023)),
    Notify("p", "1", seen(), Civ(5, 2)),
    Notify("p", "1", seen(), TreeHeader(Key(A0, 3))),
    Notify("p", "1", seen(), Routes((Route(B2, Key(A0, 3), (Key(A0, 1),)), Route(A0, Key(B2, 3), ())))),
]


@pytest.mark.parametrize("stream", [FROM_CLIENT, TO_CLIENT, [(link_frames(m)[0], m) for m in LINK_MESSAGES]])
@given(cuts=st.lists(st.integers(1, 400), min_size=1))
def test_round_trip_whatever_the_cuts(stream: list[tuple[bytes, Any]], cuts: list[int]) -> None:
    is_link = isinstance(stream[0][1], Advertise)
    connection = at_client() if stream is TO_CLIENT else at_broker("broker" if is_link else "client")
    came = received(connection, b"".join(sent for sent, _ in stream), cuts)
    came = copied(came) if is_link else published(came)
    assert came == [message for _, message in stream]
    assert connection.received == sum(not isinstance(message, Ack | Ping | Pong) for _, message in stream)


@pytest.mark.parametrize(
    "message", [each for each in LINK_MESSAGES if isinstance(each, Notify)], ids=lambda m: type(m).__name__
)
def test_the_parcel_goes_on_as_the_bytes_that_came(message: Any) -> None:
    (came,) = copied(at_broker("broker").receive(link_frames(message)[0]))
    assert came.notification.parcel == message.notification.parcel
    assert came.notification == QUOTE
    assert link_frames(came) == link_frames(message)


VALUES = st.one_of(
    st.text(), st.booleans(), st.floats(allow_nan=False), st.integers(-(2**8192) + 1, 2**8192 - 1), st.integers()
)


@given(st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=40))
def test_every_notification_of_the_language_travels(attributes: dict[str, Any]) -> None:
    notification = Notification.of(attributes)
    (came,) = published(at_broker("client").receive(publish_frame(encode_parcel(notification, "p", 3))))
    assert came == notification
    assert [(name, type(v)) for name, v in came.items()] == [(name, type(v)) for name, v in notification.items()]
    assert (came.publisher, came.sequence) == ("p", 3)


def parcel(attributes: bytes, rest: bytes = b"\xa1p\x01") -> bytes:
    return notification_frame(Kind.PUBLISH, b"", b"\x93" + attributes + rest)


BAD = {
    "attribute twice": (parcel(b"\x82\xa1x\x01\xa1x\x02"), "twice"),
    "attribute twice in a long map": (
        parcel(b"\xde\x00\x11" + b"".join(b"\xa1%c\x01" % (97 + i % 16) for i in range(17))),
        "twice",
    ),
    "no attributes": (parcel(b"\x80"), "length >= 1"),
    "attribute without a name": (parcel(b"\x81\xa0\x01"), "without a name"),
    "NaN": (parcel(b"\x81\xa1x\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), "NaN"),
    "NaN of 32 bits": (parcel(b"\x81\xa1x\xca\x7f\xc0\x00\x00"), "NaN"),
    "nil": (parcel(b"\x81\xa1x\xc0"), "None|null"),
    "array": (parcel(b"\x81\xa1x\x90"), "array"),
    "deep": (parcel(b"\x81\xa1x" + b"\x91" * 100_000), "array"),
    "binary": (parcel(b"\x81\xa1x\xc4\x01a"), "bytes"),
    "bad UTF-8": (parcel(b"\x81\xa1x\xa1\xff"), "utf-8"),
    "surrogate": (parcel(b"\x81\xa1x\xa3\xed\xa0\x80"), "utf-8"),
    "unknown extension": (parcel(b"\x81\xa1x\xd4\x02\x00"), "extension type 2"),
    "empty integer": (parcel(b"\x81\xa1x\xc7\x00\x01"), "integer of 0 bytes"),
    "endless integer": (parcel(b"\x81\xa1x\xc8\x10\x00\x01" + b"\x7f" * 4096), "integer of 4096 bytes"),
    "integer of 8193 bits": (parcel(b"\x81\xa1x\xc8\x04\x01\x01" + b"\x01" + b"\x00" * 1024), "8193 bits"),
    "number as a name": (parcel(b"\x81\x01\x01"), "str"),
    "false length": (parcel(b"\xdf\xff\xff\xff\xff"), "length <= 10000"),
    "something behind": (parcel(b"\x81\xa1x\x01", b"\xa1p\x01\x01"), "trailing"),
    "nobody's": (parcel(b"\x81\xa1x\x01", b"\xa0\x01"), "length >= 1"),
    "negative sequence": (parcel(b"\x81\xa1x\x01", b"\xa1p\xff"), ">= 0"),
    "header too long": (frame(Kind.PUBLISH, b"\x00\x00\x00\x09" + b"\x93\x81\xa1x\x01"), "no room for a notification"),
    "no header": (frame(Kind.PUBLISH, b"\x00\x00"), "no room for its header"),
    "wrong header": (notification_frame(Kind.PUBLISH, b"\x91\x07", b"\x93\x81\xa1x\x01\xa1p\x01"), "header cannot be"),
    "broken header": (notification_frame(Kind.PUBLISH, b"\xc1", b"\x93\x81\xa1x\x01\xa1p\x01"), "header cannot be"),
    "probe with a header": (notification_frame(Kind.PROBE, b"\x91\xc3", b"\x93\x81\xa1x\x01\xa1p\x01"), "no header"),
    "empty frame": (b"\x00\x00\x00\x00\x14", "0 bytes"),
    "huge frame": (b"\x7f\x00\x00\x00\x14", "at most 1,048,576"),
    "kind of brokers": (link_frames(CibSet((Key(A0, 1),)))[0], "LINK_CIB_SET, which this peer may not send"),
    "kind to clients": (message_frame(Dropped(1)), "DROPPED, which this peer may not send"),
    "no kind": (frame(0x77, b""), "0x77, which this peer may not send"),
    "second hello": (message_frame(HELLO), "HELLO, which this peer may not send"),
    "too many predicates": (
        frame(Kind.SUBSCRIBE, b"\x94\xa1s\x91\xdc\x10\x01" + b"\x93\xa1x\x00\x01" * 4097 + b"\xa5block\xc3"),
        "length <= 4096",
    ),
    "unknown operator": (frame(Kind.ADVERTISE, b"\x92\xa1a\x91\x91\x93\xa1x\x0d\x01"), "operator 13"),
    "garbage": (frame(Kind.SUBSCRIBE, b"\xc1"), "decoded"),
    "flush for longer than a day": (message_frame(FlushRequest("1", 86_400_001)), "86400000"),
    "empty id": (unsubscribe_frame("s")[:5] + b"\x91\xa0", "0 bytes|length|truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_and_ends_the_connection(name: str) -> None:
    data, reason = BAD[name]
    if name == "empty id":
        data = frame(Kind.UNSUBSCRIBE, b"\x91\xa0")
    connection = at_broker("client")
    with pytest.raises(RemoteProtocolError, match=reason):
        connection.receive(data)
    assert connection.closed
    assert connection.receive(b"anything") == []


def test_what_came_before_the_fault_is_kept() -> None:
    good = publish_frame(encode_parcel(QUOTE, "p", 1))
    for bad, reason in ((frame(0x77, b""), "0x77"), (parcel(b"\x80"), "length >= 1")):
        came, fault = until_fault(at_broker("client"), unsubscribe_frame("s1") + 2 * good + bad)
        assert published(came) == [UnsubscribeRequest("s1"), seen(), seen()]
        assert reason in fault


def test_what_nobody_asks_for_stays_at_hand() -> None:
    """Messages are parsed one by one, so a broker may stop after any of them and go on later."""
    connection = at_broker("client")
    connection.feed(unsubscribe_frame("s1") + unsubscribe_frame("s2") + unsubscribe_frame("s3")[:-1])
    assert next(connection.messages()) == UnsubscribeRequest("s1")
    assert (connection.has_more, connection.received) == (True, 1)
    connection.feed(unsubscribe_frame("s3")[-1:])
    assert list(connection.messages()) == [UnsubscribeRequest("s2"), UnsubscribeRequest("s3")]
    assert (connection.has_more, connection.received) == (False, 3)


def test_notifications_must_be_read_before_the_next_message() -> None:
    connection = at_broker("client")
    good = publish_frame(encode_parcel(QUOTE, "p", 1))
    connection.feed(2 * good + unsubscribe_frame("s1"))
    with pytest.raises(LocalProtocolError, match="not read"):
        list(connection.messages())
    messages = connection.messages()
    unread = next(messages)
    unread.skip()
    assert connection.received == 0
    assert next(messages) is unread
    assert unread.at == len(good)
    unread.took(2 * len(good), 1)
    assert list(messages) == [UnsubscribeRequest("s1")]
    assert connection.received == 2


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.HELLO}))
def test_nothing_but_hello_before_the_handshake(kind: Kind) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{kind.name} before the handshake"):
        Connection(Side.ACCEPTING_BROKER, CODEC).receive(frame(kind, b"\x90"))


def test_before_the_handshake_there_is_little_room() -> None:
    with pytest.raises(RemoteProtocolError, match="at most 16,384"):
        Connection(Side.ACCEPTING_BROKER, CODEC).receive(b"\x00\x00\x40\x01\x01")


@pytest.mark.parametrize(("start", "said"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")])
def test_strangers_are_named(start: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        Connection(Side.ACCEPTING_BROKER, CODEC).receive(start)


def test_what_follows_a_hello_waits_until_the_connection_is_open() -> None:
    connection = Connection(Side.ACCEPTING_BROKER, CODEC)
    assert connection.receive(message_frame(HELLO) + unsubscribe_frame("s1")) == [HELLO]
    connection.open("client")
    assert connection.receive(b"") == [UnsubscribeRequest("s1")]


def test_a_challenge_comes_before_the_welcome_and_a_proof_before_open() -> None:
    welcome, proof = Welcome(1, "(b,2)", "c"), Proof(b"p" * 32)
    challenge = Challenge(b"n" * 32, b"p" * 32)
    dialling = Connection(Side.DIALLING_BROKER, CODEC)
    assert dialling.receive(message_frame(challenge)) == [challenge]
    assert dialling.receive(message_frame(welcome) + message_frame(Ping(1))) == [welcome]
    dialling.open("broker")
    assert dialling.receive(b"") == [Ping(1)]
    accepting = Connection(Side.ACCEPTING_BROKER, CODEC)
    assert accepting.receive(message_frame(HELLO)) == [HELLO]
    accepting.expect_proof()
    assert accepting.receive(message_frame(proof) + message_frame(Ping(1))) == [proof]
    accepting.open("broker")
    assert accepting.receive(b"") == [Ping(1)]


def test_nothing_is_read_after_goodbye() -> None:
    connection = at_broker("client")
    assert connection.receive(message_frame(Goodbye("bye")) + b"rest") == [Goodbye("bye")]
    assert connection.closed
    assert connection.receive(b"more") == []


def test_unknown_fields_of_the_handshake_are_passed_over() -> None:
    body = b"\x83\xa8versions\x91\x01\xa4role\xa6client\xa3new\x92\x01\x02"
    assert Connection(Side.ACCEPTING_BROKER, CODEC).receive(frame(Kind.HELLO, body)) == [Hello([1], "client")]


@pytest.mark.parametrize(
    ("data", "asked", "reason"),
    [
        (frame(Kind.SUBSCRIBE, b"\x94\xa1s\xaaprice >> 1\xa5block\xc3"), "subscribe", "position"),
        (frame(Kind.ADVERTISE, b"\x92\xa1a\xa0"), "advertise", "empty"),
        (frame(Kind.ADVERTISE, b"\x92\xa1a\x91\x91\x93\xa1x\x02\xc3"), "advertise", "booleans have no order"),
        (frame(Kind.ADVERTISE, b"\x92\xa1a\x91\x91\x93\xa1x\x00\xc0"), "advertise", "must be str, int, float or bool"),
        (frame(Kind.ADVERTISE, b"\x92\xa1a\x91\x91\x93\xa1x\x06\x01"), "advertise", "needs a string"),
        (frame(Kind.SUBSCRIBE, b"\x94\xa1s\xa5x > 1\xa4loud\xc3"), "subscribe", "unknown policy 'loud'"),
    ],
)
def test_a_wrong_filter_is_a_request_to_refuse(data: bytes, asked: str, reason: str) -> None:
    (came,) = at_broker("client").receive(data)
    assert isinstance(came, BadRequest)
    assert came.request == asked
    assert reason in came.reason


def test_a_filter_may_be_text() -> None:
    (came,) = at_broker("client").receive(frame(Kind.SUBSCRIBE, b"\x94\xa1s\xa9price > 1\xa5block\xc3"))
    assert came == SubscribeRequest("s", parse_filter("price > 1"), "block")


def test_limits_can_be_narrower() -> None:
    codec = Codec(WireLimits(frame_bytes_max=1024, attributes_max=2, predicates_max=2, conjunctions_max=2))
    three = publish_frame(encode_parcel(parse_notification({"a": 1, "b": 2, "c": 3}), "p", 1))
    with pytest.raises(RemoteProtocolError, match="length <= 2"):
        at_broker("client", codec).receive(three)
    with pytest.raises(RemoteProtocolError, match="at most 1,024"):
        at_broker("client", codec).receive(b"\x00\x00\x04\x01\x14")
    (bad,) = at_broker("client", codec).receive(frame(Kind.ADVERTISE, b"\x92\xa1a\xb9a > 1 and b > 1 and c > 1"))
    assert isinstance(bad, BadRequest)
    assert "3 predicates" in bad.reason


def test_open_is_for_once_and_for_known_roles() -> None:
    connection = at_broker("client")
    with pytest.raises(LocalProtocolError):
        connection.open("client")
    with pytest.raises(LocalProtocolError):
        Connection(Side.CLIENT, CODEC).open("client")


def outcome(connection: Connection, data: bytes) -> str:
    """The answer to a peer: nothing, or the one reason."""
    try:
        connection.receive(data)
    except RemoteProtocolError as error:
        assert connection.closed
        return str(error)
    return ""


@given(st.binary(max_size=300))
def test_any_bytes_give_messages_or_one_error(data: bytes) -> None:
    for connection in (at_broker("client"), at_broker("broker"), at_client(), Connection(Side.ACCEPTING_BROKER, CODEC)):
        assert outcome(connection, data).isprintable()


def test_barriers_between_brokers() -> None:
    data = message_frame(Barrier(7, True)) + message_frame(BarrierDone(7))
    assert data == b"\x00\x00\x00\x04\x36\x92\x07\xc3" + b"\x00\x00\x00\x03\x37\x91\x07"
    assert at_broker("broker").receive(data) == [Barrier(7, True), BarrierDone(7)]


def test_holds_and_drains_between_brokers() -> None:
    data = message_frame(Hold(["p", "q"], True)) + message_frame(Drain()) + message_frame(Drained())
    assert data == (
        b"\x00\x00\x00\x08\x07\x92\x92\xa1p\xa1q\xc3" + b"\x00\x00\x00\x02\x08\x90" + b"\x00\x00\x00\x02\x09\x90"
    )
    connection = at_broker("broker")
    assert connection.receive(data) == [Hold(["p", "q"], True), Drain(), Drained()]
    assert connection.received == 0  # they manage the connection and are not numbered


@pytest.mark.parametrize("message", [Hold(["p"], False), Drain(), Drained()])
def test_only_brokers_hold_and_drain(message: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="may not send"):
        at_broker("client").receive(message_frame(message))


@pytest.mark.parametrize("publishers", [[], ["p"] * (HELD_PER_FRAME_MAX + 1), [""]])
def test_a_hold_names_some_publishers_and_not_too_many(publishers: list[str]) -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be decoded"):
        at_broker("broker").receive(message_frame(Hold(publishers, True)))


ALL_FRAMES = [sent for sent, _ in FROM_CLIENT + TO_CLIENT] + [link_frames(m)[0] for m in LINK_MESSAGES]


@given(st.sampled_from(ALL_FRAMES), st.data())
def test_a_frame_with_any_byte_changed_gives_messages_or_one_error(sent: bytes, data: Any) -> None:
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = sent[:at] + bytes([data.draw(st.integers(0, 255))]) + sent[at + 1 :]
    for connection in (at_broker("client"), at_broker("broker"), at_client()):
        assert outcome(connection, changed).isprintable()


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (" or ".join(f"x > {n}" for n in range(257)), "257 conjunctions; expected at most 256"),
        (" and ".join(f"x{n} > 1" for n in range(1025)), "1025 predicates; expected at most 1024"),
        (" or ".join(f"x like '%{n}%'" for n in range(17)), "huge numbers; expected at most 16"),
        (" or ".join(f"x <> {n}" for n in range(17)), "17 conjunctions with '<>'; expected at most 16"),
    ],
)
def test_a_filter_that_means_too_much_work_is_refused(filter: str, reason: str) -> None:
    (came,) = at_broker("client").receive(advertise_frame("a", parse_filter(filter)))
    assert isinstance(came, BadRequest)
    assert reason in came.reason
    assert "split the filter into several" in came.reason


def test_text_takes_longer_than_structure_and_is_bounded_for_itself() -> None:
    text = b"x > 1" + b" " * 1020
    (came,) = at_broker("client").receive(frame(Kind.ADVERTISE, b"\x92\xa1a\xda\x04\x01" + text))
    assert isinstance(came, BadRequest)
    assert "1025 characters of text; expected at most 1024 (send it in structure)" in came.reason


def test_a_string_past_the_bound_is_a_breach() -> None:
    parcel = b"\x93\x81\xa1s\xdb\x00\x01\x00\x01" + b"x" * 65_537 + b"\xa1p\x01"
    with pytest.raises(RemoteProtocolError, match="string of 65537 characters; expected at most 65536"):
        at_broker("client").receive(publish_frame(parcel))
