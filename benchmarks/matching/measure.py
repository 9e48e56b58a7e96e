"""How fast the matcher is: adds, matches, removals, overlap, memory. One core, in CPU seconds of this process.

CPU time, not the clock on the wall, so that others on the machine count little; the best of several
repeats, after a call that warms up. Filters, ids, notifications and batches are made before the clock starts, and are
put out of the collector's sight. Rows of matches per timing are bounded, so that large and small cells take alike long.
"""

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.matching.workloads import Events, Workload, make, symbols
from octopia.language import Filter, Notification, Operator, Predicate, overlaps
from octopia.matching.matcher import Matcher

REPEATS = 9
EVENTS_MAX = 20_000
EVENTS_MIN = 100
BATCH_ROWS = 4_000_000
SINGLE_ROWS = 1_000_000
# notifications of one network read, more or less
MANY = (16, 200)
REMOVALS_MAX = 100_000
REMOVAL_REPEATS = 3
ADVERTISEMENTS = 20
# from here on adding is timed once, and tracing memory, some six times as slow as adding, takes most of a minute
LARGE = 1_000_000
SCAN_TESTS = 300_000
SCAN_OVERLAPS = 50_000
OVERLAP_S = 1.0


@dataclass(frozen=True)
class Cell:
    """A matcher with the subscriptions of a workload in it."""

    workload: Workload
    matcher: Matcher[int]


