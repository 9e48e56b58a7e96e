"""Load for a running overlay: publishers and subscribers, a rate or as fast as it goes; rates and latencies out.

Rules of this file: publishers and subscribers run in this process, so that one clock measures; what is measured is
therefore client and overlay together. At a constant rate a notification's time starts when it should have been
published, not when it was, so that a stall counts for all that waited behind it. Every notification is accounted for:
delivered, dropped, or missing.
"""

import asyncio
import secrets
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from octopia.errors import InputError
from octopia.net.client.client import Client
from octopia.net.client.subscription import Subscription

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
# A burst of one publisher at a constant rate, before others have their turn.
BURST_MAX = 64
OVERHEAD_BYTES = 60
# What has not come for so long after the last that came is missing.
REST_S = 10.0


@dataclass(frozen=True)
class BenchPlan:
    """What to do. `rate_per_s` is of all publishers together, 0 is as fast as it goes."""

    publishers: int = 1
    subscribers: int = 1
    seconds: float = 5.0
    rate_per_s: float = 0.0
    size_bytes: int = 200
    policy: str = "block"

    def __post_init__(self) -> None:
        for name, least in (("publishers", 1), ("subscribers", 0), ("seconds", 0.01), ("rate_per_s", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}: at least {least} is needed")
        if not OVERHEAD_BYTES < self.size_bytes <= 500_000:
            raise InputError(f"size is {self.size_bytes} bytes: {OVERHEAD_BYTES + 1} to 500,000 are possible")


@dataclass(frozen=True)
class BenchResult:
    published: int
    delivered: int
    dropped: int
    missing: int
    seconds: float
    cpu_s: float
    latency_us: dict[str, float]

    def to_jsonable(self) -> dict[str, Any]:
        return {
            "published": self.published,
            "delivered": self.delivered,
            "dropped": self.dropped,
            "missing": self.missing,
            "seconds": self.seconds,
            "published_per_s": self.published / self.seconds,
            "delivered_per_s": self.delivered / self.seconds,
            "client_cpu_us_per_notification": 1e6 * self.cpu_s / max(self.published + self.delivered, 1),
            "latency_us": self.latency_us,
        }


MakeClient = Callable[[str], Client]


async def bench(urls: Sequence[str], plan: BenchPlan, make: MakeClient = Client) -> BenchResult:
    """Run the plan; publishers and subscribers are dealt out to the urls in turn."""
    run = secrets.token_hex(4)
    publishers = [make(urls[n % len(urls)]) for n in range(plan.publishers)]
    subscribers = [make(urls[-1 - n % len(urls)]) for n in range(plan.subscribers)]
    taken = [array("d") for _ in subscribers]
    readers: list[asyncio.Task[None]] = []
    try:
        await asyncio.gather(*(client.open() for client in publishers + subscribers))
        await asyncio.gather(
            *(client.advertise(f"run = '{run}' and t >= 0 and pad is not null") for client in publishers)
        )
        subscriptions = [client.subscribe(f"run = '{run}'", policy=plan.policy) for client in subscribers]
        await asyncio.gather(*(c.start_subscription(s) for c, s in zip(subscribers, subscriptions, strict=True)))
        readers = [asyncio.create_task(_read(s, t)) for s, t in zip(subscriptions, taken, strict=True)]
        begin, cpu_s = time.perf_counter(), time.process_time()
        counts = await asyncio.gather(*(_publish(client, run, plan) for client in publishers))
        await asyncio.gather(*(client.flush() for client in publishers))
        published = sum(counts)
        await _wait_for_rest(subscribers, taken, published)
        seconds, cpu_s = time.perf_counter() - begin, time.process_time() - cpu_s
    finally:
        for reader in readers:
            reader.cancel()
        # Where all went well everything was flushed; where it did not, that is what counts.
        await asyncio.gather(*(client.close() for client in publishers + subscribers), return_exceptions=True)
    delivered = sum(map(len, taken))
    dropped = sum(client.dropped for client in subscribers)
    missing = published * plan.subscribers - delivered - dropped
    return BenchResult(published, delivered, dropped, missing, seconds, cpu_s, _percentiles(taken))


async def _publish(client: Client, run: str, plan: BenchPlan) -> int:
    pad = "x" * (plan.size_bytes - OVERHEAD_BYTES)
    begin = time.perf_counter()
    count = 0
    if not plan.rate_per_s:
        while time.perf_counter() - begin < plan.seconds:
            for _ in range(BURST_MAX):
                await client.publish({"run": run, "t": time.perf_counter(), "pad": pad})
            count += BURST_MAX
            await asyncio.sleep(0)
        return count
    every_s = plan.publishers / plan.rate_per_s
    total = int(plan.seconds / every_s)
    while count < total:
        now = time.perf_counter()
        while count < total and begin + count * every_s <= now:
            await client.publish({"run": run, "t": begin + count * every_s, "pad": pad})
            count += 1
        await asyncio.sleep(max(begin + count * every_s - time.perf_counter(), 0))
    return count


async def _read(subscription: Subscription, taken: "array[float]") -> None:
    async for batch in subscription.batches():
        now = time.perf_counter()
        taken.extend(now - float(delivery.notification["t"]) for delivery in batch)


async def _wait_for_rest(clients: list[Client], taken: "list[array[float]]", published: int) -> None:
    """What was published is still under way: wait until all has come, or nothing has for a while."""
    before, since = -1, time.perf_counter()
    while (have := sum(map(len, taken)) + sum(c.dropped for c in clients)) < published * len(clients):
        if have != before:
            before, since = have, time.perf_counter()
        elif time.perf_counter() - since > REST_S:
            return
        await asyncio.sleep(0.005)


def _percentiles(taken: "list[array[float]]") -> dict[str, float]:
    every = sorted(value for part in taken for value in part)
    if not every:
        return {}
    return {f"p{p:g}": 1e6 * every[min(int(p / 100 * len(every)), len(every) - 1)] for p in PERCENTILES}
