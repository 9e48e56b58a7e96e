"""Delivered bytes become columns with the values that the ordinary reader finds, and wrong bytes do so nowhere."""

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from octopia.errors import InputError, RemoteProtocolError
from octopia.language import parse_notification
from octopia.wire import (
    Codec,
    Connection,
    Deliveries,
    Delivery,
    Hello,
    Ping,
    WireLimits,
    batch_maker,
    deliver_frame,
    encode_parcel,
    load_kernels,
    message_frame,
    timed,
)
from tests.effort import cases
from tests.wire.peers import WRONG_PARCELS, at_client, until_fault

CODEC = Codec(WireLimits(frame_bytes_max=100_000))
VALUES: list[Any] = ["", "a", "日本", "🦑" * 30, True, False, 0, -1, 300, 2**40, -(2**63), 2**63, 2**200, 0.5, 1e300]


def needs_kernels() -> None:
    pytest.importorskip("numba")
    load_kernels()


def receiving(*, joined: bool) -> Connection:
    connection = at_client(CODEC)
    if joined:
        connection.join_deliveries()
    return connection


def delivered(rows: list[dict[str, Any]], draw: random.Random) -> bytes:
    frames = []
    for at, row in enumerate(rows, 1):
        parcel = encode_parcel(parse_notification(row), draw.choice(["p", "q", "ü"]), at)
        if draw.random() < 0.2:
            parcel = timed(parcel, 1_700_000_000_000)
        frames.append(deliver_frame(draw.choice([("s1",), ("s1", "s2"), ("s2",)]), parcel))
    return b"".join(frames)


def one_by_one(messages: list[Any]) -> list[Delivery]:
    found: list[Delivery] = []
    for message in messages:
        found += message.decoded() if isinstance(message, Deliveries) else [message]
    return found


def random_rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    names = ["n", "größe", "c", *(f"a{i}" for i in range(draw.choice([0, 20, 80])))]
    rows = []
    for _ in range(count):
        chosen = draw.sample(names, draw.randrange(1, len(names) + 1)) if draw.random() < 0.5 else names
        rows.append({name: draw.choice(VALUES) for name in chosen})
    return rows


def content(delivery: Delivery) -> tuple[Any, ...]:
    values = {name: (type(value), value) for name, value in delivery.notification.items()}
    return values, delivery.publisher, delivery.id, delivery.subscriptions


@pytest.mark.parametrize("seed", range(cases(15)))
def test_joined_deliveries_are_those_that_come_one_by_one(seed: int) -> None:
    needs_kernels()
    draw = random.Random(seed)
    data = delivered(random_rows(draw, 60), draw) + message_frame(Ping(3)) + delivered([{"n": 1}] * 60, draw)
    plain, joined = receiving(joined=False), receiving(joined=True)
    want = plain.receive(data)
    got: list[Any] = []
    at = 0
    while at < len(data):
        stop = at + draw.choice([1, 700, 5000, len(data)])
        got += joined.receive(data[at:stop])
        at = stop
    assert any(isinstance(message, Deliveries) for message in got)
    assert joined.received == plain.received
    flat = one_by_one(got)
    assert [content(m) if isinstance(m, Delivery) else m for m in flat] == [
        content(m) if isinstance(m, Delivery) else m for m in want
    ]


@pytest.mark.parametrize("seed", range(cases(20)))
def test_mutated_bytes_are_taken_or_refused_as_they_are_one_by_one(seed: int) -> None:
    needs_kernels()
    draw = random.Random(seed)
    rows = [{"n": draw.choice(VALUES), "text": "x" * 30, "größe": draw.random()} for _ in range(40)]
    good = delivered(rows, draw)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(draw.choice([1, 1, 3])):
            at = draw.randrange(len(data))
            data[at] = draw.choice([draw.randrange(256), data[at] ^ (1 << draw.randrange(8)), 0xC1, 0xFF])
        outcomes = [outcome(receiving(joined=joined), bytes(data)) for joined in (False, True)]
        assert outcomes[0] == outcomes[1]


def outcome(connection: Connection, data: bytes) -> tuple[list[Any], str]:
    came, error = until_fault(connection, data, CODEC)
    return [content(m) if isinstance(m, Delivery) else m for m in one_by_one(came)], error


@pytest.mark.parametrize("seed", range(cases(20)))
def test_deliveries_of_one_read_are_those_that_come_frame_by_frame(seed: int) -> None:
    """Whatever was changed in the bytes: the same deliveries, the same fault after them."""
    draw = random.Random(seed)
    rows = [{"n": draw.choice(VALUES), "text": "x" * draw.randrange(40)} for _ in range(12)]
    good = delivered(rows, draw) + message_frame(Ping(3)) + delivered(rows, draw)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(draw.choice([0, 1, 3])):
            at = draw.randrange(len(data))
            data[at] = draw.choice([draw.randrange(256), data[at] ^ (1 << draw.randrange(8))])
        single, at, came, error = receiving(joined=False), 0, list[Any](), ""
        while at < len(data) and not error:
            stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
            more, error = outcome(single, bytes(data[at:stop]))
            came += more
            at = stop
        together = receiving(joined=False)
        assert outcome(together, bytes(data)) == (came, error)
        assert together.received == single.received


