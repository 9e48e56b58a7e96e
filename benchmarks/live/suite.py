"""Cases of the live overlay, each against its goal: CPU µs per notification (what one core could do) and the rate seen.

On a shared machine load, subscribers and brokers take the processor from each other, so the rate that was seen says
little; a broker's CPU time per notification says how many it can carry on a core of its own. After the cases come other
brokers under the same load (`peers`), and what order costs under diversion (`reorder`).
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.live.brokers import Brokers
from benchmarks.live.client import client_rate, latency_us
from benchmarks.live.conditions import CONDITIONS, run_conditions, show_conditions
from benchmarks.live.floor import one_per_read
from benchmarks.live.goals import show_goals
from benchmarks.live.load import Publisher, Subscribers
from benchmarks.live.peers import run_peers
from benchmarks.live.rabbitmq import run_bindings
from benchmarks.live.reorder import run_reorder
from benchmarks.live.size import connection_bytes, idle_share, many_subscriptions, start_s
from benchmarks.live.workload import advertisement, deliveries_each, frames_of, subscriptions


@dataclass(frozen=True)
class Case:
    name: str
    goal_per_s: float | None
    notifications: int
    tree: str = "path:1"
    filters: int = 1000
    connections: int = 10
    fan: bool = False
    # With several, each writes one notification that somebody wants, and the next when all have been delivered: the
    # broker is never idle, and yet no read ever brings it two.
    publishers: int = 1
    # A single publisher writes the next notification when the one before has been delivered: no broker on the path ever
    # reads two.
    waits: bool = False
    per_write: int = 200
    pause_s: float = 0.0
    counts_deliveries: bool = False


PARTS = 5
CASES = (
    Case("1 broker, 1,000 subscriptions, batched", 150_000, 120_000),
    Case("the same, backlogged", None, 240_000, per_write=5000),
    Case("the same, one per read, 40 publishers", 20_000, 24_000, publishers=40),
    Case("the same, one per read, from rest", None, 12_000, per_write=1, pause_s=0.00015),
    Case("1 broker, fan-out 40", 1_000_000, 12_000, filters=40, connections=40, fan=True, counts_deliveries=True),
    Case("path of 3 brokers, 1,000 subscriptions, batched", 100_000, 120_000, tree="path:3"),
    Case("path of 3 brokers, one at a time", None, 12_000, tree="path:3", waits=True),
)


def measure(case: Case) -> dict[str, Any]:
    """One case: CPU of the busiest view, all brokers together, per notification."""
    brokers = Brokers(case.tree, 1).start()
    ports = [brokers.ports[broker] for broker in brokers.scot.brokers]
    filters = subscriptions(case.filters, fan=case.fan)
    groups = [filters[n :: case.connections] for n in range(case.connections)]
    subscribers = Subscribers(ports[-1], groups)
    names = [f"P{n}" for n in range(case.publishers)]
    publishers = [Publisher(ports[0], advertisement(), name) for name in names]
    try:
        each = deliveries_each(groups, case.notifications)
        numbers = [n for n, count in enumerate(each) if count or not (case.waits or case.publishers > 1)]
        rounds = case.notifications // case.publishers
        # Each publisher has its own part of them, so that in a round no two publish the same.
        parts = [numbers[n :: case.publishers][:rounds] for n in range(case.publishers)]
        rounds = min(map(len, parts))
        due = [sum(each[n] for n in of_round) for of_round in zip(*(part[:rounds] for part in parts), strict=True)]
        sent = [frames_of(name, part[:rounds]) for name, part in zip(names, parts, strict=True)]
        # The first part warms up; of the others, the median: this machine is not ours alone.
        stretch = rounds // (PARTS + 1)
        _load(case, publishers, sent, due, subscribers, range(stretch))
        taken = []
        for start in range(stretch, stretch * (PARTS + 1), stretch):
            used_s, begin = brokers.cpu_s(), time.perf_counter()
            _load(case, publishers, sent, due, subscribers, range(start, start + stretch))
            count = sum(due[start : start + stretch]) if case.counts_deliveries else case.publishers * stretch
            taken.append(((brokers.cpu_s() - used_s) / count, (time.perf_counter() - begin) / count))
    finally:
        for publisher in publishers:
            publisher.close()
        subscribers.close()
        brokers.close()
    cpu_s, wall_s = (statistics.median(column) for column in zip(*taken, strict=True))
    return {
        "case": case.name,
        "goal_per_s": case.goal_per_s,
        "cpu_us_each": 1e6 * cpu_s,
        "per_s_and_core": len(brokers.scot.brokers) / cpu_s,
        "seen_per_s": 1 / wall_s,
        "bytes": len(sent[0][0]),
        "deliveries_each": sum(due) / (rounds * case.publishers),
    }


def _load(
    case: Case,
    publishers: list[Publisher],
    sent: list[list[bytes]],
    due: list[int],
    subscribers: Subscribers,
    rounds: range,
) -> None:
    """Publish these rounds and wait until all that is due in them has been delivered."""
    if len(publishers) == 1 and not case.waits:
        publishers[0].send(sent[0][rounds.start : rounds.stop], case.per_write, case.pause_s)
    else:
        expected = sum(due[: rounds.start])
        for at in rounds:
            for publisher, frames in zip(publishers, sent, strict=True):
                publisher.send_one(frames[at])
            expected += due[at]
            subscribers.spin_until(expected)
    subscribers.wait_for(sum(due[: rounds.stop]))


PIECES: dict[str, Callable[[], Any]] = {
    **{f"case{number}": partial(measure, case) for number, case in enumerate(CASES, 1)},
    "conditions": lambda: run_conditions(CONDITIONS),
    "floor": one_per_read,
    "client": client_rate,
    "latency": lambda: [latency_us(tree) for tree in ("path:1", "path:3")],
    "peers": run_peers,
    "many": many_subscriptions,
    "memory": connection_bytes,
    "idle": idle_share,
    "start": start_s,
    "bindings": run_bindings,
    "reorder": run_reorder,
}


def run_pieces(names: Iterable[str], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The figures of some parts; other cases keep their earlier figures."""
    figures: dict[str, Any] = {}
    cases = {row["case"]: row for row in (before or {}).get("cases", [])}
    for name in names:
        found = PIECES[name]()
        if name.startswith("case"):
            cases[found["case"]] = found
            figures["cases"] = [cases[case.name] for case in CASES if case.name in cases]
        else:
            figures[name] = found
    return figures


