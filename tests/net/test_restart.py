"""Restarts that lose nothing: brokers are told to stop and started again under load, and everything published arrives.

What must arrive is known without the brokers: every number that a publisher published, once and in its order, at every
subscriber. Under `idr` a copy that was diverted may have to wait for the broker that is away, which takes longer than
others wait for it (docs/guarantees.md, "Order"): there it is every number once.
"""

import asyncio
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from octopia.net import Client, Subscription
from tests.net.live import asynchronous, until
from tests.net.processes import Processes

BATCH = 20


class Load:
    """Publishers that never stop and readers of everything, at the brokers of some processes."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.clients: list[Client] = []
        self.published: dict[str, int] = {}
        self.got: dict[str, dict[str, list[int]]] = {}
        self._going = True
        self._publishing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    async def client(self, broker: str, **options: Any) -> Client:
        client = Client(self.processes.url(broker), session_s=150.0, **options)
        await client.open()
        self.clients.append(client)
        return client

    async def subscribe(self, broker: str, name: str) -> None:
        client = await self.client(broker, name=name)
        subscription = client.subscribe("n >= 0", policy="block")
        await client.start_subscription(subscription)
        self._reading.append(asyncio.create_task(self._read(name, subscription)))

    async def _read(self, name: str, subscription: Subscription) -> None:
        got = self.got[name] = {}
        while batch := await subscription.next_batch():
            for delivery in batch:
                got.setdefault(delivery.publisher, []).append(int(delivery.notification["n"]))

    async def publish(self, broker: str, name: str) -> None:
        client = await self.client(broker, name=name)
        await client.advertise("n is not null")
        self._publishing.append(asyncio.create_task(self._publish(client)))

    async def _publish(self, client: Client) -> None:
        count = 0
        while self._going:
            await client.publish_many({"n": n} for n in range(count, count + BATCH))
            count += BATCH
            # Some thousand a second in all: there is work to do, and none of it is waited for.
            await asyncio.sleep(0.01)
        await client.flush()
        self.published[client.name] = count

    def arrived(self) -> int:
        """How much the slowest reader has."""
        return min(sum(map(len, got.values())) for got in self.got.values())

    async def goes_on(self) -> None:
        """Wait until notifications arrive that are published now."""
        published = self.arrived()
        await until(lambda: self.arrived() > published + 10 * BATCH)

    async def end(self, *, in_order: bool) -> None:
        """Stop publishing, and compare the deliveries of every reader with the publications."""
        self._going = False
        await asyncio.gather(*self._publishing)
        everything = sum(self.published.values())
        await until(lambda: self.arrived() >= everything)
        assert self.faults(in_order) == []
        assert [client.dropped for client in self.clients] == [0] * len(self.clients)
        for client in self.clients:
            await client.close()
        await asyncio.gather(*self._reading)

    def faults(self, in_order: bool) -> list[str]:
        """Lost, repeated and reordered deliveries, in a few words each: the lists themselves are long."""
        found: list[str] = []
        for name, got in self.got.items():
            for publisher, count in self.published.items():
                numbers = got.get(publisher, [])
                lost = count - len(set(numbers) & set(range(count)))
                repeated = len(numbers) - len(set(numbers))
                disorder = sum(second < first for first, second in pairwise(numbers)) if in_order else 0
                if lost or repeated or disorder or set(got) - set(self.published):
                    found.append(f"{name}, {publisher}: {lost=} {repeated=} {disorder=} of {count}")
        return found


async def restart(processes: Processes, *brokers: str) -> None:
    codes = await asyncio.gather(*(asyncio.to_thread(processes.stop, broker, signal.SIGTERM) for broker in brokers))
    assert codes == [0] * len(brokers)
    await asyncio.to_thread(processes.start, *brokers)


@pytest.fixture(params=["snr", "idr"])
def processes(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    # On a busy machine a broker may seem silent, and take long to start.
    patient = "restart_grace_s = 150\n"
    started = Processes(tmp_path, "path:2", 2, routing=request.param, grace_s=150.0, more=patient)
    started.start()
    started.wait_for_links()
    yield started
    started.close()


@asynchronous
async def test_a_rolling_restart_under_load_loses_nothing(processes: Processes) -> None:
    load = Load(processes)
    for broker in processes.brokers:
        await load.subscribe(broker, f"reader at {broker}")
    for broker in ("a,0", "b,1"):
        await load.publish(broker, f"publisher at {broker}")
    for broker in processes.brokers:
        await load.goes_on()
        await restart(processes, broker)
    await load.goes_on()
    await load.end(in_order=processes.routing == "snr")


@asynchronous
async def test_two_neighbours_that_restart_at_the_same_time_lose_nothing(processes: Processes) -> None:
    load = Load(processes)
    for broker in processes.brokers:
        await load.subscribe(broker, f"reader at {broker}")
    for broker in processes.brokers:
        await load.publish(broker, f"publisher at {broker}")
    for pair in (("a,0", "b,0"), ("a,1", "a,0")):
        await load.goes_on()
        await restart(processes, *pair)
    await load.goes_on()
    await load.end(in_order=processes.routing == "snr")
