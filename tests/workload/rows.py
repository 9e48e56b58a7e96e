"""Notifications of a table one by one, and all pairs of the truth at once, for tests that compare whole results."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from octopia.language import Filter, Notification
from octopia.workload import PAIRS_SCHEMA, truth_batches


def row_values(table: Any) -> list[dict[str, Any]]:
    """The rows as plain dictionaries, in order, without nulls."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def row_notifications(table: Any) -> Iterator[Notification]:
    return map(Notification.of, row_values(table))


def truth_pairs(filters: Sequence[Filter], table: Any) -> pa.RecordBatch:
    """All pairs (row, filter) that match, as numbers."""
    pairs = pa.Table.from_batches(list(truth_batches(filters, [table])), PAIRS_SCHEMA).combine_chunks()
    return pairs.to_batches()[0] if pairs.num_rows else pa.RecordBatch.from_pylist([], PAIRS_SCHEMA)
