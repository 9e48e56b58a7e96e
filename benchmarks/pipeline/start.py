"""How long a session takes to start, and its first job: `python -m benchmarks.pipeline.start` prints one as JSON.

Each in a process of its own, since that is what a user waits for; the first, which may fill caches,
is not counted.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS = 3


def measure_start() -> dict[str, float]:
    """The middle of some processes."""
    runs = [_in_new_process() for _ in range(RUNS + 1)][1:]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def measure_demo() -> dict[str, float]:
    """`octopia demo`, as a newcomer runs it: seconds on the wall by stage, and of CPU over all its processes."""
    with tempfile.TemporaryDirectory(prefix="octopia-bench-") as folder:
        before, begin = _children_s(), time.perf_counter()
        command = [sys.executable, "-m", "octopia", "demo", "--out", folder]
        subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  our own command
        took = {"all": time.perf_counter() - begin, "cpu": _children_s() - before}
        manifest = json.loads((Path(folder) / "manifest.json").read_text(encoding="utf-8"))
    stages: dict[str, float] = {}
    for record in manifest["tables"].values():
        # the record of a stage's last table has the time of all
        stages[record["stage"]] = max(stages.get(record["stage"], 0.0), record["took_s"])
    return {**took, **stages}


def _children_s() -> float:
    """CPU seconds of all processes that were started here and have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
