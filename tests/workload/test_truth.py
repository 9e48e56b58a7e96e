"""Truth on columns answers as `octopia.matches` does on every row: every operator, type and place of null."""

from math import inf, nextafter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.errors import LanguageError
from octopia.language import Filter, Notification, Operator, Predicate, Value, matches, parse_filter
from octopia.workload import match_counts, match_mask, truth, truth_batches
from tests.language.strategies import filters, fixed, predicates
from tests.workload.rows import truth_pairs

INT64 = (-(2**63), -(2**53) - 1, -5, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1)
UINT64 = (0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (-inf, -1e300, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0**53, 2.0**53 + 2, 2.0**63, nextafter(2.0**63, 0), 1e308, inf)
STRINGS = ("", "a", "b", "ab", "aba", "ba", "é", "z", "ÿ", "\uffff", "\U0001f600", "a\0b", "%", "a_b")
BIG: tuple[Value, ...] = (2**64, 2**64 - 1, 2**63, 2**70 + 1, -(2**70), 10**400, -(10**400), 2.5, -2.5, 1e-300, 2.0**64)
POOLS: dict[str, tuple[pa.DataType, tuple[object, ...]]] = {
    "int64": (pa.int64(), INT64),
    "int8": (pa.int8(), (-128, -1, 0, 1, 2, 127)),
    "uint64": (pa.uint64(), UINT64),
    "uint16": (pa.uint16(), (0, 1, 65535)),
    "float64": (pa.float64(), FLOATS),
    "float32": (pa.float32(), (0.0, 0.5, -1.5, inf)),
    "float16": (pa.float16(), (0.5, 1.0)),
    "string": (pa.string(), STRINGS),
    "large": (pa.large_string(), STRINGS),
    "view": (pa.string_view(), STRINGS),
    "bool": (pa.bool_(), (True, False)),
    "null": (pa.null(), ()),
}
NAMES = ("x", "y", "gone")
numbers = st.sampled_from((*INT64, *UINT64, *FLOATS, *BIG))
some_filter = filters(predicates(st.sampled_from(NAMES), st.sampled_from(STRINGS), numbers), conjunctions=3, size=3)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(0, 12))
    columns = {}
    for name in ("x", "y"):
        kind, pool = POOLS[draw(st.sampled_from(sorted(POOLS)))]
        values = st.sampled_from((*pool, None))
        column = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        if pa.types.is_string(kind) and draw(st.booleans()):
            column = column.dictionary_encode()
        cut = draw(st.integers(0, count))
        columns[name] = pa.chunked_array([column.slice(0, cut), column.slice(cut)], column.type)
    return pa.table(columns)


def expected(wanted: Filter, table: pa.Table) -> list[bool]:
    answers = []
    for values in table.to_pylist():
        there = {name: value for name, value in values.items() if value is not None}
        nothing_asked = any(not conjunction.predicates for conjunction in wanted)
        answers.append(matches(wanted, Notification.of(there)) if there else nothing_asked)
    return answers


@given(some_filter, tables())
@fixed(1500)
def test_every_row_as_matches_says(wanted: Filter, table: pa.Table) -> None:
    assert match_mask(wanted, table).tolist() == expected(wanted, table)


@pytest.mark.parametrize("kind", sorted(POOLS))
def test_every_operator_with_every_constant_on_every_type(kind: str) -> None:
    """All pairs, not random ones: each value of the pool against each constant and operator that may be asked."""
    arrow, pool = POOLS[kind]
    table = pa.table({"x": pa.array([*pool, None], arrow)})
    constants: tuple[Value, ...] = (*INT64, *UINT64, *FLOATS, *BIG, *STRINGS, True, False)
    asked = [Predicate("x", Operator.PRESENT)]
    for operator in list(Operator)[:-1]:
        for constant in constants:
            try:
                asked.append(Predicate("x", operator, constant))
            except LanguageError:
                continue  # an order of booleans, a pattern that is no string
    for predicate in asked:
        assert match_mask(Filter.of(predicate), table).tolist() == expected(Filter.of(predicate), table), predicate


