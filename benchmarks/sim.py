"""Simulated hops per second and memory: the paper's full burst under every routing, and growth with the overlay.

Each figure is taken in a process of its own, so that memory is that of one run. The baseline of the same run is an
event loop of a few lines that moves numbers over the same links through one heap, without brokers and without a trace:
what is left when everything that makes the simulator useful is taken away.
"""

import heapq
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from octopia.routing import POLICIES
from octopia.sim import RunSpec, check_run, load_model, simulate
from octopia.topology import Scot, parse_tree
from octopia.workload import BurstSpec, WorkloadSpec, make_workload, synthetic_quotes

BASELINE_HOPS = 1_000_000
# name: routing, tree, clusters, subscribers, notifications of each of 100 publishers, of the burst
Case = tuple[str, str, int, int, int, int]
BURSTS: dict[str, Case] = {
    f"burst, {routing}": (routing, "evaluation", 5, 2_000, 2_000, 100_000) for routing in POLICIES
}
# With the overlay the same clients on more brokers; with subscribers the same brokers.
GROWTH: dict[str, Case] = {
    "70 brokers": ("idr", "evaluation", 5, 2_000, 200, 10_000),
    "665 brokers": ("idr", "balanced:11,2", 5, 2_000, 200, 10_000),
    "6,666 brokers": ("idr", "balanced:10,3", 6, 2_000, 200, 10_000),
    "500 subscribers": ("idr", "evaluation", 5, 500, 200, 10_000),
    "8,000 subscribers": ("idr", "evaluation", 5, 8_000, 200, 10_000),
    "20,000 subscribers": ("idr", "evaluation", 5, 20_000, 200, 10_000),
}


def run() -> dict[str, Any]:
    baseline = _baseline()
    rows = {name: _in_process(case) for name, case in {**BURSTS, **GROWTH}.items()}
    for row in rows.values():
        row["ratio_to_baseline"] = row["hops_per_s"] / baseline
    _show(rows, baseline)
    return {"baseline_hops_per_s": baseline, "runs": rows}


def _baseline() -> float:
    """A heap of (time, number, link): each hop continues over the next link."""
    links = [4_000 + 17 * index for index in range(410)]
    arrivals = [(index, index, index) for index in range(len(links))]
    begin = time.process_time()
    for number in range(len(links), BASELINE_HOPS):
        now, _, link = heapq.heappop(arrivals)
        heapq.heappush(arrivals, (now + links[link], number, (link * 7 + 1) % len(links)))
    return BASELINE_HOPS / (time.process_time() - begin)


def _in_process(case: Case) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "benchmarks.sim", json.dumps(case)], stdout=subprocess.PIPE, check=True
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def measure(case: Case) -> dict[str, Any]:
    """One run: set-up, registrations and publishing separately, and the verdict of the judges."""
    routing, tree, clusters, subscribers, each, burst = case
    overlay = Scot(parse_tree(tree), clusters)
    begin = time.process_time()
    workload = make_workload(
        WorkloadSpec(subscribers=subscribers, notifications_per_publisher=each),
        overlay,
        synthetic_quotes(1, 500, each),
        [BurstSpec(notifications=burst)],
    )
    workload_s = time.process_time() - begin
    moments: dict[str, float] = {}
    registered: dict[str, int] = {}

    def on_progress(phase: str, done: int, of: int, hops: int) -> None:
        moments.setdefault(phase, time.process_time())
        registered.setdefault(phase, hops)

    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        run = simulate(
            workload, overlay, RunSpec(routing=routing, model=load_model("paper")), Path(folder), on_progress
        )
        end = time.process_time()
        disk = sum(file.stat().st_size for file in Path(folder).iterdir())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        judged = time.process_time()
        broken = [finding.rule for finding in check_run(workload, overlay, Path(folder)) if not finding.passed]
        judged = time.process_time() - judged
    return {
        "brokers": overlay.broker_count,
        "hops": run.rows["hops"],
        "deliveries": run.rows["deliveries"],
        "run_s": end - begin,
        "hops_per_s": run.rows["hops"] / (end - begin),
        "workload_s": workload_s,
        "registering_s": moments["publish"] - begin,
        "registering_hops": registered["publish"],
        "judging_s": judged,
        "memory_mb": memory / 1e6,
        "disk_mb": disk / 1e6,
        "broken": broken,
    }


def _show(rows: dict[str, dict[str, Any]], baseline: float) -> None:
    table = Table(title="Simulated runs, CPU seconds of one process")
    for column in ("run", "hops", "deliveries", "s", "hops/s", "× bare heap", "memory MB", "disk MB", "judging s"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['hops']:,}",
            f"{row['deliveries']:,}",
            f"{row['run_s']:.1f}",
            f"{row['hops_per_s']:,.0f}",
            f"{row['ratio_to_baseline']:.2f}",
            f"{row['memory_mb']:,.0f}",
            f"{row['disk_mb']:,.0f}",
            f"{row['judging_s']:.1f}",
        )
    console = Console(width=120)
    console.print(table)
    broken = sorted({rule for row in rows.values() for rule in row["broken"]})
    console.print(f"Bare heap: {baseline:,.0f} hops/s. Broken promises: {', '.join(broken) or 'none'}")


if __name__ == "__main__":
    print(json.dumps(measure(tuple(json.loads(sys.argv[1])))))
