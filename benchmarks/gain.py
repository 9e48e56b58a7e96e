"""How many subscriptions need not travel because others cover them: `python -m benchmarks gain [OPTION ...]`.

Counted from workloads and the tree alone, without a broker: subscriptions are placed on the evaluation overlay, and
each travels on the aLinks of its cluster, away from its host broker. A broker that leaves out covered ones decides by
what it has: per host broker among its own clients' subscriptions, per link among all that it would send on that link.
"One" asks for one subscription that covers; "several" takes one cover for each part of a union, too. Both go through
subscriptions in their order, as brokers do, and another order may leave out more. "At most" is a bound: it counts what
others on the link cover by parts, whether these are sent or not.

Everything follows from the seed. Quotes are made, or read from files (`--quotes`). Clusters are alike, so links are
counted in one of them, which has a fifth of the subscribers.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.tables import Figures, grid, show
from octopia.language import Filter
from octopia.matching import CoverIndex
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.workload import WorkloadSpec, make_workload, read_quotes, synthetic_quotes

SHAPES = ("symbols", "ranges", "mixed")
COUNTS = (500, 1_000, 2_000, 5_000, 100_000)
CLUSTERS = 5
# Only to draw the filters: selectivity is measured on them.
NOTIFICATIONS_PER_PUBLISHER = 200

Numbered = dict[int, Filter]
Reduce = Callable[[Numbered], Numbered]


def main(options: Sequence[str], results: Path, machine: dict[str, Any]) -> int:
    """The command; stores its figures with those of the benchmarks."""
    asked = _arguments(options)
    sources = [
        ("made", synthetic_quotes(asked.seed)),
        *((Path(path).stem, read_quotes([path]).quotes) for path in asked.quotes),
    ]
    rows = [
        {"quotes": name, **measure(spec, quotes)}
        for name, quotes in sources
        for spec in _specs(asked.shapes, asked.subscribers, asked.seed)
    ]
    show([table(rows)])
    if asked.markdown:
        print(grid(*table(rows)[1:]))
    figures = {"trial": "gain", "machine": machine, "figures": rows}
    (results / "gain.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _arguments(options: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gain", description="What covering can save, by workload."
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    parser.add_argument("--subscribers", nargs="+", type=int, default=COUNTS, metavar="N")
    parser.add_argument(
        "--quotes", nargs="+", default=(), metavar="FILE", help="quote files, in addition to generated quotes"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="print the table for a page, too")
    return parser.parse_args(options)


def _specs(shapes: Sequence[Any], counts: Sequence[int], seed: int) -> list[WorkloadSpec]:
    return [
        WorkloadSpec(subscribers=count, shape=shape, seed=seed, notifications_per_publisher=NOTIFICATIONS_PER_PUBLISHER)
        for shape in shapes
        for count in counts
    ]


def table(rows: Sequence[dict[str, Any]]) -> Figures:
    """The share of subscription messages on aLinks that covering leaves out."""
    head = ("quotes, shape", "subscribers", "host, one", "host, several", "link, one", "link, several", "link, at most")
    return Figures(
        "Subscription messages that covering leaves out",
        head,
        [
            [
                f"{row['quotes']}, {row['shape']}",
                f"{row['subscribers']:,}",
                *(f"{row[f'{where}_{how}']:.0%}" for where in ("host", "link") for how in ("one", "several")),
                f"{row['link_at_most']:.0%}",
            ]
            for row in rows
        ],
    )


def measure(spec: WorkloadSpec, quotes: Any) -> dict[str, Any]:
    """Shares of the messages that need not be sent."""
    scot = Scot(parse_tree("evaluation"), CLUSTERS)
    subscriptions = make_workload(spec, scot, quotes).subscriptions
    hosted: dict[BrokerId, Numbered] = {broker: {} for broker in scot.cluster(0)}
    for number, subscription in enumerate(subscriptions):
        if subscription.broker in hosted:
            hosted[subscription.broker][number] = subscription.filter
    now = messages(scot, hosted, dict, dict)
    figures: dict[str, Any] = {"shape": spec.shape, "subscribers": spec.subscribers, "messages": now}
    for how, reduce in (("one", partial(kept, together=False)), ("several", partial(kept, together=True))):
        figures[f"host_{how}"] = 1 - messages(scot, hosted, reduce, dict) / now
        figures[f"link_{how}"] = 1 - messages(scot, hosted, dict, reduce) / now
    figures["link_at_most"] = sum(map(coverable, links(scot, hosted, dict, dict).values())) / now
    return figures


def messages(scot: Scot, hosted: dict[BrokerId, Numbered], at_host: Reduce, at_link: Reduce) -> int:
    """How many subscriptions all aLinks carry, where brokers leave out what these do."""
    return sum(map(len, links(scot, hosted, at_host, at_link).values()))


def links(
    scot: Scot, hosted: dict[BrokerId, Numbered], at_host: Reduce, at_link: Reduce
) -> dict[tuple[BrokerId, BrokerId], Numbered]:
    """The subscriptions that each aLink carries, by sender and receiver."""
    own = {broker: at_host(filters) for broker, filters in hosted.items()}
    sent: dict[tuple[BrokerId, BrokerId], Numbered] = {}

    def on_link(sender: BrokerId, receiver: BrokerId) -> Numbered:
        if (sender, receiver) not in sent:
            arrived = [on_link(behind, sender) for behind in scot.a_links(sender) if behind != receiver]
            gathered = {number: filter for part in (own[sender], *arrived) for number, filter in part.items()}
            sent[sender, receiver] = at_link(dict(sorted(gathered.items())))
        return sent[sender, receiver]

    return {(sender, to): on_link(sender, to) for sender in own for to in scot.a_links(sender)}


def coverable(filters: Numbered) -> int:
    """How many of these others cover, each whole or by one for each part; of equal ones all but one at least."""
    index: CoverIndex[Filter] = CoverIndex()
    alike = Counter(filters.values())
    for filter in alike:
        index.add(filter, filter)
    return sum(
        count if index.ask(filter).covering_each(lambda other, asked=filter: other is not asked) else count - 1  # type: ignore[misc]
        for filter, count in alike.items()
    )


def kept(filters: Numbered, *, together: bool) -> Numbered:
    """Those that are left where each is left out that an earlier one covers, or a later one that is sent."""
    index: CoverIndex[int] = CoverIndex()
    for number, filter in filters.items():
        covered = index.covering_together(filter) if together else index.covering(filter) is not None
        if covered:
            continue
        for narrower in index.covered_by(filter):
            index.remove(narrower)
        index.add(number, filter)
    return {number: filters[number] for number in index}
