"""Cells of experiments as tasks of Spark: what `octopia.experiments.sweep` does on one machine, on many.

Rules of this file: a cell is run by `octopia.experiments.run_cell`, into the same folder and with the same files as
there, so either can go on with what the other has begun. The folder is one that all machines see. A cell that fails is
tried again and reported; the others go on. Finished cells are not run again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from octopia.experiments import RUNS_FOLDER, Cell, Failure, Result, Sweep, finished, run_cell
from octopia.pipeline.tasks import Task, TaskEnd, run_tasks

if TYPE_CHECKING:
    from octopia.pipeline.session import Session

# Told which share of the work is done, how many cells are, and of how many.
OnShare = Callable[[float, int, int], None]


class CellOrder(Struct, frozen=True):
    """A cell, and the folder that it is run into."""

    cell: Cell
    folder: str


def run_cell_order(payload: bytes) -> bytes:
    """In a worker: run a cell; what comes of it stays in its folder."""
    order = msgspec.json.decode(payload, type=CellOrder)
    run_cell(order.cell, Path(order.folder))
    return order.folder.encode()


def folder_of(cell: Cell, out: Path) -> Path:
    """Where a cell is kept: as `octopia simulate --out OUT/EXPERIMENT` keeps it."""
    return out.absolute() / cell.experiment / RUNS_FOLDER / cell.name


def spark_sweep(
    sessions: "Callable[[], Session]",
    cells: Sequence[Cell],
    out: Path,
    *,
    retries: int = 1,
    on_share: OnShare = lambda share, count, of: None,
) -> Sweep:
    """Run the cells that are not finished yet; all cells' results, in order. No session where there is nothing to do.

    Ctrl-C goes on to the caller: what is finished stays, and the next call takes it up.
    """
    waiting = [cell for cell in cells if finished(cell, folder_of(cell, out)) is None]
    total = sum(cell.cost for cell in waiting) or 1.0
    costs = {str(folder_of(cell, out)): cell.cost for cell in waiting}
    ended = 0.0
    count = len(cells) - len(waiting)

    def end_of(end: TaskEnd) -> None:
        nonlocal ended, count
        ended, count = ended + costs[end.name], count + 1
        on_share(ended / total, count, len(cells))

    ends: dict[str, TaskEnd] = {}
    if waiting:
        on_share(0.0, count, len(cells))
        tasks = [
            Task(folder, msgspec.json.encode(CellOrder(cell, folder)), cell.cost)
            for cell, folder in zip(waiting, costs, strict=True)
        ]
        ends = run_tasks(sessions(), run_cell_order, tasks, retries=retries, on_end=end_of)
    results: list[Result] = []
    failures: list[Failure] = []
    for cell in cells:
        folder = folder_of(cell, out)
        result = finished(cell, folder)
        if result is not None:
            results.append(result)
        else:
            end = ends.get(str(folder))
            failures.append(Failure(cell, end.error if end is not None and end.error else f"{folder}: no result there"))
    return Sweep(results=tuple(results), failures=tuple(failures), reused=len(cells) - len(waiting), interrupted=False)
