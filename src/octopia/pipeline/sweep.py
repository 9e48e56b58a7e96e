"""Cells of experiments as Spark tasks: what `octopia.experiments.sweep` does on one machine, on many.

All machines must see the folder. A failed cell is retried and reported, and does not stop the others. Finished cells
are not run again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from octopia.experiments import RUNS_FOLDER, Cell, Failure, Result, Sweep, finished
from octopia.pipeline.simulations import Order, run_orders

if TYPE_CHECKING:
    from octopia.pipeline.session import Session

# Called with the share of the work that is done, the number of finished cells, and that of all cells.
OnSweep = Callable[[float, int, int], None]


def spark_sweep(
    sessions: "Callable[[], Session]",
    cells: Sequence[Cell],
    out: Path,
    *,
    retries: int = 1,
    on_share: OnSweep = lambda share, count, of: None,
) -> Sweep:
    """Run the unfinished cells; returns the results of all, in order. A session is started only if needed.

    Ctrl-C is passed on to the caller: finished cells are kept, and the next call continues from there.
    """
    place = str(out.absolute())
    orders = [Order(cell, place, f"{cell.experiment}/{RUNS_FOLDER}/{cell.name}") for cell in cells]
    found = {order.folder: finished(order.cell, out / order.folder) for order in orders}
    waiting = [order for order in orders if found[order.folder] is None]
    kept = len(cells) - len(waiting)
    reasons: dict[str, str] = {}
    if waiting:
        on_share(0.0, kept, len(cells))
        tell = lambda share, ended: on_share(share, kept + ended, len(cells))  # noqa: E731
        for folder, end in run_orders(sessions(), waiting, retries=retries, on_share=tell).items():
            if end.answer is None:
                reasons[folder] = end.error
            else:
                found[folder] = msgspec.json.decode(end.answer, type=Result)
    return Sweep(
        results=tuple(result for order in orders if (result := found[order.folder]) is not None),
        failures=tuple(Failure(order.cell, reasons[order.folder]) for order in orders if order.folder in reasons),
        reused=kept,
        interrupted=False,
    )
