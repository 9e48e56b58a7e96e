"""The cost of the Python client, as a publisher and as a subscriber, and the latency of a notification."""

import asyncio
import multiprocessing as mp
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.live.brokers import Brokers
from benchmarks.live.load import Publisher
from benchmarks.live.workload import advertisement, quotes
from octopia.language import Filter, parse_filter
from octopia.net import Client, SyncClient, run_loop
from octopia.net.channel import CONFIRM_S, Channel
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.registry import Registry
from octopia.net.client.session import Session
from octopia.net.client.subscription import Quality, Subscription
from octopia.wire import (
    ROLE_BROKER,
    Codec,
    Connection,
    Side,
    WireLimits,
    check_parcel,
    deliver_frame,
    publish_frame,
)

PUBLICATIONS = 200_000
POOL = 8_000
ROUNDS = 5
PROBES = 2_000
# A subscriber: how many notifications a round has, how many the publisher writes at once, and what it gets them by.
DELIVERIES = 20_000
PER_WRITE = 200
SUBSCRIPTION = "symbol is not null and close > 0"


def client_rate() -> dict[str, Any]:
    """CPU of a process that only publishes, and of one that only subscribes."""
    return _publisher_rate() | _subscriber_rate()


def _publisher_rate() -> dict[str, Any]:
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


def _publish_rounds(port: int, filter: Filter, go: Any) -> None:
    """Publish a round of notifications each time that `go` says so, until it says 0."""
    publisher = Publisher(port, filter)
    pool, last = quotes(DELIVERIES), 0
    while go.recv():
        # A broker delivers a number of a publisher once.
        parcels = (check_parcel(quote, "P", last + n)[0] for n, quote in enumerate(pool, 1))
        publisher.send([publish_frame(parcel) for parcel in parcels], PER_WRITE)
        last += len(pool)
    publisher.close()


def _subscriber_rate() -> dict[str, Any]:
    """CPU of a process whose only subscription gets every quote and reads one attribute of each.

    The publisher, in a process of its own, advertises what every benchmark does and writes 200 notifications at once.
    """
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    go, told = mp.Pipe()
    publisher = mp.Process(target=_publish_rounds, args=(port, advertisement(), told), daemon=True)
    publisher.start()
    url = f"octopia://127.0.0.1:{port}"
    try:
        figures = {
            "subscriber": _median_us(run_loop(_read_async(url, go))),
            "subscriber, without sockets": _median_us(run_loop(_read_in_memory())),
            "subscriber, blocking": _median_us(list(_read_blocking(url, go))),
            "subscriber, Arrow": _median_us(run_loop(_read_arrow(url, go))),
        }
        go.send(0)
        publisher.join(5)
    finally:
        publisher.terminate()
        brokers.close()
    return {way: {"cpu_us_each": each, "per_s_and_core": 1e6 / each} for way, each in figures.items()}


def _median_us(taken_s: list[float]) -> float:
    """The median of all rounds but the first, which warms up, in µs a notification."""
    return 1e6 * statistics.median(taken_s[1:]) / DELIVERIES


async def _read_async(url: str, go: Any) -> list[float]:
    taken_s = []
    async with Client(url) as client, client.subscribe(SUBSCRIPTION, policy="block") as subscription:
        got, begin = 0, time.process_time()
        go.send(1)
        async for notification in subscription:
            assert notification["symbol"]
            got += 1
            if got % DELIVERIES == 0:
                taken_s.append(time.process_time() - begin)
                if len(taken_s) > ROUNDS:
                    break
                begin = time.process_time()
                go.send(1)
    return taken_s


class _Nowhere(asyncio.Transport):
    """The end of a connection to which nothing is written."""

    def write(self, data: Any) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _NoEnd:
    """Has nothing to say before there is a session."""

    def made(self, channel: Channel) -> None: ...

    def greet(self, channel: Channel, message: Any) -> None: ...

    def gone(self, channel: Channel, reason: str) -> None: ...

    def at_fault(self, channel: Channel, error: Exception) -> None:
        raise error


async def _read_in_memory() -> list[float]:
    """The same from the bytes of a read on: what the system and its sockets take is not in it."""
    journal, life = Journal(), Life()
    registry = Registry(journal, life)
    session = Session(journal, registry, life, name="s", token="", session_s=0.0)
    subscription = Subscription(registry, "s", parse_filter(SUBSCRIPTION), Quality(), 2 * PER_WRITE)
    registry.subscriptions["s"] = subscription
    codec, loop = Codec(WireLimits()), asyncio.get_running_loop()
    channel = Channel(Connection(Side.CLIENT, codec), _NoEnd(), loop, confirm_s=CONFIRM_S, tells_faults=False)
    channel.connection_made(_Nowhere())
    channel.carry(session, ROLE_BROKER, 0)
    parcels = [check_parcel(quote, "P", n)[0] for n, quote in enumerate(quotes(DELIVERIES), 1)]
    sent = [deliver_frame(("s",), parcel) for parcel in parcels]
    reads = [b"".join(sent[at : at + PER_WRITE]) for at in range(0, DELIVERIES, PER_WRITE)]
    notifications = aiter(subscription)
    taken_s = []
    for _ in range(ROUNDS + 1):
        begin = time.process_time()
        for data in reads:
            loop.call_soon(channel.data_received, data)
            for _ in range(PER_WRITE):
                assert (await anext(notifications))["symbol"]
        taken_s.append(time.process_time() - begin)
    channel.connection_lost(None)
    return taken_s


def _read_blocking(url: str, go: Any) -> Iterator[float]:
    with SyncClient(url) as client, client.subscribe(SUBSCRIPTION, policy="block") as subscription:
        notifications = iter(subscription)
        for _ in range(ROUNDS + 1):
            begin = time.process_time()
            go.send(1)
            for _ in range(DELIVERIES):
                assert next(notifications)["symbol"]
            yield time.process_time() - begin


async def _read_arrow(url: str, go: Any) -> list[float]:
    taken_s = []
    schema = pa.schema([("symbol", pa.string()), ("close", pa.float64())])
    async with Client(url) as client, client.subscribe(SUBSCRIPTION, policy="block") as subscription:
        batches = subscription.batches(schema)
        # Kernels are loaded after so many rows.
        for _ in range(ROUNDS + 4):
            begin, got = time.process_time(), 0
            go.send(1)
            while got < DELIVERIES:
                got += len(await anext(batches))
            taken_s.append(time.process_time() - begin)
    return taken_s[3:]


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
