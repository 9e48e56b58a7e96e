"""Connections break, brokers restart, clients vanish: promised notifications still arrive, once and in order."""

import asyncio
import random
from typing import Any

import pytest

from octopia.errors import InputError
from octopia.language import parse_notification
from octopia.net import Address, Client, NetLimits, Server, UnreachableError
from octopia.topology import BrokerId
from octopia.wire import encode_parcel
from octopia.wire.delivered import DecodedDeliveries
from tests.net.live import QUICK, Live, asynchronous, channel_of, client_of, kill_host, overlay, take, until, waiting


def cut(client: Client) -> None:
    """Break the client's connection as a failing network would."""
    channel_of(client).transport.abort()


async def unreachable(channel: object) -> None:
    raise ConnectionRefusedError


@overlay()
async def test_a_session_survives_cuts_on_both_sides_without_loss_or_repeat(live: Live) -> None:
    draw = random.Random(5)
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("c,2", "n >= 0")
    got: list[int] = []
    sent = 0
    for _ in range(25):
        for _ in range(draw.randrange(1, 300)):
            await publisher.publish({"n": sent})
            sent += 1
        for client in draw.choice([[publisher], [client_of(subscription)], [publisher, client_of(subscription)]]):
            if client._connecting.channel is not None:
                cut(client)
        got += [d.notification["n"] for d in await take(subscription, draw.randrange(0, sent - len(got) + 1))]  # type: ignore[misc]
    got += [d.notification["n"] for d in await take(subscription, sent - len(got))]  # type: ignore[misc]
    assert got == list(range(sent))
    assert publisher.reconnects > 0
    assert client_of(subscription).reconnects > 0
    assert live.host("c,2").counters.sessions_resumed == client_of(subscription).reconnects


@overlay(routing="snr", net_limits=NetLimits())
async def test_links_that_break_lose_and_double_nothing(live: Live) -> None:
    draw = random.Random(6)
    publisher = await live.publisher("b,1", "n is not null")
    subscriptions = [await live.subscriber(at, "n >= 0") for at in ("a,0", "c,1", "b,2")]
    for start in range(0, 3000, 100):
        await publisher.publish_many({"n": n} for n in range(start, start + 100))
        host = live.host(draw.choice(["a,0", "b,0", "b,1", "c,1", "b,2"]))
        link = draw.choice(list(host.links.values()))
        if link.channel is not None:
            link.channel.abort()
    for subscription in subscriptions:
        assert [d.notification["n"] for d in await take(subscription, 3000)] == list(range(3000))
    await until(live.all_links_up)


