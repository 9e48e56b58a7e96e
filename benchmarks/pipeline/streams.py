"""Broker → Spark → broker: rows a second, end-to-end delay, and what is left when parts of it are killed.

A publisher sends numbered rows to an overlay of `octopia serve` processes. A query in a process of its own subscribes,
adds a column and publishes what it has. A subscriber at another broker takes it. All three share one clock, so the
delay of a row is the time between publishing and receipt. The accounting is exact: every number that was published
came, or is missing; a number that came twice has the same publisher and id both times, or is counted as repeated.

Kills are SIGKILL, while rows flow: of a Python worker that runs tasks, of an executor of a standalone cluster of two
(Spark's `local-cluster`, whose executors are processes), of the whole driver (which is started again from its
checkpoint), of the broker that the query publishes to, and of the broker that it reads from.

The last one is done twice. A broker that was killed has forgotten the query's subscription. Until the query has
subscribed again, what is published there has no subscriber. So the publisher goes on at once in one trial, and in the
other when the query has subscribed again. In both, single rows are published until one comes, which tells when the
subscription was in force: `subscribed_s` after the broker was started again. `confirmed_s` is when the broker had
confirmed the last of the rows that are counted.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import octopia

psutil: Any = import_module("psutil")
SOURCE: Final = "broker of the source"
# The publisher goes on at once, as usual, or when the query has subscribed again.
SOURCE_WAITED_FOR: Final = "broker of the source, publisher waits"
KILLS: Final = ("nothing", "Python worker", "executor", "driver", "broker of the sink", SOURCE, SOURCE_WAITED_FOR)
WAIT_S: Final = 300.0
_PORT: Final = 7400
_QUERY: Final = """
import sys
from octopia.spark import SparkSettings, open_session, register

