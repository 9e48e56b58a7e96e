"""Matching a record batch: all events against all runs, and the answers put together again.

Rules of this file: the same answers as one by one. Rows come out event after event. Memory is bounded by the answers:
a run's rows are collected in chunks of `CHUNK_ROWS` or what one event may need, if that is more.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Notification
from octopia.matching.columns import Points
from octopia.matching.kernels import kernels
from octopia.matching.run import BLOCK_BOXES, Run

CHUNK_ROWS = 1 << 22

Rows = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


def search_batch(runs: Iterable[Run], events: Points, values: npt.NDArray[Any]) -> tuple[Counts, npt.NDArray[Any]]:
    """How many matches each event has, and for each match what stands for its row in `values`, event after event."""
    answers = [_search_run(run, events) for run in runs]
    count = len(events.combination)
    total = np.zeros(count, dtype=np.int64)
    for counts, _ in answers:
        total += counts
    if len(answers) == 1:
        return total, values[answers[0][1]]
    starts = np.cumsum(total) - total
    found = np.empty(int(total.sum()), dtype=values.dtype)
    fill = np.zeros(count, dtype=np.int64)
    for counts, rows in answers:
        kernels().gather(counts, starts, rows, values, fill, found)
    return total, found


def _search_run(run: Run, events: Points) -> tuple[Counts, Rows]:
    counts = np.zeros(len(events.combination), dtype=np.int64)
    parts: list[Rows] = []
    event = 0
    room = max(CHUNK_ROWS, run.size + BLOCK_BOXES)
    while event < len(counts):
        out = np.empty(room + run.size + BLOCK_BOXES, dtype=np.int32)
        event, found = kernels().search_many(
            *run.layout,
            events.combination,
            events.probes_from,
            events.probes,
            events.above,
            events.below,
            event,
            out,
            counts,
        )
        parts.append(out[:found] if event < len(counts) or parts else out[:found].copy())
    return counts, parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, dtype=np.int32)])


def checked(
    counts: Counts,
    rows: Rows,
    batch: pa.RecordBatch,
    doubtful: npt.NDArray[np.bool_],
    satisfies: Callable[[int, Notification | None], bool],
) -> tuple[Counts, Rows]:
    """Each row of an event once, and `doubtful` rows only if the filter itself agrees."""
    events = np.repeat(np.arange(len(counts)), counts)
    _, first = np.unique(events * np.int64(len(doubtful) + 1) + rows, return_index=True)
    keep = np.zeros(len(rows), dtype=np.bool_)
    keep[first] = True
    for at in np.flatnonzero(keep & doubtful[rows]).tolist():
        keep[at] = satisfies(int(rows[at]), notification_of(batch, int(events[at])))
    return np.bincount(events[keep], minlength=len(counts)), rows[keep]


def notification_of(batch: pa.RecordBatch, row: int) -> Notification | None:
    """One event of a batch as a notification; None where all its columns are null."""
    values = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.schema.names)}
    there = {name: value for name, value in values.items() if value is not None}
    return Notification.of(there) if there else None
