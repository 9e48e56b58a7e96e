"""How long a session takes to start, and its first job: `python -m benchmarks.pipeline.start` prints one as JSON.

Rules of this file: each in a process of its own, since that is what a user waits for; the first, which may fill caches,
is not counted.
"""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

RUNS = 3


def measure_start() -> dict[str, float]:
    """The middle of some processes."""
    runs = [_in_new_process() for _ in range(RUNS + 1)][1:]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _in_new_process() -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pipeline.start"], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def measure_here() -> dict[str, Any]:
    """In this process, which must be new."""
    begin = time.perf_counter()
    from benchmarks.pipeline.measure import cpu_s
    from octopia.pipeline import SparkSettings, open_session

    with open_session(SparkSettings(master="local[2]")) as session:
        ready = time.perf_counter()
        session.spark.range(1000).groupBy().count().collect()
        first = time.perf_counter()
        session.spark.range(10).mapInArrow(lambda batches: batches, "id long").collect()
        python = time.perf_counter()
        cpu = cpu_s()
    return {
        "session_s": ready - begin,
        "first_job_s": first - ready,
        "first_python_job_s": python - first,
        "stop_s": time.perf_counter() - python,
        "cpu_s": cpu,
    }


if __name__ == "__main__":
    print(json.dumps(measure_here()))
