"""The same work on a standalone cluster of 1, 2 and 4 workers: seconds, tasks, and how evenly they are loaded.

All workers are processes of this machine with one core each, so what can be seen here is not how fast a cluster is but
whether the work is cut so that it could be: the number of tasks, how long the longest takes beside the mean one (the
skew, which bounds what more workers can gain), how many workers had something to do, and what the same work costs in
CPU when it is divided more. Wall time stops falling when the machine's cores are used up.

Tasks and their times are read from Spark's own event log.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.pipeline.cluster import standalone

from benchmarks.pipeline.measure import timed
from octopia.pipeline import Session, SparkSettings, open_session
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
from octopia.pipeline.stages import Event, Runner
from octopia.pipeline.storage import LocalStore
from octopia.pipeline.whole import STAGES

WORKERS = (1, 2, 4)
DAYS = 2000
DATA_STAGES = ("quotes", "notifications", "workload", "truth")


def measure_cluster(rows: int, subscribers: int, workers: tuple[int, ...] = WORKERS) -> list[dict[str, Any]]:
    """Of every stage before a simulation, and of the metrics of one by Spark SQL."""
    found = []
    for count in workers:
        with tempfile.TemporaryDirectory(prefix="octopia-bench-") as scratch:
            found += _measure(Path(scratch), count, rows, subscribers)
    return found


def _measure(scratch: Path, workers: int, rows: int, subscribers: int) -> list[dict[str, Any]]:
    symbols = max(1, rows // DAYS)
    spec = PipelineSpec(
        QuotesSpec(symbols=symbols, days=DAYS),
        pipeline_settings(
            publishers=symbols,
            subscribers=subscribers,
            notifications_per_publisher=DAYS,
            shape="mixed",
            systems=("snr",),
        ),
    )
    log = scratch / "log"
    measured = []
    with standalone(scratch / "cluster", workers) as (address, _), _session(address, log) as session:
        session.spark.range(1000).repartition(8).count()
        for stage in DATA_STAGES:
            begin = time.time()
            event, took = timed(partial(_run, session, scratch / "out", spec, stage))
            cell = {"stage": stage, "workers": workers, "rows": rows, "subscribers": subscribers, **took._asdict()}
            measured.append((begin, time.time(), cell | {"made": dict(event.rows)}))
    tasks = _tasks(log)
    return [cell | _load([task for task in tasks if begin <= task.at < end]) for begin, end, cell in measured]


def _run(session: Session, out: Path, spec: PipelineSpec, stage: str) -> Event:
    (event,) = Runner(LocalStore(out), spec, lambda: session, STAGES).run([stage])
    return event


@contextmanager
def _session(address: str, log: Path) -> "Iterator[Session]":
    log.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "16",
    }
    with open_session(SparkSettings(master=address, conf=conf)) as session:
        yield session


class _Task(NamedTuple):
    """A task of Spark: when it began, in which of Spark's stages, on which executor, and how long it ran."""

    at: float
    stage: int
    executor: str
    ran_s: float


def _tasks(log: Path) -> list[_Task]:
    found = []
    for file in log.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                task, ran = event["Task Info"], event["Task Metrics"]["Executor Run Time"] / 1000
                found.append(_Task(task["Launch Time"] / 1000, event["Stage ID"], task["Executor ID"], ran))
    return found


def _load(tasks: list[_Task]) -> dict[str, Any]:
    """Of Spark's stage that took longest: its tasks, and how evenly they and their executors were loaded."""
    by_stage: dict[int, list[_Task]] = {}
    for task in tasks:
        by_stage.setdefault(task.stage, []).append(task)
    longest = max(by_stage.values(), key=lambda found: sum(task.ran_s for task in found))
    times = [task.ran_s for task in longest]
    by_executor: dict[str, float] = {}
    for task in longest:
        by_executor[task.executor] = by_executor.get(task.executor, 0.0) + task.ran_s
    return {
        "tasks": len(longest),
        "longest_task_s": max(times),
        "mean_task_s": statistics.fmean(times),
        "skew": max(times) / max(1e-9, statistics.fmean(times)),
        "executors": len(by_executor),
        "busiest_executor_share": max(by_executor.values()) / max(1e-9, sum(by_executor.values())),
    }
