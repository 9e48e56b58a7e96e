"""Rows of record batches become the frames that their dicts would become, whatever the columns."""

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from octopia.errors import InputError, RefusedError
from octopia.language import Conformity, conforms, parse_filter, parse_notification
from octopia.wire import (
    PublishTerms,
    arrow_rows,
    encode_parcel,
    publish_frame,
    split_frames,
)
from tests.effort import cases

pytestmark = pytest.mark.usefixtures("kernels")
ANYTHING = "x is not null"
TEXTS = ["", "a", "é", "日本語", "🦑" * 9, "x" * 31, "x" * 32, "y" * 300, "ß" * 40_000]
NUMBERS = [0, 1, -1, 31, -32, -33, 127, 128, 255, 256, 65_535, 65_536, -129, -32_769, 2**31, 2**32, 2**63 - 1, -(2**63)]
REALS = [0.0, -0.0, 1.5, 1e300, -5e-324, math.inf, -math.inf, 0.1]


def terms(*filters: str, frame_bytes_max: int = 2**20) -> PublishTerms:
    parsed = [parse_filter(text) for text in filters]
    return PublishTerms(parsed, [Conformity(one) for one in parsed], frame_bytes_max, lambda seen: "not advertised")


def advertising(names: list[str]) -> PublishTerms:
    """Terms that allow these attributes, whatever their values."""
    return terms(" and ".join(f'"{name}" is not null' for name in names))


def published(data: Any, given: PublishTerms, publisher: str = "p", first: int = 1) -> list[bytes]:
    frames: list[bytes] = []
    for rows in arrow_rows(data):
        at = 0
        while at < len(rows):
            slab = rows.slab(at, publisher, first + len(frames), given)
            made = split_frames(slab.data)
            assert len(made) == slab.frames
            frames += made
            if slab.error is not None:
                raise slab.error
            at += slab.frames
    return frames


def expected(rows: list[dict[str, Any]], publisher: str = "p", first: int = 1) -> list[bytes]:
    """By the encoder, one by one."""
    return [publish_frame(encode_parcel(parse_notification(row), publisher, at)) for at, row in enumerate(rows, first)]


def columns(draw: random.Random, count: int) -> dict[str, pa.Array]:
    """A column of every type that is carried, with and without nulls, some of them slices."""

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        chosen = [None if draw.random() < nulls else draw.choice(values) for _ in range(count + 2)]
        return pa.array(chosen, kind)[1 : count + 1]

    nulls = draw.choice([0.0, 0.3])
    made = {
        "text": some(TEXTS, pa.string()),
        "großer Text": some(TEXTS, pa.large_string()),
        "view": some(TEXTS[:4], pa.string_view()),
        "kind": some(TEXTS, pa.string()).dictionary_encode(),
        "bool": some([True, False], pa.bool_()),
        "i8": some([-128, 127, 5], pa.int8()),
        "u16": some([0, 65_535], pa.uint16()),
        "i64": some(NUMBERS, pa.int64()),
        "u64": some([0, 1, 127, 2**63, 2**64 - 1], pa.uint64()),
        "f32": some([0.5, 1e30, -2.25], pa.float32()),
        "f64": some(REALS, pa.float64()),
        "f16": pa.array([np.float16(1.5)] * count),
        "null": pa.nulls(count),
        "n": pa.array(range(count)),
    }
    names = draw.sample(list(made), draw.randrange(1, len(made)))
    return {name: made[name] for name in [*names, "n"]}


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """As dicts: a float16 is a number, too."""
    return [
        {name: float(v) if isinstance(v, np.floating) else v for name, v in row.items() if v is not None}
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("seed", range(cases(25)))
def test_the_frames_are_those_of_the_dicts(seed: int) -> None:
    draw = random.Random(seed)
    made = columns(draw, draw.choice([1, 3, 40]))
    batch = pa.RecordBatch.from_arrays(list(made.values()), names=list(made))
    first = draw.choice([1, 120, 65_500, 2**32 - 3])
    assert published(batch, advertising(list(made)), "é" * 20, first) == expected(rows_of(batch), "é" * 20, first)


def test_a_table_of_several_chunks_goes_through_whole_in_slabs_of_bounded_size() -> None:
    rows = [{"n": n, "text": "x" * (n % 700)} for n in range(3000)]
    table = pa.concat_tables([pa.Table.from_pylist(rows[:1100]), pa.Table.from_pylist(rows[1100:])])
    given = advertising(["n", "text"])
    assert published(table, given) == expected(rows)
    batch = next(iter(arrow_rows(table)))
    assert len(batch.slab(0, "p", 1, given).data) < 2 * 256 * 1024


def test_large_integers_and_unions_go_row_by_row() -> None:
    decimals = pa.array([Decimal(2**90), None, Decimal(-5)], pa.decimal128(38, 0))
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array(["a", "b"]), pa.array([True])]
    )
    batch = pa.RecordBatch.from_arrays([decimals, union], names=["d", "u"])
    want: list[dict[str, Any]] = [{"d": 2**90, "u": "a"}, {"u": True}, {"d": -5, "u": "b"}]
    assert published(batch, advertising(["d", "u"])) == expected(want)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([None, 5], pa.timestamp("us")), "column 'x', row 1: timestamp[us] is not a type"),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "column 'x', row 0: decimal128(9, 2) is not a type"),
        (pa.array([None, None, [1]]), "column 'x', row 2: list<item: int64> is not a type"),
        (pa.array([{"a": 1}]), "column 'x', row 0: struct<a: int64> is not a type"),
        (pa.array([b"a"]), "column 'x', row 0: binary is not a type"),
        (pa.array([1.0, math.nan]), "row 1: the value of 'x' is NaN"),
        (pa.array(["a", None, "b"]), "row 1: the notification is empty"),
        (pa.array(["a", "x" * 70_000]), "row 1: the value of 'x' is a string of 70000 characters"),
        (pa.array([None, None], pa.int64()), "row 0: all columns are null"),
    ],
    ids=str,
)
def test_what_cannot_travel_is_refused_with_column_and_row(column: pa.Array, said: str) -> None:
    with pytest.raises(InputError) as caught:
        published(pa.RecordBatch.from_arrays([column], names=["x"]), terms(ANYTHING))
    assert str(caught.value).startswith(said)


