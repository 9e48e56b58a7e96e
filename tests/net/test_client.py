"""A client whose connection, session or broker goes away, at each moment that matters.

Fake brokers in one event loop (`fake_broker.py`); random histories are in `test_client_random.py`.
"""

import asyncio
from typing import Any

import pytest

from octopia.errors import InputError, OctopiaError, RefusedError, UndeliveredError
from octopia.net import Client, Subscription, UnreachableError, connect
from octopia.wire import AdvertiseRequest, Goodbye, SubscribeRequest
from tests.net.fake_broker import FakeBroker, FakeNetwork, run_virtual, virtual

NOTIFICATION = {"n": 1}


async def publisher(*brokers: FakeBroker, **options: Any) -> Client:
    client = Client([broker.url for broker in brokers], name="me", **options)
    await client.open()
    await client.advertise("n is not null", id="a")
    return client


async def subscribed(client: Client, filter: str, **options: Any) -> Subscription:
    subscription = client.subscribe(filter, **options)
    await client.start_subscription(subscription)
    return subscription


async def until_told(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def routed(network: FakeNetwork) -> list[int]:
    return [id for _, id in network.routed]


# -- order


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_connection_may_break_after_any_byte(way: str, forgets: bool) -> None:
    """A second one, too: while everything is registered again."""

    async def main(network: FakeNetwork, at: int) -> bool:
        broker = network.add()
        cut_first = (at, None) if way == "up" else (None, at)
        network.budgets += [(None, None), cut_first, (None, at)]
        client = Client(broker.url, name="me")
        await client.open()
        network.cut_all()  # the next connection has the first budget, and the client a session to take up
        if forgets:
            broker.forget()
        await client.advertise("n is not null", id="a")
        subscription = await subscribed(client, "n > 5", id="s")
        await client.publish_many(NOTIFICATION for _ in range(5))
        if forgets and at % 2:
            broker.restart()
        other = await client.advertise("m > 0")
        await client.publish({"m": 1})
        # Published under it: withdrawing it must not take effect before.
        await client.unadvertise(other)
        await subscription.close()
        await client.publish(NOTIFICATION)
        await client.flush()
        await until_told(lambda: broker.sessions and broker.session.advertised)
        assert list(dict.fromkeys(routed(network))) == list(range(1, 8))
        sessions = [*broker.past, *broker.sessions.values()]
        assert [(s.repeats, s.refused, s.routed == sorted(set(s.routed))) for s in sessions] == [
            (0, [], True) for _ in sessions
        ]
        assert (list(broker.session.advertised), list(broker.session.subscribed)) == (["a"], [])
        broke = not network.budgets
        await client.close()
        return broke

    breaks = [0]
    for at in range(400):

        async def once(network: FakeNetwork, at: int = at) -> None:
            breaks[0] += await main(network, at)

        run_virtual(once, at)
    assert breaks[0] > 100


@virtual
async def test_a_full_queue_keeps_its_order_when_everything_is_registered_anew(network: FakeNetwork) -> None:
    """Tasks that wait for room are woken when the queue moves, and must not publish before what is in it."""
    first, second = network.add(), network.add()
    client = await publisher(first, second)
    first.confirms = False

    async def publish() -> None:
        for _ in range(9_000):
            await client.publish(NOTIFICATION)

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(publish()) for _ in range(4)]
    tasks.append(asyncio.create_task(client.publish_many([NOTIFICATION] * 24_000)))
    await asyncio.sleep(1)
    assert client.last_id < 30_000
    first.kill()
    await asyncio.gather(*tasks)
    await client.flush()
    assert client.last_id == 60_000
    assert second.session.routed == list(range(1, 60_001))
    assert second.session.repeats == 0
    await client.close()


@virtual
async def test_a_lost_connection_while_registering_anew_changes_no_order(network: FakeNetwork) -> None:
    first, second = network.add(), network.add()
    client = await publisher(first, second)
    for _ in range(5):
        await client.publish(NOTIFICATION)
    first.confirms = False
    await client.publish(NOTIFICATION)
    first.up = False
    second.answer_s = lambda: 1000.0  # registrations are not answered at first
    for _ in range(2):
        network.cut_all()
        await asyncio.sleep(1)
        assert client._registry.is_registering
        await client.publish(NOTIFICATION)
        second.forget()
    second.answer_s = lambda: 0.0
    network.cut_all()
    await client.flush()
    assert second.session.routed == list(range(1, 9))
    await client.close()


