"""What watching costs a broker: CPU of `/state`, `/events` and `/tables`, beside what notifications cost it.

A broker in a process of its own has some clients and subscriptions. Its CPU time is taken for so many requests of each
kind and for so many notifications, in turns, and the least of the rounds counts. A watcher that looks once per second
asks for `/state` and, where there are any, new events; that is compared with what the broker would use for 100,000
notifications in a second, at the cost of the same run. The longest pause is the longest time that a client waits for an
answer while a long table is searched, and while it is not.
"""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.live.brokers import Brokers
from benchmarks.tables import Figures, show
from octopia.net import connect
from octopia.topology import BrokerId
from octopia.watch import Place, Reader, Watched

BROKER = BrokerId("a", 0)
SIZES = ((10, 1_000), (100, 10_000), (100, 100_000))
ROUNDS = 3
REQUESTS = 200
NOTIFICATIONS = 20_000
GOAL_RATE = 100_000
# By figure: the path, how often it is asked, and its parameters.
REQUESTS_OF: dict[str, tuple[str, int, dict[str, Any]]] = {
    "state": ("/state", REQUESTS, {}),
    "events": ("/events", REQUESTS, {"since": 0, "limit": 100}),
    "page": ("/tables", REQUESTS, {"table": "subscriptions", "limit": 50}),
    "longest queues": ("/tables", 5, {"table": "clients", "sort": "-queue", "limit": 20}),
    "search": ("/tables", 1, {"table": "subscriptions", "q": "'x77' and", "sort": "id"}),
}


class _Broker:
    """One broker, and its usage."""

    def __init__(self) -> None:
        self._brokers = Brokers("path:1", 1).start()
        self.url = f"octopia://127.0.0.1:{self._brokers.ports[BROKER]}"
        place = Place(self.url, f"http://127.0.0.1:{self._brokers.http_ports[BROKER]}")
        self.reader = Reader(Watched("benchmark", self._brokers.scot, "idr", "", {BROKER: place}))
        self.cpu_s = self._brokers.cpu_s
        self.close = self._brokers.close


async def _request_us(broker: _Broker, path: str, count: int, parameters: dict[str, Any]) -> float:
    before = broker.cpu_s()
    for _ in range(count):
        await broker.reader.get(BROKER, path, 60.0, **parameters)
    return (broker.cpu_s() - before) / count * 1e6


async def _notification_us(broker: _Broker) -> float:
    """One publisher, one subscriber that gets everything."""
    async with connect(broker.url) as publisher, connect(broker.url) as reader:
        await publisher.advertise("symbol is not null and load >= 0")
        async with reader.subscribe("load >= 0", inbox_max=NOTIFICATIONS + 1, policy="block") as numbers:
            before = broker.cpu_s()
            await publisher.publish_many({"symbol": f"S{n % 50}", "load": n} for n in range(NOTIFICATIONS))
            got = 0
            async for _ in numbers:
                got += 1
                if got == NOTIFICATIONS:
                    break
            return (broker.cpu_s() - before) / NOTIFICATIONS * 1e6


async def _pause_ms(broker: _Broker, meanwhile: Awaitable[Any]) -> float:
    """The longest time that a client waits for an answer meanwhile."""
    longest = 0.0
    async with connect(broker.url) as client:
        task = asyncio.ensure_future(meanwhile)
        while not task.done():
            began = time.perf_counter()
            await client.unadvertise("nothing")
            longest = max(longest, time.perf_counter() - began)
        await task
    return longest * 1000


async def _searches(broker: _Broker) -> None:
    for number in range(3):
        await broker.reader.table(BROKER, "subscriptions", q=f"no{number}", sort="-id")


async def _measure(clients: int, subscriptions: int) -> dict[str, float]:
    broker = _Broker()
    try:
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(connect(broker.url, name=f"c{n}")) for n in range(clients)]
            for start in range(0, subscriptions, 1_000):
                some = [
                    (opened[n % clients], f"class = 'STOCK' and symbol = 'X{n}' and price > {n % 97}")
                    for n in range(start, start + 1_000)
                ]
                await asyncio.gather(*(one.start_subscription(one.subscribe(text)) for one, text in some))
            least: dict[str, float] = {}
            for _ in range(ROUNDS):
                for name, (path, count, parameters) in REQUESTS_OF.items():
                    cost = await _request_us(broker, path, count, parameters)
                    least[name] = min(least.get(name, cost), cost)
                    if name == "search":
                        least.setdefault("first search", cost)
                cost = await _notification_us(broker)
                least["notification"] = min(least.get("notification", cost), cost)
            least["watcher, %"] = 100 * (least["state"] + least["events"]) / (GOAL_RATE * least["notification"])
            least["pause, ms"] = await _pause_ms(broker, asyncio.sleep(2.0))
            least["pause in searches, ms"] = await _pause_ms(broker, _searches(broker))
            return least
    finally:
        broker.close()


def run() -> list[dict[str, float]]:
    """All sizes, as a table of CPU microseconds, percent and milliseconds."""
    rows = []
    for clients, subscriptions in SIZES:
        rows.append(
            {"clients": clients, "subscriptions": subscriptions, **asyncio.run(_measure(clients, subscriptions))}
        )
    names = [name for name in rows[0] if name not in ("clients", "subscriptions")]
    head = [
        "CPU µs of the broker",
        *(f"{row['clients']:,} clients, {row['subscriptions']:,} subscriptions" for row in rows),
    ]
    show([Figures("Watching a broker", head, [[name, *(f"{row[name]:,.2f}" for row in rows)] for name in names])])
    return rows
