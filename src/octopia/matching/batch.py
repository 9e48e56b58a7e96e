"""Matching many events: all of them against all runs, with the answers merged.

The answers are the same as for one event at a time, and rows are ordered by event. Memory is bounded by the answers: a
run's rows are collected in chunks of `CHUNK_ROWS`, or of what one event may need if that is more. A result from one run
in one chunk is returned without a copy, which would take half as long as the search.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.language import Notification
from octopia.matching.box_run import BLOCK_BOXES, Layout
from octopia.matching.coordinates import Points
from octopia.matching.kernels import kernels

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1 << 22


class Room:
    """An array to write answers to; only the part written is kept."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        self.array: npt.NDArray[Any] = np.empty(count, dtype=dtype)

    def cut(self, count: int) -> npt.NDArray[Any]:
        """The first part of the array; the rest is freed, so nothing else may refer to it."""
        self.array.resize(count, refcheck=False)
        return self.array


class Answers(NamedTuple):
    """The number of matches of each event, and the value for each match, event by event."""

    counts: npt.NDArray[np.int64]
    found: npt.NDArray[Any]


def search_batch(
    layouts: Sequence[Layout],
    events: Points,
    dtype: npt.DTypeLike,
    before: Sequence[Answers] = (),
    room: type[Room] = Room,
) -> Answers:
    """The layouts' values for each match, of this type; for each event they follow those found `before`."""
    answers = [*before, *(_search_run(layout, events, room) for layout in layouts)]
    if not answers:
        return Answers(np.zeros(len(events.combination), dtype=np.int64), np.empty(0, dtype=dtype))
    return merged(answers, dtype)


def merged(answers: Sequence[Answers], dtype: npt.DTypeLike) -> Answers:
    """Merge several answers about the same events; for each event in the order of the answers."""
    if len(answers) == 1:
        return answers[0]
    total = np.zeros(len(answers[0].counts), dtype=np.int64)
    for counts, _ in answers:
        total += counts
    starts = np.cumsum(total) - total
    found = np.empty(int(total.sum()), dtype=dtype)
    for counts, rows in answers:
        kernels().gather(counts, starts, rows, found)
        starts += counts
    return Answers(total, found)


def _search_run(layout: Layout, events: Points, room: type[Room]) -> Answers:
    size = len(layout.rows)
    counts = np.zeros(len(events.combination), dtype=np.int64)
    parts = []
    event = 0
    while event < len(counts):
        rows_max = max(min(CHUNK_ROWS, (len(counts) - event) * size), size)
        out = room(rows_max + 2 * BLOCK_BOXES, layout.rows.dtype)
        event, found = kernels().search(*layout, *events, event, out.array, 0, counts)
        parts.append(out.cut(found))
    if len(parts) == 1:
        return Answers(counts, parts[0])
    return Answers(counts, np.concatenate([np.empty(0, dtype=layout.rows.dtype), *parts]))


def agreed(answers: Answers, to_check: npt.NDArray[np.bool_], agrees: Callable[[int, int], bool]) -> Answers:
    """Rows `to_check` only where `agrees(row, event)`."""
    counts, rows = answers
    places = np.flatnonzero(to_check[rows])
    if not len(places):
        return answers
    events = np.repeat(np.arange(len(counts)), counts)
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[places] = [agrees(*pair) for pair in zip(rows[places].tolist(), events[places].tolist(), strict=True)]
    return Answers(np.bincount(events[keep], minlength=len(counts)), rows[keep])


def notification_of(batch: "pa.RecordBatch", row: int) -> Notification | None:
    """One event of a batch as a notification; None if all its columns are null."""
    values = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.schema.names)}
    there = {name: value for name, value in values.items() if value is not None}
    return Notification.of(there) if there else None
