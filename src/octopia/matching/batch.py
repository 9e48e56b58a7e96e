"""Matching a record batch: all events against all runs, and the answers put together again.

Rules of this file: the same answers as one by one. Rows come out event after event. Memory is bounded by the answers:
a run's rows are collected in chunks of `CHUNK_ROWS` or what one event may need, if that is more. What one run found in
one chunk is the answer as it is: copying it would take as long as half of the search.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Notification
from octopia.matching.columns import Points
from octopia.matching.kernels import kernels
from octopia.matching.run import BLOCK_BOXES, Layout

CHUNK_ROWS = 1 << 22

Rows = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


def search_batch(layouts: list[Layout], events: Points, dtype: npt.DTypeLike) -> tuple[Counts, npt.NDArray[Any]]:
    """How many matches each event has, and what the layouts hold for each match, of this type, event after event."""
    answers = [_search_run(layout, events) for layout in layouts]
    if len(answers) == 1:
        return answers[0]
    total = np.zeros(len(events.combination), dtype=np.int64)
    for counts, _ in answers:
        total += counts
    starts = np.cumsum(total) - total
    found = np.empty(int(total.sum()), dtype=dtype)
    for counts, rows in answers:
        kernels().gather(counts, starts, rows, found)
        starts += counts
    return total, found


def _search_run(layout: Layout, events: Points) -> tuple[Counts, npt.NDArray[Any]]:
    size = len(layout.rows)
    counts = np.zeros(len(events.combination), dtype=np.int64)
    parts = [np.empty(0, dtype=layout.rows.dtype)]
    event = 0
    while event < len(counts):
        out = np.empty(max(CHUNK_ROWS, size) + size + BLOCK_BOXES, dtype=layout.rows.dtype)
        event, found = kernels().search_many(
            *layout,
            events.combination,
            events.probes_from,
            events.probes,
            events.above,
            events.below,
            event,
            out,
            counts,
        )
        # give back what was not written to: nobody else holds the array
        out.resize(found, refcheck=False)
        parts.append(out)
    return counts, parts[-1] if len(parts) <= 2 else np.concatenate(parts)


def checked(
    counts: Counts,
    rows: Rows,
    batch: pa.RecordBatch,
    to_check: npt.NDArray[np.bool_],
    inexact: npt.NDArray[np.bool_],
    satisfies: Callable[[int, Notification | None], bool],
) -> tuple[Counts, Rows]:
    """Each row of an event once, and `inexact` ones only if the filter itself agrees; `to_check` says where to look."""
    events = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero(to_check[rows])
    _, first = np.unique(events[places] * np.int64(len(to_check) + 1) + rows[places], return_index=True)
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[places] = False
    keep[places[first]] = True
    for at in places[first][inexact[rows[places[first]]]].tolist():
        keep[at] = satisfies(int(rows[at]), notification_of(batch, int(events[at])))
    return np.bincount(events[keep], minlength=len(counts)), rows[keep]


def notification_of(batch: pa.RecordBatch, row: int) -> Notification | None:
    """One event of a batch as a notification; None where all its columns are null."""
    values = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.schema.names)}
    there = {name: value for name, value in values.items() if value is not None}
    return Notification.of(there) if there else None
