"""The peers' figures for one workload at one size, and whether their answers are ours.

A peer's rate is the best it reaches at any size of batch up to ours, since larger batches share the
cost of sorting the subscriptions; it is not asked for a batch that would take longer than the limit by its last rate.
Every answer is compared with ours, pair by pair, on the events that all have seen.
"""

import time
from typing import Any

import pyarrow as pa

from benchmarks.matching.measure import SCAN_TESTS, Cell, best
from benchmarks.matching.peers import DuckDB, NotExpressible, Peer, Polars, scan, shapes
from benchmarks.matching.workloads import Table

PEERS: dict[str, tuple[type[DuckDB | Polars], bool]] = {
    "duckdb": (DuckDB, False),
    "duckdb by shape": (DuckDB, True),
    "polars": (Polars, False),
    "polars by shape": (Polars, True),
}
SAMPLE_EVENTS = 20
STEP = 8


def compare(cell: Cell, batch_events: int, limit_s: float) -> dict[str, Any]:
    """For each peer its rates, or the reason why there is none."""
    found: dict[str, Any] = {"python": _scan(cell)}
    one_shape = len(shapes(cell.workload.table)) == 1
    for name, (kind, by_shape) in PEERS.items():
        if by_shape and one_shape:
            found[name] = {"skipped": "all subscriptions have one shape: the same as one join"}
            continue
        begin = time.process_time()
        try:
            peer = kind(cell.workload.table, by_shape=by_shape)
        except NotExpressible as reason:
            found[name] = {"skipped": str(reason)}
            continue
        load_s = time.process_time() - begin
        found[name] = {"load_per_s": len(cell.workload.ids) / load_s, **_rates(peer, cell, batch_events, limit_s)}
    return found


def best_peer(figures: dict[str, Any], key: str) -> float | None:
    """The highest rate that any peer reached."""
    rates = [peer[key] for peer in figures.values() if key in peer]
    return max(rates, default=None)


def _scan(cell: Cell) -> dict[str, float]:
    """Plain Python tests filter after filter: one by one and in a batch are the same to it."""
    workload = cell.workload
    notifications = workload.events.notifications[: max(1, min(SAMPLE_EVENTS, SCAN_TESTS // len(workload.ids)))]
    begin = time.process_time()
    found = scan(workload.filters, notifications)
    rate = len(notifications) / (time.process_time() - begin)
    ours = [(event, id) for event, n in enumerate(notifications) for id in sorted(cell.matcher.match(n))]
    assert ours == found, f"match and octopia.matches differ on {workload.name}"
    return {"single_per_s": rate, "batch_per_s": rate}


def _rates(peer: Peer, cell: Cell, batch_events: int, limit_s: float) -> dict[str, Any]:
    batch = cell.workload.events.batch
    peer.load(batch.slice(0, 1))
    peer.run()
    elapsed = best(peer.run, 3)
    figures: dict[str, Any] = {"single_per_s": 1 / elapsed, "batch_per_s": 1 / elapsed, "batch_events": 1}
    sample = min(SAMPLE_EVENTS, batch_events)
    if elapsed * sample > limit_s:
        return figures | {"skipped": f"a batch of {sample} events would take over {limit_s:.0f} s"}
    peer.load(batch.slice(0, sample))
    assert _pairs(peer.run()) == _pairs(cell.matcher.match_batch(batch.slice(0, sample))), "a peer's answer differs"
    events = sample
    while True:
        peer.load(batch.slice(0, events))
        elapsed = best(peer.run, 1 if elapsed > limit_s / 4 else 2)
        if events / elapsed > figures["batch_per_s"]:
            figures |= {"batch_per_s": events / elapsed, "batch_events": events}
        following = min(events * STEP, batch_events)
        if events == following or elapsed / events * following > limit_s:
            return figures
        events = following


def _pairs(found: pa.Table | pa.RecordBatch) -> list[tuple[int, int]]:
    return sorted(zip(found.column("event").to_pylist(), found.column("id").to_pylist(), strict=True))


def peers_of(table: Table) -> dict[str, Peer]:
    """Every peer that can express the table, ready to be loaded."""
    found: dict[str, Peer] = {}
    for name, (kind, by_shape) in PEERS.items():
        try:
            found[name] = kind(table, by_shape=by_shape)
        except NotExpressible:
            continue
    return found