def run() -> dict[str, Any]:
    figures = run_pieces(PIECES)
    show(figures)
    return figures


def show(figures: dict[str, Any]) -> None:
    """Tables of whatever there are figures for."""
    tables: dict[str, Callable[[Any], None]] = {
        "cases": _show,
        "conditions": show_conditions,
        "latency": _show_latency,
        "peers": _show_peers,
        "bindings": _show_bindings,
        "reorder": _show_reorder,
    }
    for name, table in tables.items():
        if name in figures:
            table(figures[name])
    show_goals(figures)


def _show(rows: list[dict[str, Any]]) -> None:
    console = Console(width=130)
    table = Table(title="Live overlay, brokers as processes on loopback")
    for column in ("case", "goal/s", "CPU µs each", "per s and core", "seen/s", "deliveries each"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows:
        table.add_row(
            row["case"],
            f"{row['goal_per_s']:,.0f}" if row["goal_per_s"] else "–",
            f"{row['cpu_us_each']:.2f}",
            f"{row['per_s_and_core']:,.0f}",
            f"{row['seen_per_s']:,.0f}",
            f"{row['deliveries_each']:.1f}",
        )
    console.print(table)


def _show_latency(latency: list[dict[str, Any]]) -> None:
    console = Console(width=130)
    for through in latency:
        centiles = ", ".join(f"{k} {v:,.0f} µs" for k, v in through["us"].items())
        console.print(f"Latency through {through['hops']} broker(s), client to client: {centiles}")
    short, long = latency
    hop_us = (long["us"]["p50"] - short["us"]["p50"]) / (long["hops"] - short["hops"])
    console.print(f"Each broker more adds {hop_us:,.0f} µs to the median (goal 150)")


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
