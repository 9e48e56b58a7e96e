"""Clients that know several brokers: which one they use, when they leave it, and what they take along."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import InputError, RefusedError
from octopia.net import (
    Authority,
    Client,
    ClientEntry,
    Rights,
    UnreachableError,
    Url,
    connect,
    connect_sync,
    parse_urls,
)
from octopia.topology import BrokerId
from tests.net.live import Live, asynchronous, box_of, channel_of, in_overlay, overlay, run, take, until
from tests.net.processes import Processes, own_host

TOKEN = "of a client in this test"  # noqa: S105
NOWHERE = f"octopia://{own_host()}:1"


def test_urls_in_a_list_or_with_commas_each_once() -> None:
    a, b = Url.parse("octopia://a:1"), Url.parse("octopias://b:2")
    assert parse_urls("octopia://a:1") == (a,)
    assert parse_urls("octopia://a:1, octopias://b:2") == (a, b)
    assert parse_urls(["octopia://a:1", "octopias://b:2,a:1"]) == (a, b)
    nothing: list[str] = []
    for wrong in (nothing, "", "octopia://a:1,,"):
        with pytest.raises(InputError):
            parse_urls(wrong)
    with pytest.raises(InputError, match="65 urls"):
        parse_urls([f"a:{port}" for port in range(1, 66)])


@overlay(tree="path:2", clusters=1)
async def test_the_first_that_answers_is_used(live: Live) -> None:
    async with connect([NOWHERE, live.url("b,0"), live.url("a,0")]) as client:
        assert client.broker == "(b,0)"
        assert str(client.url) == live.url("b,0")
    url = f"{NOWHERE},{live.url('a,0')}"
    broker = await asyncio.to_thread(lambda: _broker_of(url))
    assert broker == "(a,0)"


def _broker_of(url: str) -> str:
    with connect_sync(url) as client:
        return client.broker


@asynchronous
async def test_where_none_answers_all_are_named() -> None:
    other = f"octopia://{own_host()}:2"
    with pytest.raises(UnreachableError) as caught:
        await Client([NOWHERE, other]).open()
    assert NOWHERE in str(caught.value)
    assert other in str(caught.value)


def test_refused_by_one_is_not_refused_by_all() -> None:
    """A client with rights in cluster 1 only."""
    entry = ClientEntry(Rights("feed", clusters=(1,)), token=TOKEN)

    async def scene(live: Live) -> None:
        async with connect([live.url("a,0"), live.url("a,1")], token=TOKEN) as client:
            assert client.broker == "(a,1)"
        with pytest.raises(RefusedError, match="may not connect to cluster 0"):
            await Client([live.url("a,0"), live.url("b,0")], token=TOKEN).open()
        with pytest.raises(UnreachableError, match="may not connect to cluster 0"):
            await Client([live.url("a,0"), NOWHERE], token=TOKEN).open()

    in_overlay(scene, tree="path:2", clusters=2, authority=Authority((entry,), link_token=TOKEN))


@overlay(tree="path:2", clusters=1)
async def test_a_cut_connection_is_taken_up_at_the_same_broker(live: Live) -> None:
    client = Client([live.url("a,0"), live.url("b,0")])
    await client.open()
    live.clients.append(client)
    for _ in range(3):
        before = client.reconnects
        channel_of(client).transport.abort()
        await until(lambda: client.reconnects > before)  # noqa: B023  within the round
        assert client.broker == "(a,0)"
    assert live.host("a,0").counters.sessions_resumed == 3


@overlay(tree="path:2", clusters=2)
async def test_a_broker_that_stops_is_left_for_the_next_and_everything_is_registered_there(live: Live) -> None:
    far = await live.subscriber("b,1", "n >= 0")
    publisher = await live.publisher("b,1", "m is not null")
    client = Client([live.url("a,0"), live.url("a,1")], name="moving")
    await client.open()
    live.clients.append(client)
    await client.advertise("n is not null")
    own = client.subscribe("m >= 0")
    await client.start_subscription(own)
    await client.publish_many({"n": n} for n in range(100))
    await client.flush()
    host = live.host("a,0")
    host.drain()
    # Not confirmed by a broker that stops: published again at the next.
    await client.publish_many({"n": n} for n in range(100, 200))
    await until(lambda: not box_of(client).waits)
    host.freeze()
    host.channels.part("shutdown", "the broker stops")
    await until(lambda: client.broker == "(a,1)")
    # Registered there when it may publish again.
    await client.flush()
    assert [d.notification["n"] for d in await take(far, 200)] == list(range(200))
    assert live.host("a,1").sessions["moving"].deliveries.policies == {"s1": "drop_oldest"}
    await client.unadvertise("none")  # answered after the subscription was
    await publisher.publish({"m": 1})
    assert [d.notification["m"] for d in await take(own, 1)] == [1]


def test_a_killed_broker_is_left_for_the_next(tmp_path: Path) -> None:
    """Nothing confirmed to the publisher is lost; notifications routed but not confirmed may arrive twice."""
    processes = Processes(tmp_path, "path:2", 1)
    processes.start()
    processes.wait_for_links()

    async def main() -> None:
        urls = [processes.url("a,0"), processes.url("b,0")]
        async with connect(urls) as publisher, connect(processes.url("b,0")) as reader:
            await publisher.advertise("n is not null")
            async with reader.subscribe("n >= 0") as numbers:
                await publisher.publish_many({"n": n} for n in range(1000))
                await publisher.flush()
                assert [d.notification["n"] for d in await take(numbers, 1000)] == list(range(1000))
                await asyncio.to_thread(processes.stop, "a,0", signal.SIGKILL)
                await publisher.publish_many({"n": n} for n in range(1000, 2000))
                got: list[Any] = []
                while not got or got[-1] != 1999:
                    got += [d.notification["n"] for d in await take(numbers, 1)]
                assert list(dict.fromkeys(got)) == list(range(1000, 2000))
                assert publisher.broker == "(b,0)"

    try:
        run(main)
    finally:
        processes.close()


def test_a_full_queue_moves_to_the_next_broker_in_order(tmp_path: Path) -> None:
    """Tasks wait to publish when the broker dies; none of theirs may pass what is in the queue."""
    processes = Processes(tmp_path, "path:2", 1)
    processes.start()
    processes.wait_for_links()
    count = 60_000

    async def main() -> None:
        urls = [processes.url("a,0"), processes.url("b,0")]
        async with connect(urls) as publisher, connect(processes.url("b,0")) as reader:
            await publisher.advertise("n is not null")
            async with reader.subscribe("n >= 0", policy="block") as numbers:
                processes.running["a,0"].send_signal(signal.SIGSTOP)
                ids = iter(range(count))

                async def publish() -> None:
                    for n in ids:
                        await publisher.publish({"n": n})

                publishing = [asyncio.create_task(publish()) for _ in range(3)]
                await until(lambda: not publisher._journal.has_room)
                await asyncio.to_thread(processes.stop, "a,0", signal.SIGKILL)
                reading = asyncio.create_task(take(numbers, count))
                await asyncio.gather(*publishing)
                await publisher.flush()
                got = await reading
                # Numbered in the order in which they were published, whichever task did it.
                assert [int(d.id) for d in got] == list(range(1, count + 1))
                assert {d.notification["n"] for d in got} == set(range(count))

    try:
        run(main)
    finally:
        processes.close()


@overlay(tree="path:2", clusters=1)
async def test_the_first_broker_is_used_again_when_the_second_is_gone(live: Live) -> None:
    a, b = BrokerId("a", 0), BrokerId("b", 0)
    client = Client([f"octopia://{live.addresses[a]}", f"octopia://{live.addresses[b]}"])
    await client.open()
    live.clients.append(client)
    for broker, other in ((a, b), (b, a), (a, b)):
        assert client.broker == str(broker)
        (session,) = live.host(f"{broker.region},0").sessions.values()
        # The broker forgets it, and says that it stops.
        session.channel.close("shutdown", "the broker stops")
        await until(lambda other=other: client.broker == str(other))  # type: ignore[misc]
        live.host(f"{broker.region},0").sessions.forget(session)
