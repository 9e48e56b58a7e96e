"""The queue of a link that breaks, goes down and comes back."""

import asyncio
from typing import Any

from octopia.net import NetLimits
from octopia.topology import BrokerId
from tests.net.live import Live, channel_of, overlay, take, until


@overlay(tree="path:2", clusters=1, net_limits=NetLimits(link_grace_s=0.05))
async def test_a_broker_keeps_time_when_a_link_went_down_with_frames_on_it(live: Live) -> None:
    """Totals of a link that starts anew are not those of Eq. 10's window; samples go on all the same."""
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    host = live.host("a,0")
    link, dialler = host.links[BrokerId("b", 0)], host.diallers[BrokerId("b", 0)]
    await publisher.publish_many({"n": n} for n in range(100))
    await take(subscription, 100)
    for _ in range(3):
        address, dialler.address = dialler.address, None
        link.channel.abort()
        await until(lambda: not link.is_up)
        dialler.address = address
        dialler.dial_later()
        await until(lambda: link.is_up)
    assert failures == []
    session = await live.client("a,0", reconnect=False, session_s=0.01, name="short")
    channel_of(session).transport.abort()
    await until(lambda: "short" not in host.sessions)


@overlay(tree="path:2", clusters=1, net_limits=NetLimits(link_grace_s=100))
async def test_a_link_that_goes_down_while_it_is_dialled_begins_anew(live: Live) -> None:
    """The neighbour resumes the link with counts that are no longer ours."""
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    await publisher.publish_many({"n": n} for n in range(100))
    await take(subscription, 100)
    host = live.host("a,0")
    link = host.links[BrokerId("b", 0)]
    said = link.hello

    def hello(*proof: Any) -> Any:
        asyncio.get_running_loop().call_soon(link.go_down)
        link.hello = said
        return said(*proof)

    link.hello = hello
    link.channel.abort()
    await until(lambda: link.hello is said)
    await until(live.all_links_up)
    await publisher.publish_many({"n": n} for n in range(100, 2000))
    assert [d.notification["n"] for d in await take(subscription, 1900)] == list(range(100, 2000))
    await until(lambda: link.queue.held == 0 or host.counters.peers_at_fault > 0)
    assert host.counters.peers_at_fault == live.host("b,0").counters.peers_at_fault == 0


@overlay(
    tree="path:2",
    clusters=1,
    routing="idr",
    net_limits=NetLimits(link_grace_s=0.05, link_give_up_s=100, link_queue_frames_max=100),
)
async def test_what_does_not_fit_behind_a_link_that_is_down_is_dropped_and_the_link_comes_back(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    host = live.host("a,0")
    link, dialler = host.links[BrokerId("b", 0)], host.diallers[BrokerId("b", 0)]
    address, dialler.address = dialler.address, None
    link.channel.abort()
    await until(lambda: not link.is_up)
    before = link.outgoing.dropped
    await publisher.publish_many({"n": n} for n in range(150))
    await publisher.flush()
    kept = link.queue.waits
    assert kept == 99
    assert link.outgoing.dropped - before == 51
    dialler.address = address
    dialler.dial_later()
    assert [d.notification["n"] for d in await take(subscription, kept)] == list(range(kept))
    await publisher.publish({"n": 1000})
    assert [d.notification["n"] for d in await take(subscription, 1)] == [1000]
    assert live.host("b,0").counters.peers_at_fault == 0
