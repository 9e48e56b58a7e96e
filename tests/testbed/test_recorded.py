"""From recordings to rows: clocks are converted, ends of links paired, causes followed."""

import asyncio
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from octopia.errors import OctopiaError
from octopia.language import parse_filter, parse_notification
from octopia.net import EVENT_COLUMNS, EXPIRED_COLUMNS, SENT_COLUMNS, Recording
from octopia.net.broker.recording import Weather
from octopia.net.frame_queue import FrameQueue, Turn
from octopia.protocol import Waits
from octopia.routing import LinkCameUp, Subscribed
from octopia.testbed.control import Hello, Time
from octopia.testbed.live_run import _clock_of
from octopia.testbed.recorded import BrokerRows, Joined, Outage, Requests
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.trace import NO_REQUEST
from octopia.wire import Barrier, Kind, encode_parcel, link_frames, message_frame, notification_frame
from tests.net.live import asynchronous, until

A, B = BrokerId("a", 0), BrokerId("b", 0)
PAIR = Scot(parse_tree("path:2"), 1)
WORDS = ["subscribe", "client", "id", "notify", "publish", "1", "p", "first connection", "second connection"]


def rows(width: int, *given: tuple[int, ...]) -> Any:
    return np.array(given, dtype=np.int64).reshape(-1, width)


def of_a(*, left: int = 2) -> BrokerRows:
    """A client of a subscribes, then publishes two; a's clock is 1,000 ahead."""
    events = rows(
        len(EVENT_COLUMNS),
        (0, 0, -1, 1_010, 1_012, 0, 1, 2, 0, -1, 0, -1),
        (1, 1, -1, 1_020, 1_029, 4, 6, -1, 1, -1, 2, -1),
        (2, 1, -1, 1_020, 1_029, 4, 6, -1, 2, -1, 0, -1),
    )
    sent = rows(
        len(SENT_COLUMNS),
        (0, 1_011, 1_013, 0, 0, 7, 1, -1, -1, 0),
        (0, 1_021, 1_030, 0, 1, 7, 2, -1, -1, 0),
        (0, 1_022, 1_030, 1, 1, 7, 3, -1, -1, 0),
    )
    return BrokerRows(sent[: left + 1], events, rows(len(EXPIRED_COLUMNS)), WORDS, 1_000)


def of_b() -> BrokerRows:
    """They come to b in their order."""
    events = rows(
        len(EVENT_COLUMNS),
        (0, 0, 0, 20, 22, 0, -1, -1, 0, -1, 0, 7),
        (1, 1, 0, 40, 45, 3, 6, -1, 1, 5, 1, 7),
        (2, 1, 0, 40, 45, 3, 6, -1, 2, -1, 0, 7),
    )
    return BrokerRows(rows(len(SENT_COLUMNS)), events, rows(len(EXPIRED_COLUMNS)), WORDS, 0)


def joined(a: BrokerRows) -> Joined:
    requests = Requests({("subscribe", "client", "id"): [0]}, {"p": np.array([-1, 1, 2])})
    return Joined(PAIR, {A: a, B: of_b()}, requests, ("0", "i"))


def test_both_ends_of_every_hop_become_one_row() -> None:
    columns = joined(of_a()).hop_columns()
    plain = {name: pa.array(column).to_pylist() for name, column in columns.items()}
    assert plain == {
        "kind": ["subscribe", "notify", "notify"],
        "request": [0, 1, 2],
        "sender": [0, 0, 0],
        "receiver": [1, 1, 1],
        "hop": [1, 1, 1],
        "queued_ns": [11, 21, 22],
        "left_ns": [13, 30, 30],
        "arrived_ns": [20, 40, 40],
        "handled_ns": [22, 45, 45],
        "queue": [0, 0, 1],
        # of one cluster, as a string of bits
        "civ": [None, "1", None],
        "fate": ["handled"] * 3,
        # as the sender decided, not the receiver
        "routing_case": [None, "i", None],
    }


def test_queues_follow_from_what_came_and_left() -> None:
    queues = joined(of_a()).queue_columns(5, 50)
    assert {name: column.tolist() for name, column in queues.items()} == {
        "at_ns": [25],
        "sender": [0],
        "receiver": [1],
        "queue": [2],
        "entered": [3],
        "left": [1],
    }


def test_hops_and_moments_of_requests_are_found_again() -> None:
    found = joined(of_a())
    assert found.at_host(found.arrived, 4).tolist() == [10, 20, 20, -1]
    assert found.depth_at(np.array([1, 1, 2]), np.array([0, 1, 1])).tolist() == [0, 1, 1]


def test_a_message_that_never_came_is_an_error_where_no_fault_explains_it() -> None:
    with pytest.raises(OctopiaError, match=r"2 messages left \(a,0\) for \(b,0\) by one connection and 3 arrived"):
        joined(of_a(left=1))
    b = of_b()
    b.events = b.events[:2]
    with pytest.raises(OctopiaError, match=r"3 messages left \(a,0\) for \(b,0\) and 2 arrived: their link broke"):
        Joined(PAIR, {A: of_a(), B: b}, Requests({}, {}))


