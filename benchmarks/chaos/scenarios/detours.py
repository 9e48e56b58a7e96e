"""Full dynamic routing: any k-1 brokers die, or fall silent, while pairs between the others run; and the two host
brokers of a pair stop, are stopped, or die after a flush.

Nothing may be lost, repeated or out of order. How long delivery pauses is the worst gap between two notifications of
one publisher at one subscriber while they are gone, and, where they were silent, when they go on; at this pace they
come every few milliseconds. Starting processes takes processors from everyone, so it is not in that time.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import combinations

from benchmarks.chaos.actors import Publisher, Subscriber, topic
from benchmarks.chaos.outcome import Promise
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import GAP_RESET_S_MAX, GAP_SILENT_S_MAX, POLICY_LOSSLESS
from benchmarks.chaos.world import Setup

# Of all publishers together.
RATE = 2_000.0
PUBLISH_AT = ("a,0", "c,1")
READ_AT = ("c,0", "a,1")
# Brokers without clients of ours, among them the inner ones on all ways between those with.
MORTAL = ("b,0", "b,1", "b,2", "a,2", "c,2")
DEAD = 2
SILENT_S = 4.0
AFTER_S = 1.5
# The hosts of subscribers far from (a,0).
FAR = ("c,0", "c,1")
PAUSED_S = 5.0

# What waited comes at once, and this process, which reads and keeps the books for all, may be slow to take it: that is
# not what is tried here.
FDR = Setup(routing="fdr", limits=(("block_s", 60.0), ("client_queue_frames_max", 100_000)))


async def _pairs(trial: Trial) -> tuple[list[Publisher], list[Subscriber]]:
    readers = [
        await trial.subscriber(f"at-{at[0]}{at[2]}", topic("quotes"), at, policy=POLICY_LOSSLESS) for at in READ_AT
    ]
    publishers = [await trial.publisher(f"feed-{at[0]}{at[2]}", "quotes", at) for at in PUBLISH_AT]
    for publisher in publishers:
        publisher.start(RATE / len(publishers))
    await asyncio.sleep(1.0)
    return publishers, readers


def _sets(trial: Trial) -> list[tuple[str, ...]]:
    """Every set of k-1 of them; in a quick run some, with those that all ways lead through."""
    every = list(combinations(MORTAL, DEAD))
    return [every[0], *trial.rng.sample(every[1:], 2)] if trial.quick else every


async def _trial(trial: Trial, gap_s_max: float, fault: Callable[[Trial, tuple[str, ...]], Awaitable[None]]) -> None:
    publishers, readers = await _pairs(trial)
    gaps = []
    for dead in _sets(trial):
        start = trial.now
        await fault(trial, dead)
        gaps.append((trial.ledger.worst_gap(start, trial.now), dead))
        await _back(trial, dead)
        await trial.world.links_up()
        await asyncio.sleep(AFTER_S)
    await trial.finish(*publishers)
    for start, dead in gaps:
        trial.outcome.note(f"({'), ('.join(dead)}): {start:.2f} s")
    worst_s = max(gap for gap, _ in gaps)
    trial.outcome.note(f"worst gap in delivery {worst_s:.2f} s, of {len(gaps)} sets of {DEAD} brokers")
    trial.outcome.expect(worst_s <= gap_s_max, f"delivery paused for {worst_s:.2f} s")
    trial.outcome.recovery_s = worst_s
    for broker in (*PUBLISH_AT, *READ_AT):
        again = await trial.world.metric(broker, "octopia_sent_again_total")
        repeats = await trial.world.metric(broker, "octopia_repeats_total")
        missed = await trial.world.metric(broker, "octopia_missed_total")
        given_up = await trial.world.metric(broker, "octopia_given_up_total")
        dropped = await trial.world.metric(broker, "octopia_dropped_total")
        trial.outcome.note(
            f"({broker}): {again:,.0f} sent again, {repeats:,.0f} repeats recognised, {missed:,.0f} not sent to "
            f"brokers out of reach, {given_up:,.0f} given up, {dropped:,.0f} dropped at full queues"
        )
    del readers


async def _kill(trial: Trial, dead: tuple[str, ...]) -> None:
    await asyncio.gather(*(trial.world.kill(broker) for broker in dead))
    await asyncio.sleep(AFTER_S)


async def _back(trial: Trial, dead: tuple[str, ...]) -> None:
    gone = [broker for broker in dead if trial.world.processes[broker].poll() is not None]
    await asyncio.gather(*(trial.world.start_broker(broker) for broker in gone))


async def _stop(trial: Trial, dead: tuple[str, ...]) -> None:
    for broker in dead:
        trial.world.signal(broker, signal.SIGSTOP)
    await asyncio.sleep(SILENT_S)
    for broker in dead:
        trial.world.signal(broker, signal.SIGCONT)
    await asyncio.sleep(AFTER_S)


async def killed(trial: Trial) -> None:
    await _trial(trial, GAP_RESET_S_MAX, _kill)


async def silent(trial: Trial) -> None:
    await _trial(trial, GAP_SILENT_S_MAX, _stop)


async def stopped_on_a_silent_link(trial: Trial) -> None:
    """SIGTERM of the publisher's host just after one of its links fell silent, which nobody has noticed."""
    readers = [await trial.subscriber(f"at-{at[0]}{at[2]}", topic("quotes"), at, policy=POLICY_LOSSLESS) for at in FAR]
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE / 2)
    await asyncio.sleep(1.0)
    for proxy in trial.world.link("a,0", "b,0"):
        proxy.stall()
    await asyncio.sleep(trial.rng.uniform(0.2, 1.0))
    process = trial.world.processes["a,0"]
    process.terminate()
    await asyncio.to_thread(process.wait, 15)
    for proxy in trial.world.link("a,0", "b,0"):
        proxy.mend()
    await trial.world.start_broker("a,0")
    await trial.world.links_up()
    await asyncio.sleep(AFTER_S)
    await trial.finish(publisher)
    for reader in readers:
        trial.outcome.expect(reader.failure is None, f"{reader.name} ended")


