"""Compare the simulator with live brokers under the same workload.

Every cell is run on live brokers, simulated with a model, and simulated again with the model that the first live run
suggests (`octopia.testbed.calibrated`): before and after. The comparison covers numbers that must be equal (messages
between brokers by kind, and deliveries) and numbers that a model can only approximate (delays of delivery, and queue
lengths found by messages). Everything is computed from the traces; nothing is omitted because it differs.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, structs

from octopia.experiments.cell import LIVE, SIMULATED, Cell, make_cells
from octopia.experiments.experiment import Experiment
from octopia.experiments.run_cell import TRACE_FOLDER, run_cell
from octopia.experiments.settings import Settings, changed
from octopia.sim import Finding, LiveFacts, Model, load_model, load_run
from octopia.testbed import Testbed, calibrated, model_toml
from octopia.trace import moments_of_requests, read_columns

VALIDATION_FILE: Final = "validation.json"
MODEL_FILE: Final = "calibrated.toml"
BEFORE: Final = "model"
AFTER: Final = "calibrated"
SIDES: Final = (LIVE, BEFORE, AFTER)
Numbers = npt.NDArray[np.float64]
# Called with a description of the next run.
OnRun = Callable[[str], None]

VALIDATION: Final = Experiment(
    name="validation",
    title="Simulator and live brokers",
    question="does the simulator say what live brokers do?",
    axis="notifications a minute of each publisher",
    settings=Settings(
        vary="rate_per_minute",
        points=(600, 6000, 24_000),
        systems=("snr", "idr"),
        overlay="path:3",
        clusters=3,
        publishers=10,
        subscribers=60,
        selectivity=0.05,
        notifications_per_publisher=200,
        advertise_every_s=0.05,
        subscribe_every_s=0.05,
        symbols=100,
        seeds=1,
        model="live",
    ),
    metrics=("notification_delay", "messages", "deliveries"),
    shown=(),
    paper=False,
)


class Seen(Struct, frozen=True):
    """The measurements of one run: seconds, and numbers of messages."""

    messages: dict[str, int]
    deliveries: int
    delay_mean_s: float
    delay_p50_s: float
    delay_p99_s: float
    queue_mean: float
    queue_p99: float
    queue_max: int

    @property
    def messages_total(self) -> int:
        return sum(self.messages.values())


class Compared(Struct, frozen=True):
    """One system at one rate: live brokers, and the simulator with either model."""

    system: str
    rate_per_minute: float
    sides: dict[str, Seen]
    live: LiveFacts
    findings: dict[str, tuple[Finding, ...]]

    def unequal(self, side: str) -> dict[str, tuple[int, int]]:
        """Kinds of messages whose numbers differ between live brokers and the simulator."""
        mine, theirs = self.sides[LIVE].messages, self.sides[side].messages
        kinds = dict.fromkeys((*mine, *theirs))
        pairs = {kind: (mine.get(kind, 0), theirs.get(kind, 0)) for kind in kinds}
        return {kind: pair for kind, pair in pairs.items() if pair[0] != pair[1]}


class Validation(Struct, frozen=True):
    """All comparisons, and both models."""

    settings: Settings
    before: Model
    after: Model
    compared: tuple[Compared, ...]

    @property
    def broken(self) -> list[tuple[Compared, str, Finding]]:
        return [
            (each, side, finding)
            for each in self.compared
            for side, findings in each.findings.items()
            for finding in findings
            if not finding.passed
        ]


def validate(
    settings: Settings, folder: Path, *, testbed: Testbed | None = None, on_run: OnRun = lambda text: None
) -> Validation:
    """Run everything into a folder. The traces stay there, with `validation.json` and the calibrated model."""
    before = load_model(settings.model)
    live_cells = make_cells(VALIDATION, changed(settings, {"host": LIVE}, "validate"))
    cells = make_cells(VALIDATION, changed(settings, {"host": SIMULATED}, "validate"))
    shutil.rmtree(folder / "runs", ignore_errors=True)
    findings = {
        (cell.name, LIVE): _run(cell, folder, LIVE, on_run, testbed)
        for cell in sorted(live_cells, key=lambda cell: _rate(cell))
    }
    # the slowest, in which messages never wait for each other
    quiet = min(live_cells, key=_rate)
    after = calibrated(trace_of(folder, quiet, LIVE), before)
    (folder / MODEL_FILE).write_text(model_toml(after), encoding="utf-8")
    for side, model in ((BEFORE, before), (AFTER, after)):
        for cell in cells:
            run = structs.replace(cell.run, model=model)
            findings[cell.name, side] = _run(structs.replace(cell, run=run), folder, side, on_run, None)
    compared = tuple(_compared(cell, folder, findings) for cell in cells)
    done = Validation(settings, before, after, compared)
    text = msgspec.json.format(msgspec.json.encode(done, order="deterministic"), indent=1)
    (folder / VALIDATION_FILE).write_bytes(text)
    return done


def trace_of(folder: Path, cell: Cell, side: str) -> Path:
    """The folder of the trace of a run."""
    return folder / "runs" / f"{cell.name}-{side}" / TRACE_FOLDER


def delays_of(trace: Path) -> Numbers:
    """Seconds from publishing to delivery, of every delivery."""
    request, delivered = read_columns(trace, "deliveries", "request", "delivered_ns")
    delays: Numbers = (delivered - moments_of_requests(trace, "issued_ns")[request]) / 1e9
    return delays


def queues_of(trace: Path) -> Numbers:
    """The number of messages that every copy of a notification found in the output queue."""
    read = pq.read_table(trace / "hops.parquet", columns=["kind", "queue"])
    copies = read.filter(pc.equal(read.column("kind").cast("string"), "notify"))
    found: Numbers = copies.column("queue").to_numpy().astype(np.float64)
    return found


def _run(cell: Cell, folder: Path, side: str, on_run: OnRun, testbed: Testbed | None) -> tuple[Finding, ...]:
    on_run(f"{cell.system} at {_rate(cell):g} a minute: {side}")
    return run_cell(cell, trace_of(folder, cell, side).parent, keep_trace=True, testbed=testbed).findings


def _rate(cell: Cell) -> float:
    return cell.workload.rate_per_minute


def _compared(cell: Cell, folder: Path, findings: dict[tuple[str, str], tuple[Finding, ...]]) -> Compared:
    live = load_run(trace_of(folder, cell, LIVE)).live
    assert live is not None  # noqa: S101  it was run on live brokers
    return Compared(
        cell.system,
        _rate(cell),
        {side: _seen(trace_of(folder, cell, side)) for side in SIDES},
        live,
        {side: findings[cell.name, side] for side in SIDES},
    )


def _seen(trace: Path) -> Seen:
    delays, queues = delays_of(trace), queues_of(trace)
    kinds = pq.read_table(trace / "hops.parquet", columns=["kind"]).column("kind").combine_chunks()
    counts = {each["values"]: each["counts"] for each in kinds.cast("string").value_counts().to_pylist()}
    p50, p99 = _percentiles(delays, 50, 99)
    (queue_p99,) = _percentiles(queues, 99)
    return Seen(
        messages=dict(sorted(counts.items())),
        deliveries=len(delays),
        delay_mean_s=float(delays.mean()) if len(delays) else 0.0,
        delay_p50_s=p50,
        delay_p99_s=p99,
        queue_mean=float(queues.mean()) if len(queues) else 0.0,
        queue_p99=queue_p99,
        queue_max=int(queues.max(initial=0)),
    )


def _percentiles(values: Numbers, *which: int) -> Sequence[float]:
    found: Sequence[float] = np.percentile(values, which).tolist() if len(values) else [0.0] * len(which)
    return found
