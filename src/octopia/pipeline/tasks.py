"""Many pieces of work as Spark tasks, each a job with one task: one that fails or is stopped does not affect others.

This module knows nothing about the work except bytes in and bytes out. An error of the work comes back as a row, not as
a failed job; it is retried, unless the input is at fault, which would fail again. A job that Spark gives up (its Python
process was killed too often) counts as such an error. Jobs are started from threads, at most as many at once as there
are cores, the most expensive first, so that the last ones to end are short. Ctrl-C cancels them all.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from octopia.errors import InputError, OctopiaError
from octopia.pipeline.arrow import map_arrow, spark_schema
from octopia.pipeline.failures import spark_errors

if TYPE_CHECKING:
    from octopia.pipeline.session import Session

AT_ONCE_MAX: Final = 256
POLL_S: Final = 0.2
CANCEL_S: Final = 15.0
_GROUP: Final = "octopia-tasks"
_ANSWER: Final = pa.schema(
    [pa.field("answer", pa.binary()), pa.field("error", pa.string()), pa.field("again", pa.bool_())]
)
Function = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Task:
    """One piece of work; `cost` is its expected time relative to others."""

    name: str
    payload: bytes
    cost: float = 1.0


@dataclass(frozen=True)
class TaskEnd:
    """The end of a task: an answer, or an error after a number of attempts."""

    name: str
    answer: bytes | None
    error: str
    attempts: int
    # the input is at fault, and retrying would not help
    wrong_input: bool = False


def run_tasks(
    session: "Session",
    function: Function,
    tasks: Sequence[Task],
    *,
    retries: int = 1,
    on_end: Callable[[TaskEnd], None] = lambda end: None,
    on_poll: Callable[[], None] = lambda: None,
) -> dict[str, TaskEnd]:
    """Run all; `on_end` is called with each end as it comes, `on_poll` a few times a second meanwhile."""
    context = session.spark.sparkContext
    at_once = max(1, min(context.defaultParallelism, len(tasks), AT_ONCE_MAX))
    ends: dict[str, TaskEnd] = {}
    executor = ThreadPoolExecutor(at_once, thread_name_prefix="octopia-task")
    open_ones: set[Future[TaskEnd]] = set()
    try:
        for task in sorted(tasks, key=lambda task: -task.cost):
            open_ones.add(executor.submit(_attempts, session, function, task, retries))
        while open_ones:
            done, open_ones = wait(open_ones, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                end = future.result()
                ends[end.name] = end
                on_end(end)
            on_poll()
        return ends
    except BaseException:
        _cancel(context, executor, open_ones)
        raise
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _cancel(context: Any, executor: ThreadPoolExecutor, open_ones: "set[Future[TaskEnd]]") -> None:
    """Cancel repeatedly, since a job that is still being planned cannot be cancelled yet."""
    executor.shutdown(wait=False, cancel_futures=True)
    give_up_at = time.monotonic() + CANCEL_S
    while any(future.running() for future in open_ones) and time.monotonic() < give_up_at:
        with contextlib.suppress(Exception):
            context.cancelJobGroup(_GROUP)
        wait(open_ones, timeout=POLL_S)


def _attempts(session: "Session", function: Function, task: Task, retries: int) -> TaskEnd:
    error = ""
    for attempt in range(1, retries + 2):
        try:
            answer, error, again = _once(session, function, task)
        except OctopiaError as problem:
            answer, error, again = None, str(problem), True
        if answer is not None:
            return TaskEnd(task.name, answer, "", attempt)
        if not again:
            break
    return TaskEnd(task.name, None, error, attempt, wrong_input=not again)


def _once(session: "Session", function: Function, task: Task) -> tuple[bytes | None, str, bool]:
    payload = task.payload

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield pa.RecordBatch.from_pylist([answer_of(function, payload)], _ANSWER)

    with spark_errors(task.name):
        session.spark.sparkContext.setJobGroup(_GROUP, task.name, interruptOnCancel=True)
        (row,) = map_arrow(session.spark.range(0, 1, 1, 1), run, spark_schema(_ANSWER)).collect()
    return (None if row.answer is None else bytes(row.answer)), row.error or "", bool(row.again)


@contextlib.contextmanager
def task_scratch() -> Iterator[None]:
    """In a worker: temporary files go where Spark keeps its own for this application, and are removed with them.

    A task that is cancelled is killed, and cannot clean up. Elsewhere nothing changes.
    """
    from pyspark import SparkFiles

    before = tempfile.tempdir
    # set in workers only; the driver does not need it
    root = getattr(SparkFiles, "_root_directory", None) if getattr(SparkFiles, "_is_running_on_worker", False) else None
    if root is not None and Path(root).is_dir():
        tempfile.tempdir = root
    try:
        yield
    finally:
        tempfile.tempdir = before


def answer_of(function: Function, payload: bytes) -> dict[str, Any]:
    """In a worker: the answer, or the error in one line."""
    try:
        return {"answer": function(payload), "error": None, "again": False}
    except InputError as error:
        return {"answer": None, "error": str(error), "again": False}
    except OctopiaError as error:
        return {"answer": None, "error": str(error), "again": True}
    except Exception as error:  # noqa: BLE001  whatever it is, the other tasks go on
        return {"answer": None, "error": f"{type(error).__name__}: {error}", "again": True}
