"""An overlay at two sites, live on loopback, with a delay on every connection between them; from the example's file.

Clients choose the nearest broker, a broker dies, they go to another of the same site; the site dies, and they go to the
other site. Round trips are those of the sites and not measured, so that nothing depends on how busy this machine is;
which brokers answer is found out by asking them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from octopia.net import Address, Client, Server, Subscription, Url
from octopia.net.client.nearest import Measured, measure
from octopia.topology import BrokerId, load_overlay
from tests.net.live import Live, asynchronous, take, until
from tests.patience import HANG_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-sites.toml"
OVERLAY = load_overlay(EXAMPLE)
assert OVERLAY.sites is not None
SITES = OVERLAY.sites


class _Way(asyncio.Protocol):
    """One direction of a connection: bytes are forwarded after a delay."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.transport: asyncio.Transport | None = None
        self.other: _Way | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        for data in self._early:
            transport.write(data)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        asyncio.get_running_loop().call_later(self.delay_s, self.other.write, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            asyncio.get_running_loop().call_later(self.delay_s, self.other.close)

    def write(self, data: bytes) -> None:
        if self.transport is None:
            self._early.append(data)
        elif not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class Delay:
    """Ports that lead to brokers of another site."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._servers: list[asyncio.Server] = []
        self._dials: set[asyncio.Task[None]] = set()

    async def to(self, address: Address, delay_s: float) -> Address:
        """A port behind which this address is, so far away."""
        server = await asyncio.get_running_loop().create_server(partial(self._accept, address, delay_s), self._host, 0)
        self._servers.append(server)
        return Address(self._host, server.sockets[0].getsockname()[1])

    def _accept(self, address: Address, delay_s: float) -> _Way:
        near, far = _Way(delay_s), _Way(delay_s)
        near.other, far.other = far, near
        task = asyncio.get_running_loop().create_task(self._dial(address, near, far))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        return near

    async def _dial(self, address: Address, near: _Way, far: _Way) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, address.host, address.port)
        except OSError:
            near.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()


class TwoSites(Live):
    """A server for each site; connections between sites have a delay."""

    def __init__(self, **options: Any) -> None:
        super().__init__("path:4", 3, **options)
        assert self.scot == OVERLAY.scot
        self.delay = Delay(self._host)

    async def __aenter__(self) -> Self:
        nowhere = dict.fromkeys(self.scot.brokers, Address(self._host, 0))
        servers = {
            site: Server(self.scot, nowhere, brokers=brokers, **self.options)
            for site, brokers in SITES.brokers(self.scot).items()
        }
        for site, server in servers.items():
            await server.listen()
            self.servers |= dict.fromkeys(SITES.brokers(self.scot)[site], server)
            self.addresses |= {broker: server.addresses[broker] for broker in server.brokers}
            for host in server.hosts.values():
                # How busy this machine is has no say: nobody is overloaded, nobody is asked to move.
                host.load.check = lambda *measured: False  # type: ignore[method-assign]
        for site, server in servers.items():
            server.meet({broker: await self._from(site, broker) for broker in self.scot.brokers})
        await until(self.all_links_up)
        return self

    async def _from(self, site: str, broker: BrokerId) -> Address:
        delay_ns = SITES.between(site, SITES.site_of(broker))
        return await self.delay.to(self.addresses[broker], delay_ns / 1e9) if delay_ns else self.addresses[broker]

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        self.delay.close()

    async def at(self, site: str, name: str) -> Client:
        """A client at a site that knows all brokers, those of the other site first.

        Under `idr` a dead broker inside the path cuts its cluster in two, and nothing is promised across the cut. So
        there the brokers of a site are not equally near: the ends of the paths come first, and only they die.
        """
        order = sorted(self.scot.brokers, key=lambda broker: SITES.site_of(broker) == site)
        further_s = 0.0 if self.options["routing"] == "fdr" else 0.002
        rank = {
            broker: at for at, broker in enumerate(sorted(order, key=lambda broker: (broker.region, broker.cluster)))
        }
        client = Client([self.url(str(broker)) for broker in order], name=name, nearest=True)
        there = {Url.parse(self.url(str(broker))): broker for broker in order}

        async def measured(urls: Sequence[Url], tls: Any) -> Mapping[Url, Measured]:
            answered = await measure(urls, tls)
            return {
                url: Measured(2 * SITES.between(site, SITES.site_of(there[url])) / 1e9 + rank[there[url]] * further_s)
                for url in answered
            }

        client._connecting.measure = measured
        await client.open()
        self.clients.append(client)
        return client


def site_of(client: Client) -> str:
    return SITES.site_of(BrokerId.parse(client.broker))


async def subscribed(client: Client) -> Subscription:
    subscription = client.subscribe("n >= 0")
    await client.start_subscription(subscription)
    return subscription


async def again_in_force(client: Client, lost: str) -> None:
    """Wait until the client is at another broker, and what it registered is in force there."""
    await until(lambda: client.broker != lost and client._connecting.channel is not None)
    await client.unadvertise("none")  # answered after what was registered


@pytest.mark.parametrize("routing", ["idr", "fdr"])
@asynchronous
async def test_clients_use_the_nearest_broker_and_another_when_it_or_the_site_dies(
    routing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A dead broker refuses at once; one that lives answers, however late.
    monkeypatch.setattr("octopia.net.client.nearest.PROBE_S", HANG_S)
    async with TwoSites(routing=routing) as live:
        readers = {name: await live.at(site, name) for name, site in (("e", "east"), ("w", "west"))}
        feed = await live.at("east", "feed")
        assert [site_of(readers["e"]), site_of(readers["w"]), site_of(feed)] == ["east", "west", "east"]
        inboxes = [await subscribed(client) for client in readers.values()]
        await feed.advertise("n is not null")

        async def publish(first: int, count: int) -> None:
            await feed.publish_many({"n": n} for n in range(first, first + count))
            await feed.flush()
            for inbox in inboxes:
                got = [d.notification["n"] for d in await take(inbox, count)]
                assert sorted(got) == list(range(first, first + count))

        await publish(0, 100)
        # A broker dies: its client goes to another of the same site.
        lost = readers["e"].broker
        if lost == feed.broker:
            live.crash(lost)
            await again_in_force(feed, lost)
        else:
            live.crash(lost)
        await again_in_force(readers["e"], lost)
        assert site_of(readers["e"]) == site_of(feed) == "east"
        await publish(100, 100)
        # The site dies: everyone is at the other one.
        gone = {id(client): client.broker for client in (readers["e"], feed)}
        for broker in [broker for broker in live.servers if SITES.site_of(broker) == "east"]:
            live.crash(str(broker))
        for client in (readers["e"], feed):
            await again_in_force(client, gone[id(client)])
        assert {site_of(client) for client in (*readers.values(), feed)} == {"west"}
        await publish(200, 100)