def test_ends_of_links_that_broke_are_put_together_by_connection() -> None:
    """Of three that left by the first connection one came; one is sent again by the second; one waited in vain."""
    events = rows(
        len(EVENT_COLUMNS),
        (0, 0, -1, 10, 12, 0, 1, 2, 0, -1, 0, -1),
        (1, 1, -1, 20, 29, 4, 6, -1, 1, -1, 2, -1),
        (2, 1, -1, 20, 29, 4, 6, -1, 2, -1, 0, -1),
        # the client comes back, and registers anew
        (3, 3, -1, 90, 92, 0, 1, 2, 0, -1, 0, -1),
    )
    sent = rows(
        len(SENT_COLUMNS),
        (0, 11, 13, 0, 0, 7, 1, 0, -1, 0),
        (0, 21, 30, 0, 1, 7, 2, 3, 6, 1),
        (0, 22, 30, 1, 1, 7, 3, 3, 6, 2),
        (0, 22, 65, 1, 1, 8, 3, 3, 6, 2),
        (0, 23, 66, 2, 0, -1, 4, 0, -1, 0),
        (0, 91, 93, 0, 3, 8, 5, 0, -1, 0),
    )
    came = rows(
        len(EVENT_COLUMNS),
        (0, 0, 0, 20, 22, 0, -1, -1, 0, -1, 0, 7),
        (1, 1, 0, 70, 75, 3, 6, -1, 2, -1, 0, 8),
        (2, 2, 0, 95, 96, 0, -1, -1, 0, -1, 0, 8),
    )
    requests = Requests({("subscribe", "client", "id"): [0]}, {"p": np.array([-1, 1, 2])}, [9, 19, 19])
    none = rows(len(EXPIRED_COLUMNS))
    ends = {A: BrokerRows(sent, events, none, WORDS, 0), B: BrokerRows(rows(len(SENT_COLUMNS)), came, none, WORDS, 0)}
    for outages, fates, at in (
        ([Outage((A, B), 40, 60)], ["link down", "link down"], [40, 66]),
        ([Outage((B,), 35, 60)], ["broker down", "broker down"], [35, 66]),
        ([Outage((A, B), 40, 60), Outage((A,), 64, 80)], ["link down", "broker down"], [40, 66]),
    ):
        found = Joined(PAIR, ends, requests, ("0", "i"), outages)
        columns = {name: pa.array(column).to_pylist() for name, column in found.hop_columns().items()}
        whole = list(
            zip(*(columns[name] for name in ("kind", "request", "queued_ns", "left_ns", "handled_ns")), strict=True)
        )
        # the first request is asked for twice: the second time nobody asked
        assert whole == [
            ("subscribe", 0, 11, 13, 22),
            ("notify", 1, 21, 30, None),
            ("subscribe", 0, 23, 66, None),
            ("notify", 2, 22, 65, 75),
            ("subscribe", NO_REQUEST, 91, 93, 96),
        ]
        assert columns["fate"] == ["handled", fates[0], fates[1], "handled", "handled"]
        assert [columns["arrived_ns"][row] for row in (1, 2)] == at
        assert columns["hop"] == [1, 1, 1, 1, 1]
        assert found.depth_at(np.array([1, 2]), np.array([1, 1])).tolist() == [0, 1]


def test_the_offset_of_a_clock_is_that_of_the_quickest_answer() -> None:
    class Ahead:
        hello = Hello("secret", "m1", "another boot", 1)

        async def ask(self, question: object, kind: object) -> Time:
            return Time(time.monotonic_ns() + 10**12)

    offset, error = asyncio.run(_clock_of(Ahead()))  # type: ignore[arg-type]
    assert abs(offset - 10**12) <= error


