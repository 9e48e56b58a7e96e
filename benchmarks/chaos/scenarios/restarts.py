"""Rolling restarts under load, as docs/across-machines.md describes them, and several faults at the same time."""

import asyncio
import signal
from collections.abc import Sequence

from benchmarks.chaos.actors import Publisher, Subscriber, topic
from benchmarks.chaos.outcome import Promise
from benchmarks.chaos.scenarios.detours import AFTER_S, FDR
from benchmarks.chaos.scenarios.publishers import full_queue
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import POLICY_HARMLESS, POLICY_LOSSLESS
from benchmarks.chaos.world import FOE, Setup

RATE = 150.0
# Nine restarts, also on a busy machine.
LIMIT_S = 180.0
# Links are down meanwhile, and ways change by more than a subscriber's broker waits for what went the other way.
RESTARTED = Promise(repeats=True, order=False)
# How long a slow machine takes to start a broker, and how long clients and neighbours wait for it.
SLOW_S = 18.0
GRACE_S = 120.0
# How much longer than the broker is away, from SIGTERM until it listens again, delivery may pause under fdr.
PAUSE_MORE_S_MAX = 1.0


def _urls(broker: str, several: bool) -> list[str]:
    region, cluster = broker.split(",")
    return [broker, f"{region},{(int(cluster) + 1) % 3}"] if several else [broker]


async def _crowd(trial: Trial, several: bool) -> tuple[list[Publisher], list[Subscriber]]:
    """A publisher in each region and cluster, and subscribers in all clusters."""
    readers = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), *_urls(broker, several))
        for broker in ("a,1", "b,0", "b,2", "c,0", "c,1", "a,2")
    ]
    publishers = [
        await trial.publisher(f"feed-{broker[0]}{broker[2]}", "quotes", *_urls(broker, several))
        for broker in ("a,0", "b,1", "c,2")
    ]
    return publishers, readers


async def _rolling(trial: Trial, several: bool, restarted: Sequence[str]) -> None:
    publishers, readers = await _crowd(trial, several)
    for publisher in publishers:
        publisher.start(RATE)
    await asyncio.sleep(1.0)
    for broker in _some(trial, restarted):
        fault = trial.now
        await trial.world.restart(broker)
        took_s = trial.ledger.recovery(fault, [r.name for r in readers], [p.name for p in publishers])
        trial.outcome.recovery_s = max(trial.outcome.recovery_s or 0.0, took_s or 0.0)
    last = trial.now
    await asyncio.sleep(1.0)
    await trial.finish(*publishers)
    trial.recovered(last, readers, publishers)
    _note_losses(trial)


def _some(trial: Trial, brokers: Sequence[str]) -> Sequence[str]:
    """Fewer in a quick run."""
    return brokers[:3] if trial.quick else brokers


def _note_losses(trial: Trial) -> None:
    if trial.outcome.tally is not None and trial.outcome.tally.lost_by:
        lost = ", ".join(
            f"{name.removeprefix('main/')} {count:,}" for name, count in trial.outcome.tally.lost_by.items()
        )
        trial.outcome.note(f"lost by {lost}")


async def rolling_restart(trial: Trial) -> None:
    """Every client knows a second broker."""
    await _rolling(trial, several=True, restarted=trial.world.brokers)


async def rolling_restart_one_url(trial: Trial) -> None:
    """Every client knows its own broker only, and comes back to it; two subscribers and a publisher must."""
    await _rolling(trial, several=False, restarted=("a,1", "b,0", "c,2"))


async def slow_restart(trial: Trial) -> None:
    """The host of a subscriber that knows a second broker is away for a while, within `restart_grace_s`."""
    publishers, readers = await _crowd(trial, several=True)
    for publisher in publishers:
        publisher.start(RATE)
    await asyncio.sleep(1.0)
    away_s = await trial.world.restart("c,1", pause_s=SLOW_S)
    trial.outcome.note(f"(c,1) was away for {away_s:.1f} s")
    fault = trial.now
    await asyncio.sleep(1.0)
    await trial.finish(*publishers)
    trial.recovered(fault, readers, publishers)
    _note_losses(trial)
    for reader in readers:
        trial.outcome.expect(reader.client.gaps == 0, f"{reader.name} left its session {reader.client.gaps} times")
        trial.outcome.expect(reader.client.dropped == 0, f"{reader.name} dropped {reader.client.dropped:,}")


