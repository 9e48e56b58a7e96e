"""What everyday data costs: each condition beside the plain case, in one process without sockets (`bench.py`).

The plain case: 1,000 content subscriptions of ten clients (`workload.py`), notifications of 200 bytes with eleven
attributes, 200 per read, an advertisement that names attributes only. Every other condition changes what its line says,
and nothing else. Rounds of all conditions take turns, and the median of each is compared with that of the plain case.

`python -m benchmarks.live.conditions [PART OF A NAME ...]` runs some of them.
"""

import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.live.bench import Bench, Pipe
from benchmarks.live.workload import SYMBOLS, advertisement, names_only, quotes, subscriptions
from octopia.language import Filter, parse_filter
from octopia.matching import use_kernels
from octopia.net.broker.live_recording import FactFiles, LiveRecording, RecordOptions
from octopia.net.broker.qos import Qos
from octopia.net.broker.rights import Rights
from octopia.topology import BrokerId
from octopia.wire import check_parcel, publish_frame, subscribe_frame, unsubscribe_frame

CONNECTIONS = 10
POOL = 4_000
ROUNDS = 15
# Beyond what a float can tell apart: nanoseconds since 1970, and numbers made by a generator of ids.
NANOSECOND = 1_790_000_000_000_000_007
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Quote = dict[str, Any]


def text_of(draw: random.Random, size: int = 40) -> str:
    return "".join(draw.choices(LETTERS, k=size))


def _plain() -> list[Filter]:
    return subscriptions(1000)


def _and(condition: Callable[[random.Random], str], every: int = 1) -> Callable[[], list[Filter]]:
    """The plain subscriptions, every so many of them with one more condition."""

    def make() -> list[Filter]:
        draw = random.Random(7)
        return [
            parse_filter(f"{filter} and {condition(draw)}") if number % every == 0 else filter
            for number, filter in enumerate(_plain())
        ]

    return make


def _range(start: str) -> str:
    return f"text >= '{start}' and text < '{start}z'"


def _only(condition: Callable[[random.Random], str]) -> Callable[[], list[Filter]]:
    def make() -> list[Filter]:
        draw = random.Random(8)
        return [parse_filter(condition(draw)) for _ in range(1000)]

    return make


def _change(change: Callable[[random.Random, int, Quote], None]) -> Callable[[], list[Quote]]:
    def make() -> list[Quote]:
        draw, pool = random.Random(9), quotes(POOL)
        for number, quote in enumerate(pool):
            change(draw, number, quote)
        return pool

    return make


def _nanoseconds(every: int) -> Callable[[], list[Quote]]:
    def change(draw: random.Random, number: int, quote: Quote) -> None:
        quote["day"] = NANOSECOND + number if number % every == 0 else number

    return _change(change)


def _set_uid(draw: random.Random, number: int, quote: Quote) -> None:
    quote["day"] = draw.choice(UIDS)


def _attribute_sets(count: int) -> Callable[[], list[Quote]]:
    """Streams of devices: each set has an attribute of its own, and lacks one of the others."""

    def make() -> list[Quote]:
        made = []
        for number, quote in enumerate(quotes(POOL)):
            which = number % count
            changed = dict(quote)
            changed[f"extra{which}"] = number
            changed.pop(("open", "high", "low", "range_percent")[which % 4])
            made.append(changed)
        return made

    return make


UIDS = [(1 << 62) + 7 * n * 1_000_003 + 1 for n in range(2000)]


TICKED = "traffic at 20,000/s, ticks counted"
PATH = "path of 3, remote, snr"


@dataclass(frozen=True)
class Condition:
    """One line of the table. `goal` is a multiple of the plain case, or CPU µs where `unit` says so."""

    name: str
    goal: float | None = None
    unit: str = "×"
    before: str = ""
    filters: Callable[[], list[Filter]] = _plain
    pool: Callable[[], list[Quote]] = lambda: quotes(POOL)
    advertised: Callable[[], Filter] = names_only
    right: str = ""
    per_read: int = 200
    count: int = 4_000  # notifications per round
    fan: bool = False
    fresh: bool = False  # every notification has a text of its own
    tree: str = "path:1"
    clusters: int = 1
    routing: str = "snr"
    qos: Callable[[int], dict[str, Any]] = lambda n: {}
    is_timed: bool = False
    record: float = 0.0
    changes: Callable[[random.Random], str] | None = None  # one for every 200 notifications
    idle: int = 0
    against: str = "plain"
    kernels: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


def _changed(draw: random.Random) -> str:
    return (
        f"class = 'STOCK' and symbol = '{draw.choice(SYMBOLS)}' and close >= {draw.uniform(10, 40):.2f} and volume > 0"
    )