class Wire:
    """A connection that remembers its output."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_extra_info(self, name: str) -> str:
        return self.name or name


def observed(recording: Recording, neighbour: BrokerId) -> FrameQueue:
    """The queue of a link."""
    queue = FrameQueue(Turn(), 100, 100_000)
    recording.observe_link(neighbour, queue)
    return queue


@asynchronous
async def test_a_queue_that_is_recorded_knows_when_each_message_left_and_passes_over_barriers() -> None:
    moment = [0]
    recording = Recording([A, B], clock=lambda: moment[0])
    queue = observed(recording, B)
    one, two = b"\0\0\0\1\x30", b"\0\0\0\1\x32"
    asked = Subscribed("client", "id", parse_filter("x > 0"))
    recording.began(asked)
    queue.put(one)
    queue.put(message_frame(Barrier(1)))
    recording.handled(asked, (), 0.0)
    recording.began(LinkCameUp(A))
    moment[0] = 2
    queue.put(two + one, 2)
    recording.handled(LinkCameUp(A), (), 0.0)
    recording.began(asked)
    moment[0] = 3
    queue.put(two)
    recording.handled(asked, (), 0.0)
    queue.attach(Wire(), 0)  # type: ignore[arg-type]
    moment[0] = 4
    queue.flush()
    sent, events, expired = recording.take()
    # link, queued, left, found, cause, connection, serial
    connection = recording.words.index("peername sockname")
    assert [list(row)[:7] for row in rows(len(SENT_COLUMNS), *_by_row(sent))] == [
        [1, 0, 4, 0, 0, connection, 1],
        [1, 2, 4, 2, -1, connection, 2],
        [1, 2, 4, 3, -1, connection, 3],
        [1, 3, 4, 4, 1, connection, 4],
    ]
    width = len(EVENT_COLUMNS)
    assert [events[at] for at in range(0, len(events), width)] == [0, 1]
    assert not expired
    assert recording.sent_total == 4


@asynchronous
async def test_a_queue_says_what_was_sent_again_and_what_was_never_sent() -> None:
    recording = Recording([B], reads=True)
    queue = observed(recording, B)
    parcels = [encode_parcel(parse_notification({"x": number}), "p", number) for number in (1, 2, 3)]
    copies = [notification_frame(Kind.NOTIFY, b"", parcel) for parcel in parcels]
    (control,) = link_frames(Waits(1, 1))
    first, second = Wire("first"), Wire("second")
    queue.attach(first, 0)  # type: ignore[arg-type]
    for frame in (control, copies[0]):
        queue.put(frame)
    queue.flush()
    queue.detach()
    # one had come, the other goes again
    queue.attach(second, 1)  # type: ignore[arg-type]
    queue.flush()
    assert recording.sent_total == 2
    queue.detach()
    queue.put(copies[1])
    queue.put(control)
    # nobody knows whether the one that was sent has come; a notification that was not may still go
    queue.keep_unsent(lambda frame: frame == copies[1])
    queue.put(copies[2])
    queue.clear()
    sent, _, _ = recording.take()
    found = [dict(zip(SENT_COLUMNS, row, strict=True)) for row in _by_row(sent)]
    word = [*recording.words, None]
    assert [(word[row["connection"]], row["serial"], word[row["kind"]], row["sequence"]) for row in found] == [
        ("first first", 1, "waits", 0),
        ("first first", 2, "notify", 1),
        ("second second", 2, "notify", 1),
        (None, 4, "waits", 0),
        (None, 3, "notify", 2),
        (None, 5, "notify", 3),
    ]
    assert {word[row["name"]] for row in found} == {"p", None}


@asynchronous
async def test_a_slow_link_sends_one_after_the_other_and_one_that_is_down_takes_no_connection() -> None:
    recording = Recording([B])
    queue = observed(recording, B)
    wire = Wire()
    queue.attach(wire, 0)  # type: ignore[arg-type]
    recording.weather[0] = Weather(per_message_ns=300_000_000)
    frames = [bytes((0, 0, 0, number, 0x32)) for number in range(4)]
    for frame in frames:
        queue.put(frame)
    queue.flush()
    assert queue.waits == 3
    await until(lambda: len(wire.written) == 4)
    assert wire.written == frames
    sent, _, _ = recording.take()
    left = [row[2] for row in _by_row(sent)]
    assert left == sorted(set(left))
    recording.weather[0] = Weather(is_up=False)
    queue.attach(wire, 4)  # type: ignore[arg-type]
    assert wire.aborted


def test_the_next_life_of_a_broker_goes_on_where_the_last_ended() -> None:
    recording = Recording([A, B], delays_ns={B: 5}, reads=True)
    recording.word("one")
    asked = Subscribed("client", "id", parse_filter("x > 0"))
    for _ in range(3):
        recording.began(asked)
        recording.handled(asked, (), 0.0)
    life = recording.next_life()
    assert (life.words, life.requests_total, life.weather[1], life.reads) == (recording.words, 3, Weather(5), True)
    assert list(life.events) == []
    life.began(asked)
    life.handled(asked, (), 0.0)
    assert life.events[0] == 3
    recording.began(asked)
    recording.handled(asked, (), 0.0)
    assert len(life.events) == len(EVENT_COLUMNS)


def _by_row(sent: Any) -> list[tuple[int, ...]]:
    width = len(SENT_COLUMNS)
    return [tuple(sent[at : at + width]) for at in range(0, len(sent), width)]


@asynchronous
async def test_what_goes_to_a_far_site_is_written_later_and_in_its_order() -> None:
    recording = Recording([A, B], delays_ns={B: 1_000_000})
    near, far = (observed(recording, id) for id in (A, B))
    wire = Wire()
    for queue in (near, far):
        queue.attach(wire, 0)  # type: ignore[arg-type]
    for queue, frame in ((far, b"\0\0\0\1\x32"), (near, b"\0\0\0\2\x32"), (far, b"\0\0\0\3\x32")):
        queue.put(frame)
        queue.flush()
    assert wire.written == [b"\0\0\0\2\x32"]
    await until(lambda: len(wire.written) == 3)
    assert wire.written[1:] == [b"\0\0\0\1\x32", b"\0\0\0\3\x32"]
    far.put(b"\0\0\0\4\x32")
    far.flush()
    wire.abort()
    carrier: Any = far.carrier
    await until(lambda: not carrier._on_the_way)
    assert len(wire.written) == 3