def best(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least CPU seconds of a call."""
    least = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        call()
        least = min(least, time.process_time() - begin)
    return least


def warm_up() -> None:
    """Load the kernels, so that no cell pays for them: `first_call` says what they cost."""
    workload = make("A", 100, 100)
    cell = Cell(workload, _filled(workload))
    _measure_matching(cell)
    measure_removal(cell)


def measure(workload: Workload, *, trace: bool = True) -> tuple[Cell, dict[str, Any]]:
    """All figures of one workload at one size, but for removals (`measure_removal`), which end the cell."""
    cell, figures = _measure_adds(workload, trace=trace)
    first, overlap = _measure_matching(cell), _measure_overlap(cell)
    # once more: a machine that is shared may be slow for seconds
    again = _measure_matching(cell)
    rates = {key: max(rate, again[key]) for key, rate in first.items() if key.endswith("_per_s")}
    return cell, figures | first | rates | overlap


def measure_matching(workload: Workload) -> dict[str, Any]:
    """Matching alone."""
    return _measure_matching(Cell(workload, _filled(workload)))


def _measure_matching(cell: Cell) -> dict[str, Any]:
    probe = cell.workload.events.head(50)
    matches = cell.matcher.match_batch(probe.batch).num_rows / len(probe)
    figures = _measure_batch(cell, events_for(cell.workload, matches, BATCH_ROWS))
    events = events_for(cell.workload, figures["matches_per_event"], SINGLE_ROWS)
    return figures | _measure_single(cell, events) | _measure_many(cell, events) | _measure_writing(cell, events)


def events_for(workload: Workload, matches: float, rows: int) -> Events:
    """As many events as give about this many rows of matches."""
    count = int(rows / max(matches, 1e-9))
    return workload.events.head(min(max(count, EVENTS_MIN), EVENTS_MAX, len(workload.events)))


def _filled(workload: Workload) -> Matcher[int]:
    matcher: Matcher[int] = Matcher()
    add = matcher.add
    for id, filter in zip(workload.ids, workload.filters, strict=True):
        add(id, filter)
    matcher.settle()
    return matcher


def _measure_adds(workload: Workload, *, trace: bool) -> tuple[Cell, dict[str, Any]]:
    """Adds one by one, with the time it takes until all of them are in runs."""
    count = len(workload.ids)
    gc.collect()
    begin = time.process_time()
    matcher = _filled(workload)
    elapsed = time.process_time() - begin
    if count < LARGE:
        elapsed = min(elapsed, best(lambda: _filled(workload), 4))
    figures: dict[str, Any] = {"add_per_s": count / elapsed}
    if trace:
        figures |= {"bytes_per_subscription": _traced(workload) / count, "memory_by": "tracemalloc"}
    return Cell(workload, matcher), figures


def _use(matcher: Matcher[int], workload: Workload) -> None:
    """One call of each kind: memory that a matcher allocates for matching counts, too."""
    matcher.match(workload.events.notifications[0])
    matcher.match_batch(workload.events.batch.slice(0, 1))


def _traced(workload: Workload) -> int:
    """Bytes that Python and numpy hold for a filled matcher, beside the filters and ids.

    Not by the memory of the process: a matcher's small objects go where earlier work left holes, and seem to be free.
    """
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    matcher = _filled(workload)
    _use(matcher, workload)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def _measure_batch(cell: Cell, events: Events) -> dict[str, Any]:
    found = cell.matcher.match_batch(events.batch)
    elapsed = best(lambda: cell.matcher.match_batch(events.batch))
    matches = found.num_rows / len(events)
    return {
        "matches_per_event": matches,
        "selectivity": matches / len(cell.workload.ids),
        "batch_events": len(events),
        "batch_per_s": len(events) / elapsed,
    }


def _measure_single(cell: Cell, events: Events) -> dict[str, Any]:
    """One by one: as lists of ids, and as arrays."""
    match, match_array = cell.matcher.match, cell.matcher.match_array

    def lists() -> None:
        for notification in events.notifications:
            match(notification)

    def arrays() -> None:
        for notification in events.notifications:
            match_array(notification)

    lists()
    return {
        "single_events": len(events),
        "single_per_s": len(events) / best(lists),
        "single_array_per_s": len(events) / best(arrays),
    }


def _measure_many(cell: Cell, events: Events) -> dict[str, Any]:
    """Notifications, as they come out of the wire, several in one call: as arrays of row numbers."""
    figures = {}
    for size in MANY:
        parts = [events.notifications[at : at + size] for at in range(0, len(events) - size + 1, size)]

        def all_parts(parts: list[list[Notification]] = parts) -> None:
            for part in parts:
                cell.matcher.match_rows_many(part)

        if parts:
            figures[f"many_{size}_per_s"] = len(parts) * size / best(all_parts)
    return figures


def measure_removal(cell: Cell) -> dict[str, float]:
    """Removals one by one in random order: all of a small matcher, the first REMOVALS_MAX of a large one.

    Again with other matchers, where filling one does not take long; which is timed, too, so that the rate of adds is
    taken at two moments like all the others.
    """
    order = list(cell.workload.ids)
    random.Random(3).shuffle(order)
    order = order[:REMOVALS_MAX]

    def remove_all(matcher: Matcher[int]) -> float:
        begin = time.process_time()
        for id in order:
            matcher.remove(id)
        return time.process_time() - begin

    elapsed = remove_all(cell.matcher)
    filling = float("inf")
    for _ in range(REMOVAL_REPEATS if len(cell.workload.ids) < LARGE else 0):
        begin = time.process_time()
        matcher = _filled(cell.workload)
        filling = min(filling, time.process_time() - begin)
        elapsed = min(elapsed, remove_all(matcher))
    adds = {"add_per_s": len(cell.workload.ids) / filling}
    return {"removed": len(order), "remove_per_s": len(order) / elapsed, **adds}


# -- overlap


def advertisements() -> list[Filter]:
    """Publishers of one symbol each, with the range of prices that they will publish; other attributes are named."""
    draw = random.Random(5)
    found = []
    for _ in range(ADVERTISEMENTS):
        low = draw.uniform(10, 80)
        named = [
            Predicate(name, Operator.PRESENT)
            for name in ("open", "high", "low", "volume", "change_percent", "range_percent", "day")
        ]
        found.append(
            Filter.of(
                Predicate("class", Operator.EQ, "STOCK"),
                Predicate("symbol", Operator.EQ, draw.choice(symbols())),
                Predicate("close", Operator.GE, round(low, 2)),
                Predicate("close", Operator.LE, round(low + 20, 2)),
                *named,
            )
        )
    return found


def _measure_overlap(cell: Cell) -> dict[str, Any]:
    """Advertisements against the subscriptions; the scan beside it goes over a part of many filters, and is scaled."""
    overlapping = cell.matcher.overlapping
    first_s = best(lambda: overlapping(advertisements()[0]), 1)
    asked = advertisements()[: max(1, min(ADVERTISEMENTS, int(OVERLAP_S / first_s)))]
    found = [overlapping(advertisement) for advertisement in asked]
    elapsed = best(lambda: [overlapping(advertisement) for advertisement in asked], 2)
    part = cell.workload.filters[:SCAN_OVERLAPS]
    begin = time.process_time()
    expected = [id for id, filter in enumerate(part) if overlaps(asked[0], filter)]
    scan_s = (time.process_time() - begin) * len(cell.workload.filters) / len(part)
    assert sorted(id for id in found[0] if id < len(part)) == expected, "overlapping and octopia.overlaps differ"
    return {
        "overlaps_each": sum(map(len, found)) / len(asked),
        "overlap_per_s": len(asked) / elapsed,
        "overlap_scan_per_s": 1 / scan_s,
    }


# -- the part of the time that writes answers down


def _measure_writing(cell: Cell, events: Events) -> dict[str, float]:
    """Nanoseconds per match to write down the very answers of these events, once all is known.

    The ids lie ready in an array, in the order of the answer. A batch is the column of event numbers and a copy of the
    ids; one by one, it is a list of Python integers for each event. Nothing is looked for and nothing picked.
    """
    answer = cell.matcher.match_batch(events.batch)
    ids = answer.column("id").to_numpy()
    if not len(ids):
        return {}
    counts = np.bincount(answer.column("event").to_numpy(), minlength=len(events))
    parts = np.split(ids, np.cumsum(counts)[:-1])

    def batch() -> pa.RecordBatch:
        numbered = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        return pa.RecordBatch.from_arrays([pa.array(numbered), pa.array(ids.copy())], names=["event", "id"])

    def lists() -> None:
        for part in parts:
            part.tolist()

    each = 1e9 / len(ids)
    return {"batch_writing_ns": each * best(batch), "list_writing_ns": each * best(lists)}
