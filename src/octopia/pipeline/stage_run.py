"""Stage 5, simulate: every system runs the workload, one simulation per task; then the traces become tables.

Runs are kept one by one (`simulations.py`), under names that depend on everything that they depend on. So a sweep that
was stopped, or failed in part, resumes where it was, and adding a system adds one run. A failed run is retried and does
not stop the others; the stage fails only after all have ended, and names those that failed. Every table of a trace
(`octopia.trace.TABLES`) has an additional first column, `system`. The table `runs` has the result of each run.
"""

from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from msgspec import structs

from octopia.errors import PipelineError
from octopia.experiments import RESULT_FILE, Cell, Result, WorkloadTables, cell_bytes, facts_of_cell
from octopia.pipeline.arrow import plain_schema, spark_schema, together
from octopia.pipeline.manifest import digest
from octopia.pipeline.measures import measures_key
from octopia.pipeline.simulations import PROGRESS, RUNS, Order, result_of, run_orders
from octopia.pipeline.spec import PipelineSpec, cells_on_disk, run_parameters_of
from octopia.pipeline.stages import Output, Outputs, Stage, Work, read_table
from octopia.trace import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A row of a trace takes up to a hundred bytes in memory; a Spark job would take longer than these.
HERE_ROWS_MAX: Final = 500_000
_INPUTS: Final = ("publishers", "subscribers", "publications", "notifications", "changes")

RUNS_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("system", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("complete", pa.bool_()),
        pa.field("selectivity", pa.float64()),
        pa.field("publish_from_ns", pa.int64()),
        pa.field("publish_until_ns", pa.int64()),
        pa.field("processor_base_ns", pa.int64()),
        pa.field("client_delay_ns", pa.int64()),
        pa.field("block_notifications", pa.int64()),
        pa.field("delay_bound_ns", pa.int64()),
        pa.field("window_ns", pa.int64()),
        pa.field("broken", pa.int64()),
        pa.field("result", pa.string()),
    ]
)


def make_runs(work: Work[PipelineSpec]) -> Outputs:
    """The table `runs`, and those of the traces."""
    measures = measures_key()
    cells = [_on_tables(work, cell) for cell in cells_on_disk(work.store, work.spec)]
    orders = [Order(cell, work.place, folder_of(cell), measures) for cell in cells]
    found = {order.folder: result_of(work.store.read_json(f"{order.folder}/{RESULT_FILE}")) for order in orders}
    waiting = [order for order in orders if found[order.folder] is None]
    if len(waiting) < len(orders):
        work.notes.append(f"{len(orders) - len(waiting)} of {len(orders)} runs were finished before")
    if waiting:
        found |= _run(work, waiting, len(orders))
    results = [result for result in found.values() if result is not None]
    _forget(work, set(found))
    tables = {name: _trace(work, name, results) for name in TABLES}
    return {"runs": runs_table(results), **tables}


def _on_tables(work: Work[PipelineSpec], cell: Cell) -> Cell:
    """The cell with everything that its run depends on: the workload's tables, and the code."""
    return structs.replace(cell, quotes=WorkloadTables(dict(work.recipe.inputs)), code=work.recipe.code)


def folder_of(cell: Cell) -> str:
    """The folder of a run; the name contains a digest of everything that the run depends on."""
    return f"{RUNS}/{cell.system}-{digest(cell_bytes(cell).decode())}"


def runs_table(results: list[Result]) -> pa.Table:
    """A row per run; the column `result` has all its data as JSON."""
    rows = [
        {
            "run": number,
            "system": one.cell.system,
            "seed": one.cell.seed,
            "complete": one.run.complete,
            "selectivity": one.selectivity,
            **facts_of_cell(one).values(),
            "broken": len(one.broken),
            "result": msgspec.json.encode(one, order="deterministic").decode(),
        }
        for number, one in enumerate(results)
    ]
    return pa.Table.from_pylist(rows, RUNS_SCHEMA)


def results_of_runs(runs: pa.Table) -> list[Result]:
    """Undo `runs_table`, whatever the order of the rows."""
    return [msgspec.json.decode(row["result"], type=Result) for row in runs.sort_by("run").to_pylist()]


def _run(work: Work[PipelineSpec], orders: list[Order], of: int) -> dict[str, Result]:
    ends = run_orders(
        work.session,
        orders,
        retries=work.spec.retries,
        on_share=lambda share, ended: work.tell(share, f"{ended} of {len(orders)} runs"),
    )
    failed = [(order.cell.system, ends[order.folder]) for order in orders if ends[order.folder].answer is None]
    if failed:
        told = "; ".join(f"{system}: {end.error} ({end.attempts} attempts)" for system, end in failed)
        raise PipelineError(f"{len(failed)} of {of} runs failed, the others are kept: {told}")
    return {name: msgspec.json.decode(end.answer or b"", type=Result) for name, end in ends.items()}


def _forget(work: Work[PipelineSpec], folders: set[str]) -> None:
    """Remove runs of other workloads, and notes of progress."""
    there = {f"{RUNS}/{file.name.partition('/')[0]}" for file in work.store.files(RUNS)}
    for folder in sorted(there - folders):
        work.store.remove(folder)
    for folder in folders:
        work.store.remove(f"{folder}{PROGRESS}")


def _trace(work: Work[PipelineSpec], table: str, results: list[Result]) -> "Output":
    """The rows of all runs, each with its system in front: combined here if there are few, otherwise by Spark."""
    rows = sum(one.run.rows[table] for one in results)
    if rows <= HERE_ROWS_MAX:
        return lambda: _trace_here(work, table, results)
    return _trace_by_spark(work, table, results)


def _trace_here(work: Work[PipelineSpec], table: str, results: list[Result]) -> pa.Table:
    parts = []
    for one in results:
        part = work.here(f"{folder_of(one.cell)}/{table}.parquet")
        part = part.cast(plain_schema(part.schema))
        system = pa.array([one.cell.system] * part.num_rows, pa.string())
        parts.append(part.add_column(0, "system", system))
    return pa.concat_tables(parts)


def _trace_by_spark(work: Work[PipelineSpec], table: str, results: list[Result]) -> "DataFrame":
    from pyspark.sql import functions as fn

    frames = []
    for one in results:
        url = work.store.url(f"{folder_of(one.cell)}/{table}.parquet")
        frame = read_table(work.session, url, spark_schema(TABLES[table]))
        frames.append(frame.select(fn.lit(one.cell.system).alias("system"), "*"))
    return together(frames)


SIMULATE: Final = Stage(
    name="simulate",
    about="every system plays the workload; the traces",
    inputs=_INPUTS,
    outputs=("runs", *TABLES),
    make=make_runs,
    parameters=lambda spec, _: run_parameters_of(spec),
    code=(
        "octopia.language",
        "octopia.topology",
        "octopia.matching",
        "octopia.routing",
        "octopia.sim",
        "octopia.trace",
        "octopia.pipeline.simulations",
        "octopia.pipeline.stage_run",
    ),
)
