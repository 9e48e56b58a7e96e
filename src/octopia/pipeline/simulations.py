"""Runs of cells in Spark tasks: those of the pipeline, on its tables, and those of any experiment.

    DIR/.runs/NAME/*.parquet         the trace of a run of the pipeline
    DIR/.runs/NAME/METRIC.parquet    its metrics (`measures.py`), if the trace is small enough
    DIR/.runs/NAME/result.json       the result; written last, so a folder that has one is complete

An order is plain JSON and contains everything that its run depends on, so a run gives the same result in any worker.
A cell with a workload of its own is run by `octopia.experiments.run_cell`, into the folder and with the files of
`octopia simulate`, so either can continue the work of the other. A run on the pipeline's tables is written to the
worker's own disk and copied at the end: an attempt that is killed leaves nothing behind that counts.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from octopia.experiments import (
    RESULT_FILE,
    Cell,
    Result,
    WorkloadTables,
    play_and_check,
    run_cell,
    save_result,
)
from octopia.pipeline.measures import has_duckdb, is_small, measure
from octopia.pipeline.tasks import Task, TaskEnd, run_tasks, task_scratch
from octopia.pipeline.worker_files import copy_to, read_arrow
from octopia.workload import TABLE_SCHEMAS, workload_from_tables

if TYPE_CHECKING:
    from octopia.pipeline.session import Session

RUNS: Final = ".runs"
PROGRESS: Final = ".progress"
_TELL_S: Final = 0.5

# Called with the share of the work that is done, and the number of runs that have ended.
OnShare = Callable[[float, int], None]


class Order(Struct, frozen=True):
    """A cell to run, and the folder of a place to keep it in; the pipeline's tables are at the same place.

    `measures` is the key of the metrics to compute in the same task; "" leaves them to Spark.
    """

    cell: Cell
    place: str
    folder: str
    measures: str = ""


def run_orders(
    session: "Session", orders: Sequence[Order], *, retries: int, on_share: OnShare = lambda share, ended: None
) -> dict[str, TaskEnd]:
    """Run all orders, each in its own task; returns the ends by folder."""
    costs = {order.folder: order.cell.cost for order in orders}
    total = sum(costs.values()) or 1.0
    shares = dict.fromkeys(costs, 0.0)

    def ended(end: TaskEnd) -> None:
        shares[end.name] = 1.0
        tell()

    def tell() -> None:
        for order in orders:
            shares[order.folder] = max(shares[order.folder], _noted_share(order))
        on_share(sum(shares[name] * costs[name] for name in costs) / total, sum(s == 1 for s in shares.values()))

    tasks = [Task(order.folder, msgspec.json.encode(order), order.cell.cost) for order in orders]
    return run_tasks(session, run_order, tasks, retries=retries, on_end=ended, on_poll=tell)


def run_order(payload: bytes) -> bytes:
    """In a worker: run an order; the answer is its `Result`."""
    order = msgspec.json.decode(payload, type=Order)
    if isinstance(order.cell.quotes, WorkloadTables):
        result = _run_on_tables(order)
    else:
        result = run_cell(order.cell, Path(order.place) / order.folder)
    return msgspec.json.encode(result, order="deterministic")


def _run_on_tables(order: Order) -> Result:
    cell = order.cell
    workload = workload_from_tables({name: read_arrow(order.place, name) for name in TABLE_SCHEMAS})
    with task_scratch(), tempfile.TemporaryDirectory(prefix="octopia-run-") as scratch:
        folder = Path(scratch)
        # The audit compares deliveries with the truth, so nothing here does.
        result = play_and_check(cell, workload, cell.overlay, folder, _teller(order), deliveries=False)
        if order.measures and is_small(result.run) and has_duckdb():
            measure(folder, result, order.measures)
        save_result(result, folder)
        copy_to(folder, order.place, order.folder, RESULT_FILE)
    return result


def _teller(order: Order) -> Callable[[float], None] | None:
    """Notes progress beside the run; only where a plain file can be written, and errors do not matter."""
    if "://" in order.place:
        return None
    note = _note(order)
    told_at = 0.0

    def tell(share: float) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > _TELL_S:
            told_at = time.monotonic()
            try:
                note.parent.mkdir(exist_ok=True)
                note.write_text(f"{share:.3f}", encoding="ascii")
            except OSError:
                pass

    return tell


def _noted_share(order: Order) -> float:
    """The progress that a run has noted; 0 if there is none."""
    try:
        return float(_note(order).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


def _note(order: Order) -> Path:
    return Path(order.place) / f"{order.folder}{PROGRESS}"


def result_of(found: Any) -> Result | None:
    """The result in a `result.json` that was read; None for anything else."""
    try:
        return msgspec.convert(found, Result)
    except (msgspec.ValidationError, ValueError):
        return None
