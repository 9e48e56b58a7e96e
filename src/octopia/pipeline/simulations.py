"""One simulation of the pipeline's workload, as a worker runs it: tables in, a trace and its judgement out.

    DIR/.runs/NAME/*.parquet    the trace
    DIR/.runs/NAME/done.json    the answer; it comes last, so a folder that has one is complete

Rules of this file: everything follows from the order, which is plain JSON, and from the tables it names, so a run is
the same in any worker; it is `octopia.sim.simulate`, as in `octopia simulate`, and `octopia.sim.check_run` judges it. A
worker writes to its own disk and copies when it is done: an attempt that is killed leaves nothing that counts.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from octopia.experiments import Cell
from octopia.pipeline.places import copy_to, read_arrow
from octopia.sim import Finding, Run, check_run, simulate
from octopia.workload import TABLE_SCHEMAS, workload_from_tables

RUNS: Final = ".runs"
DONE: Final = "done.json"
PROGRESS: Final = ".progress"
# Of a run's time; the rest is checking.
_SHARES: Final = {"advertise": (0.0, 0.1), "subscribe": (0.1, 0.2), "publish": (0.3, 0.6)}
_TELL_S: Final = 0.5


class Order(Struct, frozen=True):
    """What to run, on the tables of which place, and under which name to keep it there."""

    cell: Cell
    place: str
    name: str


class Done(Struct, frozen=True):
    """What became of an order."""

    order: Order
    run: Run
    findings: tuple[Finding, ...]
    selectivity: float


def run_order(payload: bytes) -> bytes:
    """Run an order; the answer is a `Done`."""
    order = msgspec.json.decode(payload, type=Order)
    cell = order.cell
    workload = workload_from_tables({name: read_arrow(order.place, name) for name in TABLE_SCHEMAS})
    with tempfile.TemporaryDirectory(prefix="octopia-run-") as scratch:
        folder = Path(scratch)
        run = simulate(workload, cell.overlay, cell.run, folder, _teller(order))
        findings = check_run(workload, cell.overlay, folder)
        done = Done(order, run, findings, workload.summary().subscriptions.mean)
        answer = msgspec.json.encode(done, order="deterministic")
        (folder / DONE).write_bytes(answer)
        copy_to(folder, order.place, f"{RUNS}/{order.name}", DONE)
    return answer


def _teller(order: Order) -> Callable[[str, int, int, int], None] | None:
    """Notes beside the runs how far this one is; only where a plain file can be written, and best effort."""
    if "://" in order.place:
        return None
    note = Path(order.place) / RUNS / f"{order.name}{PROGRESS}"
    told_at = 0.0

    def tell(phase: str, done: int, of: int, hops: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > _TELL_S:
            told_at = time.monotonic()
            begin, length = _SHARES[phase]
            try:
                note.parent.mkdir(exist_ok=True)
                note.write_text(f"{begin + length * done / max(1, of):.3f}", encoding="ascii")
            except OSError:
                pass

    return tell


def noted_share(place: str, name: str) -> float:
    """How far a run said it is; 0 where it said nothing."""
    try:
        return float((Path(place) / RUNS / f"{name}{PROGRESS}").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0.0


def done_of(found: Any) -> Done | None:
    """The answer in a `done.json` that was read; None for anything else."""
    try:
        return msgspec.convert(found, Done)
    except (msgspec.ValidationError, ValueError):
        return None
