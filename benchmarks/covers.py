"""What the index of covers costs: `python -m benchmarks covers`, with the matching benchmark's subscriptions.

Add and remove, the two questions, a subscriber that asks both and is added, and memory; for 1,000 to 1,000,000 filters.
The baseline of the same run is `language.covers` on every stored filter, timed on some and scaled up. Filters that ask
are of the same workload and not stored. Times are CPU seconds of the process.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.matching.measure import warm_up
from benchmarks.matching.workloads import RECIPES, Workload, make
from benchmarks.tables import Figures, show
from octopia.language import Filter, covers
from octopia.matching import CoverIndex

SIZES = (1_000, 100_000, 1_000_000)
ASKED = 500
REMOVED_MAX = 10_000
PLAIN_FILTERS = 1_000
PLAIN_ASKED = 5
TRACED_MAX = 100_000


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """All figures, printed as a table."""
    warm_up()
    rows = []
    for name in RECIPES:
        workload = make(name, max(sizes) + 2 * ASKED, 1)
        gc.collect()
        gc.freeze()
        rows += [_measure(workload, size) for size in sizes]
        del workload
        gc.unfreeze()
    show([table(rows)])
    return rows


def table(rows: list[dict[str, Any]]) -> Figures:
    """Microseconds each, by workload and number of filters."""
    head = (
        "filters",
        "add",
        "covering",
        "covered by",
        "both, then add",
        "remove",
        "one by one",
        "have a cover",
        "bytes per filter",
    )
    return Figures("The index of covers, µs each", head, [_line(row) for row in rows])


def _line(row: dict[str, Any]) -> list[str]:
    names = ("add_us", "covering_us", "covered_by_us", "ask_and_add_us", "remove_us", "one_by_one_us")
    return [
        f"{row['workload']}, {row['filters']:,}",
        *(f"{row[name]:,.0f}" for name in names),
        f"{row['covered_share']:.1%}",
        f"{row['bytes_per_filter']:,.0f}" if row["bytes_per_filter"] else "",
    ]


def _measure(workload: Workload, size: int) -> dict[str, Any]:
    filters = workload.filters[:size]
    index: CoverIndex[int] = CoverIndex()
    asking, arriving = workload.filters[-2 * ASKED : -ASKED], workload.filters[-ASKED:]
    add_us = _each(lambda: _load(index, filters), size)
    index.settle()
    found: list[int | None] = []
    figures = {
        "workload": workload.name,
        "filters": size,
        "add_us": add_us,
        "covering_us": _each(lambda: found.extend(index.covering(filter) for filter in asking), ASKED),
        "covered_by_us": _each(lambda: [index.covered_by(filter) for filter in asking], ASKED),
        "covered_share": sum(key is not None for key in found) / ASKED,
        "one_by_one_us": _plain(filters[:PLAIN_FILTERS], asking[:PLAIN_ASKED]) * size,
        "ask_and_add_us": _each(lambda: _arrive(index, arriving, size), ASKED),
    }
    going = np.random.default_rng(1).permutation(size)[:REMOVED_MAX].tolist()
    figures["remove_us"] = _each(lambda: _remove(index, going), len(going))
    figures["bytes_per_filter"] = _bytes(filters) if size <= TRACED_MAX else None
    return figures


def _load(index: CoverIndex[int], filters: list[Filter]) -> None:
    for key, filter in enumerate(filters):
        index.add(key, filter)


def _remove(index: CoverIndex[int], keys: list[int]) -> None:
    for key in keys:
        index.remove(key)


def _arrive(index: CoverIndex[int], filters: list[Filter], first: int) -> None:
    """The work of a broker for a subscription that is new to a link."""
    for key, filter in enumerate(filters, start=first):
        index.covering(filter)
        index.covered_by(filter)
        index.add(key, filter)


def _plain(stored: list[Filter], asking: list[Filter]) -> float:
    """Microseconds per stored filter to ask all of them."""
    return _each(lambda: [covers(wider, filter) for filter in asking for wider in stored], len(stored) * len(asking))


def _bytes(filters: list[Filter]) -> float:
    """Memory of the index, without the filters themselves."""
    tracemalloc.start()
    try:
        index: CoverIndex[int] = CoverIndex()
        _load(index, filters)
        index.settle()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(filters)
    finally:
        tracemalloc.stop()


def _each(do: Callable[[], object], times: int) -> float:
    begin = time.process_time()
    do()
    return (time.process_time() - begin) / times * 1e6
