"""A client whose session ended is told that it may have missed something; one that resumes it, or moves, is not."""

import logging
from typing import Any

import pytest

from octopia.net import Client, Subscription
from tests.net.live import Live, asynchronous, overlay, take, until


async def cut(live: Live, client: Client, *, forget: bool) -> None:
    """Break the client's connection; its broker forgets the session or keeps it."""
    host, reconnects = live.host(client.broker.strip("()")), client.reconnects
    session = host.sessions.get(client.name)
    session.channel.abort()
    if forget:
        session.drop_channel("idle", "a test")
        host.sessions.forget(session)
    await until(lambda: client.reconnects > reconnects and client.is_connected)


async def still_delivers(publisher: Client, subscription: Subscription, number: int) -> None:
    await publisher.publish({"n": number})
    assert [delivery.notification["n"] for delivery in await take(subscription, 1)] == [number]


@overlay(tree="path:1", clusters=1)
async def test_a_session_that_ended_is_told_once_and_counted(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "octopia.net.client")
    told: list[tuple[bool, str]] = []
    publisher = await live.publisher("a,0", "n is not null")
    client = await live.client("a,0", name="reader", on_connection=lambda up, what: told.append((up, what)))
    first, second = client.subscribe("n >= 0"), client.subscribe("n < 0")
    await first.__aenter__()
    await cut(live, client, forget=False)
    await still_delivers(publisher, first, 1)
    assert (client.gaps, first.gaps) == (0, 0)
    assert told[-1][1].endswith(str(client.url))
    await second.__aenter__()
    await cut(live, client, forget=True)
    late = client.subscribe("n > 100")
    await late.__aenter__()
    await still_delivers(publisher, first, 2)
    assert (client.gaps, first.gaps, second.gaps, late.gaps) == (1, 1, 1, 0)
    assert told[-1] == (True, f"connected again, to (a,0) at {client.url}; subscriptions may have missed notifications")
    warned = [record.getMessage() for record in caplog.records if record.name == "octopia.net.client"]
    (line,) = warned
    assert line == (
        "octopia: 2 subscriptions of client reader at (a,0) may have missed notifications: "
        "its session is over, and they were registered again"
    )


@overlay(tree="path:1", clusters=1)
async def test_a_client_without_subscriptions_missed_nothing(live: Live) -> None:
    client = await live.publisher("a,0", "n is not null")
    gone = client.subscribe("n >= 0")
    async with gone:
        pass
    await cut(live, client, forget=True)
    assert (client.gaps, gone.gaps) == (0, 0)


@asynchronous
async def test_a_client_that_leaves_a_dead_broker_is_told() -> None:
    async with Live("path:2", 1) as live:
        both: Any = [live.url("a,0"), live.url("b,0")]
        client = Client(both, name="reader")
        await client.open()
        live.clients.append(client)
        subscription = client.subscribe("n >= 0")
        await subscription.__aenter__()
        live.crash("a,0")
        await until(lambda: client.broker == "(b,0)" and client.is_connected)
        assert (client.gaps, subscription.gaps) == (1, 1)
