"""A client that knows two brokers, and one of them restarts: where it waits, for how long, and what it is told.

Fake brokers and a clock that jumps (`fake_broker.py`): the absences are those of a slow machine.
"""

import asyncio

import pytest

from octopia.net import Client, Subscription
from octopia.wire import Goodbye, Hello
from tests.net.fake_broker import FakeBroker, FakeNetwork, virtual


async def reader(*brokers: FakeBroker, session_s: float = 30.0) -> tuple[Client, Subscription]:
    client = Client([broker.url for broker in brokers], name="reader", session_s=session_s)
    await client.open()
    subscription = client.subscribe("n >= 0", id="s")
    await client.start_subscription(subscription)
    return client, subscription


async def numbers(subscription: Subscription, count: int) -> list[object]:
    return [(await subscription.next())["n"] for _ in range(count)]


def has_left(client: Client, broker: FakeBroker) -> bool:
    return client.broker != f"(fake,{broker.port})"


@pytest.mark.parametrize("session_s", [5.0, 30.0])
@virtual
async def test_a_subscriber_waits_through_a_slow_restart_and_misses_nothing(
    network: FakeNetwork, session_s: float
) -> None:
    """Also for longer than its session: the absence of a broker is not that of a client."""
    own, other = network.add(), network.add()
    client, subscription = await reader(own, other, session_s=session_s)
    own.deliver(1)
    own.leave()
    own.deliver(2)
    await asyncio.sleep(19.0)
    own.deliver(3)
    own.up = True
    assert await numbers(subscription, 3) == [1, 2, 3]
    assert (other.hellos, client.gaps, client.reconnects) == (0, 0, 1)
    await client.close()


@virtual
async def test_a_broker_that_does_not_come_back_in_time_is_left_and_the_client_is_told(network: FakeNetwork) -> None:
    own, other = network.add(), network.add()
    own.restart_s = 12.0
    client, subscription = await reader(own, other)
    start_s = asyncio.get_running_loop().time()
    own.leave()
    while not has_left(client, own):
        await asyncio.sleep(0.01)
    assert 12.0 <= asyncio.get_running_loop().time() - start_s < 13.0
    assert (client.gaps, subscription.gaps) == (1, 1)
    await client.close()


@virtual
async def test_a_broker_that_comes_back_later_than_its_neighbours_wait_may_have_missed_something(
    network: FakeNetwork,
) -> None:
    own = network.add()
    own.restart_s = 12.0
    client, subscription = await reader(own)
    for away_s, gaps in ((11.0, 0), (13.0, 1), (11.0, 1)):
        own.leave()
        own.deliver(1)
        await asyncio.sleep(away_s)
        own.up = True
        assert await numbers(subscription, 1) == [1]
        assert (client.gaps, subscription.gaps) == (gaps, gaps)
    assert own.past == []
    await client.close()


@virtual
async def test_who_has_nothing_waiting_there_goes_on_elsewhere_at_once(network: FakeNetwork) -> None:
    own, other = network.add(), network.add()
    publisher = Client([own.url, other.url], name="publisher")
    await publisher.open()
    await publisher.advertise("n is not null", id="a")
    brief, _ = await reader(own, other, session_s=0.0)
    own.leave()
    await asyncio.sleep(1.0)
    assert has_left(publisher, own)
    assert has_left(brief, own)
    assert (publisher.gaps, brief.gaps) == (0, 1)
    await publisher.close()
    await brief.close()


@virtual
async def test_a_restart_that_is_announced_to_a_client_that_comes_back_is_waited_for(network: FakeNetwork) -> None:
    """Its connection broke a moment before, so that it did not hear the goodbye."""
    own, other = network.add(), network.add()
    client, subscription = await reader(own, other)

    def restarts(hello: Hello) -> Goodbye:
        return Goodbye("restart", "this broker is about to stop")

    own.goodbye = restarts
    own.cut()
    own.deliver(1)
    await asyncio.sleep(2.0)
    own.up = False
    await asyncio.sleep(15.0)
    own.up, own.goodbye = True, lambda hello: None
    assert await numbers(subscription, 1) == [1]
    assert (other.hellos, client.gaps) == (0, 0)
    await client.close()


@virtual
async def test_a_session_is_kept_while_no_other_broker_takes_the_client(network: FakeNetwork) -> None:
    """The others are asked in vain, with no secret of a session that is not theirs."""
    own, other = network.add(), network.add()
    heard: list[bytes] = []

    def refuses(hello: Hello) -> Goodbye:
        heard.append(hello.session)
        return Goodbye("full", "no place")

    other.goodbye = refuses
    client, subscription = await reader(own, other)
    own.up = False
    own.cut()
    own.deliver(1)
    await asyncio.sleep(10.0)
    own.up = True
    assert await numbers(subscription, 1) == [1]
    assert client.gaps == 0
    assert set(heard) == {b""}
    await client.close()
