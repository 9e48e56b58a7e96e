"""Cases of the live overlay, each against its goal: CPU µs per notification (what one core could do) and the rate seen.

On a shared machine load, subscribers and brokers take the processor from each other, so the rate that was seen says
little; a broker's CPU time per notification says how many it can carry on a core of its own. After the cases come other
brokers under the same load (`peers`), and what order costs under diversion (`reorder`).
"""

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.live.brokers import Brokers
from benchmarks.live.client import client_rate, latency_us
from benchmarks.live.load import Publisher, Subscribers
from benchmarks.live.peers import run_peers
from benchmarks.live.rabbitmq import run_bindings
from benchmarks.live.reorder import run_reorder
from benchmarks.live.workload import advertisement, deliveries, frames, subscriptions


@dataclass(frozen=True)
class Case:
    name: str
    goal_per_s: float
    notifications: int
    tree: str = "path:1"
    filters: int = 1000
    connections: int = 10
    fan: bool = False
    per_write: int = 200
    pause_s: float = 0.0
    counts_deliveries: bool = False


CASES = (
    Case("1 broker, 1,000 subscriptions, batched", 150_000, 60_000),
    Case("1 broker, 1,000 subscriptions, one per read", 20_000, 10_000, per_write=1, pause_s=0.00015),
    Case("1 broker, fan-out 40", 1_000_000, 8_000, filters=40, connections=40, fan=True, counts_deliveries=True),
    Case("path of 3 brokers, 1,000 subscriptions, batched", 100_000, 40_000, tree="path:3"),
)


def measure(case: Case) -> dict[str, Any]:
    """One case: CPU of the busiest view, all brokers together, per notification."""
    brokers = Brokers(case.tree, 1).start()
    ports = [brokers.ports[broker] for broker in brokers.scot.brokers]
    filters = subscriptions(case.filters, fan=case.fan)
    groups = [filters[n :: case.connections] for n in range(case.connections)]
    subscribers = Subscribers(ports[-1], groups)
    publisher = Publisher(ports[0], advertisement())
    try:
        sent = frames("P", case.notifications)
        warm = case.notifications // 10
        publisher.send(sent[:warm], case.per_write, case.pause_s)
        before = deliveries(groups, 0, warm)
        subscribers.wait_for(before)
        cpu_s, begin = brokers.cpu_s(), time.perf_counter()
        publisher.send(sent[warm:], case.per_write, case.pause_s)
        delivered = deliveries(groups, warm, case.notifications)
        subscribers.wait_for(before + delivered)
        wall_s = time.perf_counter() - begin
        cpu_s = brokers.cpu_s() - cpu_s
    finally:
        publisher.close()
        subscribers.close()
        brokers.close()
    count = delivered if case.counts_deliveries else case.notifications - warm
    hops = len(brokers.scot.brokers)
    return {
        "case": case.name,
        "goal_per_s": case.goal_per_s,
        "cpu_us_each": 1e6 * cpu_s / count,
        "per_s_and_core": count / cpu_s * hops,
        "seen_per_s": count / wall_s,
        "bytes": len(sent[0]),
        "deliveries": delivered,
        "deliveries_each": delivered / (case.notifications - warm),
    }


def run() -> dict[str, Any]:
    rows = [measure(case) for case in CASES]
    client = client_rate()
    latency = latency_us()
    peers = run_peers()
    bindings = run_bindings()
    reorder = run_reorder()
    _show(rows, client, latency)
    _show_peers(peers)
    _show_bindings(bindings)
    _show_reorder(reorder)
    return {
        "cases": rows,
        "client": client,
        "latency": latency,
        "peers": peers,
        "bindings": bindings,
        "reorder": reorder,
    }


def _show(rows: list[dict[str, Any]], client: dict[str, Any], latency: dict[str, Any]) -> None:
    console = Console(width=130)
    table = Table(title="Live overlay, brokers as processes on loopback")
    for column in ("case", "goal/s", "CPU µs each", "per s and core", "seen/s", "deliveries each"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows:
        table.add_row(
            row["case"],
            f"{row['goal_per_s']:,.0f}",
            f"{row['cpu_us_each']:.2f}",
            f"{row['per_s_and_core']:,.0f}",
            f"{row['seen_per_s']:,.0f}",
            f"{row['deliveries_each']:.1f}",
        )
    console.print(table)
    console.print(
        f"Python client: {client['cpu_us_each']:.2f} CPU µs a publication ({client['per_s_and_core']:,.0f}/s and core)"
    )
    console.print(
        f"Latency through {latency['hops']} broker(s): "
        + ", ".join(f"{k} {v:,.0f} µs" for k, v in latency["us"].items())
    )


def _show_peers(peers: dict[str, Any]) -> None:
    console = Console(width=130)
    table = Table(title="Side by side: the same load, CPU of the server; 200 bytes, joined writes")
    for column in ("server", *(f"{load}: µs a delivery, M/s and core" for load in peers["loads"])):
        table.add_column(column, justify="left" if column == "server" else "right")
    for rows in zip(*peers["loads"].values(), strict=True):
        shown = (f"{row['cpu_us_per_delivery']:.2f}, {row['deliveries_per_s_and_core'] / 1e6:.2f}" for row in rows)
        table.add_row(rows[0]["peer"], *shown)
    console.print(table)
    for name in peers["missing"]:
        console.print(f"{name} is not installed: skipped")


def _show_bindings(bindings: dict[str, Any]) -> None:
    console = Console(width=130)
    table = Table(title="Routing by content: each subscription asks for one symbol; one delivery a message")
    for column in ("server", "bindings", "CPU µs each", "per s and core"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for row in bindings["rows"]:
        each_us = row["cpu_us_per_message"]
        table.add_row(row["peer"], f"{row['bindings']:,}", f"{each_us:.1f}", f"{1e6 / each_us:,.0f}")
    console.print(table)
    if bindings["skipped"]:
        console.print(f"RabbitMQ is skipped: {bindings['skipped']}")


def _show_reorder(rows: list[dict[str, Any]]) -> None:
    console = Console(width=130)
    table = Table(title="Order while IDR goes around a slow link")
    columns = ("ordered", "hold s", "CPU µs each", "detoured", "held", "late", "order broken", "p50 ms", "p99 ms")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row["ordered"]),
            f"{row['hold_s']:g}",
            f"{row['cpu_us_each']:.1f}",
            f"{row['detoured_share']:.0%}",
            f"{row['held_share']:.1%}",
            f"{row['late_share']:.1%}",
            str(row["order_broken_times"]),
            f"{row['delay_ms']['p50']:.0f}",
            f"{row['delay_ms']['p99']:.0f}",
        )
    console.print(table)