async def reader_paused(trial: Trial) -> None:
    """SIGSTOP of the subscriber's host."""
    at = FAR[0]
    reader = await trial.subscriber("paused", topic("quotes"), at, policy=POLICY_LOSSLESS)
    await trial.subscriber("other", topic("quotes"), FAR[1], policy=POLICY_LOSSLESS)
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(RATE / 2)
    await asyncio.sleep(1.0)
    start = trial.now
    trial.world.signal(at, signal.SIGSTOP)
    await asyncio.sleep(PAUSED_S)
    trial.world.signal(at, signal.SIGCONT)
    await trial.world.links_up()
    await asyncio.sleep(AFTER_S)
    await trial.finish(publisher)
    trial.recovered(start, [reader], [publisher])
    missed = await trial.world.metric("a,0", "octopia_missed_total")
    trial.outcome.note(f"{missed:,.0f} dropped for brokers that could not be reached")


async def killed_after_a_flush(trial: Trial) -> None:
    """kill -9 of the publisher's host right after `flush(hosts=True)`."""
    for at in FAR:
        await trial.subscriber(f"at-{at[0]}{at[2]}", topic("quotes"), at, policy=POLICY_LOSSLESS)
    publisher = await trial.publisher("feed", "quotes", "a,0")
    for _ in range(2 if trial.quick else 4):
        await publisher.burst(2_000)
        trial.outcome.expect(await publisher.flush(hosts=True), f"not confirmed: {publisher.failure}")
        await trial.world.kill("a,0")
        await asyncio.sleep(0.5)
        await trial.world.start_broker("a,0")
        await trial.world.links_up()
        trial.outcome.expect(await publisher.flush(), "the publisher did not come back")
    await trial.finish(publisher)


SCENARIOS = [
    Scenario(
        "fdr-term-silent",
        "fdr: a link of the publisher's host falls silent, then SIGTERM of that host at 1,000/s",
        stopped_on_a_silent_link,
        replace(FDR, proxied=(("a,0", "b,0"),)),
        Promise(repeats=True),
    ),
    Scenario("fdr-paused", "fdr: SIGSTOP of the subscriber's host for 5 s at 1,000/s", reader_paused, FDR),
    Scenario(
        "fdr-flush-killed",
        "fdr: kill -9 of the publisher's host right after flush(hosts=True)",
        killed_after_a_flush,
        FDR,
    ),
    Scenario(
        "fdr-killed", "fdr: kill -9 of any k-1 brokers, 2,000/s between the others", killed, FDR, Promise(), limit_s=300
    ),
    Scenario(
        "fdr-silent", "fdr: SIGSTOP of any k-1 brokers, 2,000/s between the others", silent, FDR, Promise(), limit_s=300
    ),
]
