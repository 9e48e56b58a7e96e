"""The expected deliveries, by brute force: every filter against every row of a table, on whole columns.

This module judges brokers and indexes, so it does not share code with them. It gives the same answers as
`octopia.matches` row by row; a row with only nulls satisfies only a filter without conditions. Rows are taken
`BATCH_ROWS` at a time. On one batch a predicate is evaluated once, however many filters hold it; its answer is kept as
one bit per row in an LRU cache of at most `CACHE_BYTES_MAX`. Memory beyond that is `PAIRS_MAX` pairs and those of one
filter.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Conjunction, Filter, Predicate
from octopia.workload.truth_columns import Column, absent_column, read_column

Rows: TypeAlias = pa.Table | pa.RecordBatch
Mask: TypeAlias = npt.NDArray[np.bool_]
_Bits: TypeAlias = npt.NDArray[np.uint64]

BATCH_ROWS: Final = 1 << 16
CACHE_BYTES_MAX: Final = 64 << 20
PAIRS_MAX: Final = 1 << 22

PAIRS_SCHEMA: Final = pa.schema(
    [pa.field("row", pa.int64(), nullable=False), pa.field("filter", pa.int32(), nullable=False)]
)


def match_mask(filter: Filter, table: Rows) -> Mask:
    """Which rows of the table match the filter."""
    parts = [_Batch(batch, first).mask(filter) for first, batch in _batches(table, BATCH_ROWS)]
    return np.concatenate([*parts, np.zeros(0, dtype=np.bool_)])


def match_counts(filters: Sequence[Filter], table: Rows) -> npt.NDArray[np.int64]:
    """How many rows of the table each filter matches. Counts of parts of a table add up to those of the table."""
    counts = np.zeros(len(filters), dtype=np.int64)
    for first, batch in _batches(table, BATCH_ROWS):
        asked = _Batch(batch, first)
        counts += np.array([asked.count(filter) for filter in filters], dtype=np.int64)
    return counts


def truth_batches(
    filters: Sequence[Filter], tables: Iterable[Rows], batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """All pairs (row, filter) that match, as numbers, of consecutive tables with rows numbered throughout.

    There is one for each `batch_rows` rows, or more where these have more than `PAIRS_MAX` pairs.
    """
    before = 0
    for table in tables:
        for first, batch in _batches(table, batch_rows):
            yield from _pairs(filters, batch, before + first)
        before += table.num_rows


def _batches(table: Rows, batch_rows: int) -> Iterator[tuple[int, Rows]]:
    # Slices, not `to_batches`: a table of many small chunks would cost a round of all filters for each.
    for first in range(0, table.num_rows, batch_rows):
        yield first, table.slice(first, batch_rows)


def _pairs(filters: Sequence[Filter], batch: Rows, first: int) -> Iterator[pa.RecordBatch]:
    asked = _Batch(batch, first)
    rows: list[npt.NDArray[np.int64]] = []
    start = total = 0
    for number, filter in enumerate(filters):
        rows.append(asked.rows(filter))
        total += len(rows[-1])
        if total >= PAIRS_MAX:
            yield _record_batch(rows, start, first)
            rows, start, total = [], number + 1, 0
    yield _record_batch(rows, start, first)


def _record_batch(rows: list[npt.NDArray[np.int64]], start: int, first: int) -> pa.RecordBatch:
    row = np.concatenate([*rows, np.zeros(0, dtype=np.int64)]) + first
    numbers = np.arange(start, start + len(rows), dtype=np.int32)
    named = np.repeat(numbers, [len(found) for found in rows])
    return pa.RecordBatch.from_arrays([pa.array(row), pa.array(named)], schema=PAIRS_SCHEMA)


class _Batch:
    """Some rows, ready to be queried: columns are read on first use, answers to predicates are kept as bits."""

    def __init__(self, batch: Rows, first: int) -> None:
        self._batch = batch
        self._first = first
        self._names = set(batch.schema.names)
        self._count = batch.num_rows
        self._columns: dict[str, Column] = {}
        self._kept: OrderedDict[Predicate, _Bits] = OrderedDict()
        self._everything = self._packed(np.ones(self._count, dtype=np.bool_))
        self._kept_max = max(16, CACHE_BYTES_MAX // max(1, self._everything.nbytes))

    def mask(self, filter: Filter) -> Mask:
        """One boolean per row."""
        bits = self._filter_bits(filter).view(np.uint8)
        return np.unpackbits(bits, count=self._count, bitorder="little").view(np.bool_)

    def rows(self, filter: Filter) -> npt.NDArray[np.int64]:
        """The numbers of the rows that match, ascending."""
        return np.flatnonzero(self.mask(filter))

    def count(self, filter: Filter) -> int:
        """The number of rows that match."""
        return int(np.bitwise_count(self._filter_bits(filter)).sum())

    def _filter_bits(self, filter: Filter) -> _Bits:
        first, *others = filter.conjunctions
        if not others:
            return self._conjunction_bits(first)
        bits = self._conjunction_bits(first).copy()
        for conjunction in others:
            bits |= self._conjunction_bits(conjunction)
        return bits

    def _conjunction_bits(self, conjunction: Conjunction) -> _Bits:
        if not conjunction.predicates:
            return self._everything
        first, *others = conjunction.predicates
        bits = self._predicate_bits(first)
        for predicate in others:
            bits = bits & self._predicate_bits(predicate)
        return bits

    def _predicate_bits(self, predicate: Predicate) -> _Bits:
        known = self._kept.get(predicate)
        if known is not None:
            self._kept.move_to_end(predicate)
            return known
        bits = self._packed(self._column(predicate.attribute).holds(predicate))
        self._kept[predicate] = bits
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return bits

    def _column(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            there = name in self._names
            column = read_column(self._batch.column(name), name, self._first) if there else absent_column(self._count)
            self._columns[name] = column
        return column

    def _packed(self, mask: Mask) -> _Bits:
        whole = np.zeros(-(-self._count // 64) * 8, dtype=np.uint8)
        packed = np.packbits(mask, bitorder="little")
        whole[: len(packed)] = packed
        return whole.view(np.uint64)