def test_names_are_needed_and_are_there_once() -> None:
    one = pa.array([1])
    with pytest.raises(InputError, match="columns 0 and 1 are both 'x'"):
        published(pa.RecordBatch.from_arrays([one, one], names=["x", "x"]), terms(ANYTHING))
    with pytest.raises(InputError, match="column 0 has no name"):
        published(pa.RecordBatch.from_arrays([one], names=[""]), terms(ANYTHING))
    with pytest.raises(TypeError, match="takes a pyarrow"):
        published([{"x": 1}], terms(ANYTHING))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    offsets, content = np.array([0, 1, 3], dtype=np.int32), np.frombuffer(b"a\xff\xfe", dtype=np.uint8)
    broken = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    rows = next(iter(arrow_rows(pa.RecordBatch.from_arrays([broken], names=["x"]))))
    slab = rows.slab(0, "p", 1, terms(ANYTHING))
    if slab.error is None:
        assert split_frames(slab.data) == expected([{"x": "a"}])
        slab = rows.slab(1, "p", 2, terms(ANYTHING))
    assert "column 'x' is not valid UTF-8" in str(slab.error)


def test_a_row_too_long_is_refused_and_those_before_it_go() -> None:
    batch = pa.RecordBatch.from_pylist([{"x": "a"}, {"x": "b" * 3000}, {"x": "c"}])
    rows = next(iter(arrow_rows(batch)))
    narrow = terms(ANYTHING, frame_bytes_max=2048)
    slab = rows.slab(0, "p", 1, narrow)
    assert split_frames(slab.data) == expected([{"x": "a"}])
    error = slab.error or rows.slab(1, "p", 2, narrow).error
    assert str(error) == "row 1: the notification is 3,010 bytes, at most 2,032 travel"


ADVERTISED = [
    "n >= 3",
    "n >= 3 and text is not null",
    "f > 0.5 and n is not null and text is not null",
    "text like 'a%' and n < 9 and f is not null and b is not null",
    "text <> 'b' and n is not null and f <= 2 and b = true",
    "n = 18446744073709551615 or n < 2.5 and f is not null",
    "b = false and text is not null and n is not null and f is not null",
    "n > 9007199254740993 and text is not null",
]


@pytest.mark.parametrize("seed", range(cases(30)))
def test_rows_are_refused_where_their_dicts_are(seed: int) -> None:
    draw = random.Random(seed)
    values: dict[str, list[Any]] = {
        "n": [0, 2, 3, 9, 2**53 + 1, 2**62],
        "f": [0.5, 0.75, 2.0, 2.5],
        "text": ["a", "ab", "b"],
        "b": [True, False],
    }
    names = draw.sample(list(values), draw.randrange(1, 5))
    nulls = draw.choice([0.0, 0.4])
    rows = [{name: draw.choice(values[name]) for name in names if draw.random() >= nulls} for _ in range(30)]
    kinds = {"n": draw.choice([pa.int64(), pa.uint64()]), "f": draw.choice([pa.float64(), pa.float32()])}
    schema = pa.schema([(name, kinds.get(name, pa.string() if name == "text" else pa.bool_())) for name in names])
    filters = draw.sample(ADVERTISED, draw.randrange(1, 4))
    wanted = [parse_filter(text) for text in filters]
    fine = [bool(row) and any(conforms(parse_notification(row), one) for one in wanted) for row in rows]
    first = fine.index(False) if False in fine else len(rows)
    got: list[bytes] = []
    error: Exception | None = None
    try:
        batch = pa.RecordBatch.from_pylist(rows, schema)
        for one in arrow_rows(batch):
            while len(got) < len(one) and error is None:
                slab = one.slab(len(got), "p", 1 + len(got), terms(*filters))
                got += split_frames(slab.data)
                error = slab.error
    except InputError as raised:
        error = raised
    assert got == expected(rows[:first])
    if first == len(rows):
        assert error is None
    else:
        assert isinstance(error, RefusedError if rows[first] else InputError)
        assert str(error).startswith(f"row {first}: ")