@given(st.lists(some_filter, max_size=8), tables(), st.integers(1, 5))
@fixed(300)
def test_pairs_and_counts_for_any_size_of_batch(wanted: list[Filter], table: pa.Table, batch_rows: int) -> None:
    pairs = sorted((row, n) for n, f in enumerate(wanted) for row, yes in enumerate(expected(f, table)) if yes)
    counts = [sum(number == n for _, number in pairs) for n in range(len(wanted))]

    whole = truth_pairs(wanted, table)
    assert whole.schema.names == ["row", "filter"]
    assert sorted(zip(*whole.to_pydict().values(), strict=True)) == pairs
    parts = [table.slice(0, 5), table.slice(5)]
    streamed = pa.Table.from_batches(truth_batches(wanted, parts, batch_rows), whole.schema)
    assert sorted(zip(*streamed.to_pydict().values(), strict=True)) == pairs
    assert match_counts(wanted, table).tolist() == counts
    assert np.add(*(match_counts(wanted, part) for part in parts)).tolist() == counts


def test_a_full_cache_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "CACHE_BYTES_MAX", 1)
    table = pa.table({"x": np.arange(1000)})
    wanted = [parse_filter(f"x >= {low} and x < {low + 3} or x = 11") for low in range(0, 900, 10)]
    assert match_counts(wanted, table).tolist() == [3 if low == 10 else 4 for low in range(0, 900, 10)]
    assert match_counts([*wanted, *wanted], table).tolist() == 2 * match_counts(wanted, table).tolist()


def test_order_of_pairs_and_rows_beyond_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "BATCH_ROWS", 3)
    table = pa.table({"x": [0, 1, 2, 3, 4, 5, 6]})
    wanted = [parse_filter("x > 1"), parse_filter("x < 5 and x > 0")]
    assert match_mask(wanted[1], table).tolist() == [False, True, True, True, True, False, False]
    batches = truth_batches(wanted, [table], 3)
    assert [list(zip(*b.to_pydict().values(), strict=True)) for b in batches] == [
        [(2, 0), (1, 1), (2, 1)],
        [(3, 0), (4, 0), (5, 0), (3, 1), (4, 1)],
        [(6, 0)],
    ]
    assert list(truth_batches(wanted, [])) == []


def test_many_pairs_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "PAIRS_MAX", 5)
    table = pa.table({"x": range(4)})
    wanted = [parse_filter(text) for text in ("x >= 0", "x > 9", "x > 1", "x = 0", "x >= 0")]
    found = [list(zip(*b.to_pydict().values(), strict=True)) for b in truth_batches(wanted, [table])]
    first = [(0, 0), (1, 0), (2, 0), (3, 0), (2, 2), (3, 2)]
    assert found == [first, [(0, 3), (0, 4), (1, 4), (2, 4), (3, 4)], []]
    assert sum(map(len, found)) == truth_pairs(wanted, table).num_rows


def test_a_union_column_is_read_value_by_value() -> None:
    types = pa.array([0, 1, 2, 0, 0], type=pa.int8())
    offsets = pa.array([0, 0, 0, 1, 2], type=pa.int32())
    children = [pa.array([1, 2**53 + 1, None]), pa.array(["a"]), pa.array([True])]
    table = pa.table({"v": pa.UnionArray.from_dense(types, offsets, children)})
    texts = ("v = 1", "v = 'a'", "v = true", "v is not null", f"v > {2**53}", "v <> 1")
    found = [np.flatnonzero(match_mask(parse_filter(text), table)).tolist() for text in texts]
    assert found == [[0], [1], [2], [0, 1, 2, 3], [3], [3]]


def test_nan_and_foreign_types_are_refused_with_their_row_and_only_if_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(truth, "BATCH_ROWS", 2)
    table = pa.table(
        {"x": [1.0, 2.0, 3.0, float("nan")], "d": pa.array([None, None, None, 5], pa.date32()), "y": [1] * 4}
    )
    with pytest.raises(LanguageError, match="column 'x', row 3 is NaN"):
        match_mask(parse_filter("x > 1"), table)
    with pytest.raises(LanguageError, match="column 'd', row 3 holds a date"):
        match_mask(parse_filter("d is not null"), table)
    assert match_mask(parse_filter("y = 1"), table).all()
