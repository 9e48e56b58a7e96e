"""The list of cells, and all their figures combined.

One workload is in memory at a time, and smaller sizes are its beginning.
"""

import gc
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console

from benchmarks.matching import compare, first_call, measure, upkeep
from benchmarks.matching.workloads import RECIPES, Workload, make, ranges_of
from octopia.matching.kernels import kernels_in_use

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
SWEEP_SELECTIVITIES = (0.0001, 0.001, 0.01, 0.1)
SWEEP_SIZE = 100_000
UPKEEP_SIZE = 100_000


@dataclass(frozen=True)
class Options:
    """What to measure. `limit_s` bounds one query of a peer."""

    workloads: tuple[str, ...] = tuple(RECIPES)
    sizes: tuple[int, ...] = SIZES
    peers: bool = True
    sweep: bool = True
    cold: bool = True
    trace_large: bool = True
    limit_s: float = 8.0


def take(options: Options) -> dict[str, Any]:
    """The figures that the options ask for."""
    console = Console(width=140)
    measure.warm_up()
    cells: list[dict[str, Any]] = []
    for name in options.workloads:
        console.print(f"workload {name}: {RECIPES[name].about}")
        workload = _made(name, max(options.sizes))
        for size in options.sizes:
            cells.append(_cell(workload.head(size), options))
            console.print(_line(cells[-1]))
        del workload
        gc.unfreeze()
    return {
        "versions": {name: version(name) for name in ("numpy", "pyarrow", "numba", "duckdb", "polars")},
        "kernels": kernels_in_use(),
        "clock": "CPU seconds of the process, best of several; the first call: seconds on the wall, median",
        "limit_s": options.limit_s,
        "workloads": {name: {"about": RECIPES[name].about} for name in options.workloads},
        "cells": cells,
        "sweep": _sweep(options) if options.sweep else [],
        "first_call": first_call.measure_first_calls(peers=options.peers, cold=options.cold),
    }


def _made(name: str, size: int) -> Workload:
    """A workload with nothing of it left for the collector to look at."""
    workload = make(name, size, measure.EVENTS_MAX)
    gc.collect()
    gc.freeze()
    return workload


def _cell(workload: Workload, options: Options) -> dict[str, Any]:
    size = len(workload.ids)
    cell, figures = measure.measure(workload, trace=options.trace_large or size < measure.LARGE)
    if options.peers:
        figures["peers"] = compare.compare(cell, figures["batch_events"], options.limit_s)
        if size == min(UPKEEP_SIZE, max(options.sizes)):
            figures["upkeep"] = upkeep.upkeep(cell)
    removal = measure.measure_removal(cell)
    removal["add_per_s"] = max(removal["add_per_s"], figures["add_per_s"])
    return {"workload": workload.name, "subscriptions": size, **figures, **removal}


def _sweep(options: Options) -> list[dict[str, Any]]:
    """Workload B with wider and wider ranges, as many subscriptions each: the cost of matches alone."""
    size = min(SWEEP_SIZE, max(options.sizes))
    found = []
    for selectivity in SWEEP_SELECTIVITIES:
        workload = make("B", size, measure.EVENTS_MAX, recipe=ranges_of(selectivity))
        gc.collect()
        gc.freeze()
        found.append({"subscriptions": size, **measure.measure_matching(workload)})
        gc.unfreeze()
    return found


def _line(cell: dict[str, Any]) -> str:
    return (
        f"  {cell['subscriptions']:>9,} subscriptions, {cell['matches_per_event']:,.1f} matches: "
        f"{cell['single_per_s']:,.0f} single/s, {cell['batch_per_s']:,.0f} batch/s, {cell['add_per_s']:,.0f} adds/s, "
        f"{cell['remove_per_s']:,.0f} removes/s"
    )