CONDITIONS = (
    Condition("plain"),
    Condition("README's advertisement", 1.15, before="1.4–2.0", advertised=advertisement),
    Condition(
        "a right that tests values", 1.15, before="1.4–2.0",
        advertised=lambda: advertisement("close > 0", "class = 'STOCK'"), right="close > 0 and class = 'STOCK'",
    ),
    Condition("README's, 1 per read", 12, "µs", "27.8", advertised=advertisement, per_read=1, count=800),
    Condition("README's, 4 per read", 4, "µs", "22.0", advertised=advertisement, per_read=4, count=1600),
    Condition("plain, 1 per read", None, "µs", per_read=1, count=800),
    Condition("a value beyond 2^53 in each", 1.2, before="12–15", pool=_nanoseconds(1)),
    Condition("a value beyond 2^53 in 1 of 100", 1.1, before="4.6", pool=_nanoseconds(100)),
    Condition(
        "uid = <64-bit id>", 2, before="557", pool=_change(_set_uid), filters=_only(lambda d: f"day = {d.choice(UIDS)}")
    ),
    Condition(
        "… and uid > <64-bit id>", 2, before="24", pool=_change(_set_uid),
        filters=_and(lambda d: f"day > {d.choice(UIDS)}"),
    ),
    Condition(
        "… and text >= 'abc'", 3, before="551", fresh=True,
        filters=_and(lambda d: f"text >= '{text_of(d, 3)}'"),
    ),
    Condition(
        "… and text like 'ab%'", 3, before="10", fresh=True,
        filters=_and(lambda d: f"text like '{text_of(d, 2)}%'"),
    ),
    Condition(
        "… and text like '%abc%'", 3, before="42", fresh=True,
        filters=_and(lambda d: f"text like '%{text_of(d, 3)}%'"),
    ),
    Condition(
        "… and text not like '%abc%'", 3, before="16", fresh=True,
        filters=_and(lambda d: f"text not like '%{text_of(d, 3)}%'"),
    ),
    Condition(
        "ten of 1,000 with '%abc%'", 1.5, before="9", fresh=True,
        filters=_and(lambda d: f"text like '%{text_of(d, 3)}%'", every=100),
    ),
    Condition("text like '%abc%' alone", None, fresh=True, filters=_only(lambda d: f"text like '%{text_of(d, 3)}%'")),
    Condition("text >= 'abc' and text < 'abd' alone", None, fresh=True,
        filters=_only(lambda d: _range(text_of(d, 2)))),
    Condition(
        "100 attribute sets", 2, before="6.2", pool=_attribute_sets(100),
        advertised=lambda: names_only(f"extra{n}" for n in range(100)),
    ),
    Condition(
        "300 attribute sets", 2, before="12.6", pool=_attribute_sets(300),
        advertised=lambda: names_only(f"extra{n}" for n in range(300)),
    ),
    Condition("recorded, 1 %", 1.15, before="8–11", record=0.01),
    # about as many facts as one file has
    Condition("recorded, all", 3, before="22–27", record=1.0, count=20_000),
    Condition("deadlines on all", 1.5, before="4.4", is_timed=True, qos=lambda n: {"deadline_ms": 60_000}),
    Condition("priority on a tenth", 1.5, before="3.1", qos=lambda n: {"priority": 2} if n % 10 == 0 else {}),
    Condition("100 changes at 20,000/s", 1.5, before="3.1", changes=_changed),
    Condition(
        "100 changes at 20,000/s, with patterns", 1.5, before="5.6", fresh=True,
        filters=_and(lambda d: f"text like '%{text_of(d, 3)}%'", every=100),
        changes=lambda d: f"{_changed(d)} and text like '%{text_of(d, 3)}%'",
    ),
    Condition(TICKED, None, idle=-1),
    Condition("… with 5,000 idle connections", 1.2, before="5.3", idle=5_000, against=TICKED),
    Condition(PATH, None, tree="path:3"),
    Condition("path of 3, remote, idr", None, tree="path:3", routing="idr", against=PATH),
    Condition("path of 3, remote, fdr", 1.5, before="8", tree="path:3", routing="fdr", against=PATH),
    Condition("star:3 × 3, remote, snr", None, tree="star:3", clusters=3),
    Condition(
        "star:3 × 3, remote, fdr", 1.5, before="12", tree="star:3", clusters=3, routing="fdr",
        against="star:3 × 3, remote, snr",
    ),
    Condition("1 → 40, per delivery", None, "µs", filters=lambda: subscriptions(40, fan=True), fan=True),
    Condition("1 → 1, per delivery", None, "µs", filters=lambda: subscriptions(1, fan=True), fan=True),
    Condition("no numba", 12, before="34", kernels="numpy"),
)  # fmt: skip


