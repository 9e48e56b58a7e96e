# ruff: noqa: S106  tokens of tests
"""Who gets in, and what they may do: tokens, certificates, rights, TLS versions, strangers at the door."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from octopia.errors import RefusedError
from octopia.language import parse_filter
from octopia.net import Authority, Client, ClientEntry, NetLimits, OverlayIdentity, Rights, Server, UnreachableError
from octopia.net.tls import client_context, server_context
from octopia.routing import DEFAULT_ROUTING
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import Goodbye, Hello, WireLimits, message_frame, unsubscribe_frame
from tests.net.live import Live, asynchronous, channel_of, client_of, in_overlay, kill_host, overlay, take, until
from tests.net.processes import own_host

FEED = Rights("feed", parse_filter("class = 'STOCK' and price > 0"), None, (0,))
READER = Rights("reader", None, parse_filter("class = 'STOCK'"))
CLIENTS = Authority(
    (ClientEntry(FEED, token="t-feed"), ClientEntry(READER, token="t-reader", certificate="reader")),
    link_token="between us",
)


@overlay(tree="path:2", clusters=2, authority=CLIENTS)
async def test_rights_are_filters(live: Live) -> None:
    feed = await live.client("a,0", token="t-feed", name="feed/1")
    reader = await live.client("b,1", token="t-reader")
    assert reader.name.startswith("reader/")
    await feed.advertise("class = 'STOCK' and price > 10")
    with pytest.raises(RefusedError, match="feed may not advertise class = 'BOND'"):
        await feed.advertise("class = 'BOND' and price > 10")
    with pytest.raises(RefusedError, match="it may advertise: class = 'STOCK' and price > 0"):
        await feed.advertise("class = 'STOCK' and price is not null")
    with pytest.raises(RefusedError, match="feed may not subscribe to anything"):
        async with feed.subscribe("class = 'STOCK'"):
            pass
    with pytest.raises(RefusedError, match="reader may not subscribe to true"):
        async with reader.subscribe("true"):
            pass
    async with reader.subscribe("class = 'STOCK' and price > 20") as quotes:
        await feed.publish({"class": "STOCK", "price": 30})
        assert [d.notification["price"] for d in await take(quotes, 1)] == [30]
    assert len(live.host("b,1").broker.state.prt) == 0


def test_block_is_a_right() -> None:
    """It slows others, so a named client must be given it; if no client is named, everyone has it."""

    async def scene(live: Live) -> None:
        reader = await live.client("a,0", token="t-reader")
        with pytest.raises(RefusedError, match=r"reader may not subscribe with policy block: set block = true in its"):
            async with reader.subscribe("true", policy="block"):
                pass
        assert len(live.host("a,0").broker.state.prt) == 0
        async with reader.subscribe("true"):
            assert list(live.host("a,0").sessions[reader.name].deliveries.policies.values()) == ["drop_oldest"]
        desk = await live.client("a,0", token="t-desk")
        async with desk.subscribe("true", policy="block"):
            assert list(live.host("a,0").sessions[desk.name].deliveries.policies.values()) == ["block"]

    named = [("reader", False), ("desk", True)]
    entries = [
        ClientEntry(Rights(name, subscribe=parse_filter("true"), block=may), token=f"t-{name}") for name, may in named
    ]
    in_overlay(scene, tree="path:1", clusters=1, authority=Authority(tuple(entries), link_token="between us"))

    async def open_scene(live: Live) -> None:
        subscription = await live.subscriber("a,0", "true", policy="block")
        assert list(live.host("a,0").sessions[client_of(subscription).name].deliveries.policies.values()) == ["block"]

    in_overlay(open_scene, tree="path:1", clusters=1)


def test_rights_differ_from_cluster_to_cluster() -> None:
    stocks, bonds = parse_filter("class = 'STOCK'"), parse_filter("class = 'BOND'")
    both = Authority(
        (
            ClientEntry(Rights("desk", stocks, bonds, (0,)), token="t"),
            ClientEntry(Rights("desk", bonds, stocks, (1,)), token="t"),
        ),
        link_token="between us",
    )

    async def scene(live: Live) -> None:
        clients = [await live.client(at, token="t", name=f"desk/{at}") for at in ("a,0", "b,1")]
        for client, mine, other in zip(clients, ("STOCK", "BOND"), ("BOND", "STOCK"), strict=True):
            await client.advertise(f"class = '{mine}'")
            with pytest.raises(RefusedError, match=f"desk may not advertise class = '{other}'"):
                await client.advertise(f"class = '{other}'")
            with pytest.raises(RefusedError, match=f"desk may not subscribe to class = '{mine}'"):
                async with client.subscribe(f"class = '{mine}'"):
                    pass
        async with clients[1].subscribe("class = 'STOCK'") as quotes:
            await clients[0].publish({"class": "STOCK"})
            assert [d.publisher for d in await take(quotes, 1)] == ["desk/a,0"]
        with pytest.raises(RefusedError, match="desk may not connect to cluster 2; its clusters are: 0, 1"):
            await live.client("a,2", token="t")

    in_overlay(scene, tree="path:2", clusters=3, authority=both)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no client with that token"),
        ({"token": "wrong"}, "no client with that token"),
        ({"token": "t-feed", "name": "reader"}, "feed may not call itself 'reader'"),
        ({"token": "t-feed"}, "feed may not connect to cluster 1"),
    ],
)
@overlay(tree="path:2", clusters=2, authority=CLIENTS)
async def test_who_does_not_get_in(live: Live, options: dict[str, str], said: str) -> None:
    broker = "b,1" if "cluster" in said else "a,0"
    with pytest.raises(RefusedError, match=said):
        await live.client(broker, **options)


class Certificates:
    """Our own authority, and its certificates."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(path / "ca.pem"))

    def sign(self, file: str, common_name: str, *names: str, by: trustme.CA | None = None, **options: Any) -> None:
        signed = (by or self.authority).issue_cert(
            *(names or ("127.0.0.1", own_host())), common_name=common_name, **options
        )
        signed.private_key_pem.write_to_path(str(self.path / f"{file}.key"))
        signed.cert_chain_pems[0].write_to_path(str(self.path / f"{file}.pem"))

    def of_broker(self, broker: BrokerId) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        file = f"{broker.region}-{broker.cluster}"
        if not (self.path / f"{file}.pem").exists():
            self.sign(file, str(broker))
        certificate, key, authorities = (str(self.path / name) for name in (f"{file}.pem", f"{file}.key", "ca.pem"))
        return server_context(certificate, key, authorities), client_context(authorities, certificate, key)

    def of_client(self, file: str | None = None) -> ssl.SSLContext:
        if file is None:
            return client_context(self.path / "ca.pem")
        return client_context(self.path / "ca.pem", self.path / f"{file}.pem", self.path / f"{file}.key")