source, sink, folder, master = sys.argv[1:]
conf = {"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "1"}
with open_session(SparkSettings(master=master, conf=conf)) as session:
    register(session.spark)
    rows = (session.spark.readStream.format("octopia").option("url", source).option("filter", "way = 'in' and n >= 0")
        .option("spool", f"{folder}/spool").schema("n long, sent double").load())
    out = rows.selectExpr("'out' as way", "n", "sent")
    query = (out.writeStream.format("octopia").option("url", sink)
        .option("advertise", "way = 'out' and n >= 0 and sent > 0")
        .option("checkpointLocation", f"{folder}/checkpoint").start())
    print("started", flush=True)
    query.awaitTermination()
"""


class _Row(NamedTuple):
    """A row that came at the far end."""

    publisher: str
    id: str
    n: int
    delay_s: float
    at_s: float


def _numbers(got: "list[_Row]", first: int, end: int) -> set[int]:
    return {one.n for one in got if first <= one.n < end}


def measure_streams(rows: int, kills: tuple[str, ...] = KILLS) -> list[dict[str, Any]]:
    """One run for each kind of kill."""
    return [asyncio.run(_measure(rows, kill)) for kill in kills]


class _Overlay:
    """Two brokers, each a process."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "overlay.toml"
        places = {"a,0": f"{own_host()}:{_PORT}", "b,0": f"{own_host()}:{_PORT + 1}"}
        self.urls = {broker: f"octopia://{place}" for broker, place in places.items()}
        addresses = ", ".join(f'"{broker}" = "{place}"' for broker, place in places.items())
        self.file.write_text(
            f'[overlay]\ntree = "path:2"\nclusters = 1\n[brokers]\naddresses = {{ {addresses} }}\n', encoding="utf-8"
        )
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, broker: str) -> None:
        octopia_command = str(Path(sys.executable).parent / "octopia")
        command = [octopia_command, "serve", str(self.file), "--broker", broker, "--no-state", "--log", "error"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        self._running[broker] = process
        if process.stdout is None or not process.stdout.readline():
            raise RuntimeError(f"broker {broker} did not start")

    def kill(self, broker: str) -> None:
        process = self._running.pop(broker)
        process.kill()
        process.communicate()

    def close(self) -> None:
        for broker in list(self._running):
            self.kill(broker)


def own_host() -> str:
    """A loopback address used by no one else: the number of this process, written as an address."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536 % 250}.{pid // 256 % 256}.{pid % 256}"


@contextmanager
def _query(overlay: _Overlay, folder: Path, master: str) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", _QUERY, overlay.urls["a,0"], overlay.urls["b,0"], str(folder), master]
    with (folder / "query.log").open("a") as log:
        process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        if process.stdout is not None and not process.stdout.readline():
            raise RuntimeError((folder / "query.log").read_text()[-2000:])
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill a driver with its JVM and workers."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.Error:
        family = []
    for one in family:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue
    process.wait()


async def _measure(rows: int, kill: str) -> dict[str, Any]:
    with TemporaryDirectory(prefix="octopia-stream-") as name:
        folder = Path(name)
        overlay = _Overlay(folder)
        try:
            for broker in ("a,0", "b,0"):
                overlay.start(broker)
            return await _run(overlay, folder, rows, kill)
        finally:
            overlay.close()


async def _run(overlay: _Overlay, folder: Path, rows: int, kill: str) -> dict[str, Any]:
    got: list[_Row] = []
    taking = asyncio.create_task(_take(overlay.urls["b,0"], got))
    running: list[Any] = []
    with ExitStack() as stack:
        master = "local-cluster[2,1,1024]" if kill == "executor" else "local[2,8]"
        keeping = asyncio.create_task(_keep_running(overlay, folder, master, running, stack))
        try:
            async with octopia.connect(overlay.urls["a,0"], name="publisher") as publisher:
                await publisher.advertise("way = 'in' and n >= 0 and sent > 0")
                warm = await _warmed(publisher, got)
                begin = time.time()
                await _publish(publisher, range(warm, warm + rows // 2))
                if kill != "nothing":
                    await _until(lambda: len(_numbers(got, warm, warm + rows)) > rows // 20)
                await _kill(kill, overlay, running)
                restarted, told = time.time(), {}
                if kill == SOURCE_WAITED_FOR:
                    told["subscribed_s"] = await _passing(publisher, got, warm + rows) - restarted
                await _publish(publisher, range(warm + rows // 2, warm + rows))
                told["confirmed_s"] = time.time() - restarted
                if kill == SOURCE:
                    told["subscribed_s"] = await _passing(publisher, got, warm + rows) - restarted
                # What a killed broker held is lost, so there may be fewer: until nothing more comes for long.
                quiet_s = 60.0 if kill.startswith("broker") else WAIT_S
                await _until(lambda: len(_numbers(got, warm, warm + rows)) >= rows, quiet_s, got)
        finally:
            taking.cancel()
            keeping.cancel()
    done = _account([one for one in got if warm <= one.n < warm + rows], range(warm, warm + rows), kill, begin)
    return done | told | {"restarts": len(running) - 1}


async def _warmed(publisher: Any, got: list[Any]) -> int:
    """Publish until something comes at the other end; returns the number of the next row."""
    number = 0
    while not got:
        await _publish(publisher, range(number, number + 1))
        number += 1
        await asyncio.sleep(0.2)
    await _until(lambda: max(one.n for one in got) == number - 1)
    return number


async def _passing(publisher: Any, got: list[_Row], number: int) -> float:
    """Publish rows from this number on, one by one, until one comes; returns when the first that came was confirmed."""
    confirmed: dict[int, float] = {}
    for n in range(number, number + round(WAIT_S / 0.05)):
        await _publish(publisher, range(n, n + 1))
        confirmed[n] = time.time()
        await asyncio.sleep(0.05)
        if any(one.n >= number for one in got):
            break
    # those that were on their way before it
    await asyncio.sleep(1.0)
    return min((confirmed[one.n] for one in got if one.n in confirmed), default=float("inf"))


async def _kill(kill: str, overlay: _Overlay, running: list[Any]) -> None:
    if kill == "Python worker":
        workers = _children(running[-1], "pyspark.daemon")
        for worker in workers[1:] or workers:
            worker.send_signal(signal.SIGKILL)
    elif kill == "executor":
        _children(running[-1], "CoarseGrainedExecutorBackend")[0].send_signal(signal.SIGKILL)
    elif kill == "driver":
        _end(running[-1])
    elif kill.startswith("broker"):
        broker = "b,0" if kill == "broker of the sink" else "a,0"
        overlay.kill(broker)
        await asyncio.to_thread(overlay.start, broker)


def _children(query: Any, word: str) -> list[Any]:
    """The processes of a query whose command has this word in it."""
    children = psutil.Process(query.pid).children(recursive=True)
    return [one for one in children if word in " ".join(one.cmdline())]


async def _keep_running(overlay: _Overlay, folder: Path, master: str, running: list[Any], stack: ExitStack) -> None:
    """Restart the query whenever it has ended, as an operator would; it continues from its checkpoint."""
    while True:
        if not running or running[-1].poll() is not None:
            query = _query(overlay, folder, master)
            running.append(await asyncio.to_thread(stack.enter_context, query))
        await asyncio.sleep(0.2)


async def _take(url: str, got: list[_Row]) -> None:
    async with octopia.connect(url, name="subscriber") as client, client.subscribe("way = 'out' and n >= 0") as taken:
        async for one in taken.deliveries():
            row = one.notification
            now = time.time()
            got.append(_Row(one.publisher, str(one.id), int(row["n"]), now - float(row["sent"]), now))


async def _publish(client: Any, numbers: range) -> None:
    step = 500
    for first in range(numbers.start, numbers.stop, step):
        now = time.time()
        some = range(first, min(first + step, numbers.stop))
        await client.publish_many([{"way": "in", "n": n, "sent": now} for n in some])
        await client.flush()


async def _until(done: Any, quiet_s: float = WAIT_S, got: list[Any] | None = None) -> None:
    last, seen = time.monotonic(), -1
    while not done():
        if got is not None and len(got) != seen:
            last, seen = time.monotonic(), len(got)
        if time.monotonic() - last > quiet_s:
            return
        await asyncio.sleep(0.02)


def _account(got: list[_Row], published: range, kill: str, begin: float) -> dict[str, Any]:
    rows = len(published)
    once = {(one.publisher, one.id, one.n) for one in got}
    numbers = Counter(n for _, _, n in once)
    delays = sorted(one.delay_s for one in got)
    took = max((one.at_s for one in got), default=begin) - begin
    return {
        "kill": kill,
        "published": rows,
        "came": len(numbers),
        "missing": rows - len(numbers),
        # counted from 0
        "missing_from": min((n - published.start for n in published if n not in numbers), default=None),
        "again": len(got) - len(once),
        "repeated": sum(count - 1 for count in numbers.values()),
        "rows_per_s": len(numbers) / took if took > 0 else 0.0,
        "median_s": delays[len(delays) // 2] if delays else None,
        "p99_s": delays[len(delays) * 99 // 100] if delays else None,
    }
