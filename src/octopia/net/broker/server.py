"""Brokers that listen: sockets, the clock's tick, start and end, for one or many brokers in one process.

Rules of this file: all brokers of a process share one event loop and one turn (so that their writes are joined); each
has its own tick. Starting is done when every broker listens; links come up by themselves. Stopping drains, for at most
`drain_s`: nobody new is let in, publishers are confirmed what was taken from them and no more is taken, and everything
on its way is routed and written until all who are connected have confirmed it; then everyone is told and closed.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Self

from octopia.matching import warm_up
from octopia.net.addresses import Address
from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.config import ServeConfig
from octopia.net.broker.descriptors import connections_that_fit, raise_files_limit
from octopia.net.broker.host import BrokerHost
from octopia.net.broker.listener import Listener
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.http import HttpPeer
from octopia.net.limits import NetLimits
from octopia.net.outbox import Turn
from octopia.topology import BrokerId, Scot


class Server:
    """Some brokers of an overlay, running in this process. `async with Server(...)` starts and stops them."""

    def __init__(
        self,
        overlay: Scot,
        addresses: Mapping[BrokerId, Address],
        *,
        brokers: Iterable[BrokerId] | None = None,
        http: Mapping[BrokerId, Address] | None = None,
        http_token: str = "",
        tls: Callable[[BrokerId], tuple[ssl.SSLContext, ssl.SSLContext]] | None = None,
        **options: Any,
    ) -> None:
        self.overlay = overlay
        self.addresses = dict(addresses)
        self.brokers = tuple(overlay.brokers if brokers is None else brokers)
        self.http = dict(http or {})
        self._http_token = http_token
        self._tls = tls
        self._options = options
        self.hosts: dict[BrokerId, BrokerHost] = {}
        self._servers: list[Listener] = []
        self._tickers: dict[BrokerId, asyncio.TimerHandle] = {}

    @classmethod
    def of(cls, config: ServeConfig, brokers: Iterable[BrokerId] | None = None) -> Self:
        """The brokers of a configuration, all or some."""
        return cls(
            config.scot,
            config.addresses,
            brokers=brokers,
            http=config.http,
            http_token=config.http_token,
            tls=None if config.tls is None else config.tls.contexts,
            routing=config.routing,
            congestion=config.congestion,
            limits=config.limits,
            wire_limits=config.wire_limits,
            net_limits=config.net_limits,
            authority=config.authority,
            overlay_digest=config.digest,
        )

    async def start(self) -> None:
        """Listen, then look for neighbours. A port 0 is replaced by the one that the system chose."""
        # Compiled kernels take up to a second to load, once in a process, and some ten to compile, once in an
        # installation: not while the first notification waits, nor while the rest of the program does.
        await asyncio.to_thread(warm_up)
        loop = asyncio.get_running_loop()
        turn = Turn(loop)
        files = raise_files_limit()
        for id in self.brokers:
            listen, dial = self._tls(id) if self._tls is not None else (None, None)
            host = BrokerHost(id, self.overlay, turn=turn, tls_dial=dial, **self._options)
            self.hosts[id] = host
            address = self.addresses[id]
            server = await Listener.bind(
                address.host,
                address.port,
                host.door.accept,
                host.door.arrivals,
                partial(_count, host.counters, "handshakes_crowded_out"),
                host.log,
                tls=listen,
                handshake_s=host.net_limits.handshake_s,
            )
            self._servers.append(server)
            self.addresses[id] = Address(address.host, server.port)
            self._fit(host, files)
            server.start()
            await self._start_http(host)
        for host in self.hosts.values():
            host.start(self.addresses)
            self._tick(host)

    async def _start_http(self, host: BrokerHost) -> None:
        address = self.http.get(host.id)
        if address is None:
            return
        places = host.net_limits.http_connections_max
        arrivals: Arrivals[HttpPeer] = Arrivals(places, places)
        server = await Listener.bind(
            address.host,
            address.port,
            lambda: HttpPeer(host.report, host.traces, self._http_token, arrivals.remove),
            arrivals,
            partial(_count, host.counters, "http_crowded_out"),
            host.log,
        )
        self._servers.append(server)
        self.http[host.id] = Address(address.host, server.port)
        server.start()

    def _fit(self, host: BrokerHost, files: int) -> None:
        """Let in no more clients than there are file descriptors for."""
        wanted = host.door.connections_max
        fit = connections_that_fit(files, len(self.brokers), host.net_limits, len(host.links))
        if fit < wanted:
            host.door.connections_max = fit
            # The default is more than most need; who asked for so many is told louder.
            tell = host.log.info if wanted == NetLimits().connections_max else host.log.warning
            tell(
                "connections_max lowered",
                to=fit,
                reason=f"{files} open files are allowed for {len(self.brokers)} brokers in this process",
                fix=f"allow more (ulimit -n, LimitNOFILE), or set connections_max to {fit} or less",
            )

    def _tick(self, host: BrokerHost) -> None:
        # The next one first: a broker whose tick fails once must not be left without time.
        self._tickers[host.id] = asyncio.get_running_loop().call_later(host.congestion.window_s / 2, self._tick, host)
        host.tick()

    async def links_up(self) -> None:
        """Wait until every link between brokers of this process is up."""
        while not all(link.is_up for host in self.hosts.values() for n, link in host.links.items() if n in self.hosts):
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Drain and close. Calling it again does nothing."""
        for server in self._servers:
            server.close()
        for host in self.hosts.values():
            host.drain()
        loop = asyncio.get_running_loop()
        drain_s = max((host.net_limits.drain_s for host in self.hosts.values()), default=0)
        until = loop.time() + drain_s
        while loop.time() < until and not all(host.is_drained for host in self.hosts.values()):
            await asyncio.sleep(0.01)
        for ticker in self._tickers.values():
            ticker.cancel()
        for host in self.hosts.values():
            host.stop()
        # Let the last words be written.
        for _ in range(3):
            await asyncio.sleep(0)
        until = loop.time() + 1
        while loop.time() < until and any(len(host.channels) for host in self.hosts.values()):
            await asyncio.sleep(0.005)
        for host in self.hosts.values():
            host.channels.abort()
        self._servers.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _count(counters: Counters, name: str) -> None:
    setattr(counters, name, getattr(counters, name) + 1)
