"""Probes take the way of the notification hop by hop, and leave nothing behind: under every routing."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from octopia.errors import RefusedError
from octopia.language import matches, parse_filter, parse_notification
from octopia.net import Authority, Client, ClientEntry, Recording, Rights, Server, connect
from octopia.topology import BrokerId
from octopia.watch import Reader, Watched
from octopia.watch.fetch import get
from octopia.wire import PROBE, Batch, encode_parcel
from octopia.wire import probe_frame as frame_of
from tests.net.live import asynchronous, until
from tests.watch.overlays import clients, url, watched_overlay
from tests.wire.peers import at_broker

ROUTINGS = ("snr", "idr", "fdr", "tid", "tid-dynamic")
SHAPES = [("path:3", 3), ("star:4", 2), ("path:2", 4), ("h", 2)]


@asynccontextmanager
async def a_crowd(watched: Watched, seed: int) -> AsyncIterator[tuple[Client, list[tuple[str, str, str, Any]]]]:
    """A publisher somewhere, and subscribers everywhere: client, broker, subscription id and filter of each."""
    draw = random.Random(seed)
    async with AsyncExitStack() as stack:
        home = draw.choice(watched.scot.brokers)
        publisher = await stack.enter_async_context(connect(watched.places[home].url, name="publisher"))
        await publisher.advertise("class = 'STOCK' and price >= 0", id="adv")
        wanted: list[tuple[str, str, str, Any]] = []
        for number, broker in enumerate(watched.scot.brokers):
            name = f"reader{number}"
            reader = await stack.enter_async_context(connect(watched.places[broker].url, name=name))
            for each in range(draw.randrange(3)):
                text = f"price > {draw.randrange(10)}" if draw.random() < 0.7 else "class = 'BOND'"
                subscription = reader.subscribe(text, id=f"s{each}")
                await stack.enter_async_context(subscription)
                wanted.append((name, str(broker), f"s{each}", parse_filter(text)))
        yield publisher, wanted


def hops(records: list[dict[str, Any]]) -> list[Any]:
    """What brokers decided, without times, queues and who got it."""
    return sorted(
        (
            record["broker"],
            record["came_from"],
            [(c["to"], c["civ"], c["destinations"], c["tree"], c["priority"]) for c in record["copies"]],
            [(r["client"], r["subscriptions"]) for r in record["recipients"]],
        )
        for record in records
    )


async def settled(reader: Reader, publisher: str, sequence: int) -> list[dict[str, Any]]:
    """The records of a notification, once no copy is under way: each copy has its record at the other end."""
    while True:
        records = await reader.traces(publisher, sequence)
        if records and len(records) == 1 + sum(len(record["copies"]) for record in records):
            return records


def counted(server: Server) -> dict[str, Any]:
    """All that a notification would leave behind."""
    left: dict[str, Any] = {}
    for id, host in server.hosts.items():
        report = host.report()
        left[str(id)] = (
            {name: getattr(report.counters, name) for name in report.counters.__slots__},
            report.cases,
            report.streams,
            None if host.order is None else (dict(host.order.reorder.last), len(host.order.ways)),
            {name: session.queue.left_total for name, session in host.sessions.items() if name != "publisher"},
            {
                name: (session.publisher.published, session.publisher.last_sequence)
                for name, session in host.sessions.items()
            },
        )
    return left


def overload(server: Server, draw: random.Random) -> None:
    """Hold some links over τ, whatever their queues are."""
    for host in server.hosts.values():
        for neighbour in host.links:
            if draw.random() < 0.4:
                host.broker.sampled(neighbour, 50, (1 << 40) + 50, 1 << 40, host.now())
        # and so they stay: nobody tells the core, or its neighbours, how long they really are
        host.broker._sample = lambda *_: None
        host.broker._sampled = None


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("seed", [1, 2])
@asynchronous
async def test_a_probe_takes_the_way_of_the_notification_and_nobody_gets_it(routing: str, seed: int) -> None:
    draw = random.Random(seed * 100 + ROUTINGS.index(routing))
    tree, clusters = draw.choice(SHAPES)
    async with (
        watched_overlay(tree, clusters, routing=routing) as (server, watched),
        a_crowd(watched, seed) as (publisher, wanted),
    ):
        reader = Reader(watched)
        for loaded in (False, True):
            if loaded:
                overload(server, draw)
            for price in (0, 4, 20):
                notification = {"class": "STOCK", "price": price}
                before = counted(server)
                number = await publisher.probe(notification)
                probed = await settled(reader, "publisher", number)
                assert counted(server) == before
                assert all(record["probe"] and not record["delivered"] for record in probed)
                would = {
                    (r["client"], id) for record in probed for r in record["recipients"] for id in r["subscriptions"]
                }
                assert would == {(name, id) for name, _, id, filter in wanted if matches(filter, notification)}
                real = int(await publisher.publish(notification, traced=True))
                await publisher.flush()
                done = await settled(reader, "publisher", real)
                assert hops(done) == hops(probed)
                got = {name for record in done for name in record["delivered"]}
                assert got == {name for name, _ in would}


@asynchronous
async def test_fdr_streams_go_on_as_if_there_had_been_no_probe() -> None:
    async with (
        watched_overlay("path:2", 2, routing="fdr") as (_, watched),
        connect(url(watched, "a,0"), name="p") as publisher,
        connect(url(watched, "b,1")) as reader,
    ):
        await publisher.advertise("n >= 0")
        async with reader.subscribe("n >= 0") as numbers:
            for n in range(60):
                await publisher.publish({"n": n})
                if n % 3 == 0:
                    await publisher.probe({"n": n})
            got = []
            async for each in numbers:
                got.append(each["n"])
                if len(got) == 60:
                    break
            assert got == list(range(60))


@asynchronous
async def test_who_may_probe_what() -> None:
    right = Rights("feed", parse_filter("class = 'STOCK' and price > 0"), None, None, False, False)
    watch = Rights("watch", None, None, None, False, True)
    clients = (ClientEntry(right, "token of the feed"), ClientEntry(watch, "token of the watch"))
    authority = Authority(clients, "token of the links")
    async with (
        watched_overlay("path:2", 1, authority=authority) as (_, watched),
        connect(url(watched, "a,0"), name="feed", token="token of the feed") as feed,  # noqa: S106
        connect(url(watched, "a,0"), name="watch", token="token of the watch") as watcher,  # noqa: S106
    ):
        with pytest.raises(RefusedError, match="feed has no advertisement"):
            await feed.probe({"class": "STOCK", "price": 1})
        await feed.advertise("class = 'STOCK' and price > 0 and size > 0")
        await feed.probe({"class": "STOCK", "price": 1})
        with pytest.raises(RefusedError, match=r"price > 0 failed: price is 0; each notification must match"):
            await feed.probe({"class": "STOCK", "price": 0})
        with pytest.raises(RefusedError, match="feed did not advertise this"):
            await feed.probe({"class": "STOCK", "price": 1, "other": 1})
        with pytest.raises(RefusedError, match="feed may not probe in the name of watch: set probe = true"):
            await feed.probe({"class": "STOCK", "price": 1}, publisher="watch")
        # who has the right probes as another, by that one's rights
        number = await watcher.probe({"class": "STOCK", "price": 1}, publisher="feed")
        (record,) = await Reader(watched).traces("feed", number)
        assert (record["came_from"], record["notification"]) == ("feed", {"class": "STOCK", "price": 1})
        with pytest.raises(RefusedError, match="each notification must match its right"):
            await watcher.probe({"class": "STOCK", "price": 0}, publisher="feed")
        with pytest.raises(RefusedError, match="no client named 'nobody' is connected"):
            await watcher.probe({"x": 1}, publisher="nobody")
        with pytest.raises(RefusedError, match="watch has no advertisement"):
            await watcher.probe({"x": 1})


@asynchronous
async def test_content_that_json_cannot_say_is_still_json() -> None:
    async with watched_overlay("path:1", 1) as (_, watched), clients(watched, p="a,0") as (client,):
        await client.advertise("x is not null and y is not null")
        number = await client.probe({"x": float("inf"), "y": 2**80})
        status, body = await get(f"{watched.places[BrokerId('a', 0)].http}/traces?publisher=p&sequence={number}")
        assert (status, b"Infinity" in body) == (200, False)
        (record,) = json.loads(body)
        assert record["notification"] == {"x": "inf", "y": 2**80}


@asynchronous
async def test_a_probe_is_no_registration_and_survives_a_new_session() -> None:
    async with (
        watched_overlay("path:1", 1) as (server, watched),
        connect(url(watched, "a,0"), name="p", session_s=0) as client,
    ):
        await client.advertise("x > 0")
        await client.probe({"x": 1})
        await client.flush()
        assert [name for name, _ in client._registry.standing()] == ["advertise"]
        host = server.hosts[BrokerId("a", 0)]
        channel = host.sessions["p"].channel
        assert channel is not None
        channel.abort()
        await until(lambda: client.reconnects == 1 and client.is_connected)
        await client.probe({"x": 2})


@asynchronous
async def test_what_a_probe_leaves_in_a_recording() -> None:
    scot_brokers = [BrokerId("a", 0), BrokerId("b", 0)]
    recordings = {broker: Recording([other for other in scot_brokers if other != broker]) for broker in scot_brokers}
    async with (
        watched_overlay("path:2", 1, recordings=recordings) as (_, watched),
        connect(url(watched, "a,0"), name="p") as publisher,
        connect(url(watched, "b,0")) as reader,
    ):
        await publisher.advertise("n > 0")
        async with reader.subscribe("n > 0"):
            number = await publisher.probe({"n": 1})
            await settled(Reader(watched), "p", number)
    for broker, link in ((scot_brokers[0], -1), (scot_brokers[1], 0)):
        recording = recordings[broker]
        kind = recording.words.index("probe")
        columns = len(recording.events) // 12
        rows = [recording.events[at * 12 : at * 12 + 12] for at in range(columns)]
        (noted,) = [row for row in rows if row[5] == kind]
        assert (noted[2], recording.words[noted[6]], noted[8]) == (link, "p", number)


def test_a_probe_on_the_wire() -> None:
    seen = parse_notification({"x": 1, "y": "z"})
    connection = at_broker("client")
    (message,) = connection.receive(frame_of(encode_parcel(seen, "q", 5)))
    assert isinstance(message, Batch)
    probed = message.notification(0)
    assert (probed, probed.publisher, probed.sequence, probed.header) == (seen, "q", 5, PROBE)
    assert connection.received == 1
