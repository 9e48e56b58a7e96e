"""Brokers and clients of the demo in one process, and operations on them while they run.

The brokers are real ones on real sockets. A slowed link takes a fixed time per message, so that faster messages wait in
its queue; a cut link has no connection; a killed broker forgets everything. To switch the routing, all brokers restart
with the new one at the same addresses, and clients reconnect by themselves.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from octopia.console.demo.contents import FEEDS, RATE_MAX, READERS, Feed, Reader
from octopia.console.demo.quotes import quotes
from octopia.errors import InputError, OctopiaError
from octopia.net import Client, NetLimits, Recording, ServeConfig, Weather
from octopia.routing import why_not_live
from octopia.testbed import Brokers
from octopia.topology import BrokerId

MILLISECOND_NS: Final = 1_000_000
SLOW_MS_MAX: Final = 1_000.0
# Links are given up soon, so that a visitor need not wait to see the effect. Queues for clients are short, so that a
# slow reader shows.
_LIMITS: Final = NetLimits(
    link_grace_s=0.5, link_give_up_s=3.0, session_s_max=60.0, client_queue_frames_max=300, window_frames=600
)
_TURN_S: Final = 0.02
# How many notifications a slow reader takes at a time.
_BITE: Final = 5


@dataclass
class Troubles:
    """Changes to the overlay that have not been undone."""

    slow_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    cut: set[tuple[str, str]] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)


class DemoOverlay:
    """The demo while it runs."""

    def __init__(self, config: ServeConfig, rate_per_s: float, *, clients: bool = True) -> None:
        self._config = config
        self._clients_wanted = clients
        self.rate_per_s = rate_per_s
        self.troubles = Troubles()
        self._brokers = self._make_brokers()
        self._tasks: list[asyncio.Task[None]] = []

    def _make_brokers(self) -> Brokers:
        config = self._config
        recordings = {
            id: Recording(config.scot.a_links(id) + config.scot.i_links(id), _forget) for id in config.scot.brokers
        }
        return Brokers(
            config.scot,
            config.addresses,
            recordings,
            http=config.http,
            routing=config.routing,
            congestion=config.congestion,
            net_limits=_LIMITS,
            name=config.name,
        )

    async def start(self) -> None:
        await self._start_brokers()
        if self._clients_wanted:
            for feed in FEEDS:
                self._tasks.append(asyncio.create_task(self._feed(feed)))
            for reader in READERS:
                self._tasks.append(asyncio.create_task(self._read(reader)))

    async def _start_brokers(self, *, again: bool = False) -> None:
        for id in self._config.scot.brokers:
            await self._brokers.listen([id], again=again)
        self._brokers.meet()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._brokers.abort()

    # -- what a visitor may do

    async def obey(self, order: dict[str, Any]) -> None:
        """Carry out one order, or raise `InputError`."""
        match order:
            case {"do": "slow", "link": [str(one), str(other)], "ms": float() | int() as ms}:
                self._slow(one, other, float(ms))
            case {"do": "cut", "link": [str(one), str(other)]}:
                self._cut(one, other)
            case {"do": "mend", "link": [str(one), str(other)]}:
                self._mend(one, other)
            case {"do": "kill", "broker": str(broker)}:
                self._kill(self._broker(broker))
            case {"do": "restart", "broker": str(broker)}:
                await self._restart(self._broker(broker))
            case {"do": "routing", "name": str(name)}:
                await self._switch(name)
            case {"do": "rate", "per_s": float() | int() as rate}:
                self._set_rate(float(rate))
            case {"do": "mend_all"}:
                await self._mend_all()
            case _:
                raise InputError("there are slow, cut, mend, kill, restart, routing, rate and mend_all")

    def state(self) -> dict[str, Any]:
        """The changes that have not been undone."""
        troubles = self.troubles
        return {
            "routing": self._config.routing,
            "rate_per_s": self.rate_per_s,
            "slow": [{"link": list(link), "ms": ms} for link, ms in troubles.slow_ms.items()],
            "cut": [list(link) for link in sorted(troubles.cut)],
            "dead": sorted(troubles.dead),
        }

    def _broker(self, text: str) -> BrokerId:
        id = BrokerId.parse(text)
        if id not in self._config.scot:
            raise InputError(f"there is no broker {id}")
        return id

    def _link(self, one: str, other: str) -> tuple[BrokerId, BrokerId]:
        source, target = self._broker(one), self._broker(other)
        if target not in self._config.scot.a_links(source) + self._config.scot.i_links(source):
            raise InputError(f"there is no link between {source} and {target}")
        return source, target

    def _slow(self, one: str, other: str, ms: float) -> None:
        if not 0 <= ms <= SLOW_MS_MAX:
            raise InputError(f"{ms:g} ms per message: 0 to {SLOW_MS_MAX:g} are possible")
        source, target = self._link(one, other)
        link = (str(source), str(target))
        if ms:
            self.troubles.slow_ms[link] = ms
        else:
            self.troubles.slow_ms.pop(link, None)
        self._apply(source, target)

    def _cut(self, one: str, other: str) -> None:
        source, target = self._link(one, other)
        self.troubles.cut |= {(str(source), str(target)), (str(target), str(source))}
        self._apply_both(source, target)

    def _mend(self, one: str, other: str) -> None:
        source, target = self._link(one, other)
        for link in ((str(source), str(target)), (str(target), str(source))):
            self.troubles.cut.discard(link)
            self.troubles.slow_ms.pop(link, None)
        self._apply_both(source, target)

    def _apply_both(self, one: BrokerId, other: BrokerId) -> None:
        self._apply(one, other)
        self._apply(other, one)

    def _apply(self, source: BrokerId, target: BrokerId) -> None:
        link = (str(source), str(target))
        slow_ns = round(self.troubles.slow_ms.get(link, 0.0) * MILLISECOND_NS)
        weather = Weather(per_message_ns=slow_ns, is_up=link not in self.troubles.cut)
        self._brokers.set_weather(source, target, weather)

    def _kill(self, id: BrokerId) -> None:
        if str(id) in self.troubles.dead:
            raise InputError(f"{id} is dead already")
        self._brokers.kill(id)
        self.troubles.dead.add(str(id))

    async def _restart(self, id: BrokerId) -> None:
        if str(id) not in self.troubles.dead:
            self._brokers.kill(id)
        await self._brokers.revive(id)
        self.troubles.dead.discard(str(id))

    async def _switch(self, routing: str) -> None:
        if (reason := why_not_live(routing)) is not None:
            raise InputError(reason)
        self._brokers.abort()
        self._config = replace(self._config, routing=routing)
        self._brokers = self._make_brokers()
        self.troubles.dead.clear()
        await self._start_brokers(again=True)
        for one, other in {*self.troubles.slow_ms, *self.troubles.cut}:
            self._apply(*self._link(one, other))

    def _set_rate(self, rate: float) -> None:
        if not 0 <= rate <= RATE_MAX:
            raise InputError(f"{rate:g} quotes/s: 0 to {RATE_MAX:,.0f} are possible")
        self.rate_per_s = rate

    async def _mend_all(self) -> None:
        for broker in sorted(self.troubles.dead):
            await self._restart(BrokerId.parse(broker))
        for link in {*self.troubles.slow_ms, *self.troubles.cut}:
            self._mend(*link)

    # -- clients

    async def _connected(self, name: str, broker: str) -> Client:
        own = self._config.addresses[BrokerId.parse(broker)]
        client = Client(f"octopia://{own}", name=name, connect_s=60.0)
        await client.open()
        return client

    async def _feed(self, feed: Feed) -> None:
        client = await self._connected(feed.name, feed.broker)
        await client.advertise(feed.advertisement)
        source = quotes(feed.name, feed.symbols)
        loop, owed, before = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time()
        while True:
            now = loop.time()
            owed = min(owed + (now - before) * self.rate_per_s / len(FEEDS), self.rate_per_s)
            before = now
            for _ in range(int(owed)):
                with suppress(OctopiaError):
                    await client.publish(next(source))
            owed -= int(owed)
            await asyncio.sleep(_TURN_S)

    async def _read(self, reader: Reader) -> None:
        client = await self._connected(reader.name, reader.broker)
        bite = _BITE if reader.pause_s else 1000
        async with client.subscribe(reader.filter, policy=reader.policy, inbox_max=2 * bite) as subscription:
            while await subscription.next_batch(bite):
                if reader.pause_s:
                    await asyncio.sleep(reader.pause_s)


def _forget(recording: Recording) -> None:
    """Recordings serve only for the weather of links here; their rows are dropped."""
    recording.take()