@pytest.mark.parametrize("wrong", WRONG_PARCELS.values(), ids=WRONG_PARCELS)
def test_a_wrong_parcel_among_many_ends_the_connection(wrong: bytes) -> None:
    needs_kernels()
    draw = random.Random(1)
    data = delivered([{"n": n, "text": "x" * 40} for n in range(30)], draw)
    bad = data + deliver_frame(("s1",), wrong) + data
    assert outcome(receiving(joined=True), bad) == outcome(receiving(joined=False), bad)


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema | None = None, **options: Any) -> pa.RecordBatch:
    draw = random.Random(5)
    connection = receiving(joined=True)
    connection.feed(delivered(rows, draw))
    asked: dict[str, Any] = {"metadata": False, "unfit": "error"} | options
    return batch_maker(schema, **asked).batch(list(connection.messages()))


def as_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Back to dicts, with their types: nulls are absent, decimals are integers."""
    return [
        {name: int(v) if isinstance(v, Decimal) else v for name, v in row.items() if v is not None}
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("seed", range(cases(12)))
def test_without_a_schema_every_value_comes_back(kernels: str, seed: int) -> None:
    rows = random_rows(random.Random(seed), 30)
    got = as_rows(batch_of(rows))
    assert [{n: (type(v), v) for n, v in row.items()} for row in got] == [
        {n: (type(v), v) for n, v in row.items()} for row in rows
    ]


def test_types_are_the_narrowest_that_hold_all_values(kernels: str) -> None:
    rows: list[dict[str, Any]] = [
        {"i": 1, "f": 1, "t": "a", "b": True, "u": 2**63, "d": 2**70, "inf": math.inf, "m": 1, "e": 2**60},
        {"i": -5, "f": 0.5, "t": "b", "b": False, "u": 1, "d": -1, "inf": 0.0, "m": "x", "e": 0.5},
    ] * 20
    batch = batch_of([{"k": 1}, *rows])
    assert {field.name: str(field.type) for field in batch.schema} == {
        "k": "int64",
        "i": "int64",
        "f": "double",
        "t": "string",
        "b": "bool",
        "u": "uint64",
        "d": "decimal256(76, 0)",
        "inf": "double",
        "m": "dense_union<int: int64=0, str: string=1>",
        "e": "dense_union<float: double=0, int: int64=1>",
    }


SCHEMA = pa.schema(
    [
        ("t", pa.string()),
        ("k", pa.dictionary(pa.int32(), pa.string())),
        ("big", pa.large_string()),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("f32", pa.float32()),
        ("d", pa.decimal128(20, 2)),
    ]
)


def test_with_a_schema_what_fits_is_there_and_the_rest_is_null(kernels: str) -> None:
    rows: list[dict[str, Any]] = [
        {
            "t": "ä",
            "k": "x",
            "big": "y",
            "b": True,
            "i8": 127,
            "i": 2**62,
            "u": 2**64 - 1,
            "f": 3,
            "f32": 0.5,
            "d": 1.25,
        },
        {"t": 1, "k": True, "big": 2.5, "b": 1, "i8": 128, "i": 2.0, "u": -1, "f": "x", "f32": 1e300, "d": 1.255},
        {"other": 1},
    ] * 15
    fits: list[dict[str, Any]] = [
        {**rows[0], "f": 3.0, "d": Decimal("1.25")},
        dict.fromkeys(SCHEMA.names) | {"i": 2},
        dict.fromkeys(SCHEMA.names),
    ]
    batch = batch_of(rows, SCHEMA, unfit="null")
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == fits * 15
    with pytest.raises(InputError, match=r"notification 2 of .: 't' is 1, which does not fit a column of type string"):
        batch_of(rows, SCHEMA)


def test_metadata_stands_in_front(kernels: str) -> None:
    rows = [{"n": n, "_id": "mine"} for n in range(30)]
    batch = batch_of(rows, metadata=True)
    assert batch.schema.names == ["_publisher", "_id", "n"]
    assert batch.column("_id").to_pylist() == list(range(1, 31))
    assert set(batch.column("_publisher").to_pylist()) <= {"p", "q", "ü"}
    assert batch_of(rows, pa.schema([("n", pa.int64())]), metadata=True).schema.names == ["_publisher", "_id", "n"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("x", pa.timestamp("s"))]), "column 'x' is timestamp"),
        (pa.schema([pa.field("x", pa.int64(), nullable=False)]), "column 'x' is not nullable"),
        (pa.schema([("x", pa.int64()), ("x", pa.int64())]), "column 'x' twice"),
        (pa.schema([("_id", pa.int64())]), "comes with metadata=True"),
    ],
    ids=str,
)
def test_a_schema_that_nothing_fits_is_refused(schema: pa.Schema, said: str) -> None:
    with pytest.raises(InputError, match=said):
        batch_maker(schema, metadata=True, unfit="error")


def test_an_integer_that_no_arrow_type_holds_is_refused(kernels: str) -> None:
    with pytest.raises(InputError, match="attribute 'n' has an integer of more than 76 digits"):
        batch_of([{"n": 10**80}])


def test_hello_is_not_part_of_this() -> None:
    with pytest.raises(RemoteProtocolError):
        receiving(joined=True).receive(message_frame(Hello([1], "client")) * 300)
