"""A run held against the same run of the second simulator, row by row."""

from pathlib import Path
from typing import Any

from msgspec import UNSET

from octopia.sim import RunSpec, simulate
from octopia.sim.model import Model
from octopia.topology import Scot, Sites
from octopia.workload import Workload
from tests.sim.naive import Naive
from tests.sim.worlds import rows

Rows = list[tuple[Any, ...]]


def same_as_naive(
    folder: Path, world: Workload, overlay: Scot, routing: str, model: Model, sites: Sites | None = None
) -> tuple[Rows, Rows]:
    """Play a world in both, with the same hops, deliveries and expiries; gives the hops and the expiries."""
    naive = Naive(overlay, routing, model, sites)
    naive.play(world, 101_000_003, 53_000_017)
    spec = RunSpec(
        routing=routing,
        model=model,
        advertise_every_ns=101_000_003,
        subscribe_every_ns=53_000_017,
        sites=UNSET if sites is None else sites,
    )
    simulate(world, overlay, spec, folder)
    ids, names = overlay.brokers, [row["name"] for row in rows(folder, "clients")]
    first = len(world.advertisements) + len(world.subscriptions)
    hops = [
        (
            row["kind"], ids[row["sender"]], ids[row["receiver"]], row["hop"], int(row["civ"] or "0", 2),
            row["queued_ns"], row["left_ns"], row["queue"], row["arrived_ns"], row["handled_ns"],
        )
        for row in rows(folder, "hops")
    ]  # fmt: skip

    def received(table: str, *columns: str) -> Rows:
        return [
            (row["request"] - first, names[row["client"]], ids[row["broker"]], *(row[name] for name in columns))
            for row in rows(folder, table)
        ]

    assert sorted(hops) == sorted(naive.hops)
    assert sorted(received("deliveries", "hop", "delivered_ns", "subscriptions")) == sorted(naive.deliveries)
    expired = received("expired", "hop", "at_ns") if (folder / "expired.parquet").exists() else []
    assert sorted(expired) == sorted(naive.expired)
    return hops, expired
