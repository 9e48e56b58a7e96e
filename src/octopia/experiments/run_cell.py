"""Run one cell: make its workload, simulate, check, measure.

Rules of this file: everything follows from the cell, so the result is the same in this process, in another or in a
Spark task. A folder that holds `result.json` is finished and complete: that file comes last, in one piece. The trace is
thrown away after it was checked and measured, unless it is wanted: metrics and series are small, a full trace is not.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from octopia import metrics
from octopia.errors import InputError
from octopia.experiments import bound
from octopia.experiments.cell import Cell, cell_bytes
from octopia.experiments.losses import JUDGED, LOSSES, Losses, described, despite_crashes, losses_of
from octopia.experiments.result import (
    SERIES_SCHEMA,
    MetricRow,
    Result,
    point_number,
    point_text,
)
from octopia.routing import policy_named
from octopia.sim import BrokerFault, check_run, load_run, simulate
from octopia.workload import Publications, Workload, make_workload, read_quotes, synthetic_quotes

RESULT_FILE: Final = "result.json"
SERIES_FILE: Final = "series.parquet"
TRACE_FOLDER: Final = "trace"
# The share of the time that goes into simulating; the rest is checking and measuring.
_SIMULATING: Final = 0.6

OnPart = Callable[[float], None]


def run_cell(cell: Cell, folder: Path, *, keep_trace: bool = False, on_part: OnPart | None = None) -> Result:
    """Run a cell into a folder; `on_part` is told, now and then, which share of it is done.

    What an earlier, other or unfinished run left in the folder goes first.
    """
    if folder.exists():
        shutil.rmtree(folder)
    trace = folder / TRACE_FOLDER
    trace.mkdir(parents=True)
    overlay, workload = cell.overlay, workload_of(cell)
    if cell.folded:
        overlay, workload = bound.folded_overlay(overlay), bound.folded_workload(workload)
    run = simulate(workload, overlay, cell.run, trace, _progress(cell, workload, on_part))
    findings = check_run(workload, overlay, trace)
    lost = losses_of(workload, cell.run.faults, trace) if LOSSES.name in cell.metrics else None
    if lost is not None and any(isinstance(fault, BrokerFault) for fault in cell.run.faults):
        findings = despite_crashes(findings, lost, policy_named(cell.run.routing).promises.despite_crashes)
    _tell(on_part, (1 + _SIMULATING) / 2)
    facts = metrics.facts_of(
        load_run(trace), block_notifications=cell.block_notifications, delay_bound_ns=cell.delay_bound_ns
    )
    tables = metrics.run(trace, [name for name in cell.metrics if name not in JUDGED], facts=facts)
    result = Result(
        cell=cell,
        rows=(*metric_rows(cell, tables), *_loss_rows(cell, lost)),
        findings=findings,
        selectivity=workload.summary().subscriptions.mean,
        table_rows=run.rows,
    )
    pq.write_table(series_table(cell, tables), folder / SERIES_FILE, compression="zstd")
    if not keep_trace:
        shutil.rmtree(trace)
    partial = folder / f"{RESULT_FILE}.partial"
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(result, order="deterministic"), indent=1))
    partial.replace(folder / RESULT_FILE)
    _tell(on_part, 1.0)
    return result


def finished(cell: Cell, folder: Path, *, with_trace: bool = False) -> Result | None:
    """The result of this very cell if the folder holds it, whole; None otherwise."""
    try:
        result = msgspec.json.decode((folder / RESULT_FILE).read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError, ValueError, InputError):
        return None
    if cell_bytes(result.cell) != cell_bytes(cell) or (with_trace and not (folder / TRACE_FOLDER).is_dir()):
        return None
    return result


def workload_of(cell: Cell) -> Workload:
    """The workload of a cell; the same for all systems at one point with one seed."""
    if cell.quotes:
        quotes = read_quotes([file.path for file in cell.quotes]).quotes
    else:
        quotes = synthetic_quotes(cell.seed, cell.symbols, cell.days)
    workload = make_workload(cell.workload, cell.overlay, quotes, cell.burst)
    if cell.publishes:
        return workload
    # The notifications have served: the selectivity of every filter was measured on them.
    nothing = Publications(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    return replace(workload, publications=nothing, notifications=workload.notifications.slice(0, 0))


def metric_rows(cell: Cell, tables: dict[str, Any]) -> list[MetricRow]:
    """The numbers among these metrics of a cell; the tables are those of `octopia.metrics.run`."""
    return [_row(cell, metric, part, value) for metric, part, value in metrics.values_of(tables)]


def _loss_rows(cell: Cell, lost: Losses | None) -> list[MetricRow]:
    return [] if lost is None else [_row(cell, LOSSES.name, part, float(n)) for part, n in lost._asdict().items()]


def _row(cell: Cell, metric: str, part: str, value: float | None) -> MetricRow:
    point, x = point_text(cell.point), point_number(cell.point)
    unit = described(metric).unit
    return MetricRow(cell.experiment, cell.system, point, x, cell.seed, metric, part, unit, value)


def series_table(cell: Cell, tables: dict[str, Any]) -> pa.Table:
    """The series among these metrics of a cell, as one table."""
    found = [pa.table({name: [] for name in SERIES_SCHEMA.names}, schema=SERIES_SCHEMA)]
    for name, table in tables.items():
        if metrics.METRICS[name].shape == "series":
            same = {
                "experiment": cell.experiment,
                "system": cell.system,
                "point": point_text(cell.point),
                "seed": cell.seed,
                "metric": name,
            }
            columns = {key: pa.array([value] * table.num_rows) for key, value in same.items()}
            columns |= {key: table.column(key) for key in ("part", "at_s", "value")}
            found.append(pa.table(columns).cast(SERIES_SCHEMA))
    return pa.concat_tables(found)


def _progress(cell: Cell, workload: Workload, on_part: OnPart | None) -> Callable[[str, int, int, int], None] | None:
    """From requests made to a share of the whole cell: a request weighs as much as the messages it makes, about."""
    if on_part is None:
        return None
    brokers = len(cell.nodes) * cell.clusters
    weights = {
        "advertise": cell.clusters if policy_named(cell.run.routing).keeps_civ else 5 * brokers,
        "subscribe": len(cell.nodes),
        "publish": min(brokers, 40),
    }
    counts = {
        "advertise": len(workload.advertisements),
        "subscribe": len(workload.subscriptions),
        "publish": len(workload.publications),
    }
    total = sum(weights[phase] * count for phase, count in counts.items()) or 1

    def tell(phase: str, done: int, of: int, hops: int) -> None:
        before = 0
        for name, count in counts.items():
            if name == phase:
                break
            before += weights[name] * count
        on_part(_SIMULATING * (before + weights[phase] * done) / total)

    return tell


def _tell(on_part: OnPart | None, share: float) -> None:
    if on_part is not None:
        on_part(share)
