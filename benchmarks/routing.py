"""Notifications routed per second through the core, by one process, on the paper's evaluation overlay.

70 brokers, 100 publishers, 2,000 subscriptions, no I/O: every hop is `Broker.handle`. The baseline of the same run is
one process that tests every subscription with `octopia.matches`, as a program without an overlay and an index would.
"""

import cProfile
import gc
import pstats
import random
import time
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.workload import Workload, make
from octopia.embedded import Network
from octopia.language import matches
from octopia.routing import POLICIES, Action, Advertised, Deliver, Published, Subscribed
from octopia.topology import BrokerId, Scot, parse_tree

PUBLISHERS = 100
SUBSCRIBERS = 2_000
NOTIFICATIONS = 2_000
BASELINE_NOTIFICATIONS = 100


class Host:
    """The overlay with its clients connected, counting deliveries."""

    def __init__(self, routing: str, workload: Workload, seed: int) -> None:
        draw = random.Random(seed)
        scot = Scot(parse_tree("evaluation"), 5)
        self.deliveries = 0
        self.hops = 0
        self.network = Network(scot, routing, on_hop=self._hop, on_action=self._action)
        self.homes = [draw.choice(scot.brokers) for _ in workload.advertisements]
        for i, filter in enumerate(workload.advertisements):
            self.network.tell(self.homes[i], Advertised(f"p{i}", "a", filter))
            self.network.run_until_quiet()
        for i, filter in enumerate(workload.subscriptions):
            self.network.tell(draw.choice(scot.brokers), Subscribed(f"s{i}", "s", filter))
            self.network.run_until_quiet()
        self.hops = 0

    def _hop(self, hop: object) -> None:
        self.hops += 1

    def _action(self, broker: BrokerId, action: Action, cause: object) -> None:
        if type(action) is Deliver:
            self.deliveries += len(action.recipients)

    def publish_all(self, workload: Workload) -> None:
        for number, (publisher, notification) in enumerate(workload.notifications):
            self.network.tell(self.homes[publisher], Published(f"p{publisher}", f"n{number}", notification))
            self.network.run_until_quiet()


def run() -> dict[str, Any]:
    workload = make(7, PUBLISHERS, SUBSCRIBERS, NOTIFICATIONS)
    baseline = _baseline(workload)
    rows = {routing: _measure(routing, workload, baseline) for routing in POLICIES}
    profile = _profile(workload)
    _show(rows, baseline, workload, profile)
    return {
        "selectivity": workload.selectivity,
        "baseline_notifications_per_s": baseline,
        "routings": rows,
        "idr_time_share": profile,
    }


def _baseline(workload: Workload) -> float:
    begin = time.process_time()
    for _, notification in workload.notifications[:BASELINE_NOTIFICATIONS]:
        for filter in workload.subscriptions:
            matches(filter, notification)
    return BASELINE_NOTIFICATIONS / (time.process_time() - begin)


def _measure(routing: str, workload: Workload, baseline: float) -> dict[str, float]:
    begin = time.process_time()
    host = Host(routing, workload, 11)
    registered_s = time.process_time() - begin
    # what earlier runs left behind must not be walked by the collector in this one
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    host.publish_all(workload)
    elapsed = time.process_time() - begin
    rate = len(workload.notifications) / elapsed
    return {
        "notifications_per_s": rate,
        "ratio_to_baseline": rate / baseline,
        "hops_per_s": host.hops / elapsed,
        "hops_per_notification": host.hops / len(workload.notifications),
        "deliveries_per_notification": host.deliveries / len(workload.notifications),
        "cpu_us_per_hop": 1e6 * elapsed / host.hops,
        "registration_s": registered_s,
    }


def _profile(workload: Workload) -> dict[str, float]:
    """Share of the time spent in each part of the product, from cProfile, under IDR."""
    host = Host("idr", workload, 11)
    profiler = cProfile.Profile()
    profiler.runcall(host.publish_all, workload)
    shares: Counter[str] = Counter()
    for (file, _, name), (_, _, own_s, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        part = file.split("octopia/", 1)[1].split("/")[0] if "/octopia/" in file else "host and interpreter"
        shares["language" if "accepts" in name else part] += own_s
    total = sum(shares.values())
    return {part: own_s / total for part, own_s in shares.most_common()}


def _show(rows: dict[str, dict[str, float]], baseline: float, workload: Workload, profile: dict[str, float]) -> None:
    console = Console(width=110)
    title = f"Core on the evaluation overlay, {SUBSCRIBERS} subscriptions, selectivity {workload.selectivity:.1%}"
    table = Table(title=title)
    for column in ("routing", "notifications/s", "× baseline", "hops/s", "hops each", "deliveries each", "CPU µs/hop"):
        table.add_column(column, justify="left" if column == "routing" else "right")
    for routing, row in rows.items():
        table.add_row(
            routing,
            f"{row['notifications_per_s']:,.0f}",
            f"{row['ratio_to_baseline']:.1f}",
            f"{row['hops_per_s']:,.0f}",
            f"{row['hops_per_notification']:.1f}",
            f"{row['deliveries_per_notification']:.1f}",
            f"{row['cpu_us_per_hop']:.1f}",
        )
    console.print(table)
    console.print(f"Baseline, every subscription tested with octopia.matches: {baseline:,.0f} notifications/s")
    shares = ", ".join(f"{part} {share:.0%}" for part, share in profile.items() if share >= 0.01)
    console.print(f"Where IDR's time goes (cProfile): {shares}")
