"""A stopping broker: everything it confirmed reaches connected clients, and nothing else does."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import OctopiaError, UndeliveredError
from octopia.net import Client, NetLimits, Subscription, UnreachableError, connect
from octopia.topology import BrokerId
from tests.net.live import QUICK, Live, box_of, client_of, overlay, run, take, until, waiting
from tests.net.processes import Processes
from tests.patience import HANG_S

# A broker that drains waits as long as the test takes.
PATIENT = replace(QUICK, drain_s=HANG_S, stall_s=HANG_S, heartbeat_s=HANG_S, handshake_s=HANG_S)
# The ADVERTISE of a publisher is a numbered frame as well.
REQUESTS = 1


async def read_to_the_end(subscription: Subscription) -> list[Any]:
    """All that comes until the broker is gone."""
    got: list[Any] = []
    ended = False
    while not ended:
        try:
            got += [delivery.notification["n"] for delivery in await subscription.next_batch()]
        except UnreachableError as error:
            ended = "shutdown: the broker stops" in str(error)
    return got


async def publish_without_end(client: Client) -> None:
    n = 0
    while True:
        await client.publish_many({"n": number} for number in range(n, n + 100))
        n += 100
        # So that what was confirmed is seen here, too.
        await asyncio.sleep(0)


@pytest.mark.parametrize(("number", "saves"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
@pytest.mark.parametrize("together", [True, False])
def test_a_stop_for_good_under_load_delivers_what_was_confirmed_and_no_more(
    tmp_path: Path, together: bool, number: signal.Signals, saves: bool
) -> None:
    """Publishers never pause; of what they send, exactly what the broker confirmed has arrived when it is gone."""
    tree, clusters = ("path:2", 2) if together else ("path:1", 1)
    patient = f"drain_s = {HANG_S}\nstall_s = {HANG_S}\n"
    processes = Processes(tmp_path, tree, clusters, together=together, saves=saves, more=patient)
    processes.start()
    processes.wait_for_links()
    part, near, far = ("all", "a,0", "b,1") if together else ("a,0", "a,0", "a,0")

    async def main() -> None:
        options: dict[str, Any] = {"reconnect": False}
        async with (
            connect(processes.url(near), **options) as publisher,
            connect(processes.url(far), **options) as reader,
        ):
            await publisher.advertise("n is not null")
            async with reader.subscribe("n >= 0", policy="block") as numbers:
                publishing = asyncio.create_task(publish_without_end(publisher))
                reading = asyncio.create_task(read_to_the_end(numbers))
                await until(lambda: box_of(publisher).confirmed > 5000)
                code = await asyncio.to_thread(processes.stop, part, number)
                got = await reading
                with pytest.raises(OctopiaError):
                    await publishing
                assert code == 0
                confirmed = box_of(publisher).confirmed - REQUESTS
                assert got == list(range(confirmed))
                with pytest.raises(UndeliveredError) as left:
                    await publisher.close()
                assert left.value.count == publisher.last_id - confirmed
                assert not (tmp_path / "state").exists()

    try:
        run(main)
    finally:
        processes.close()


@overlay(net_limits=PATIENT)
async def test_a_broker_waits_for_those_who_read_slowly(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null", reconnect=False)
    subscription = await live.subscriber("c,2", "n >= 0")
    session = live.host("c,2").sessions[client_of(subscription).name]
    session.queue.writable = False
    await publisher.publish_many({"n": n} for n in range(500))
    await publisher.flush()
    stopping = asyncio.create_task(live.servers[BrokerId("a", 0)].stop())
    await until(lambda: live.host("a,0").draining)
    assert not live.host("c,2").is_drained
    assert waiting(subscription) == []
    # Taken no more, and not confirmed: it stays with the publisher.
    await publisher.publish({"n": 500})
    await until(lambda: not box_of(publisher).waits)
    await until(lambda: session.queue.waits == 500)
    session.queue.resume_writing()
    assert [d.notification["n"] for d in await take(subscription, 500)] == list(range(500))
    await stopping
    assert waiting(subscription) == []
    assert box_of(publisher).confirmed == 500 + REQUESTS


@overlay(net_limits=NetLimits(drain_s=0.2))
async def test_a_broker_does_not_wait_longer_than_it_may(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null", reconnect=False)
    subscription = await live.subscriber("c,2", "n >= 0")
    session = live.host("c,2").sessions[client_of(subscription).name]
    session.queue.writable = False
    await publisher.publish({"n": 1})
    await publisher.flush()
    await live.servers[BrokerId("a", 0)].stop()
    assert waiting(subscription) == []
    assert session.queue.waits == 1


@overlay()
async def test_who_comes_during_the_drain_is_sent_on(live: Live) -> None:
    """Not refused for good: it may come back, or go to another broker."""
    live.host("a,0").drain()
    with pytest.raises(UnreachableError, match="this broker is about to stop"):
        await live.client("a,0")
    # Another broker of the same overlay is not about to stop.
    client = Client([live.url("a,0"), live.url("b,0")])
    await client.open()
    assert client.broker == "(b,0)"
    await client.close()
