"""The console's back end: it watches the overlay, is a client of it and, in the demo, operates on it."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any, Final

from octopia.console.demo import DemoProcess
from octopia.console.hub import Hub
from octopia.console.meter import Meter, stations
from octopia.console.path_json import answer_json, path_json
from octopia.console.settings import ConsoleSettings
from octopia.console.tables import read_table
from octopia.errors import InputError, OctopiaError
from octopia.language import Notification
from octopia.net import Client
from octopia.topology import BrokerId
from octopia.version import __version__
from octopia.watch import Reader, Watched, advertise_exactly, probe, why

_log: Final = logging.getLogger("octopia.console")
URLS_MAX: Final = 12
CONNECT_S: Final = 3.0


class Service:
    """One overlay, one console."""

    def __init__(self, settings: ConsoleSettings, watched: Watched, demo: DemoProcess | None = None) -> None:
        self.settings = settings
        self._demo = demo
        # One that has a token is known by name already, and may take no other.
        self._name = settings.client_name or ("" if settings.client_token else f"console-{secrets.token_hex(2)}")
        self.hub = Hub(watched, settings.every_s, self._facts, self._numbers)
        self._meter: Meter | None = None
        if settings.measure_delays:
            self._meter = Meter(stations(watched.scot), self._station)
        self._starting: asyncio.Task[None] | None = None

    @property
    def reader(self) -> Reader:
        return self.hub.watcher.reader

    async def start(self) -> None:
        """Returns at once: the page can be opened before the overlay is up."""
        self.hub.show_plan()
        if self._demo is None:
            self._begin()
        else:
            self.hub.tell("play", {"ready": False})
            self._starting = asyncio.create_task(self._start_demo(self._demo))

    def _begin(self) -> None:
        self.hub.start()
        if self._meter is not None:
            self._meter.start()

    async def _start_demo(self, demo: DemoProcess) -> None:
        try:
            await demo.start()
        except OctopiaError as error:
            _log.warning("the demo overlay did not start: %s", error)
        else:
            self.hub.tell("play", {"ready": True, **demo.state})
        self._begin()

    async def stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._meter is not None:
            await self._meter.stop()
        await self.hub.stop()
        if self._demo is not None:
            await self._demo.stop()

    # -- the console as a client

    def _facts(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "may_publish": self.settings.allow_publish,
            "demo": self._demo is not None,
            "delays": self._meter is not None,
        }

    def _numbers(self) -> dict[str, float]:
        return {} if self._meter is None else self._meter.numbers()

    def _urls(self) -> Sequence[str]:
        if self.settings.url:
            return [self.settings.url]
        every = [place.url for place in self.hub.watched.places.values() if place.url]
        return every[:: max(1, len(every) // URLS_MAX)][:URLS_MAX]

    def client(self, name: str, token: str) -> Client:
        """A client for a browser: with its own token, or with the console's credentials if it has none."""
        if not token and not name:
            name = self._own_name(secrets.token_hex(3))
        return self._client(self._urls(), name, token or self.settings.client_token, session_s=5.0)

    def _own_name(self, part: str) -> str:
        """A name below the console's; empty if the broker is to choose."""
        return f"{self._name}/{part}" if self._name else ""

    def _station(self, broker: BrokerId) -> Client:
        name = self._own_name(f"meter-{broker.region}-{broker.cluster}")
        settings, url = self.settings, self.hub.watched.places[broker].url
        return Client(url, name=name, token=settings.client_token, tls=settings.client_tls, session_s=5.0)

    def _client(self, url: str | Sequence[str], name: str, token: str, session_s: float) -> Client:
        tls = self.settings.client_tls
        return Client(url, name=name, token=token, tls=tls, connect_s=CONNECT_S, session_s=session_s)

    # -- questions

    async def slowest(self) -> list[dict[str, Any]]:
        """Subscribers with the longest queues and the most drops."""
        longest = await read_table(self.reader, "", "clients", sort="-queue", limit=20)
        dropped = await read_table(self.reader, "", "clients", sort="-dropped", limit=20)
        rows = {(row["broker"], row["client"]): row for page in (longest, dropped) for row in page["rows"]}
        bad = [row for row in rows.values() if row["queue"] or row["dropped"] or row.get("slow")]
        return sorted(bad, key=lambda row: (-row["queue"], -row["dropped"]))[:20]

    def _at(self, url: str | Sequence[str]) -> Client:
        """A short-lived client of the console at this broker."""
        return self._client(url, self._own_name(secrets.token_hex(3)), self.settings.client_token, session_s=1.0)

    async def probe(self, notification: Notification, publisher: str) -> dict[str, Any]:
        """The path of a notification of the console, or of this publisher; it is not delivered."""
        if publisher:
            url = self.hub.watched.places[await self._broker_of(publisher)].url
            async with self._at(url) as client:
                return path_json(await probe(client, self.reader, notification, publisher=publisher))
        async with self._at(self._urls()) as client:
            await advertise_exactly(client, notification)
            return path_json(await probe(client, self.reader, notification))

    async def _broker_of(self, client: str) -> BrokerId:
        page = await read_table(self.reader, "", "clients", q=client, limit=200)
        rows = [row for row in page["rows"] if row["client"] == client]
        if not rows:
            raise InputError(f"no broker knows a client named {client!r}")
        return BrokerId.parse(max(rows, key=lambda row: bool(row["connected"]))["broker"])

    async def why(self, client: str, notification: Notification, publisher: str) -> dict[str, Any]:
        """Why a client gets a notification, or does not."""
        if not client:
            raise InputError("name the client")
        answer = await why(self.reader, client, notification, publisher=publisher or None, make_client=self._at)
        return answer_json(answer)

    # -- Play

    async def play(self, order: dict[str, Any]) -> dict[str, Any]:
        """Change the demo overlay."""
        if self._demo is None:
            raise InputError("this is not the demo overlay: Play is for octopia console --demo")
        state = await self._demo.order(order)
        if self._demo.config.digest != self.hub.watched.digest:
            self.hub.watch(Watched.of(self._demo.config))
        told = {"ready": True, **state}
        self.hub.tell("play", told)
        return told
