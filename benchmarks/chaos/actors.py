"""Publishers and subscribers on the product's own client, that write everything into the ledger.

A publisher keeps its pace whatever happens: a notification that is due is published as soon as `publish` accepts it,
and its delay counts from when it was due. Flushes run concurrently, and everything a flush covers is promised from then
on.
"""

import asyncio
import contextlib
from typing import Any

import octopia
from benchmarks.chaos.oracle import Ledger, Value, Wish
from benchmarks.chaos.versions import POLICY_HARMLESS
from octopia.errors import OctopiaError

TICK_S = 0.01
FLUSH_EVERY_S = 0.25
FLUSH_S_MAX = 20.0
LEAVE_S_MAX = 3.0


def topic(name: str) -> Wish:
    """Everything published under a topic."""
    return Wish.of(("class", "=", name))


class Publisher:
    """Publishes numbered notifications of one topic."""

    def __init__(self, ledger: Ledger, name: str, about: str, url: str, *, pad: int = 0, **options: Any) -> None:
        self.ledger, self.name, self.about = ledger, name, about
        self.client = octopia.connect(url, name=name, **options)
        self.failure: OctopiaError | None = None
        self._pad = "x" * pad
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False

    async def open(self) -> "Publisher":
        await self.client.open()
        await self.client.advertise(
            f"class = '{self.about}' and by is not null and n > 0 and x >= 0 and pad is not null"
        )
        return self

    async def publish(self, due: float | None = None) -> None:
        number = self.ledger.count(self.name) + 1
        content: dict[str, Value] = {
            "class": self.about,
            "by": self.name,
            "n": number,
            "x": number % 10,
            "pad": self._pad,
        }
        self.ledger.publish(self.name, content, due)
        await self.client.publish(content)

    async def burst(self, count: int) -> None:
        """As fast as `publish` lets it."""
        for number in range(count):
            if number % 200 == 0:
                await asyncio.sleep(0)
            await self.publish()

    async def flush(self, limit_s: float = FLUSH_S_MAX, *, hosts: bool = False) -> bool:
        """Whether everything so far is confirmed; with `hosts`, by the brokers of all subscribers."""
        count = self.ledger.count(self.name)
        try:
            async with asyncio.timeout(limit_s):
                # versions before know only the other form
                await (self.client.flush(hosts=True) if hosts else self.client.flush())
        except TimeoutError:
            return False
        except OctopiaError as error:
            self.failure = error
            return False
        self.ledger.confirm(self.name, count)
        return True

    def start(self, rate: float) -> None:
        """Publish at this rate, and flush now and then, until `stop`."""
        self._running = True
        self._tasks = [asyncio.create_task(self._pace(rate)), asyncio.create_task(self._flush_often())]

    async def stop(self) -> bool:
        """Stop; whether everything was confirmed."""
        self._running = False
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=FLUSH_S_MAX)
            for task in pending:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        return await self.flush()

    async def _pace(self, rate: float) -> None:
        loop = asyncio.get_running_loop()
        start, count = self.ledger.clock(), 0
        first = loop.time()
        try:
            while self._running:
                while self._running and count < (loop.time() - first) * rate:
                    await self.publish(start + count / rate)
                    count += 1
                await asyncio.sleep(TICK_S)
        except OctopiaError as error:
            self.failure = error

    async def _flush_often(self) -> None:
        while self._running:
            await asyncio.sleep(FLUSH_EVERY_S)
            if not await self.flush() and self.failure is not None:
                return

    async def close(self) -> None:
        self._running = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await leave(self.client)


class Subscriber:
    """One subscription; everything it gets goes into the ledger."""

    def __init__(self, ledger: Ledger, name: str, wish: Wish, url: str, **options: Any) -> None:
        self.ledger, self.name, self.wish = ledger, name, wish
        self._quality = {"policy": options.pop("policy", POLICY_HARMLESS)}
        self._quality |= {key: options.pop(key) for key in ("priority", "deadline_ms") if key in options}
        ledger.subscribe(name, wish, bystander=options.pop("bystander", False))
        self.client = octopia.connect(url, name=name, **options)
        self.failure: OctopiaError | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> "Subscriber":
        await self.client.open()
        subscription = self.client.subscribe(self.wish.text(), **self._quality)
        await subscription.__aenter__()
        self.ledger.in_force(self.name)
        self._task = asyncio.create_task(self._read(subscription))
        return self

    async def _read(self, subscription: Any) -> None:
        try:
            async for delivery in subscription.deliveries():
                self.ledger.deliver(self.name, dict(delivery.notification))
        except OctopiaError as error:
            self.failure = error

    async def close(self) -> None:
        self.ledger.ended(self.name)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await leave(self.client)


async def leave(client: Any) -> None:
    """Close a client; give up if that takes long."""
    with contextlib.suppress(TimeoutError, OctopiaError):
        async with asyncio.timeout(LEAVE_S_MAX):
            await client.close()