class Running:
    """A condition with its broker and its load."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.sequence = 0
        self.draw = random.Random(10)
        self.taken: list[float] = []

    async def start(self) -> "Running":
        made = self.condition
        options: dict[str, Any] = {"compiled": made.kernels is None, **made.options}
        if made.is_timed:
            options["qos"] = (Qos(is_timed=True),) * made.clusters
        rights = Rights(advertise=parse_filter(made.right)) if made.right else None
        if made.record:
            self.folder = tempfile.TemporaryDirectory()
            self.files = FactFiles(RecordOptions(Path(self.folder.name), made.record))
            self.recording = options["recorder"] = LiveRecording(BrokerId("a", 0), (), self.files, made.record)
        self.bench = bench = Bench(made.tree, made.clusters, rights=rights, routing=made.routing, **options)
        if len(bench.hosts) > 1:
            await bench.link_all()
        brokers = bench.scot.brokers
        filters = made.filters()
        connections = len(filters) if made.fan else CONNECTIONS
        far = brokers[-1] if len(brokers) > 1 else None
        await bench.subscribe([filters[n::connections] for n in range(connections)], far, made.qos)
        self.publisher = await bench.advertise(made.advertised(), at=brokers[0])
        self.changer: Pipe | None = await bench.connect("changer") if made.changes else None
        self.changes = self._changing() if made.changes else iter(())
        for number in range(max(made.idle, 0)):
            await bench.connect(f"idle{number}")
        self.pool = made.pool()
        await self.round(warm=True)
        return self

    def _changing(self) -> Iterator[bytes]:
        """Subscribe to something new, and withdraw it a hundred changes later."""
        draw, old = random.Random(11), list[str]()
        for number in itertools.count():
            assert self.condition.changes is not None
            filter = parse_filter(self.condition.changes(draw))
            yield subscribe_frame(f"c{number}", filter, "block", True)
            old.append(f"c{number}")
            if len(old) > 50:
                yield unsubscribe_frame(old.pop(0))

    async def round(self, warm: bool = False) -> None:
        made, bench = self.condition, self.bench
        count = made.count if not warm else max(made.count // 2, 2_000)
        frames = []
        for _ in range(count):
            self.sequence += 1
            quote = self.pool[self.sequence % len(self.pool)]
            if made.fresh:
                quote = {**quote, "text": text_of(self.draw)}
            frames.append(publish_frame(check_parcel(quote, "P", self.sequence)[0]))
        reads = [b"".join(frames[at : at + made.per_read]) for at in range(0, count, made.per_read)]
        before, used, since = bench.count(), bench.used_s, 0
        others_s = time.process_time() - time.thread_time()
        for read in reads:
            bench.read(self.publisher, read, made.per_read)
            since += made.per_read
            if self.changer is not None:
                bench.read(self.changer, next(self.changes), 0)
                await asyncio.sleep(0)
            if made.idle and since >= 500:
                # 25 ms at 20,000 a second
                since = 0
                bench.tick()
        await asyncio.sleep(0)
        if not warm:
            each = bench.count() - before if made.fan else count
            # what a recorder writes to disk takes time in a thread of its own
            if made.record == 1:
                self.recording.flush()
            while made.record and any(not one.done() for one in self.files._writing):  # noqa: SLF001
                time.sleep(0.001)
            others_s = time.process_time() - time.thread_time() - others_s
            self.taken.append((bench.used_s - used + max(others_s, 0.0)) / each)


def run_conditions(chosen: Sequence[Condition]) -> list[dict[str, Any]]:
    """Rows for these, and for those that they are compared with."""
    needed = {condition.against for condition in chosen}
    chosen = [condition for condition in CONDITIONS if condition in chosen or condition.name in needed]

    async def main() -> list[Running]:
        running = []
        for condition in chosen:
            use_kernels(condition.kernels)
            running.append(await Running(condition).start())
        for _ in range(ROUNDS):
            for one in running:
                use_kernels(one.condition.kernels)
                await one.round()
        use_kernels(None)
        return running

    running = asyncio.run(main())
    found = {one.condition.name: 1e6 * statistics.quantiles(one.taken, n=5)[0] for one in running}
    rows = []
    for one in running:
        condition, each_us = one.condition, found[one.condition.name]
        rows.append(
            {
                "condition": condition.name,
                "cpu_us_each": each_us,
                "ratio": each_us / found[condition.against],
                "goal": condition.goal,
                "unit": condition.unit,
                "before": condition.before,
            }
        )
    return rows


def show_conditions(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Everyday conditions: CPU of a broker without sockets")
    for column in ("condition", "before", "goal", "CPU µs each", "× plain", ""):
        table.add_column(column, justify="left" if column == "condition" else "right")
    for row in rows:
        reached = row["ratio"] if row["unit"] == "×" else row["cpu_us_each"]
        verdict = "" if row["goal"] is None else "met" if reached <= row["goal"] else "missed"
        goal = "" if row["goal"] is None else f"{row['goal']:g} {row['unit']}"
        table.add_row(
            row["condition"], row["before"], goal, f"{row['cpu_us_each']:.2f}", f"{row['ratio']:.2f}", verdict
        )
    Console(width=120).print(table)


def main() -> int:
    parts = sys.argv[1:]
    show_conditions(run_conditions([c for c in CONDITIONS if not parts or any(part in c.name for part in parts)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
