"""Full dynamic routing: any k-1 brokers die, or fall silent, while pairs between the others run.

Nothing may be lost, repeated or out of order. How long delivery pauses is the worst gap between two notifications of
one publisher at one subscriber while they are gone, and, where they were silent, when they go on; at this pace they
come every few milliseconds. Starting processes takes processors from everyone, so it is not in that time.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
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


SCENARIOS = [
    Scenario(
        "fdr-killed", "fdr: kill -9 of any k-1 brokers, 2,000/s between the others", killed, FDR, Promise(), limit_s=300
    ),
    Scenario(
        "fdr-silent", "fdr: SIGSTOP of any k-1 brokers, 2,000/s between the others", silent, FDR, Promise(), limit_s=300
    ),
]