def secure_url(live: Live, broker: str) -> str:
    return live.url(broker).replace("octopia://", "octopias://")


def with_tls(certificates: Certificates) -> dict[str, Any]:
    authority = Authority(CLIENTS.clients, tls=True)
    return {"tree": "path:2", "clusters": 2, "authority": authority, "tls": certificates.of_broker}


def test_tls_between_brokers_and_for_clients_by_token_and_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.sign("reader", "reader")

    async def scene(live: Live) -> None:
        feed = Client(secure_url(live, "a,0"), token="t-feed", tls=certificates.of_client())
        reader = Client(secure_url(live, "b,1"), tls=certificates.of_client("reader"))
        async with feed, reader:
            await feed.advertise("class = 'STOCK' and price > 10")
            async with reader.subscribe("class = 'STOCK'") as quotes:
                await feed.publish({"class": "STOCK", "price": 30})
                assert [d.notification["price"] for d in await take(quotes, 1)] == [30]
            transport = channel_of(feed).transport
            assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"

    in_overlay(scene, **with_tls(certificates))


def test_tls_that_is_not_good_enough(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.sign("stranger", "reader", by=trustme.CA())

    async def scene(live: Live) -> None:
        old = certificates.of_client()
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        for context in (old, ssl.create_default_context(), certificates.of_client("stranger")):
            with pytest.raises(UnreachableError):
                await Client(secure_url(live, "a,0"), token="t-reader", tls=context, connect_s=5).open()
        with pytest.raises(UnreachableError):
            # A plain client at a port that speaks TLS.
            await Client(live.url("a,0"), token="t-reader", connect_s=1).open()
        wrong_name = secure_url(live, "a,0").replace("127.0.0.1", "localhost")
        with pytest.raises(UnreachableError):
            await Client(wrong_name, token="t-reader", tls=certificates.of_client()).open()

    in_overlay(scene, host="127.0.0.1", **with_tls(certificates))


@asynchronous
async def test_a_neighbour_with_the_certificate_of_another_is_refused(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    async with Live(**with_tls(certificates)) as live:
        forged = BrokerId("a", 0)
        host = live.servers[forged].hosts.pop(forged)
        live.servers[forged]._servers[0].close()
        kill_host(host)
        certificates.sign("a-0", "(b,1)")
        impostor = Server(live.scot, live.addresses, brokers=[forged], **live.options)
        await impostor.start()
        neighbour = live.host("a,1")
        before = neighbour.counters.peers_at_fault
        await until(lambda: neighbour.counters.peers_at_fault > before)
        assert not impostor.hosts[forged].links[BrokerId("a", 1)].is_up
        await impostor.stop()
        del live.servers[forged]


async def converse(url: str, data: bytes) -> bytes:
    """Send bytes, and read until the broker closes."""
    host, port = url.removeprefix("octopia://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        answer = await reader.read(-1)
    except ConnectionError:
        answer = b""
    writer.close()
    return answer


OVERLAY = OverlayIdentity("", Scot(parse_tree("path:2"), 1), DEFAULT_ROUTING).nameless_digest
STRANGERS = {
    "http": (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"speaks HTTP"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"speaks TLS"),
    "garbage": (bytes(range(256)) * 10, b"0 bytes|bytes"),
    "frame before login": (unsubscribe_frame("s"), b"UNSUBSCRIBE before the handshake"),
    "unknown version": (message_frame(Hello([99], "client")), b"speaks version 1 only"),
    "unknown role": (message_frame(Hello([1], "king")), b"unknown role"),
    "no neighbour": (message_frame(Hello([1], "broker", "(z,9)")), b"is not a neighbour"),
    "wrong broker": (message_frame(Hello([1], "broker", "(b,0)", to="(b,0)")), b"this is broker (a,0)"),
    "wrong overlay": (message_frame(Hello([1], "broker", "(b,0)", to="(a,0)")), b"started with another overlay"),
    "wrong direction": (message_frame(Hello([1], "broker", "(b,0)", to="(a,0)", overlay=OVERLAY)), b"dials"),
    "bye": (message_frame(Goodbye("bye")), b"GOODBYE before the handshake"),
    "forged publisher": (b"", b""),
}


@overlay(tree="path:2", clusters=1)
async def test_strangers_are_told_why_and_the_broker_lives_on(live: Live) -> None:
    publisher = await live.publisher("a,0", "x > 0")
    subscription = await live.subscriber("b,0", "x > 0")
    for number, (data, said) in enumerate(STRANGERS.values()):
        if data:
            answer = await converse(live.url("a,0"), data)
            assert any(part in answer for part in said.split(b"|")), answer
        await publisher.publish({"x": number + 1})
        assert [d.notification["x"] for d in await take(subscription, 1)] == [number + 1]


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(handshake_s=0.1))
async def test_a_peer_that_says_nothing_is_closed_in_time(live: Live) -> None:
    assert b"no handshake within 0.1 s" in await converse(live.url("a,0"), b"\x00\x00")


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(connections_max=3))
async def test_connections_have_a_bound(live: Live) -> None:
    clients = [await live.client("a,0") for _ in range(3)]
    with pytest.raises(UnreachableError, match="maximum of 3 connections"):
        await live.client("a,0")
    await clients[0].close()
    await until(lambda: len(live.host("a,0").channels) == 2)
    await live.client("a,0")


@overlay(tree="path:1", clusters=1, wire_limits=WireLimits(frame_bytes_max=4096))
async def test_a_client_cannot_publish_for_another_nor_more_than_it_may(live: Live) -> None:
    client = await live.publisher("a,0", "x > 0", name="me", reconnect=False)
    client._publishing.name = "you"
    await client.publish({"x": 1})
    await until(lambda: client.failure is not None)
    assert "me published in the name of you" in str(client.failure)
    big = await live.publisher("a,0", "s is not null", reconnect=False)
    big._journal.frame_bytes_max = 1 << 30
    await big.publish({"s": "x" * 5000})
    await until(lambda: big.failure is not None)
    assert "at most 4,096 are accepted" in str(big.failure)


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(heartbeat_s=0.1))
async def test_a_broker_that_is_gone_without_a_word_is_found_by_its_client(live: Live) -> None:
    client = await live.client("a,0")
    host = live.host("a,0")
    # The broker hangs: it neither reads nor writes, and the connection stays.
    (peer,) = host.channels
    peer.transport.pause_reading()
    peer.transport.write = lambda data: None
    await until(lambda: client.reconnects > 0)
    await client.flush()


@overlay(tree="path:1", clusters=1, net_limits=NetLimits(heartbeat_s=0.1))
async def test_half_open_connections_are_found(live: Live) -> None:
    host, port = live.url("a,0").removeprefix("octopia://").split(":")
    loop = asyncio.get_running_loop()
    raw = socket.create_connection((host, int(port)))
    raw.setblocking(False)
    await loop.sock_sendall(raw, message_frame(Hello([1], "client", "mute")))
    await until(lambda: "mute" in live.host("a,0").sessions)
    await until(lambda: "mute" not in live.host("a,0").sessions)
    raw.close()