@virtual
async def test_what_was_published_under_a_withdrawn_advertisement_is_still_published_elsewhere(
    network: FakeNetwork,
) -> None:
    first, second = network.add(), network.add()
    client = await publisher(first, second)
    await client.flush()
    first.confirms = False
    first.answer_s = lambda: 1000.0
    for _ in range(3):
        await client.publish(NOTIFICATION)
    withdrawing = asyncio.create_task(client.unadvertise("a"))
    await asyncio.sleep(0.1)
    first.up = False
    network.cut_all()
    await withdrawing
    with pytest.raises(RefusedError, match="no advertisement"):
        await client.publish(NOTIFICATION)
    await client.flush()
    assert (second.session.routed, second.session.refused, second.session.advertised) == ([1, 2, 3], [], {})
    await client.close()


# -- flush


@virtual
async def test_flush_waits_until_a_broker_has_everything_whatever_breaks(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.confirms = False
    await client.publish_many(NOTIFICATION for _ in range(100))
    flushing = asyncio.create_task(client.flush())
    for _ in range(4):
        broker.restart()
        broker.answer_s = lambda: 0.5
        await asyncio.sleep(0.3)
        assert not flushing.done()
    broker.confirms = True
    await flushing
    assert broker.session.routed == list(range(1, 101))
    await client.close()


@virtual
async def test_flush_with_nothing_to_wait_for_returns_without_a_broker(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    await client.publish(NOTIFICATION)
    await client.flush()
    broker.up = False
    network.cut_all()
    await asyncio.sleep(0.1)
    await client.flush()
    await client.close()


# -- close


@virtual
async def test_close_connects_again_and_delivers(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    await client.publish(NOTIFICATION)
    await client.flush()
    broker.kill()
    await client.publish_many(NOTIFICATION for _ in range(100))
    asyncio.get_running_loop().call_later(2, setattr, broker, "up", True)
    await client.close()
    assert routed(network) == list(range(1, 102))
    assert broker.sessions == {}


@virtual
async def test_close_says_how_much_it_could_not_deliver(network: FakeNetwork) -> None:
    broker = network.add()
    loop = asyncio.get_running_loop()
    client = await publisher(broker, close_s=3)
    await client.publish_many(NOTIFICATION for _ in range(5))
    await client.flush()
    broker.up = False
    network.cut_all()
    await client.publish_many(NOTIFICATION for _ in range(1000))
    advertising = asyncio.create_task(client.advertise("m > 0"))
    flushing = asyncio.create_task(client.flush())
    await asyncio.sleep(0.1)
    began_s = loop.time()
    with pytest.raises(UndeliveredError, match="1,000 published notifications were not delivered") as caught:
        await client.close()
    assert (caught.value.count, round(loop.time() - began_s)) == (1000, 3)
    # Nobody is left waiting.
    for task in (advertising, flushing):
        with pytest.raises(OctopiaError, match="closed"):
            await task
    await client.close()


@virtual
async def test_a_client_that_failed_says_so_when_it_is_closed(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker, reconnect=False)
    broker.confirms = False
    await client.publish(NOTIFICATION)
    network.cut_all()
    with pytest.raises(UnreachableError, match="ended the connection"):
        await client.flush()
    with pytest.raises(UndeliveredError, match=r"1 published notification was .*ended the connection"):
        await client.close()


@virtual
async def test_leaving_by_an_exception_is_not_masked(network: FakeNetwork) -> None:
    broker = network.add()

    async def leave() -> None:
        async with connect(broker.url, close_s=1) as client:
            await client.advertise("n is not null")
            broker.up = False
            network.cut_all()
            await client.publish(NOTIFICATION)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await leave()
    assert "1 published notification was not delivered" in caught.value.__notes__[0]


@virtual
async def test_tasks_that_wait_to_publish_are_told_when_the_client_is_closed(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker, close_s=1)
    client._journal.queue.frames_max = 10
    broker.up = False
    network.cut_all()
    await asyncio.sleep(0)
    publishing = asyncio.create_task(client.publish_many([NOTIFICATION] * 600))
    await asyncio.sleep(0.1)
    with pytest.raises(UndeliveredError) as caught:
        await client.close()
    with pytest.raises(InputError, match="closed"):
        await publishing
    assert caught.value.count == client.last_id < 600


@virtual
async def test_a_close_that_is_cancelled_still_hangs_up(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.confirms = False
    await client.publish(NOTIFICATION)
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0.1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (broker.sessions, network.lines) == ({}, [])


@virtual
async def test_a_refusal_that_nobody_was_told_of_is_raised_by_close(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.session.in_force.clear()
    await client.publish(NOTIFICATION)
    with pytest.raises(RefusedError, match="not advertised"):
        await client.close()


# -- a name that somebody has


def busy_until(broker: FakeBroker, at_s: float) -> None:
    loop = asyncio.get_running_loop()
    broker.goodbye = lambda hello: Goodbye("busy", "a client named 'me' is connected") if loop.time() < at_s else None


@virtual
async def test_a_busy_name_is_waited_for_at_first_for_connect_s(network: FakeNetwork) -> None:
    broker, now_s = network.add(), asyncio.get_running_loop().time
    busy_until(broker, now_s() + 4)
    client = await publisher(broker, connect_s=10)
    assert broker.hellos > 3
    await client.close()
    busy_until(broker, now_s() + 1000)
    began_s = now_s()
    with pytest.raises(RefusedError, match="a client named 'me' is connected"):
        await publisher(broker, connect_s=10)
    assert 4 < now_s() - began_s <= 10


@virtual
async def test_a_broker_too_busy_to_read_the_hello_in_time_is_asked_again(network: FakeNetwork) -> None:
    broker, now_s = network.add(), asyncio.get_running_loop().time
    at_s = now_s() + 6
    late = Goodbye("handshake", "no handshake within 5 s")
    broker.goodbye = lambda hello: late if now_s() < at_s else None
    client = await publisher(broker, connect_s=10)
    assert broker.hellos > 1
    await client.close()
    at_s = now_s() + 1000
    with pytest.raises(UnreachableError, match="no handshake within 5 s"):
        await publisher(broker, connect_s=10)


@virtual
async def test_a_busy_name_is_waited_for_as_long_as_it_takes_later(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker, connect_s=1)
    subscription = await subscribed(client, "n > 0", id="s")
    busy_until(broker, asyncio.get_running_loop().time() + 1000)
    broker.restart()
    await client.publish(NOTIFICATION)
    await client.flush()
    assert client.failure is None
    assert broker.session.routed == [1]
    broker.session.deliver("s", number=7)
    assert (await subscription.next())["n"] == 7
    await client.close()


@virtual
async def test_one_of_several_brokers_being_busy_is_no_reason_to_wait(network: FakeNetwork) -> None:
    first, second = network.add(), network.add()
    busy_until(first, asyncio.get_running_loop().time() + 1000)
    client = await publisher(first, second)
    assert (first.hellos, client.broker) == (1, "(fake,7401)")
    await client.close()


@pytest.mark.parametrize("code", ["refused", "protocol", "slow", "stalled", "replaced"])
@virtual
async def test_after_a_final_goodbye_a_client_does_not_come_back(network: FakeNetwork, code: str) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.goodbye = lambda hello: Goodbye(code, "because")
    network.cut_all()
    await client.publish(NOTIFICATION)
    with pytest.raises(RefusedError, match="because"):
        await client.flush()
    assert broker.hellos == 2
    with pytest.raises(UndeliveredError):
        await client.close()


# -- requests


@virtual
async def test_requests_under_way_are_answered_though_the_session_was_lost(network: FakeNetwork) -> None:
    """Some are lost on the way, some were carried out and not answered."""
    broker = network.add()
    client = await publisher(broker)
    gone = await subscribed(client, "n > 1", id="gone")
    stays = client.subscribe("n > 2", id="stays")
    broker.answer_s = lambda: 1000.0
    tasks = [
        asyncio.create_task(work)
        for work in (
            client.advertise("m > 0", id="b"),
            client.advertise("m > 0", id="b"),
            client.unadvertise("a"),
            gone.close(),
            client.start_subscription(stays),
        )
    ]
    await asyncio.sleep(0.5)  # all of them were taken
    late = [
        asyncio.create_task(client.advertise("k > 0", id="c")),
        asyncio.create_task(client.unadvertise("b")),
    ]
    await asyncio.sleep(0)
    broker.answer_s = lambda: 0.0
    broker.restart()
    await asyncio.gather(*tasks, *late)
    assert (list(broker.session.advertised), list(broker.session.subscribed)) == (["c"], ["stays"])
    await client.close()


@virtual
async def test_withdrawing_while_everything_is_registered_anew(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    subscription = await subscribed(client, "n > 1", id="s")
    broker.answer_s = lambda: 1.0
    broker.restart()
    await until_told(lambda: client._registry.is_registering)
    await client.publish(NOTIFICATION)
    await asyncio.gather(subscription.close(), client.unadvertise("a"))
    await client.advertise("n > 0", id="a")
    await client.publish(NOTIFICATION)
    await client.flush()
    session = broker.session
    assert (session.routed, list(session.advertised), list(session.subscribed)) == ([1, 2], ["a"], [])
    await client.close()


@virtual
async def test_what_is_refused_when_registered_anew_is_reported_and_nothing_hangs(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    await client.advertise("m is not null", id="b")
    lost, kept = client.subscribe("n > 1", id="lost"), client.subscribe("n > 2", id="kept")
    for subscription in (lost, kept):
        await client.start_subscription(subscription)

    def refuses(request: Any) -> str:
        return "not any more" if request.id in ("a", "lost") else ""

    broker.refuses = refuses
    broker.restart()
    with pytest.raises(RefusedError, match="not any more"):
        await lost.next_batch()
    with pytest.raises(RefusedError, match="advertisement 'a' was refused when it was registered again: not any"):
        await client.publish({"m": 1})
    with pytest.raises(RefusedError, match="did not advertise"):
        await client.publish(NOTIFICATION)
    await client.publish({"m": 1})
    await client.flush()
    assert (list(broker.session.advertised), list(broker.session.subscribed)) == (["b"], ["kept"])
    broker.session.deliver("kept", number=3)
    assert (await kept.next())["n"] == 3
    # It stays so.
    broker.refuses = lambda request: ""
    broker.restart()
    await client.publish({"m": 1})
    await client.flush()
    assert (list(broker.session.advertised), list(broker.session.subscribed)) == (["b"], ["kept"])
    await client.close()


@virtual
async def test_a_refused_change_leaves_what_was_in_force(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.refuses = lambda request: "no" if isinstance(request, AdvertiseRequest | SubscribeRequest) else ""
    with pytest.raises(RefusedError):
        await client.advertise("m > 0", id="a")
    broker.refuses = lambda request: ""
    broker.restart()
    await client.publish(NOTIFICATION)
    await client.flush()
    assert broker.session.routed == [1]
    await client.close()


@virtual
async def test_a_cancelled_subscribe_leaves_nothing_that_fills_up(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    broker.answer_s = lambda: 1.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.start_subscription(client.subscribe("n > 0", id="s", inbox_max=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.advertise("m > 0", id="b")
    for n in range(5):
        broker.session.deliver("s", number=n)
    await asyncio.sleep(2)
    assert (list(broker.session.advertised), list(broker.session.subscribed)) == (["a"], [])
    await client.unadvertise("a")  # still reads answers
    await client.close()


@virtual
async def test_a_full_inbox_stays_bounded_on_the_next_connection(network: FakeNetwork) -> None:
    broker = network.add()
    client = await publisher(broker)
    subscription = await subscribed(client, "n >= 0", id="s", inbox_max=3)
    for n in range(100):
        broker.session.deliver("s", number=n)
        await asyncio.sleep(0.01)
        if n % 10 == 5:
            network.cut_all()
            await asyncio.sleep(1)
    assert subscription.waiting < 15
    got = [(await subscription.next())["n"] for _ in range(100)]
    assert got == list(range(100))
    await client.close()


@virtual
async def test_a_client_that_is_not_open_says_so(network: FakeNetwork) -> None:
    client = Client(network.add().url)
    for work in (client.publish(NOTIFICATION), client.flush(), client.advertise("n > 0")):
        with pytest.raises(InputError, match="not connected"):
            await work
    with pytest.raises(InputError, match="close_s is -1"):
        Client("octopia://fake:1", close_s=-1)
