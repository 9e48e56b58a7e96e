"""What the Python client costs, and how long a notification takes."""

import asyncio
import time
from typing import Any

from benchmarks.live.brokers import Brokers
from benchmarks.live.workload import advertisement, quotes
from octopia.net import Client

PUBLICATIONS = 40_000
PROBES = 2_000


def client_rate() -> dict[str, Any]:
    """CPU of a process that publishes with `publish_many`; nobody subscribes."""
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    pool = quotes(2000)

    async def main() -> float:
        async with Client(f"octopia://127.0.0.1:{port}") as client:
            await client.advertise(advertisement())
            await client.publish_many(pool)
            await client.flush()
            begin = time.process_time()
            for _ in range(PUBLICATIONS // len(pool)):
                await client.publish_many(pool)
            await client.flush()
            return time.process_time() - begin

    try:
        cpu_s = asyncio.run(main())
    finally:
        brokers.close()
    return {"cpu_us_each": 1e6 * cpu_s / PUBLICATIONS, "per_s_and_core": PUBLICATIONS / cpu_s}


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
