"""What the first answer costs in a new process: `python -m benchmarks.matching.first_call SYSTEM` prints one as JSON.

Seconds on the wall, since loading code from disk is part of it: importing the system, and its first and second answer
on 1,000 subscriptions of workload A, which are loaded in between without being counted. The matcher's compiled kernels
come from the cache on disk, unless NUMBA_CACHE_DIR names an empty directory: then they are compiled.
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUBSCRIPTIONS = 1_000
RUNS = 3
SYSTEMS = {"octopia": "octopia", "octopia numpy": "octopia", "duckdb": "duckdb", "polars": "polars"}
ROOT = Path(__file__).parents[2]


def measure_first_calls(*, peers: bool, cold: bool) -> dict[str, dict[str, float]]:
    """The middle of a few processes for each system; the first, which may fill caches, is not counted."""
    found = {}
    for system in SYSTEMS if peers else ("octopia", "octopia numpy"):
        _in_new_process(system, {})
        runs = [_in_new_process(system, {}) for _ in range(RUNS)]
        found[system] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            found["octopia, compiling"] = _in_new_process("octopia", {"NUMBA_CACHE_DIR": empty})
    return found


def _in_new_process(system: str, variables: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.matching.first_call", system]
    done = subprocess.run(  # noqa: S603 - this very file
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def measure_here(system: str) -> dict[str, float]:
    """In this process, which must be new."""
    begin = time.perf_counter()
    importlib.import_module(SYSTEMS[system])
    if SYSTEMS[system] == "octopia":
        importlib.import_module("octopia.matching.matcher")
    import_s = time.perf_counter() - begin
    call = _ready(system)
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return {"import_s": import_s, "first_s": times[0], "second_s": times[1]}


def _ready(system: str) -> Callable[[], Any]:
    from benchmarks.matching.workloads import make

    workload = make("A", SUBSCRIPTIONS, 1)
    if SYSTEMS[system] == "octopia":
        from octopia.matching.kernels import use_kernels
        from octopia.matching.matcher import Matcher

        use_kernels("numpy" if system.endswith("numpy") else None)
        matcher: Matcher[int] = Matcher()
        for id, filter in zip(workload.ids, workload.filters, strict=True):
            matcher.add(id, filter)
        return lambda: matcher.match(workload.events.notifications[0])
    from benchmarks.matching.peers import DuckDB, Polars

    peer = (DuckDB if system == "duckdb" else Polars)(workload.table, by_shape=False)
    peer.load(workload.events.batch)
    return peer.run


if __name__ == "__main__":
    print(json.dumps(measure_here(sys.argv[1])))
