"""Links between brokers, and between clients and brokers, that are cut, stalled, slow or half closed."""

import asyncio
import signal
from collections.abc import Callable

from benchmarks.chaos.actors import topic
from benchmarks.chaos.outcome import Promise
from benchmarks.chaos.proxy import Proxy
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import NOTICE_S_MAX, POLICY_LOSSLESS, RECOVERY_S_MAX
from benchmarks.chaos.world import Setup

RATE = 300.0
SILENT_S_MAX = 10.0
SILENT_BEFORE_S = 0.3
A_LINK = ("a,0", "b,0")


async def alink_reset(trial: Trial) -> None:
    """Reset for 3 s, within the grace of 5 s: nothing may be lost, five times.

    Each time the link falls silent a moment before, as a network does that fails, so that something is under way.
    """
    readers = [
        await trial.subscriber("at-c0", topic("quotes"), "c,0"),
        await trial.subscriber("at-b0", topic("quotes"), "b,0"),
    ]
    near = await trial.subscriber("at-a1", topic("quotes"), "a,1", bystander=True)
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE)
    await trial.calm(2.0)
    start = trial.now
    faults = []
    for _ in range(2 if trial.quick else 5):
        faults.append(trial.now)
        for proxy in trial.world.link(*A_LINK):
            proxy.stall()
        await asyncio.sleep(SILENT_BEFORE_S)
        for proxy in trial.world.link(*A_LINK):
            proxy.cut()
        await asyncio.sleep(3.0)
        for proxy in trial.world.link(*A_LINK):
            proxy.mend()
        await asyncio.sleep(2.5)
    end = trial.now
    await trial.finish(publisher)
    for fault in faults:
        trial.recovered(fault, [*readers, near], [publisher])
    trial.judge_bystanders(start, end)


def _half_close(proxy: Proxy) -> None:
    proxy.half_close()


def _stall(proxy: Proxy) -> None:
    proxy.stall()


def _slow(proxy: Proxy) -> None:
    proxy.slow(20_000)


KINDS: dict[str, Callable[[Proxy], None]] = {"half closed": _half_close, "stalled": _stall, "slow": _slow}


async def link_trouble(trial: Trial) -> None:
    """One trouble after the other on an aLink and on a client's connection, each shorter than the grace."""
    door = await trial.world.door("c,0")
    readers = [
        await trial.subscriber("at-c0", topic("quotes"), url=f"octopia://{door.host}:{door.port}"),
        await trial.subscriber("at-b0", topic("quotes"), "b,0"),
    ]
    near = await trial.subscriber("at-a1", topic("quotes"), "a,1", bystander=True)
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE)
    await trial.calm(2.0)
    start = trial.now
    for name, trouble in KINDS.items():
        fault = trial.now
        for proxies in (trial.world.link(*A_LINK), [door]):
            for proxy in proxies:
                trouble(proxy)
            await asyncio.sleep(1.5)
            for proxy in proxies:
                proxy.mend()
            await asyncio.sleep(1.5)
        took_s = trial.ledger.recovery(fault, [r.name for r in readers], [publisher.name])
        trial.outcome.note(f"{name}: {'not over after 6 s' if took_s is None else f'{took_s:.1f} s'}")
    end = trial.now
    await trial.finish(publisher)
    trial.recovered(start, [*readers, near], [publisher])
    trial.judge_bystanders(start, end)


async def silent_broker(trial: Trial) -> None:
    """How soon neighbours notice a broker that is stopped, and how much they send into it meanwhile."""
    world = trial.world
    # Its way goes through the stopped broker. The link stays down for longer than the grace, so nothing is promised.
    behind = await trial.subscriber("at-c0", topic("quotes"), "c,0")
    near = await trial.subscriber("at-c1", topic("quotes"), "c,1", bystander=True)
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE)
    await trial.calm(3.0)
    sent = await world.metric("a,0", "octopia_link_messages_sent_total", neighbour="(b,0)")
    start = trial.now
    trial.ledger.excuse(behind.name, start - 0.5)
    world.signal("b,0", signal.SIGSTOP)
    noticed: float | None = None
    while noticed is None and trial.now < start + SILENT_S_MAX:
        state = await world.health("a,0")
        # A link counts as up until its grace is over; that it is broken is known before.
        links = [link for link in state["links"] if link["neighbour"] == "(b,0)"] if state else []
        if not all(link["up"] and link.get("connected", True) for link in links):
            noticed = trial.now - start
        await asyncio.sleep(0.05)
    sent = await world.metric("a,0", "octopia_link_messages_sent_total", neighbour="(b,0)") - sent
    end = trial.now
    world.signal("b,0", signal.SIGCONT)
    continued = trial.now
    trial.outcome.note(
        f"{f'noticed after {noticed:.1f} s' if noticed else f'not noticed within {SILENT_S_MAX:.0f} s'}, "
        f"{sent:,.0f} notifications sent into it"
    )
    trial.outcome.expect(noticed is not None and noticed <= NOTICE_S_MAX, "a silent neighbour is noticed too late")
    await world.links_up()
    await asyncio.sleep(1.0)
    await trial.finish(publisher)
    trial.recovered(continued, [behind, near], [publisher])
    trial.judge_bystanders(start, end)


async def full_load(trial: Trial) -> None:
    """Every broker is busy and none is gone: none may be mistaken for silent."""
    readers = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker, policy=POLICY_LOSSLESS)
        for broker in ("c,0", "b,1", "a,2")
    ]
    publishers = [await trial.publisher(f"feed-{b[0]}{b[2]}", "quotes", b) for b in ("a,0", "b,2", "c,1")]
    end = trial.now + trial.seconds(8.0)
    while trial.now < end:
        await asyncio.gather(*(publisher.burst(1000) for publisher in publishers))
    await trial.finish(*publishers)
    clients = sum(reader.client.reconnects for reader in readers) + sum(p.client.reconnects for p in publishers)
    links = sum(trial.world.log_of(broker).count("link broken") for broker in trial.world.brokers)
    trial.outcome.note(f"{clients} clients and {links} ends of links took a busy peer for gone")
    trial.outcome.expect(not clients and not links, "a busy peer was taken for gone")


async def broker_killed(trial: Trial) -> None:
    """kill -9 of a broker between two others, and its restart: only what led through it may suffer."""
    world = trial.world
    behind = await trial.subscriber("at-c0", topic("quotes"), "c,0")
    near = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker, bystander=True)
        for broker in ("c,1", "a,2")
    ]
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE)
    await trial.calm(3.0)
    start = trial.now
    trial.ledger.excuse(behind.name, start - 1.0)
    await world.kill("b,0")
    await world.start_broker("b,0")
    await world.links_up()
    await asyncio.sleep(2.0)
    end = trial.now
    await trial.finish(publisher)
    trial.recovered(start, [behind, *near], [publisher])
    trial.judge_bystanders(start, end)


PROXIED = Setup(proxied=(A_LINK,))
SCENARIOS = [
    Scenario(
        "alink-reset",
        "an aLink reset for 3 s, five times",
        alink_reset,
        PROXIED,
        Promise(recovery_s_max=RECOVERY_S_MAX),
    ),
    Scenario("link-trouble", "links half closed, stalled and slow for 1.5 s each", link_trouble, PROXIED),
    Scenario("silent-broker", "SIGSTOP of a broker between two others", silent_broker),
    Scenario("full-load", "no fault at all, but as much load as brokers take", full_load, promise=Promise(order=False)),
    Scenario(
        "broker-killed",
        "kill -9 and restart of a broker between two others",
        broker_killed,
        promise=Promise(repeats=True),
    ),
]
