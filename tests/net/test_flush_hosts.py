"""`flush(hosts=True)`: what it promises survives the loss of the publisher's broker; what it cannot promise, it names.

The oracle is what was published before the call that returned.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from octopia.errors import InputError, OctopiaError, RefusedError, UnconfirmedError
from octopia.net import NetLimits, connect_sync
from octopia.topology import BrokerId
from tests.net.live import Live, overlay, take, until
from tests.patience import HANG_S

LIMITS = NetLimits(detour_grace_s=0.05, link_give_up_s=0.3, link_heartbeat_s=0.3, link_grace_s=HANG_S)
COUNT = 2_000


@overlay(routing="fdr", net_limits=LIMITS)
async def test_a_broker_that_is_killed_right_after_it_takes_nothing_along(live: Live) -> None:
    readers = [await live.subscriber(at, "n >= 0", policy="block") for at in ("c,0", "a,1", "c,2")]
    publisher = await live.publisher("a,0", "n is not null", reconnect=False)
    await publisher.publish_many({"n": n} for n in range(COUNT))
    await publisher.flush(hosts=True, timeout=HANG_S)
    live.crash("a,0")
    for reader in readers:
        assert [d.notification["n"] for d in await take(reader, COUNT)] == list(range(COUNT))


@overlay(routing="fdr", net_limits=replace(LIMITS, link_heartbeat_s=HANG_S), tree="path:2", clusters=2)
async def test_it_waits_for_what_is_on_the_way(live: Live) -> None:
    """A link keeps everything to itself, so there is no answer; when its connection breaks, all is sent again."""
    reader = await live.subscriber("b,0", "n >= 0", policy="block")
    publisher = await live.publisher("a,0", "n is not null")
    channels = [live.host(at).links[BrokerId.parse(to)].channel for at, to in (("b,0", "a,0"), ("b,0", "b,1"))]
    for channel in channels:
        channel.transport.pause_reading()
    await publisher.publish({"n": 0})
    with pytest.raises(UnconfirmedError, match=r"no confirmation from \(b,0\)$") as caught:
        await publisher.flush(hosts=True, timeout=0.2)
    assert caught.value.brokers == ("(b,0)",)
    assert not reader.waiting
    channels[0].abort()
    channels[1].transport.resume_reading()
    await publisher.flush(hosts=True, timeout=HANG_S)
    assert [d.notification["n"] for d in await take(reader, 1)] == [0]


@overlay(routing="fdr", net_limits=LIMITS)
async def test_it_names_who_cannot_be_reached_and_counts_only_what_was_published_before(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    await publisher.flush(hosts=True, timeout=HANG_S)
    for at in ("c,0", "c,1"):
        await live.subscriber(at, "n >= 0", policy="block")
    live.crash("c,1")
    place = live.scot.brokers.index(BrokerId("c", 1))
    await until(lambda: live.host("a,0").broker.state.unreachable == 1 << place)
    await publisher.publish({"n": 1})
    with pytest.raises(UnconfirmedError) as caught:
        await publisher.flush(hosts=True, timeout=0.1)
    assert caught.value.brokers == ("(c,1)",)
    # nobody waits for a broker that has been away for long
    streams = live.host("a,0").broker.streams
    streams._release_at.clear()
    with pytest.raises(UnconfirmedError) as caught:
        await publisher.flush(hosts=True, timeout=HANG_S)
    assert caught.value.brokers == ("(c,1)",)
    # it is back, with new registrations: what waited for it was dropped, which is told once
    await live.start("c,1")
    await until(lambda: bool(streams.missed))
    with pytest.raises(UnconfirmedError) as caught:
        await publisher.flush(hosts=True, timeout=HANG_S)
    assert caught.value.brokers == ("(c,1)",)
    await publisher.publish({"n": 2})
    await publisher.flush(hosts=True, timeout=HANG_S)


@overlay(routing="fdr", net_limits=LIMITS, tree="path:2", clusters=2)
async def test_it_names_a_broker_of_the_client_that_was_lost(live: Live) -> None:
    reader = await live.subscriber("b,1", "n >= 0", policy="block")
    publisher = await live.publisher("a,0", "n is not null", name="p")
    await publisher.publish({"n": 1})
    await publisher.flush(hosts=True, timeout=HANG_S)
    live.crash("a,0")
    await live.start("a,0")
    # all that was published is proved, and what was published since no broker has had yet
    await publisher.publish({"n": 2})
    await publisher.flush(hosts=True, timeout=HANG_S)
    await publisher.publish({"n": 3})
    await publisher.flush()
    live.crash("a,0")
    await live.start("a,0")
    with pytest.raises(UnconfirmedError) as caught:
        await publisher.flush(hosts=True, timeout=HANG_S)
    assert caught.value.brokers == ("(a,0)",)
    await publisher.publish({"n": 4})
    await publisher.flush(hosts=True, timeout=HANG_S)
    got = [d.notification["n"] for d in await take(reader, 3)]
    assert got[:2] == [1, 2]
    assert got[2] in (3, 4), "nobody knows whether it had been passed on"


@overlay(routing="idr", tree="path:2", clusters=1)
async def test_other_routings_refuse_it_and_say_what_to_do(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    await publisher.publish({"n": 1})
    with pytest.raises(RefusedError, match=r'idr does not know what has arrived: set name = "fdr" under \[routing\]'):
        await publisher.flush(hosts=True)
    with pytest.raises(InputError, match=r"timeout is -1"):
        await publisher.flush(hosts=True, timeout=-1)
    # a broker of the version before does not offer it
    publisher._session.flushes = False
    with pytest.raises(RefusedError, match=r"\(a,0\) does not answer flush\(hosts=True\)"):
        await publisher.flush(hosts=True)
    await publisher.flush()


@overlay(routing="fdr", net_limits=LIMITS, tree="path:2", clusters=2)
async def test_the_blocking_client_has_it_too(live: Live) -> None:
    reader = await live.subscriber("b,1", "n >= 0", policy="block")

    def publish() -> None:
        with connect_sync(live.url("a,0")) as client:
            client.advertise("n is not null")
            client.publish_many({"n": n} for n in range(100))
            client.flush(hosts=True, timeout=HANG_S)
            live_loop.call_soon_threadsafe(live.crash, "a,0")
            with suppress(OctopiaError):
                client.close()

    live_loop = asyncio.get_running_loop()
    await asyncio.to_thread(publish)
    assert [d.notification["n"] for d in await take(reader, 100)] == list(range(100))
