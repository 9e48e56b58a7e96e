"""A batch gives the same result as one by one, for every type of column."""

from random import Random

import pyarrow as pa
import pytest

from octopia.errors import LanguageError
from octopia.language import Filter, Notification, matches
from octopia.matching import Matcher, answers
from tests.effort import cases
from tests.matching.histories import NAMES, draw_filter

POOLS: dict[str, tuple[pa.DataType, list[object]]] = {
    "float": (pa.float64(), [0.0, 1.0, 2.0, 0.5, 1.5, -5.0, float("inf"), float("-inf"), None]),
    "float32": (pa.float32(), [0.0, 0.5, None]),
    "int": (pa.int64(), [0, 1, 2, 2**53, 2**53 + 1, 2**62 + 1, -(2**53) - 1, -5, None]),
    "small": (pa.int8(), [0, 1, 2, -1, None]),
    "unsigned": (pa.uint64(), [0, 1, 2**63 + 1, 2**64 - 1, None]),
    "string": (pa.string(), ["", "a", "b", "ab", "abc", "é", None]),
    "large": (pa.large_string(), ["", "a", "ba", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "null": (pa.null(), [None]),
}


def draw_batch(draw: Random) -> pa.RecordBatch:
    count = draw.randint(0, 30)
    columns = {}
    for name in [n for n in NAMES if draw.random() < 0.9] or ["x"]:
        kind, values = POOLS[draw.choice(list(POOLS))]
        column = pa.array([draw.choice(values) for _ in range(count)], type=kind)
        columns[name] = column.dictionary_encode() if pa.types.is_string(kind) and draw.random() < 0.5 else column
    columns["ignored"] = pa.array([None] * count, type=pa.timestamp("us"))
    return pa.RecordBatch.from_pydict(columns)


def brute_force(batch: pa.RecordBatch, stored: dict[int, Filter]) -> list[tuple[int, int]]:
    pairs = []
    for event, values in enumerate(batch.drop_columns(["ignored"]).to_pylist()):
        there = {name: value for name, value in values.items() if value is not None}
        for id, filter in stored.items():
            # an event of nothing satisfies a filter that asks for nothing
            empty = any(not conjunction.predicates for conjunction in filter.conjunctions)
            if matches(filter, Notification.of(there)) if there else empty:
                pairs.append((event, id))
    return pairs


@pytest.mark.parametrize("part", range(4))
def test_a_batch_is_the_same_as_one_by_one(kernels: str, part: int) -> None:
    for seed in range(part * 50, part * 50 + cases(50)):
        draw = Random(seed)
        index: Matcher[int] = Matcher()
        stored = {id: draw_filter(draw) for id in range(draw.randint(0, 80))}
        for id, filter in stored.items():
            index.add(id, filter, group=id % 70)
            if draw.random() < 0.05:
                index.settle()
        for id in [id for id in stored if draw.random() < 0.3]:
            index.remove(id)
            del stored[id]
        batch = draw_batch(draw)
        expected = brute_force(batch, stored)

        found = index.match_batch(batch)

        assert found.schema.names == ["event", "id"]
        pairs = list(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True))
        assert [event for event, _ in pairs] == sorted(event for event, _ in expected), f"seed {seed}"
        assert sorted(pairs) == sorted(expected), f"seed {seed}"
        masks = index.match_batch_groups(batch)
        groups: list[set[int]] = [set() for _ in range(batch.num_rows)]
        for event, id in expected:
            groups[event].add(id % 70)
        as_integers = [sum(int(word) << 64 * i for i, word in enumerate(line)) for line in masks]
        seen = [{g for g in range(70) if mask >> g & 1} for mask in as_integers]
        assert seen == groups


def test_string_ids_come_back_as_strings() -> None:
    index: Matcher[str] = Matcher()
    index.add("one", "x > 1")
    index.add("two", "x > 2")
    index.remove("one")
    index.add("three", "x > 0")
    found = index.match_batch(pa.RecordBatch.from_pydict({"x": [1, 3]}))
    assert sorted(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True)) == [
        (0, "three"),
        (1, "three"),
        (1, "two"),
    ]
    index2: Matcher[object] = Matcher()
    index2.add(("a", 1), "x > 1")
    with pytest.raises(TypeError, match="all integers of 64 bits or all strings"):
        index2.match_batch(pa.RecordBatch.from_pydict({"x": [1, 3]}))


def test_a_dictionary_may_hold_nulls_and_the_same_string_twice() -> None:
    index: Matcher[int] = Matcher()
    index.add(0, "s = 'a'")
    index.add(1, "s like 'b%'")
    index.add(2, "s is not null")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None]), pa.array(["a", None, "b", "a"]))
    found = index.match_batch(pa.RecordBatch.from_pydict({"s": column}))
    assert sorted(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 2),
        (2, 1),
        (2, 2),
        (3, 0),
        (3, 2),
    ]


def test_a_column_of_mixed_types() -> None:
    index: Matcher[int] = Matcher()
    for id, text in enumerate(("v = 1", "v = 'a'", "v = true", "v is not null", "v > 9007199254740992")):
        index.add(id, text)
    types = pa.array([0, 1, 2, 0, 0], type=pa.int8())
    offsets = pa.array([0, 0, 0, 1, 2], type=pa.int32())
    column = pa.UnionArray.from_dense(
        types, offsets, [pa.array([1, 2**53 + 1, None]), pa.array(["a"]), pa.array([True])]
    )
    found = index.match_batch(pa.RecordBatch.from_pydict({"v": column}))
    assert sorted(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 3),
        (1, 1),
        (1, 3),
        (2, 2),
        (2, 3),
        (3, 3),
        (3, 4),
    ]


def test_nan_and_types_that_are_no_values_are_refused_with_their_place() -> None:
    index: Matcher[int] = Matcher()
    index.add(0, "x > 1 and d is not null")
    bad = pa.RecordBatch.from_pydict({"x": pa.array([1.0, float("nan")])})
    with pytest.raises(LanguageError, match="column 'x', row 1 is NaN"):
        index.match_batch(bad)
    dates = pa.RecordBatch.from_pydict({"d": pa.array([None, 5], type=pa.timestamp("us"))})
    with pytest.raises(LanguageError, match="column 'd', row 1 holds a datetime"):
        index.match_batch(dates)


def test_an_empty_batch_and_an_empty_matcher() -> None:
    index: Matcher[int] = Matcher()
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1, 2])})
    assert index.match_batch(batch).num_rows == 0
    assert index.match_batch_groups(batch).tolist() == [[0], [0]]
    index.add(0, "true")
    assert index.match_batch(batch.slice(0, 0)).num_rows == 0
    assert index.match_batch(batch)["event"].to_pylist() == [0, 1]


def test_answers_larger_than_a_chunk(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHUNK_ROWS", 1)
    index: Matcher[int] = Matcher()
    for id in range(100):
        index.add(id, f"x >= {id}")
    found = index.match_batch(pa.RecordBatch.from_pydict({"x": list(range(100))}))
    expected = [(x, id) for x in range(100) for id in range(x + 1)]
    assert sorted(zip(found["event"].to_pylist(), found["id"].to_pylist(), strict=True)) == expected
