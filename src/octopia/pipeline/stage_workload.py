"""Stage 3, workload: publishers and subscribers with their filters, brokers and schedules.

`octopia.workload.make_workload` draws the workload in one task: filters are cut from columns of the notifications, so
that task holds these in memory, as every simulation does later. The driver never does. The task leaves the tables in
`.drawn`. Most of the work, counting the matches of each filter, is then done by many tasks
(`stage_truth.counts_of_filters`) and written into the tables of the clients.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from octopia.errors import InputError, PipelineError
from octopia.experiments import Cell
from octopia.language import Filter, parse_filter
from octopia.pipeline.spec import PipelineSpec, workload_parameters_of
from octopia.pipeline.stage_notifications import symbols_of
from octopia.pipeline.stage_truth import counts_of_filters
from octopia.pipeline.stages import Outputs, Stage, Work, read_table
from octopia.pipeline.tasks import Task, run_tasks, task_scratch
from octopia.pipeline.worker_files import copy_to, read_arrow
from octopia.workload import QUOTES_SCHEMA, make_workload, spread_of, workload_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# About 120 bytes each while the workload is drawn; PUBLICATIONS_MAX of the workload allows as many.
NOTIFICATIONS_MAX: Final = 50_000_000
DRAWN: Final = ".drawn"
_LAST: Final = "changes.parquet"

_TABLES: Final = ("publishers", "subscribers", "publications", "changes")
_WITH_FILTERS: Final = ("publishers", "subscribers", "changes")


class DrawOrder(msgspec.Struct, frozen=True):
    """The cell whose workload is drawn, from the notifications at a place and all symbols of the data."""

    place: str
    cell: Cell
    symbols: tuple[str, ...]


def make_workload_tables(work: Work[PipelineSpec]) -> Outputs:
    """The tables `publishers`, `subscribers`, `publications` and `changes`."""
    rows = work.rows("notifications")
    if rows > NOTIFICATIONS_MAX:
        raise InputError(f"there are more than {NOTIFICATIONS_MAX:,} notifications: lower notifications_per_publisher")
    place = work.place
    work.store.remove(DRAWN)
    work.cleanup.callback(work.store.remove, DRAWN)
    order = DrawOrder(place, work.spec.cell, tuple(symbols_of(work.tables["quotes"])))
    end = run_tasks(work.session, draw_order, [Task("workload", msgspec.json.encode(order))])["workload"]
    if end.answer is None:
        raise (InputError if end.wrong_input else PipelineError)(end.error)
    drawn = {name: read_arrow(place, f"{DRAWN}/{name}.parquet") for name in _WITH_FILTERS}
    measured = _measured(work.tables["notifications"], drawn, rows)
    spread = spread_of(measured["subscribers"]["selectivity"].to_pylist())
    work.notes.append(
        f"selectivity of the subscriptions: {spread.mean:.2%} on average, {spread.least:.2%} to {spread.most:.2%}, "
        f"wanted {work.spec.settings.selectivity:.2%}"
    )
    publications = read_table(work.session, work.store.url(f"{DRAWN}/publications.parquet"))
    return {**measured, "publications": publications}


def draw_order(payload: bytes) -> bytes:
    """In a worker: draw the workload; selectivities are left at 0."""
    order = msgspec.json.decode(payload, type=DrawOrder)
    cell = order.cell
    published = read_arrow(order.place, "notifications", QUOTES_SCHEMA.names).select(QUOTES_SCHEMA.names)
    workload = make_workload(
        cell.workload,
        cell.overlay,
        published.set_column(0, "date", published["date"].cast(pa.date32())),
        cell.bursts,
        order.symbols,
        cell.churn,
        count=lambda filters, table: np.zeros(len(filters), dtype=np.int64),
    )
    tables = workload_tables(workload)
    with task_scratch(), tempfile.TemporaryDirectory(prefix="octopia-workload-") as scratch:
        for name in _TABLES:
            pq.write_table(tables[name], Path(scratch) / f"{name}.parquet", compression="zstd", store_schema=False)
        copy_to(Path(scratch), order.place, DRAWN, _LAST)
    return b"drawn"


def _measured(notifications: "DataFrame", drawn: Mapping[str, pa.Table], rows: int) -> dict[str, pa.Table]:
    """The tables with the share of the notifications that each filter matches. A withdrawal repeats a filter."""
    texts = list(dict.fromkeys(text for table in drawn.values() for text in table["filter"].to_pylist()))
    filters: list[Filter] = [parse_filter(text) for text in texts]
    counted = counts_of_filters(notifications, filters, rows).groupBy("filter").sum("rows").collect()
    shares = {texts[row[0]]: row[1] / rows for row in counted}
    found = {}
    for name, table in drawn.items():
        selectivity = pa.array([shares[text] for text in table["filter"].to_pylist()], pa.float64())
        place = table.schema.get_field_index("selectivity")
        found[name] = table.set_column(place, table.schema.field(place), selectivity)
    return found


WORKLOAD: Final = Stage(
    name="workload",
    about="publishers, subscribers and their filters, placed on the overlay",
    inputs=("quotes", "notifications"),
    outputs=_TABLES,
    make=make_workload_tables,
    parameters=lambda spec, _: workload_parameters_of(spec),
    code=(
        "octopia.workload",
        "octopia.language",
        "octopia.topology",
        "octopia.pipeline.spread",
        "octopia.pipeline.stage_truth",
        "octopia.pipeline.stage_workload",
    ),
)
