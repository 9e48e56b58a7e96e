"""A small world for tests of live runs: an overlay, a workload that takes a moment, and how to run it."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from octopia.language import Notification, matches
from octopia.sim import RunSpec, first_numbers
from octopia.topology import Scot, parse_tree
from octopia.workload import ChurnSpec, WishSpec, Workload, WorkloadSpec, make_workload, synthetic_quotes

OVERLAY = Scot(parse_tree("path:2"), 2)
# Far apart beside what a loopback link takes is not needed: static routing sends the same whatever overtakes what.
EVERY_NS = 2_000_000


def workload(churn: ChurnSpec | None = None, wishes: WishSpec | None = None) -> Workload:
    """100 notifications of four publishers, within a moment, for eight subscribers."""
    spec = WorkloadSpec(
        publishers=4, subscribers=8, selectivity=0.2, notifications_per_publisher=25, rate_per_minute=60_000, seed=3
    )
    return make_workload(spec, OVERLAY, synthetic_quotes(3, 20, 250), churn=churn, wishes=wishes)


def run_spec(routing: str = "snr") -> RunSpec:
    return RunSpec(routing=routing, advertise_every_ns=EVERY_NS, subscribe_every_ns=EVERY_NS)


def overlay_file(folder: Path, machines: str = "", more: str = "", tree: str = "path:2") -> Path:
    path = folder / "overlay.toml"
    path.write_text(
        f'[overlay]\ntree = "{tree}"\nclusters = 2\n[placement]\nmachines = ["m1", "m2"]\n'
        f"[brokers]\nport = 7400\nhttp_port = 0\n{machines}\n{more}",
        encoding="utf-8",
    )
    return path


def wanted(played: Workload) -> Counter[tuple[int, str]]:
    """Each notification, by request, with each client that wants it."""
    first, rows = first_numbers(played).publication, played.notifications.to_pylist()
    found: Counter[tuple[int, str]] = Counter()
    for number, row in enumerate(played.publications.row.tolist(), first):
        values = {name: value for name, value in rows[row].items() if value is not None}
        notification = Notification.of(values)
        found.update({(number, each.client) for each in played.subscriptions if matches(each.filter, notification)})
    return found


def pairs(played: Workload, folder: Path, table: str) -> Counter[tuple[int, str]]:
    """The same as a table of the trace says it."""
    names = list(played.clients())
    read = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return Counter((row["request"], names[row["client"]]) for row in read)
