"""Load a running overlay, at a constant rate or as fast as possible, and measure rates and latencies.

Publishers and subscribers run in this process and share a clock, so the figures cover client and overlay together. At a
constant rate, the latency of a notification counts from its scheduled time, not from the actual one, so a stall counts
for everything that waited behind it. Every notification is accounted for: delivered, dropped, or missing.
"""

import asyncio
import secrets
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from octopia.errors import InputError
from octopia.net.client.client import Client
from octopia.net.client.subscription import Subscription

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
# The most that one publisher sends at a constant rate before the others get their turn.
BURST_MAX = 64
OVERHEAD_BYTES = 60
# A notification still outstanding this long after the last arrival is missing.
REST_S = 10.0
PROGRESS_S = 0.5
# A rate that cannot be reached makes a run take longer: at most twice as long, or by this much.
LATE_S = 10.0


@dataclass(frozen=True)
class BenchPlan:
    """The load to apply. `rate_per_s` is the total of all publishers; 0 means as fast as possible."""

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
    seconds: float  # until the last delivery
    publishing_s: float  # until the last publication was confirmed
    asked_per_s: float  # 0: as fast as possible
    cpu_s: float
    latency_us: dict[str, float]

    @property
    def published_per_s(self) -> float:
        return self.published / self.publishing_s

    def to_jsonable(self) -> dict[str, Any]:
        told = asdict(self)
        del told["cpu_s"], told["latency_us"]
        return {
            **told,
            "published_per_s": self.published_per_s,
            "delivered_per_s": self.delivered / self.seconds,
            "client_cpu_us_per_notification": 1e6 * self.cpu_s / max(self.published + self.delivered, 1),
            "latency_us": self.latency_us,
        }


MakeClient = Callable[[str], Client]
# Called from time to time with the seconds since the start and the counts published and delivered so far.
Progress = Callable[[float, int, int], None]


async def bench(
    urls: Sequence[str], plan: BenchPlan, make: MakeClient = Client, progress: Progress | None = None
) -> BenchResult:
    """Run the plan; publishers and subscribers are assigned to the urls in turn."""
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
        if progress is not None:
            readers.append(asyncio.create_task(_report(progress, publishers, taken)))
        counts = await asyncio.gather(*(_publish(client, run, plan) for client in publishers))
        await asyncio.gather(*(client.flush() for client in publishers))
        published, publishing_s = sum(counts), time.perf_counter() - begin
        await _wait_for_rest(subscribers, taken, published)
        seconds, cpu_s = time.perf_counter() - begin, time.process_time() - cpu_s
    finally:
        for reader in readers:
            reader.cancel()
        # After success everything was flushed; after a failure, the failure is what counts.
        await asyncio.gather(*(client.close() for client in publishers + subscribers), return_exceptions=True)
    delivered = sum(map(len, taken))
    dropped = sum(client.dropped for client in subscribers)
    missing = published * plan.subscribers - delivered - dropped
    return BenchResult(
        published, delivered, dropped, missing, seconds, publishing_s, plan.rate_per_s, cpu_s, _percentiles(taken)
    )


async def _report(progress: Progress, publishers: list[Client], taken: "list[array[float]]") -> None:
    begin = time.perf_counter()
    while True:
        await asyncio.sleep(PROGRESS_S)
        progress(time.perf_counter() - begin, sum(client.last_id for client in publishers), sum(map(len, taken)))


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
    end = begin + plan.seconds + max(plan.seconds, LATE_S)
    while count < total and (now := time.perf_counter()) < end:
        most = count + BURST_MAX
        while count < min(total, most) and begin + count * every_s <= now:
            await client.publish({"run": run, "t": begin + count * every_s, "pad": pad})
            count += 1
        await asyncio.sleep(max(begin + count * every_s - time.perf_counter(), 0))
    return count


async def _read(subscription: Subscription, taken: "array[float]") -> None:
    async for batch in subscription.lists():
        now = time.perf_counter()
        taken.extend(now - float(delivery.notification["t"]) for delivery in batch)


async def _wait_for_rest(clients: list[Client], taken: "list[array[float]]", published: int) -> None:
    """Wait for notifications in flight: until all have arrived, or none has for a while."""
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