async def rolling_restart_fdr(trial: Trial) -> None:
    """Under fdr, a restart repeats nothing and keeps order, and nobody waits for longer than the broker is away.

    The pause is the worst gap between two notifications of one publisher at one subscriber, the restarted broker's own
    clients included.
    """
    publishers, _ = await _crowd(trial, several=False)
    for publisher in publishers:
        publisher.start(RATE)
    await asyncio.sleep(1.0)
    worst_s = 0.0
    for broker in _some(trial, trial.world.brokers):
        start = trial.now
        away_s = await trial.world.restart(broker)
        await asyncio.sleep(AFTER_S)
        pause_s = trial.ledger.worst_gap(start, trial.now)
        worst_s = max(worst_s, pause_s)
        trial.outcome.note(f"({broker}): away for {away_s:.2f} s, delivery paused for {pause_s:.2f} s")
        trial.outcome.expect(
            pause_s <= away_s + PAUSE_MORE_S_MAX, f"({broker}) was away for {away_s:.1f} s, a pause of {pause_s:.1f} s"
        )
    await trial.finish(*publishers)
    trial.outcome.recovery_s = worst_s
    _note_losses(trial)


async def kill_stall_slow(trial: Trial) -> None:
    """kill -9 of a publisher's host while its queue is full, a link stalls and a subscriber does not keep up."""
    world = trial.world
    readers = [
        await trial.subscriber("at-c0", topic("quotes"), "c,0", policy=POLICY_LOSSLESS),
        await trial.subscriber("at-a0", topic("quotes"), "a,0", policy=POLICY_LOSSLESS),
    ]
    steady = await trial.publisher("steady", "quotes", "b,0")
    moving = await trial.publisher("moving", "quotes", "a,1", "a,0")
    slow = trial.attacker(
        "crawl",
        port=world.ports["c,0"],
        token=FOE.token,
        name="foe/slow",
        every_s=0.5,
        policy=POLICY_HARMLESS,
        about="quotes",
    )
    await trial.said(slow)
    steady.start(RATE)
    await asyncio.sleep(1.0)
    world.signal("a,1", signal.SIGSTOP)
    burst = asyncio.create_task(moving.burst(25_000))
    await full_queue(moving)
    for proxy in world.link("b,0", "c,0"):
        proxy.stall()
    await world.kill("a,1")
    fault = trial.now
    await asyncio.sleep(1.5)
    for proxy in world.link("b,0", "c,0"):
        proxy.mend()
    await asyncio.wait_for(burst, 45)
    await trial.finish(steady, moving)
    trial.recovered(fault, readers, [steady, moving])


async def rolling_and_flapping(trial: Trial) -> None:
    """Three brokers are restarted one after the other while a link between two others is reset again and again."""
    world = trial.world
    readers = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker)
        for broker in ("c,0", "b,2", "c,2")
    ]
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(2 * RATE)
    await asyncio.sleep(1.0)
    fault = trial.now
    flapping = asyncio.create_task(_flap(trial))
    for broker in ("a,1", "b,1", "c,1"):
        await world.restart(broker)
    flapping.cancel()
    await asyncio.gather(flapping, return_exceptions=True)
    for proxy in world.link("a,0", "b,0"):
        proxy.mend()
    await world.links_up()
    await asyncio.sleep(1.0)
    await trial.finish(publisher)
    trial.recovered(fault, readers, [publisher])


async def _flap(trial: Trial) -> None:
    while True:
        for proxy in trial.world.link("a,0", "b,0"):
            proxy.cut()
        await asyncio.sleep(trial.rng.uniform(0.2, 0.6))
        for proxy in trial.world.link("a,0", "b,0"):
            proxy.mend()
        await asyncio.sleep(trial.rng.uniform(0.6, 1.2))


SCENARIOS = [
    Scenario(
        "rolling-restart",
        "SIGTERM restart of nine brokers, clients know two",
        rolling_restart,
        promise=RESTARTED,
        limit_s=LIMIT_S,
    ),
    Scenario(
        "rolling-one-url",
        "SIGTERM restart of three brokers, clients know one",
        rolling_restart_one_url,
        promise=RESTARTED,
        limit_s=LIMIT_S,
    ),
    Scenario(
        "slow-restart",
        f"SIGTERM, and the start {SLOW_S:.0f} s later; clients know two",
        slow_restart,
        Setup(limits=(("restart_grace_s", GRACE_S),)),
        RESTARTED,
        LIMIT_S,
    ),
    Scenario(
        "rolling-fdr",
        "fdr: SIGTERM restart of nine brokers, clients know one",
        rolling_restart_fdr,
        FDR,
        Promise(),
        limit_s=LIMIT_S,
    ),
    Scenario(
        "kill-stall-slow",
        "full queue, kill -9, a stalled link and a slow subscriber at once",
        kill_stall_slow,
        Setup(proxied=(("b,0", "c,0"),)),
        RESTARTED,
    ),
    Scenario(
        "rolling-and-flapping",
        "rolling restart while a link is reset again and again",
        rolling_and_flapping,
        Setup(proxied=(("a,0", "b,0"),)),
        RESTARTED,
    ),
]
