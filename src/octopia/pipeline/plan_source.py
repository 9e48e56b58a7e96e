"""The input of `octopia plan`: a folder of the pipeline, one run of `octopia simulate --keep-traces`, live or not, or
what brokers in production recorded (`octopia serve --record`).

Each has a trace, its workload, the overlay and the run. Nothing else is read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from octopia.errors import InputError
from octopia.experiments import RESULT_FILE, RUNS_FOLDER, Cell, Result, workload_of
from octopia.hints import maybe_meant
from octopia.pipeline.plan_recorded import read_recorded
from octopia.pipeline.recordings import is_recording
from octopia.pipeline.stage_run import results_of_runs
from octopia.pipeline.worker_files import read_arrow
from octopia.sim import RunSpec
from octopia.topology import Scot
from octopia.workload import TABLE_SCHEMAS, Workload, workload_from_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from octopia.pipeline.storage import Store

# The tables of a trace that a plan reads.
READ: Final = ("hops", "deliveries", "requests", "clients", "brokers")
_TRACE: Final = "trace"
# The trace that is made of a recording, for as long as the plan takes.
SCRATCH: Final = ".trace"


@dataclass(frozen=True)
class PlanSource:
    """A trace and its origin. `system` is the value of that column, or None if there is no such column."""

    place: str
    urls: dict[str, str]
    system: str | None
    workload: Workload
    overlay: Scot
    run: RunSpec
    other_routings: tuple[str, ...]


def read_source(store: "Store", system: str | None, scratch: "Callable[[], Store]") -> PlanSource:
    """Open the source at a place; raises `InputError` if something is missing there.

    The trace of a recording is assembled, and put into the folder `SCRATCH` of the store that `scratch` opens.
    """
    if store.exists("runs/_octopia.json"):
        return _pipeline(store, system)
    if store.exists(RESULT_FILE):
        return _simulated(Path(store.place), system)
    if "://" not in store.place and is_recording(Path(store.place)):
        return _recorded(Path(store.place), system, scratch)
    runs = Path(store.place) / RUNS_FOLDER
    if "://" not in store.place and runs.is_dir():
        names = sorted(path.name for path in runs.iterdir() if (path / _TRACE).is_dir())
        if names:
            raise InputError(f"{store.place} has several runs: name one of them, for example {runs / names[0]}")
        raise InputError(f"{store.place}: the runs there have no traces; run octopia simulate with --keep-traces")
    raise InputError(
        f"{store.place} has no trace: give a folder of octopia pipeline run or demo, a run of octopia simulate "
        "--keep-traces, or a folder of octopia serve --record"
    )


def _pipeline(store: "Store", system: str | None) -> PlanSource:
    place = store.url("").rstrip("/")
    cells = {one.cell.system: one.cell for one in results_of_runs(read_arrow(place, "runs"))}
    chosen = _chosen(system, list(cells), store.place)
    workload = workload_from_tables({name: read_arrow(place, name) for name in TABLE_SCHEMAS})
    urls = {name: store.url(name) for name in READ}
    return _source(store.place, urls, chosen, workload, cells[chosen], tuple(cells))


def _simulated(folder: Path, system: str | None) -> PlanSource:
    try:
        result = msgspec.json.decode((folder / RESULT_FILE).read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise InputError(f"{folder / RESULT_FILE}: cannot be read: {error}") from None
    if not (folder / _TRACE).is_dir():
        raise InputError(f"{folder}: this run has no trace; run octopia simulate with --keep-traces")
    cell = result.cell
    if cell.folded:
        raise InputError(f"{folder}: a computed bound has no overlay to plan for; give the run of a routing")
    _chosen(system, [cell.system], str(folder))
    urls = {name: str((folder / _TRACE / f"{name}.parquet").absolute()) for name in READ}
    return _source(str(folder), urls, None, workload_of(cell), cell, (cell.system,))


def _recorded(folder: Path, system: str | None, scratch: "Callable[[], Store]") -> PlanSource:
    found = read_recorded(folder)
    _chosen(system, [found.run.routing], str(folder))
    store = scratch()
    for name in READ:
        store.write_bytes(f"{SCRATCH}/{name}.parquet", parquet_bytes(found.tables[name]))
    urls = {name: store.url(f"{SCRATCH}/{name}.parquet") for name in READ}
    return PlanSource(str(folder), urls, None, found.workload, found.overlay, found.run, ())


def _source(
    place: str, urls: dict[str, str], system: str | None, workload: Workload, cell: Cell, systems: tuple[str, ...]
) -> PlanSource:
    if workload.wishes:
        raise InputError(f"{place}: a workload with priorities or deadlines cannot be planned for")
    others = tuple(name for name in systems if name != cell.system and ":" not in name)
    run = msgspec.structs.replace(cell.run, faults=())
    return PlanSource(place, urls, system, workload, cell.overlay, run, others)


def _chosen(system: str | None, known: list[str], place: str) -> str:
    if system is None:
        return known[0]
    if system not in known:
        raise InputError(f"{place} has no trace of {system!r}{maybe_meant(system, known)}; it has {', '.join(known)}")
    return system


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())