@overlay(net_limits=NetLimits(client_queue_frames_max=100))
async def test_what_a_vanished_client_was_to_get_waits_for_it_up_to_the_bound(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("c,2", "n >= 0", policy="block")
    client = client_of(subscription)
    connecting = client._connecting
    dial, connecting._make_connection = connecting._make_connection, unreachable  # type: ignore[method-assign]
    channel_of(client).confirm()
    cut(client)
    session = live.host("c,2").sessions[client.name]
    await until(lambda: session.channel is None)
    await publisher.publish_many({"n": n} for n in range(150))
    await until(lambda: session.queue.held + session.queue.dropped_total >= 150)
    kept = 150 - session.queue.dropped_total
    connecting._make_connection = dial  # type: ignore[method-assign]
    assert [d.notification["n"] for d in await take(subscription, kept)] == list(range(kept))
    await until(lambda: client.dropped == 150 - kept)
    assert 0 < client.dropped <= 51


@overlay()
async def test_a_session_that_is_over_leaves_nothing_behind(live: Live) -> None:
    client = await live.client("c,2", reconnect=False, session_s=0.05, name="gone")
    subscription = client.subscribe("n >= 0")
    await client.start_subscription(subscription)
    cut(client)
    host = live.host("c,2")
    await until(lambda: "gone" not in host.sessions)
    await until(lambda: not any(len(live.host(f"{r},2").broker.state.prt) for r in "abc"))
    with pytest.raises(UnreachableError):
        await subscription.next_batch()


@overlay()
async def test_a_forgotten_client_registers_anew_and_publishes_what_was_not_confirmed(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null", session_s=0)
    subscription = await live.subscriber("c,2", "n >= 0")
    await publisher.publish({"n": 0})
    await publisher.flush()
    cut(publisher)
    for n in range(1, 50):
        await publisher.publish({"n": n})
    assert [d.notification["n"] for d in await take(subscription, 50)] == list(range(50))


async def restart(live: Live, broker: BrokerId, *, kill: bool) -> None:
    """Stop one broker, as SIGKILL would or in order, and restart it on the same port."""
    old = live.servers[broker]
    host = old.hosts.pop(broker)
    number = list(old.brokers).index(broker)
    old._servers[number].close()
    if kill:
        kill_host(host)
    else:
        host.freeze()
        host.channels.part("shutdown", "the broker stops")
    await until(lambda: not len(host.channels))
    new = Server(live.scot, live.addresses, brokers=[broker], **live.options)
    await new.start()
    live.servers[broker] = new


@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize("broker", ["b,2", "b,1", "c,0"])
@overlay(tree="path:3", routing="idr")
async def test_a_restarted_broker_gets_its_tables_back(live: Live, broker: str, kill: bool) -> None:
    """The publisher's host, a broker on the way, the subscriber's host: afterwards everything is delivered again.

    Under `fdr`, what a dead broker had not confirmed may come again (`test_fdr.py`).
    """
    publisher = await live.publisher("b,2", "n is not null")
    subscriptions = [await live.subscriber(at, "n >= 0") for at in ("c,0", "a,1", "a,2")]
    await publisher.publish({"n": 0})
    await publisher.flush()
    for subscription in subscriptions:
        assert [d.notification["n"] for d in await take(subscription, 1)] == [0]
    await restart(live, BrokerId.parse(broker), kill=kill)
    await until(live.all_links_up)
    clients = [publisher, *(client_of(s) for s in subscriptions)]
    await until(lambda: all(c._connecting.channel is not None and not c._registry.is_registering for c in clients))
    # Whatever was registered last is in force when a later registration is acknowledged.
    for client in clients:
        async with client.subscribe("n = -1"):
            await client.unadvertise(await client.advertise("m > 0"))
    for n in range(1, 100):
        await publisher.publish({"n": n})
    for subscription in subscriptions:
        assert [d.notification["n"] for d in await take(subscription, 99)] == list(range(1, 100))
        assert waiting(subscription) == []


@asynchronous
async def test_brokers_start_in_any_order() -> None:
    live = Live("path:2", 2)
    async with live:
        addresses = dict(live.addresses)
    servers: dict[BrokerId, Server] = {}
    order = list(live.scot.brokers)
    random.Random(3).shuffle(order)
    clients: list[Client] = []
    subscription: Any = None
    for number, broker in enumerate(order):
        servers[broker] = Server(live.scot, addresses, brokers=[broker], net_limits=QUICK)
        await servers[broker].start()
        if number == 0:
            client = Client(f"octopia://{addresses[broker]}")
            await client.open()
            clients.append(client)
            subscription = client.subscribe("n >= 0")
            subscribing = asyncio.create_task(client.start_subscription(subscription))
    await subscribing
    publisher = Client(f"octopia://{addresses[order[-1]]}")
    await publisher.open()
    clients.append(publisher)
    await publisher.advertise("n is not null")
    await publisher.publish({"n": 1})
    assert [d.notification["n"] for d in await take(subscription, 1)] == [1]
    for client in clients:
        await client.close()
    for server in servers.values():
        await server.stop()


@asynchronous
async def test_a_wrong_address_is_refused() -> None:
    live = Live("path:2", 1, net_limits=NetLimits(link_give_up_s=0.2))
    one, other = live.scot.brokers
    server = Server(live.scot, dict.fromkeys(live.scot.brokers, Address("127.0.0.1", 0)), brokers=[other], name="y")
    await server.start()
    # `one` believes that its neighbour is where another overlay runs.
    stranger = Server(
        live.scot,
        {one: Address("127.0.0.1", 0), other: server.addresses[other]},
        brokers=[one],
        name="x",
    )
    await stranger.start()
    host = server.hosts[other]
    await until(lambda: host.counters.peers_at_fault > 0)
    assert not host.links[one].is_up
    await stranger.stop()
    await server.stop()


@overlay(tree="path:1", clusters=1)
async def test_a_closed_client_says_so(live: Live) -> None:
    client = await live.client("a,0")
    await client.close()
    await client.close()
    with pytest.raises(InputError, match="closed"):
        await client.publish({"x": 1})


@pytest.mark.parametrize("drain", [False, True])
@overlay(tree="path:2", clusters=1)
async def test_what_is_on_its_way_to_a_subscription_that_is_closed_is_kept_if_it_drains(
    live: Live, drain: bool
) -> None:
    subscription = await live.subscriber("a,0", "n >= 0", inbox_max=2)
    client = live.clients[-1]
    publisher = await live.publisher("a,0", "n is not null")
    await publisher.publish({"n": 1})
    (one,) = await take(subscription, 1)
    closing = asyncio.create_task(subscription.close(drain=drain))
    await asyncio.sleep(0)
    # Asked for and not answered yet: this program has not read since.
    publisher_name, late = one.publisher, list(range(2, 7))
    values: list[dict[str, Any]] = [{"n": n} for n in late]
    parcels = [encode_parcel(parse_notification(each), publisher_name, each["n"]) for each in values]
    came = DecodedDeliveries(values, parcels, [publisher_name] * 5, late, [one.subscriptions] * 5)
    client._session._take_in(channel_of(client), iter([came]))
    await closing
    assert [int(each.id) async for each in subscription.deliveries()] == (late if drain else [])
    for again in (True, False):
        await subscription.close(drain=again)
