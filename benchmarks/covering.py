"""What subscribing and withdrawing cost with covering, against none in the same run: all brokers, one process.

The evaluation overlay under `snr`, 100 publishers and 500 to 5,000 subscribers of each shape, subscribed one after the
other and withdrawn in random order. The cost of one is that of all brokers that hear of it, so what is not sent saves
time. Of several rounds the best counts.
`widest` is the worst single withdrawal: of a subscription that covers as many filters as one may.
"""

import gc
import random
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from octopia.embedded import Network
from octopia.language import parse_filter
from octopia.routing import COVERINGS, Advertised, Broker, Subscribed, Unsubscribed
from octopia.routing.covering import COVERED_MAX
from octopia.topology import Scot, parse_tree
from octopia.workload import Workload, WorkloadSpec, make_workload, synthetic_quotes

# by number of subscribers
ROUNDS = {500: 3, 2_000: 2, 5_000: 1}
SHAPES = ("symbols", "mixed", "ranges")
OVERLAY = Scot(parse_tree("evaluation"), 5)

# figures by kind of covering and name
ByKind = dict[str, dict[str, float]]


def run() -> dict[str, Any]:
    quotes = synthetic_quotes(1, 500, 250)
    by_count: dict[int, dict[str, ByKind]] = {}
    for count, rounds in ROUNDS.items():
        shapes = by_count[count] = {}
        for shape in SHAPES:
            spec = WorkloadSpec(subscribers=count, shape=shape, notifications_per_publisher=200)  # type: ignore[arg-type]
            workload = make_workload(spec, OVERLAY, quotes)
            _measure(workload, "none", 100)  # kernels and caches
            shapes[shape] = _best(
                [{kind: _measure(workload, kind, count) for kind in COVERINGS} for _ in range(rounds)]
            )
        _show(count, shapes)
    widest = {covering: _widest(covering) for covering in COVERINGS}
    times = ", ".join(f"{covering} {took:.1f} ms" for covering, took in widest.items())
    Console().print(f"one that covers {COVERED_MAX}, withdrawn: {times}")
    return {"subscribers": by_count, "widest_ms": widest}


def _best(rounds: list[ByKind]) -> ByKind:
    return {
        kind: {name: min(figures[kind][name] for figures in rounds) for name in rounds[0][kind]} for kind in COVERINGS
    }


def _measure(workload: Workload, covering: str, count: int) -> dict[str, float]:
    hops = 0

    def hop(_: object) -> None:
        nonlocal hops
        hops += 1

    network = Network(OVERLAY, "snr", covering=covering, on_hop=hop)
    for each in workload.advertisements:
        network.tell(each.broker, Advertised(each.client, each.id, each.filter))
    network.run_until_quiet()
    some = list(workload.subscriptions[:count])
    figures: dict[str, float] = {}
    hops = 0
    for name, event, order in (
        ("subscribe", Subscribed, some),
        ("withdraw", Unsubscribed, random.Random(1).sample(some, len(some))),
    ):
        gc.collect()
        gc.disable()
        begin = time.process_time()
        for each in order:
            filter = (each.filter,) if event is Subscribed else ()
            network.tell(each.broker, event(each.client, each.id, *filter))
            network.run_until_quiet()
        figures[f"{name}_us"] = (time.process_time() - begin) / len(some) * 1e6
        gc.enable()
        figures[f"{name}_messages"] = hops / len(some)
        if event is Subscribed:
            figures["prt_entries"] = sum(len(b.state.prt) for b in network.brokers.values()) / OVERLAY.broker_count
        hops = 0
    return figures


def _widest(covering: str) -> float:
    """At a broker with many links: milliseconds for the one that covers all that one may cover."""
    inner = max(OVERLAY.brokers, key=lambda id: len(OVERLAY.a_links(id)))
    broker = Broker(inner, OVERLAY, "snr", covering=covering)
    for number in range(COVERED_MAX):
        filter = parse_filter(f"x between {number} and {number + 0.5}")
        broker.handle(Subscribed("S", str(number), filter), 0.0)
    broker.handle(Subscribed("S", "wide", parse_filter("x is not null")), 0.0)
    begin = time.process_time()
    broker.handle(Unsubscribed("S", "wide"), 0.0)
    return (time.process_time() - begin) * 1e3


def _show(count: int, shapes: dict[str, ByKind]) -> None:
    table = Table(title=f"{count:,} subscribers, {OVERLAY}, snr; times relative to none")
    columns = ("shape", "covering", "PRT", "messages to subscribe", "to withdraw", "time to subscribe", "to withdraw")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:2] else "right")
    for shape, by_covering in shapes.items():
        none = by_covering["none"]
        for covering, row in by_covering.items():
            table.add_row(
                shape,
                covering,
                f"{row['prt_entries']:.0f}",
                f"{row['subscribe_messages']:.1f}",
                f"{row['withdraw_messages']:.1f}",
                *(
                    f"{row[f'{n}_us'] / none[f'{n}_us']:.2f} ({row[f'{n}_us']:,.0f} us)"
                    for n in ("subscribe", "withdraw")
                ),
            )
    Console().print(table)
