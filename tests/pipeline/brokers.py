"""A live overlay in a thread, for tests that block: Spark's processes are its clients.

Nothing here sleeps to synchronise: `until` waits for a condition that must come true, and the time limit of the test
ends what never becomes so.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self

from octopia.net import Client, NetLimits, Server
from octopia.topology import BrokerId
from tests.net.live import Live, kill_host
from tests.patience import HANG_S


def until(condition: Callable[[], Any]) -> Any:
    """Wait until something is so, and give it."""
    while not (found := condition()):
        time.sleep(0.01)
    return found


class Brokers:
    """An overlay whose event loop runs in a separate thread."""

    def __init__(self, tree: str = "path:2", clusters: int = 2, *, record: Any = None, **limits: Any) -> None:
        # A peer that is slow to answer is slow, not gone: nothing here is about heartbeats.
        quick = {"link_grace_s": 0.3, "link_give_up_s": 2.0, "heartbeat_s": HANG_S, "handshake_s": HANG_S, **limits}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.live = Live(tree, clusters, net_limits=NetLimits(**quick), record=record)

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self.live.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self.live.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def look(self, question: Callable[[], Any]) -> Any:
        """Ask something of the brokers, in their thread."""

        async def asked() -> Any:
            return question()

        return self.call(asked())

    def url(self, broker: str) -> str:
        return self.live.url(broker)

    def publisher(self, broker: str, *filters: str, **options: Any) -> Client:
        return self.call(self.live.publisher(broker, *filters, **options))  # type: ignore[no-any-return]

    def publish(self, client: Client, rows: list[dict[str, Any]]) -> None:
        """Publish, and wait until the host broker has routed it."""

        async def published() -> None:
            await client.publish_many(rows)
            await client.flush()

        self.call(published())

    def settle(self, *clients: Client) -> None:
        """Earlier registrations, of any client, are in force when a later one is acknowledged."""

        async def settled() -> None:
            for client in clients:
                async with client.subscribe("nothing = 'at all'"):
                    await client.unadvertise(await client.advertise("m > 0"))

        self.call(settled())

    def clients(self, broker: str) -> dict[str, bool]:
        """The sessions of a broker, and whether each is connected."""
        sessions = self.live.host(broker).sessions
        return self.look(lambda: {name: s.channel is not None for name, s in sessions.items()})  # type: ignore[no-any-return]

    def subscribed(self, broker: str) -> bool:
        """Whether a session here has a subscription, and is connected."""
        sessions = self.live.host(broker).sessions
        return bool(self.look(lambda: any(s.channel is not None and s.deliveries.policies for s in sessions.values())))

    def away(self, broker: str) -> bool:
        """Whether a session here has a subscription, and is not connected."""
        sessions = self.live.host(broker).sessions
        return bool(self.look(lambda: any(s.channel is None and s.deliveries.policies for s in sessions.values())))

    def restart(self, broker: str) -> None:
        """Stop a broker as SIGKILL would, and restart it on the same port."""
        id, live = BrokerId.parse(broker), self.live

        async def restarted() -> None:
            old = live.servers[id]
            host = old.hosts.pop(id)
            old._servers[list(old.brokers).index(id)].close()
            kill_host(host)
            while len(host.channels):
                await asyncio.sleep(0.005)
            live.servers[id] = new = Server(live.scot, live.addresses, brokers=[id], **live.options)
            await new.start()
            while not live.all_links_up():
                await asyncio.sleep(0.005)

        self.call(restarted())
