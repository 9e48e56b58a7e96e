"""A console in front of a live overlay, for tests: brokers and console run in a thread with an event loop of its own,
so that a test may block while a browser or a blocking client works.
"""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from octopia.console import Console, ConsoleSettings, Service, bind
from octopia.net import Address, Client, NetLimits, OverlayIdentity, Recording
from octopia.routing import DEFAULT_ROUTING
from octopia.testbed import Brokers
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.watch import Place, Watched
from tests.net.processes import own_host
from tests.patience import HANG_S

T = TypeVar("T")
NAME = "tests"
# Below the ports that the system gives out, on an address of this process's own.
PORT, HTTP_PORT, CONSOLE_PORT = 7600, 9600, 8600


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.start(main).result(HANG_S)

    def start(self, main: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(main, self._loop)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Served:
    """Brokers, a console and clients."""

    def __init__(
        self,
        tree: str = "path:3",
        clusters: int = 3,
        *,
        at: int = 0,
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`at` keeps several of one process apart; `options` are those of brokers."""
        self.loop = Loop()
        self.scot = Scot(parse_tree(tree), clusters)
        host, step = own_host(), at * 3000
        brokers = self.scot.brokers
        addresses = {broker: Address(host, PORT + step + n) for n, broker in enumerate(brokers)}
        http = {broker: Address(host, HTTP_PORT + step + n) for n, broker in enumerate(brokers)}
        recordings = {id: Recording(self.scot.a_links(id) + self.scot.i_links(id), _forget) for id in brokers}
        limits = NetLimits(link_grace_s=0.3, link_give_up_s=2.0)
        self.brokers = Brokers(
            self.scot, addresses, recordings, http=http, net_limits=limits, name=NAME, **(options or {})
        )
        token = (options or {}).get("http_token", "")
        places = {id: Place(f"octopia://{addresses[id]}", f"http://{http[id]}") for id in brokers}
        routing = (options or {}).get("routing", DEFAULT_ROUTING)
        digest = OverlayIdentity(NAME, self.scot, routing).digest
        self.watched = Watched(NAME, self.scot, routing, digest, places, token)
        # Looks come quickly, so that a test need not wait for them.
        given: dict[str, Any] = {
            "host": host,
            "port": CONSOLE_PORT + step,
            "measure_delays": False,
            "every_s": 0.2,
        } | settings
        self.settings = ConsoleSettings(**given)
        self.url = self.settings.link(self.settings.port)
        self.clients: list[Client] = []
        self._console: Console | None = None
        self._serving: Future[None] | None = None

    def __enter__(self) -> Self:
        self.loop.run(self._start())
        return self

    async def _start(self) -> None:
        for broker in self.scot.brokers:
            await self.brokers.listen([broker])
        self.brokers.meet()
        while not all(link.is_up for host in self.brokers.hosts.values() for link in host.links.values()):
            await asyncio.sleep(0.01)
        ready = asyncio.Event()
        self.service = Service(self.settings, self.watched)
        self._console = Console(self.service, bind(self.settings), lambda link: ready.set())
        self._serving = self.loop.start(self._console.serve())
        await ready.wait()

    def __exit__(self, *_: object) -> None:
        self.loop.run(self._stop())
        if self._serving is not None:
            self._serving.result(HANG_S)
        self.loop.close()

    async def _stop(self) -> None:
        await asyncio.gather(*(client.close(0.1) for client in self.clients), return_exceptions=True)
        if self._console is not None:
            self._console.stop()
        self.brokers.abort()

    async def looks_until_down(self, broker: BrokerId) -> int:
        """Kill a broker; how many looks end until the console knows."""
        hub = self.service.hub
        self.brokers.kill(broker)
        before = hub.looks
        while hub.view is None or hub.view.brokers[broker].status != "down":
            await asyncio.sleep(0.001)
        return hub.looks - before

    # -- clients

    def client(self, broker: str, name: str = "", **options: Any) -> Client:
        async def opened() -> Client:
            client = Client(self.watched.places[BrokerId.parse(broker)].url, name=name, **options)
            await client.open()
            self.clients.append(client)
            return client

        return self.loop.run(opened())

    def publisher(self, broker: str, name: str, advertisement: str, **options: Any) -> Callable[[dict[str, Any]], None]:
        client = self.client(broker, name, **options)
        self.loop.run(client.advertise(advertisement))

        async def publish(notification: dict[str, Any]) -> None:
            await client.publish(notification)
            await client.flush()

        return lambda notification: self.loop.run(publish(notification))

    def subscriber(self, broker: str, name: str, filter: str, **options: Any) -> list[dict[str, Any]]:
        """Received messages, as they arrive."""
        client = self.client(broker, name, **options)
        received: list[dict[str, Any]] = []

        async def subscribe() -> None:
            subscription = client.subscribe(filter)
            await client.start_subscription(subscription)

            async def read() -> None:
                async for notification in subscription:
                    received.append(notification.to_dict())

            self.loop.start(read())

        self.loop.run(subscribe())
        return received

    # -- HTTP

    def get(self, path: str, **headers: str) -> Any:
        return ask(f"{self.url}{path.lstrip('/')}", None, headers)

    def post(self, path: str, content: Any, **headers: str) -> Any:
        return ask(f"{self.url}{path.lstrip('/')}", content, headers)


def ask(url: str, content: Any, headers: dict[str, str]) -> Any:
    """The answer's status and JSON."""
    body = None if content is None else json.dumps(content).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        given.setdefault("content-type", "application/json")
    request = urllib.request.Request(url, body, given)  # noqa: S310  always http
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _forget(recording: Recording) -> None:
    recording.take()
