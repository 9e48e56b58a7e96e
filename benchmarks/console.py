"""What a console costs the brokers that it watches: nine brokers, each a process, at 100,000 notifications a second.

A publisher sends Arrow batches at that rate; a subscriber in each cluster takes one notification in a hundred. Periods
without and with a console alternate under this load, and the CPU time of each broker per second is compared: the least
of the rounds with, less the least without. A look is also measured by itself, without load, where less swings: the CPU
time of every broker over many looks, less what the same time costs without them. The console runs as a user starts it,
and its own CPU time is measured, too.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from benchmarks.live.brokers import cpu_s
from octopia.net import Subscription, connect
from octopia.topology import BrokerId
from octopia.watch import Watcher, find

NOTIFICATIONS_PER_S = 100_000
BATCH = 1_000
ROUNDS = 3
PERIOD_S = 8.0
SETTLE_S = 3.0
LOOKS = 400
GOAL_PERCENT = 2.0
PORT, HTTP_PORT, CONSOLE_PORT = 27_400, 29_400, 28_499


class Brokers:
    """`octopia serve FILE --broker …`, nine times."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "overlay.toml"
        self.file.write_text(
            f'[overlay]\ntree = "path:3"\nclusters = 3\n[brokers]\nport = {PORT}\nhttp_port = {HTTP_PORT}\nstate = ""\n'
        )
        self.ids = [BrokerId(region, cluster) for cluster in range(3) for region in "abc"]
        self.ports = {id: PORT + n for n, id in enumerate(self.ids)}
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        for id in self.ids:
            which = f"{id.region},{id.cluster}"
            command = [sys.executable, "-m", "octopia", "serve", str(self.file), "--broker", which]
            started = subprocess.Popen(  # noqa: S603  ourselves
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._processes.append(started)
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def cpu_s(self) -> list[float]:
        return [cpu_s(process.pid) for process in self._processes]


def run() -> dict[str, Any]:
    """The figures, which are printed as well."""
    with tempfile.TemporaryDirectory() as folder, Brokers(Path(folder)) as brokers:
        figures = asyncio.run(_measure(brokers))
    for name, value in figures.items():
        print(f"{name:48} {value}")
    print(f"goal: less than {GOAL_PERCENT} % of a broker's CPU")
    return figures


async def _measure(brokers: Brokers) -> dict[str, Any]:
    look_s = await _look(brokers)
    async with _Load(brokers) as load:
        rounds = [await _round(brokers, load) for _ in range(ROUNDS)]
    without = [min(each) for each in zip(*(one.without for one in rounds), strict=True)]
    watched = [min(each) for each in zip(*(one.watched for one in rounds), strict=True)]
    busiest = max(range(len(without)), key=without.__getitem__)
    return {
        "published_per_s": round(min(one.per_s for one in rounds)),
        "busiest_broker_cpu_s_per_s": round(without[busiest], 4),
        "the_same_with_a_console": round(watched[busiest], 4),
        "percent_of_the_busiest_brokers_cpu": round(100 * (watched[busiest] / without[busiest] - 1), 3),
        "looks": LOOKS,
        "broker_cpu_ms_per_look_mean": round(1e3 * sum(look_s) / len(look_s), 4),
        "broker_cpu_ms_per_look_max": round(1e3 * max(look_s), 4),
        "percent_of_the_busiest_brokers_cpu_for_looks": round(100 * max(look_s) / without[busiest], 4),
        "console_process_percent_of_a_core": round(100 * min(one.console for one in rounds), 3),
    }


class _Load:
    """A publisher that keeps the rate, and a subscriber in each cluster; counts publications."""

    def __init__(self, brokers: Brokers) -> None:
        urls = [f"octopia://127.0.0.1:{brokers.ports[BrokerId(*at)]}" for at in (("a", 0), ("b", 1), ("c", 2))]
        self._publisher, *self._readers = (connect(url) for url in (urls[0], *urls))
        self._tasks: list[asyncio.Task[None]] = []
        self.published = 0

    async def __aenter__(self) -> Self:
        await self._publisher.open()
        await self._publisher.advertise("symbol is not null and price >= 0")
        for reader in self._readers:
            await reader.open()
            subscription = reader.subscribe("symbol = 'S7' and price >= 0", policy="drop_oldest")
            await reader.start_subscription(subscription)
            self._tasks.append(asyncio.create_task(_read(subscription)))
        self._tasks.append(asyncio.create_task(self._publish()))
        await asyncio.sleep(SETTLE_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        clients = (self._publisher, *self._readers)
        # notifications in flight at the end do not count as lost
        await asyncio.gather(*(client.close(0) for client in clients), return_exceptions=True)

    async def _publish(self) -> None:
        """A batch is sent when it is due; late ones follow at once."""
        batch = pa.record_batch(
            {"symbol": [f"S{n % 100}" for n in range(BATCH)], "price": [float(n % 97) for n in range(BATCH)]}
        )
        loop = asyncio.get_running_loop()
        begin, sent = loop.time(), 0
        while True:
            late_s = loop.time() - begin - sent / NOTIFICATIONS_PER_S
            await asyncio.sleep(max(0.0, -late_s))
            sent += await self._publisher.publish_batch(batch)
            self.published = sent


async def _read(subscription: Subscription) -> None:
    async for _ in subscription.lists():
        pass


@dataclass(frozen=True)
class _Round:
    """CPU seconds per second: of each broker without and with a console, and of the console."""

    without: list[float]
    watched: list[float]
    console: float
    per_s: float


async def _round(brokers: Brokers, load: _Load) -> _Round:
    published, begin = load.published, time.perf_counter()
    spent, took_s = await _spent(brokers, asyncio.sleep(PERIOD_S))
    without = [each / took_s for each in spent]
    command = [sys.executable, "-m", "octopia", "console", str(brokers.file), "--listen", f"127.0.0.1:{CONSOLE_PORT}"]
    console = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert console.stdout is not None
        assert (await console.stdout.readline()).startswith(b"http://")
        await asyncio.sleep(SETTLE_S)
        before = cpu_s(console.pid)
        spent, took_s = await _spent(brokers, asyncio.sleep(PERIOD_S))
        own = (cpu_s(console.pid) - before) / took_s
    finally:
        console.terminate()
        await console.wait()
    per_s = (load.published - published) / (time.perf_counter() - begin)
    return _Round(without, [each / took_s for each in spent], own, per_s)


async def _look(brokers: Brokers) -> list[float]:
    """CPU seconds of each broker for one look."""
    watcher = Watcher(await find(brokers.file))
    await watcher.look()
    idle, idle_s = await _spent(brokers, asyncio.sleep(4.0))
    busy, busy_s = await _spent(brokers, _looks(watcher))
    return [max(0.0, b - i * busy_s / idle_s) / LOOKS for b, i in zip(busy, idle, strict=True)]


async def _looks(watcher: Watcher) -> None:
    for _ in range(LOOKS):
        await watcher.look()


async def _spent(brokers: Brokers, work: Awaitable[None]) -> tuple[list[float], float]:
    before, begin = brokers.cpu_s(), time.perf_counter()
    await work
    took_s = time.perf_counter() - begin
    return [after - earlier for after, earlier in zip(brokers.cpu_s(), before, strict=True)], took_s
