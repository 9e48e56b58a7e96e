"""A live overlay on loopback in one process, for tests: brokers that can be stopped and started, clients.

Nothing here sleeps to synchronise: a test waits for acknowledgements, for flushes and for conditions that must come
true; `asyncio.timeout` ends a test that waits in vain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from inspect import Signature, signature
from typing import Any, Self
from weakref import WeakSet

from octopia.errors import OctopiaError
from octopia.net import Address, BrokerHost, Client, NetLimits, Server, Subscription
from octopia.net.channel import Channel
from octopia.net.frame_queue import FrameQueue
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import Delivery
from tests.net.processes import own_host

Coroutines = Callable[..., Coroutine[Any, Any, None]]
Test = Callable[..., None]

WAIT_S = 200.0
# Clients of all overlays of the tests.
OPENED: WeakSet[Client] = WeakSet()
QUICK = NetLimits(link_grace_s=0.3, link_give_up_s=2.0, heartbeat_s=5.0)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine with a limit that only a hanging one meets."""

    async def limited() -> None:
        async with asyncio.timeout(WAIT_S):
            await main()

    asyncio.run(limited())


def asynchronous(test: Coroutines) -> Test:
    """For a test that is a coroutine."""

    @wraps(test)
    def played(**given: Any) -> None:
        run(lambda: test(**given))

    return played


def provided(test: Coroutines, play: Callable[[dict[str, Any]], None]) -> Test:
    """For a test whose first argument pytest does not know: `play` is called with the others."""

    @wraps(test)
    def played(**given: Any) -> None:
        play(given)

    played.__signature__ = Signature(list(signature(test).parameters.values())[1:])  # type: ignore[attr-defined]
    return played


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; the test's time limit ends what never becomes so."""
    while not condition():
        await asyncio.sleep(0.002)


class Live:
    """An overlay in which each broker has its own server."""

    def __init__(self, tree: str = "path:3", clusters: int = 3, *, host: str = "", **options: Any) -> None:
        # An address of our own: a port that a stopped broker leaves is taken by nobody else until it is back.
        self._host = host or own_host()
        self.scot = Scot(parse_tree(tree), clusters)
        self.options = {"net_limits": QUICK, **options}
        self.servers: dict[BrokerId, Server] = {}
        self.addresses: dict[BrokerId, Address] = {}
        self.clients: list[Any] = []  # to be closed at the end

    async def __aenter__(self) -> Self:
        first = Server(self.scot, dict.fromkeys(self.scot.brokers, Address(self._host, 0)), **self.options)
        await first.start()
        self.servers = dict.fromkeys(self.scot.brokers, first)
        self.addresses = dict(first.addresses)
        await first.links_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            # What a test left undone is not its subject.
            with suppress(OctopiaError):
                await client.close()
        for server in dict.fromkeys(self.servers.values()):
            await server.stop()

    def host(self, broker: str) -> Any:
        id = BrokerId.parse(broker)
        return self.servers[id].hosts[id]

    def url(self, broker: str) -> str:
        return f"octopia://{self.addresses[BrokerId.parse(broker)]}"

    async def client(self, broker: str, **options: Any) -> Client:
        client = Client(self.url(broker), **options)
        await client.open()
        self.clients.append(client)
        OPENED.add(client)
        return client

    async def publisher(self, broker: str, *filters: str, **options: Any) -> Client:
        client = await self.client(broker, **options)
        for filter in filters:
            await client.advertise(filter)
        return client

    async def subscriber(self, broker: str, filter: str, **options: Any) -> Subscription:
        client = await self.client(broker)
        subscription = client.subscribe(filter, **options)
        await client.start_subscription(subscription)
        return subscription

    def crash(self, broker: str) -> None:
        """End one broker as SIGKILL would: without notice, and with its port closed."""
        id = BrokerId.parse(broker)
        server = self.servers.pop(id)
        host = server.hosts.pop(id)
        server._tickers.pop(id).cancel()
        for listener in server._servers:
            if listener.sockets and listener.port == self.addresses[id].port:
                listener.close()
        kill_host(host)

    async def start(self, broker: str) -> None:
        """Start a broker that crashed, at the same address, as a new life."""
        id = BrokerId.parse(broker)
        server = Server(self.scot, self.addresses, brokers=[id], **self.options)
        await server.start()
        self.servers[id] = server

    def all_links_up(self) -> bool:
        return all(
            link.is_up and link.channel is not None
            for id, server in self.servers.items()
            for n, link in server.hosts[id].links.items()
            if n in self.servers
        )


def channel_of(client: Client) -> Channel:
    """The connection that a client has at present."""
    channel = client._connecting.channel
    assert channel is not None
    return channel


def client_of(subscription: Subscription) -> Client:
    """The client that a subscription belongs to, if an overlay of the tests opened it."""
    (found,) = (client for client in OPENED if client._registry is subscription._registrar)
    return found


def box_of(client: Client) -> FrameQueue:
    """Frames that a client has sent, and those that wait there."""
    return client._journal.queue


def kill_host(host: BrokerHost) -> None:
    """End a broker as SIGKILL would: no word to anyone."""
    for dialler in host.diallers.values():
        dialler.stop()
    host.channels.abort()


async def take(subscription: Subscription, count: int) -> list[Delivery]:
    """The next `count` deliveries."""
    taken: list[Delivery] = []
    while len(taken) < count:
        batch = await subscription.next_batch(count - len(taken))
        assert batch, "the subscription ended"
        taken += batch
    return taken


def waiting(subscription: Subscription) -> list[Delivery]:
    """Deliveries that have arrived and were not taken, without waiting."""
    return [delivery for deliveries in subscription._inbox for delivery in deliveries.decoded()]


Scene = Callable[[Live], Awaitable[None]]


def in_overlay(scene: Scene, **options: Any) -> None:
    """Run a scene in a fresh overlay."""

    async def main() -> None:
        async with Live(**options) as live:
            await scene(live)

    run(main)


def overlay(*arguments: str, **options: Any) -> Callable[[Coroutines], Test]:
    """For a test in a fresh overlay, which is its first argument; `arguments` of the test are options, too."""

    def decorated(test: Coroutines) -> Test:
        def play(given: dict[str, Any]) -> None:
            more = {name: given[name] for name in arguments}
            in_overlay(lambda live: test(live, **given), **options, **more)

        return provided(test, play)

    return decorated
