"""Stage 5, simulate: every system plays the workload, one simulation per task; the tables of the traces follow.

Rules of this file: runs are kept one by one (`simulations.py`) under a name that says what they follow from, so a sweep
that was stopped, or that failed in part, goes on where it was, and another system more is one run more. A run that
fails is tried again and never takes the others with it; the stage fails only after all have ended, and says which.
Every table of a trace (`octopia.trace.TABLES`) has one column more, `system`, in front. `runs` says how each went.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from octopia.experiments import Cell
from octopia.metrics import METRICS, facts_of
from octopia.pipeline.failures import PipelineError
from octopia.pipeline.manifest import Parameters, digest, read_record
from octopia.pipeline.simulations import DONE, PROGRESS, RUNS, Done, Order, done_of, noted_share, run_order
from octopia.pipeline.spec import PipelineSpec, SimulateSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work, read_table
from octopia.pipeline.storage import AnyStore
from octopia.pipeline.tasks import Task, TaskEnd, run_tasks
from octopia.sim import RunSpec
from octopia.topology import Scot, Tree
from octopia.trace import TABLES
from octopia.workload import BurstSpec, WorkloadSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXPERIMENT: Final = "pipeline"
_SECOND_NS: Final = 1_000_000_000
_INPUTS: Final = ("publishers", "subscribers", "publications", "notifications")

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
        pa.field("broken", pa.int64()),
        pa.field("done", pa.string()),
    ]
)


def make_runs(work: Work[PipelineSpec]) -> Outputs:
    """The table `runs`, and those of the traces."""
    orders = _orders(work)
    found = {order.name: _finished(work, order) for order in orders}
    kept = sum(done is not None for done in found.values())
    if kept:
        work.notes.append(f"{kept} of {len(orders)} runs were there from before")
    waiting = [order for order in orders if found[order.name] is None]
    ends = _run(work, waiting)
    failed = [end for end in ends.values() if end.answer is None]
    if failed:
        told = "; ".join(f"{end.name.partition('-')[0]}: {end.error} ({end.attempts} attempts)" for end in failed)
        raise PipelineError(f"{len(failed)} of {len(orders)} runs failed, the others are kept: {told}")
    done = [found[order.name] or msgspec.json.decode(ends[order.name].answer or b"", type=Done) for order in orders]
    _forget(work, {order.name for order in orders})
    tables: dict[str, Any] = {name: _trace(work, name, done) for name in TABLES}
    return {"runs": runs_table(done), **tables}


class Played(NamedTuple):
    """What the tables on disk were made for; that alone counts, whatever the settings of other stages are now."""

    workload: WorkloadSpec
    burst: BurstSpec | None
    overlay: Scot


def played(store: AnyStore) -> Played:
    """From the record of the workload."""
    record = read_record(store, "publishers")
    assert record is not None, "the runner has read it"  # noqa: S101
    given = dict(record["parameters"])
    burst, overlay = given.pop("burst"), given.pop("overlay")
    tree = Tree.from_edges([(one, other) for one, other in overlay["edges"]], overlay["nodes"])
    return Played(WorkloadSpec(**given), None if burst is None else BurstSpec(**burst), Scot(tree, overlay["clusters"]))


def cell_of(on: Played, run: SimulateSpec, system: str) -> Cell:
    """The run of one system, in the words of an experiment's cell; its quotes are those of the tables."""
    return Cell(
        experiment=EXPERIMENT,
        system=system,
        point=on.workload.subscribers,
        seed=on.workload.seed,
        nodes=on.overlay.tree.nodes,
        edges=on.overlay.tree.edges,
        clusters=on.overlay.clusters,
        workload=on.workload,
        burst=on.burst,
        publishes=True,
        symbols=0,
        days=0,
        quotes=(),
        run=RunSpec(routing=system, model=run.model, seed=on.workload.seed, tau=run.tau, window_s=run.window_s),
        metrics=tuple(METRICS),
        delay_bound_ns=max(1, round(run.delay_bound_s * _SECOND_NS)),
        block_notifications=run.block_notifications,
    )


