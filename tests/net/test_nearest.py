"""Which broker a client chooses: the nearest, by measured round trips, that is not overloaded. Time is virtual."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.net import Client, Url
from octopia.net.client.nearest import Measured, in_order, measure
from octopia.wire import Goodbye, message_frame
from tests.net.fake_broker import FakeNetwork, virtual

URLS = [Url.parse(f"octopia://b{number}:1") for number in range(6)]


@given(
    st.dictionaries(st.sampled_from(URLS), st.tuples(st.floats(0, 2), st.booleans()).map(lambda pair: Measured(*pair))),
    st.integers(0, 9),
)
def test_the_order_of_brokers(measured: dict[Url, Measured], seed: int) -> None:
    order = in_order(URLS, measured, random.Random(seed))
    assert sorted(map(str, order)) == sorted(map(str, URLS))
    groups = [
        [url for url in order if measured.get(url, Measured(0)).overloaded is crowded and url in measured]
        for crowded in (False, True)
    ]
    silent = [url for url in URLS if url not in measured]
    assert order == [*groups[0], *groups[1], *silent]
    for group in groups:
        times = [measured[url].round_trip_s for url in group]
        if times:
            far_s = 1.5 * min(times) + 0.001
            near = [time for time in times if time <= far_s]
            assert all(time <= far_s for time in times[: len(near)])
            assert times[len(near) :] == sorted(time for time in times if time > far_s)


def test_brokers_that_are_as_near_are_all_used() -> None:
    measured = {url: Measured(0.010 + number * 0.0001) for number, url in enumerate(URLS[:4])}
    first = {in_order(URLS, measured, random.Random(seed))[0] for seed in range(40)}
    assert first == set(URLS[:4])


@virtual
async def test_round_trips_are_measured_and_the_dead_left_out(network: FakeNetwork) -> None:
    brokers = [network.add() for _ in range(5)]
    for broker, delay_s in zip(brokers, (0.030, 0.004, 0.500, 0.010, 0.001), strict=True):
        broker.delay_s = delay_s
    brokers[3].overloaded = True
    brokers[4].up = False
    urls = [Url.parse(broker.url) for broker in brokers]
    found = await measure(urls, None)
    # A broker that takes a second has not answered in time.
    assert {url: (round(one.round_trip_s, 6), one.overloaded) for url, one in found.items()} == {
        urls[0]: (0.060, False),
        urls[1]: (0.008, False),
        urls[3]: (0.020, True),
    }
    assert [broker.hellos for broker in brokers] == [0] * 5
    assert all(not broker.sessions for broker in brokers)


@virtual
async def test_a_client_attaches_to_the_nearest_and_not_to_the_first(network: FakeNetwork) -> None:
    brokers = [network.add() for _ in range(4)]
    for broker, delay_s in zip(brokers, (0.030, 0.020, 0.004, 0.050), strict=True):
        broker.delay_s = delay_s
    urls = [broker.url for broker in brokers]
    for nearest, expected in ((False, 0), (True, 2)):
        async with Client(urls, nearest=nearest) as client:
            assert str(client.url) == urls[expected]
    brokers[2].overloaded = True
    async with Client(urls, nearest=True) as client:
        assert str(client.url) == urls[1]
    for broker in brokers:
        broker.overloaded = True
    async with Client(urls, nearest=True) as client:
        assert str(client.url) == urls[2]


@pytest.mark.parametrize("how", ["dies", "stops"])
@virtual
async def test_when_it_is_gone_the_next_nearest_is_used(network: FakeNetwork, how: str) -> None:
    brokers = [network.add() for _ in range(3)]
    for broker, delay_s in zip(brokers, (0.030, 0.004, 0.010), strict=True):
        broker.delay_s = delay_s
    told: list[tuple[bool, str]] = []
    client = Client([broker.url for broker in brokers], nearest=True, on_connection=lambda *what: told.append(what))
    async with client:
        assert client.broker == "(fake,7401)"
        if how == "stops":
            (line,) = [line for line in network.lines if line.talk.session is not None]
            brokers[1].goodbye = lambda hello: Goodbye("shutdown")
            line.say(message_frame(Goodbye("shutdown")))
        else:
            brokers[1].up = False
            network.cut_all()
        while client.broker != "(fake,7402)":
            await asyncio.sleep(0.01)
        assert client.reconnects == 1
        reason = "shutdown: " if how == "stops" else "[Errno 104] Connection reset by peer"
        assert told == [
            (False, f"{brokers[1].url} is gone: {reason}"),
            (True, f"connected again, to (fake,7402) at {brokers[2].url}"),
        ]


@virtual
async def test_an_older_broker_that_knows_no_probes_counts_as_one_that_is_not_overloaded(network: FakeNetwork) -> None:
    broker = network.add()
    broker.knows_probes = False
    url = Url.parse(broker.url)
    assert {at: one.overloaded for at, one in (await measure([url], None)).items()} == {url: False}
