"""Run one cell: make its workload, simulate it or run it on live brokers, check, measure.

The result depends on the cell alone, so a simulation gives the same result in this process, in another one or in a
Spark task; a run on live brokers also depends on the machine. A folder that contains `result.json` is complete, since
that file is written last and in one piece. The trace is deleted after it was checked and measured unless the caller
keeps it: metrics and series are small, a full trace is not.

Where a workload is already there, as in the pipeline, `play_and_check` does the part of `run_cell` that needs it.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from octopia import metrics
from octopia.errors import InputError
from octopia.experiments import bound
from octopia.experiments.cell import SIMULATED, Cell, QuoteFiles, SyntheticQuotes, WorkloadTables, cell_bytes
from octopia.experiments.losses import JUDGED, LOSSES, Losses, described, despite_crashes, losses_of
from octopia.experiments.reach import REACH, RECOVERY, reach_of, recovery_of
from octopia.experiments.result import SERIES_SCHEMA, MetricRow, Result
from octopia.experiments.settings import point_text
from octopia.experiments.urgency import EXPIRIES, URGENCY, expiries_of, urgency_of
from octopia.routing import policy_named
from octopia.sim import BrokerFault, check_run, simulate
from octopia.testbed import Testbed, run_live
from octopia.topology import Scot
from octopia.workload import (
    Publications,
    Workload,
    interested_subscribers,
    make_workload,
    read_quotes,
    synthetic_quotes,
    urgent_subscribers,
)

RESULT_FILE: Final = "result.json"
SERIES_FILE: Final = "series.parquet"
TRACE_FOLDER: Final = "trace"
# The share of the time spent on simulating; the rest is checking and measuring.
_SIMULATING: Final = 0.6

OnPart = Callable[[float], None]


def run_cell(
    cell: Cell,
    folder: Path,
    *,
    keep_trace: bool = False,
    on_part: OnPart | None = None,
    testbed: Testbed | None = None,
) -> Result:
    """Run a cell into a folder; `on_part` is called now and then with the share that is done.

    `testbed` tells how to start processes if the cell is for live brokers. Whatever an earlier or unfinished run left
    in the folder is removed first.
    """
    if folder.exists():
        shutil.rmtree(folder)
    trace = folder / TRACE_FOLDER
    trace.mkdir(parents=True)
    overlay, workload = cell.overlay, workload_of(cell)
    if cell.folded:
        overlay, workload = bound.folded_overlay(overlay), bound.folded_workload(workload)
    result = play_and_check(cell, workload, overlay, trace, on_part, testbed)
    findings = result.findings
    lost = losses_of(workload, cell.run.faults, trace) if LOSSES.name in cell.metrics else None
    if lost is not None and any(isinstance(fault, BrokerFault) for fault in cell.run.faults):
        findings = despite_crashes(findings, lost, policy_named(cell.run.routing).promises.despite_crashes)
    _tell(on_part, (1 + _SIMULATING) / 2)
    tables = metrics.run(trace, [name for name in cell.metrics if name not in JUDGED], facts=facts_of_cell(result))
    result = structs.replace(
        result,
        rows=(*metric_rows(cell, tables), *_judged_rows(cell, workload, overlay, trace, lost)),
        findings=findings,
    )
    pq.write_table(series_table(cell, tables), folder / SERIES_FILE, compression="zstd")
    if not keep_trace:
        shutil.rmtree(trace)
    save_result(result, folder)
    _tell(on_part, 1.0)
    return result


def play_and_check(
    cell: Cell,
    workload: Workload,
    overlay: Scot,
    trace: Path,
    on_part: OnPart | None = None,
    testbed: Testbed | None = None,
    *,
    deliveries: bool = True,
) -> Result:
    """Play a workload on the host that its cell asks for, and check its trace; the result has no metrics yet.

    `deliveries=False` leaves exactly-once delivery to the caller, as in the pipeline, whose audit checks it.
    """
    tell = None if on_part is None else _progress(cell, workload, on_part)
    if cell.host == SIMULATED:
        run = simulate(workload, overlay, cell.run, trace, tell)
    else:
        where: dict[str, Any] = {"processes": cell.processes, "places": cell.places, "testbed": testbed}
        run = run_live(workload, overlay, cell.run, trace, on_progress=tell, **where)
    return Result(
        cell=cell,
        rows=(),
        findings=check_run(workload, overlay, trace, deliveries=deliveries),
        selectivity=workload.summary().subscriptions.mean,
        run=run,
    )


def facts_of_cell(result: Result) -> metrics.Facts:
    """The facts that metrics need in addition to the trace of a run."""
    cell = result.cell
    return metrics.facts_of(
        result.run, block_notifications=cell.block_notifications, delay_bound_ns=cell.delay_bound_ns
    )


def save_result(result: Result, folder: Path) -> None:
    """Write `result.json` in one piece; it marks the folder as complete."""
    partial = folder / f"{RESULT_FILE}.partial"
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(result, order="deterministic"), indent=1))
    partial.replace(folder / RESULT_FILE)


def finished(cell: Cell, folder: Path, *, with_trace: bool = False) -> Result | None:
    """The result of this cell if the folder contains it, complete; None otherwise."""
    try:
        result = msgspec.json.decode((folder / RESULT_FILE).read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError, ValueError, InputError):
        return None
    if cell_bytes(result.cell) != cell_bytes(cell) or (with_trace and not (folder / TRACE_FOLDER).is_dir()):
        return None
    return result


def workload_of(cell: Cell) -> Workload:
    """The workload of a cell; the same for all systems at one point with one seed."""
    match cell.quotes:
        case QuoteFiles(files):
            quotes = read_quotes([file.path for file in files]).quotes
        case SyntheticQuotes(symbols, days):
            quotes = synthetic_quotes(cell.seed, symbols, days)
        case WorkloadTables():
            raise InputError(f"run {cell.name}: its workload is in the tables of a pipeline; run it there")
    workload = make_workload(cell.workload, cell.overlay, quotes, cell.bursts, churn=cell.churn, wishes=cell.wishes)
    if cell.publishes:
        return workload
    # The notifications have served their purpose: the selectivity of every filter was measured on them.
    nothing = Publications(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    return replace(workload, publications=nothing, notifications=workload.notifications.slice(0, 0))


def metric_rows(cell: Cell, tables: dict[str, Any]) -> list[MetricRow]:
    """The numbers among these metrics of a cell; the tables are those of `octopia.metrics.run`."""
    return [_row(cell, metric, part, value) for metric, part, value in metrics.values_of(tables)]


def _judged_rows(
    cell: Cell, workload: Workload, overlay: Scot, trace: Path, lost: Losses | None
) -> Iterator[MetricRow]:
    """The metrics of a cell that are not SQL over one trace."""
    faults = cell.run.faults
    judges: dict[str, Callable[[], Mapping[str, float | None]]] = {
        LOSSES.name: lambda: {} if lost is None else lost._asdict(),
        REACH.name: lambda: reach_of(workload, faults, trace, cell.delay_bound_ns),
        RECOVERY.name: lambda: recovery_of(overlay, faults, trace),
        URGENCY.name: lambda: urgency_of(workload, _urgent(cell), trace),
        EXPIRIES.name: lambda: expiries_of(workload, trace),
    }
    for metric, judge in judges.items():
        for part, value in judge().items() if metric in cell.metrics else ():
            yield _row(cell, metric, part, None if value is None else float(value))


def _urgent(cell: Cell) -> list[str]:
    """The urgent clients, whatever their priority."""
    if cell.wishes is None:
        return []
    wants_burst = {number for burst in interested_subscribers(cell.workload, cell.bursts) for number in burst}
    return [f"s{number}" for number in urgent_subscribers(cell.workload, cell.wishes, wants_burst)]


def _row(cell: Cell, metric: str, part: str, value: float | None) -> MetricRow:
    point, x = point_text(cell.point), None if isinstance(cell.point, str) else float(cell.point)
    unit = described(metric).unit_of(part)
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


def _progress(cell: Cell, workload: Workload, on_part: OnPart) -> Callable[[str, int, int, int], None]:
    """Converts progress of requests to the share of the whole cell: a request weighs about as much as its messages."""
    counts = {
        "advertise": len(workload.advertisements),
        "subscribe": len(workload.subscriptions),
        "publish": len(workload.publications) + len(workload.changes),
    }
    weights, begins, total = cell.weights, {}, 0
    for phase, count in counts.items():
        begins[phase] = total
        total += weights[phase] * count

    def tell(phase: str, done: int, of: int, hops: int) -> None:
        on_part(_SIMULATING * (begins[phase] + weights[phase] * done) / (total or 1))

    return tell


def _tell(on_part: OnPart | None, share: float) -> None:
    if on_part is not None:
        on_part(share)