def runs_table(done: list[Done]) -> pa.Table:
    """A row per run; `done` is all that is known of it, as JSON."""
    rows = []
    for number, one in enumerate(done):
        cell = one.order.cell
        facts = facts_of(one.run, block_notifications=cell.block_notifications, delay_bound_ns=cell.delay_bound_ns)
        rows.append(
            {
                "run": number,
                "system": cell.system,
                "seed": cell.seed,
                "complete": one.run.complete,
                "selectivity": one.selectivity,
                **facts.values(),
                "broken": sum(not finding.passed for finding in one.findings),
                "done": msgspec.json.encode(one, order="deterministic").decode(),
            }
        )
    return pa.Table.from_pylist(rows, RUNS_SCHEMA)


def done_of_runs(runs: "DataFrame | pa.Table") -> list[Done]:
    """Undo `runs_table`, whatever the order of the rows."""
    rows: list[Any] = runs.to_pylist() if isinstance(runs, pa.Table) else runs.collect()
    return [msgspec.json.decode(row["done"], type=Done) for row in sorted(rows, key=lambda row: row["run"])]


def _orders(work: Work[PipelineSpec]) -> list[Order]:
    """The name holds a digest of all that a run follows from: the tables, the code and the cell."""
    orders = []
    on = played(work.store)
    for system in work.spec.simulate.systems:
        cell = cell_of(on, work.spec.simulate, system)
        key = digest([dict(work.recipe.inputs), work.recipe.code, msgspec.to_builtins(cell)])
        orders.append(Order(cell, _place(work), f"{system}-{key}"))
    return orders


def _place(work: Work[PipelineSpec]) -> str:
    """Where workers find the tables."""
    return work.store.url("").rstrip("/")


def _finished(work: Work[PipelineSpec], order: Order) -> Done | None:
    return done_of(work.store.read_json(f"{RUNS}/{order.name}/{DONE}"))


def _run(work: Work[PipelineSpec], orders: list[Order]) -> dict[str, TaskEnd]:
    if not orders:
        return {}
    costs = {order.name: order.cell.cost for order in orders}
    total = sum(costs.values())
    shares = dict.fromkeys(costs, 0.0)

    def ended(end: TaskEnd) -> None:
        shares[end.name] = 1.0
        tell()

    def tell() -> None:
        for name in shares:
            shares[name] = max(shares[name], noted_share(orders[0].place, name))
        count = sum(share == 1 for share in shares.values())
        share = sum(shares[name] * costs[name] for name in costs) / total
        work.tell(share, f"{count} of {len(orders)} runs")

    tasks = [Task(order.name, msgspec.json.encode(order), order.cell.cost) for order in orders]
    return run_tasks(work.session, run_order, tasks, retries=work.spec.simulate.retries, on_end=ended, on_poll=tell)


def _forget(work: Work[PipelineSpec], names: set[str]) -> None:
    """Runs of other workloads, and notes of progress, are of no use any more."""
    folders = {file.name.partition("/")[0] for file in work.store.files(RUNS)}
    for name in sorted(folders - names):
        work.store.remove(f"{RUNS}/{name}")
    for name in names:
        work.store.remove(f"{RUNS}/{name}{PROGRESS}")


def _trace(work: Work[PipelineSpec], table: str, done: list[Done]) -> "DataFrame":
    from pyspark.sql import functions as fn

    frames = []
    for one in done:
        frame = read_table(work.session, work.store.url(f"{RUNS}/{one.order.name}/{table}.parquet"))
        frames.append(frame.select(fn.lit(one.order.cell.system).alias("system"), "*"))
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def run_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """The systems, the simulated machines, and what the metrics need to know."""
    run = spec.simulate
    return {
        "systems": list(run.systems),
        "model": msgspec.to_builtins(run.model),
        "tau": run.tau,
        "window_s": run.window_s,
        "delay_bound_s": run.delay_bound_s,
        "block_notifications": run.block_notifications,
    }


SIMULATE: Final = Stage(
    name="simulate",
    about="every system plays the workload; the traces",
    inputs=_INPUTS,
    outputs=("runs", *TABLES),
    make=make_runs,
    parameters=run_parameters,
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
