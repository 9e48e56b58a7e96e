"""The cost of the Python client, and the latency of a notification."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa

from benchmarks.live.brokers import Brokers
from benchmarks.live.workload import advertisement, quotes
from octopia.net import Client, run_loop

PUBLICATIONS = 200_000
POOL = 8_000
ROUNDS = 5
PROBES = 2_000


def client_rate() -> dict[str, Any]:
    """CPU of a process that publishes dicts, and the same as Arrow; without subscribers."""
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    pool = quotes(POOL)
    table = pa.Table.from_pylist(pool)

    async def main() -> dict[str, float]:
        async with Client(f"octopia://127.0.0.1:{port}") as client:
            await client.advertise(advertisement())
            ways: dict[str, Callable[[], Awaitable[int]]] = {
                "dicts": lambda: client.publish_many(pool),
                "arrow": lambda: client.publish_batch(table),
            }
            used_s: dict[str, list[float]] = {way: [] for way in ways}
            # The first round warms up; the two take turns, since the machine is not ours alone.
            for _ in range(ROUNDS + 1):
                for way, publish in ways.items():
                    begin = time.process_time()
                    for _ in range(PUBLICATIONS // POOL // ROUNDS):
                        await publish()
                    await client.flush()
                    used_s[way].append(time.process_time() - begin)
            return {way: statistics.median(taken[1:]) for way, taken in used_s.items()}

    try:
        used_s = run_loop(main())
    finally:
        brokers.close()
    count = PUBLICATIONS // POOL // ROUNDS * POOL
    return {way: {"cpu_us_each": 1e6 * each / count, "per_s_and_core": count / each} for way, each in used_s.items()}


def latency_us(tree: str = "path:1") -> dict[str, Any]:
    """One notification at a time, from `publish` to the subscriber's loop, both in this process."""
    brokers = Brokers(tree, 1).start()
    ports = list(brokers.ports.values())

    async def main() -> list[float]:
        taken = []
        async with (
            Client(f"octopia://127.0.0.1:{ports[0]}") as publisher,
            Client(f"octopia://127.0.0.1:{ports[-1]}") as reader,
            reader.subscribe("n >= 0") as numbers,
        ):
            await publisher.advertise("n is not null")
            for n in range(PROBES):
                begin = time.perf_counter()
                await publisher.publish({"n": n})
                await numbers.next_batch()
                taken.append(1e6 * (time.perf_counter() - begin))
        return sorted(taken[PROBES // 10 :])

    try:
        taken = asyncio.run(main())
    finally:
        brokers.close()
    return {
        "hops": len(ports),
        "us": {
            name: taken[int(share * (len(taken) - 1))] for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }
