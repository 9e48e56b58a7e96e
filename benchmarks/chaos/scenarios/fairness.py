"""Attackers and bystanders: the cost of one hostile client for everyone else.

Bystanders publish and subscribe at the attacked broker and across its link. Their rate and delays under attack are
compared with a calm phase of the same run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.chaos.actors import topic
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import MEMORY_BYTES_MAX, POLICY_LOSSLESS
from benchmarks.chaos.world import FOE, Setup

RATE = 100.0
CALM_S = 3.0
TWO = Setup(regions=2, clusters=1)
AT, FAR = "a,0", "b,0"


def foe(trial: Trial, attack: str, at: str = AT, name: str = "foe/1", **what: Any) -> Any:
    return trial.attacker(attack, port=trial.world.ports[at], token=FOE.token, name=name, **what)


async def beside(
    trial: Trial, attack: Callable[[], Awaitable[None]], after: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run an attack beside bystanders, and judge its cost for them; `after` happens under attack, and is not judged."""
    for broker in (AT, FAR):
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker, bystander=True)
    publisher = await trial.publisher("feed", "quotes", AT)
    publisher.start(RATE)
    await trial.calm(CALM_S)
    start = trial.now
    await attack()
    end = trial.now
    if after is not None:
        await after()
    trial.end_attackers()
    await trial.finish(publisher)
    trial.judge_bystanders(start, end)


def told(trial: Trial, said: dict[str, Any], what: str) -> None:
    """Note the answers to the attacker."""
    reason = said.get("refused")
    if not said:
        what = "no answer in time"
    trial.outcome.answer = f"refused: {reason}" if reason else what


async def block_crawl(trial: Trial) -> None:
    """The crawling subscriber and the junk share a link with the bystanders, and nothing else."""

    async def attack() -> None:
        crawl = foe(trial, "crawl", FAR, "foe/crawl", every_s=8.0, policy=POLICY_LOSSLESS, about="junk")
        told(trial, await trial.said(crawl), "accepted")
        junk = foe(trial, "junk", AT, "foe/junk", rate=1500.0, pad=8000, about="junk")
        await trial.said(junk)
        await asyncio.sleep(trial.seconds(14.0))

    await beside(trial, attack)


async def slow_among_many(trial: Trial) -> None:
    """40 subscribers of one publisher, and one more that blocks and reads one message a second."""
    for number in range(40):
        await trial.subscriber(f"one-{number}", topic("quotes"), FAR, bystander=True)
    publisher = await trial.publisher("feed", "quotes", AT, pad=2000)
    publisher.start(50)
    await trial.calm(CALM_S)
    start = trial.now
    slow = foe(trial, "crawl", FAR, "foe/slow", every_s=1.0, policy=POLICY_LOSSLESS, about="quotes+fill")
    told(trial, await trial.said(slow), "accepted")
    # Its queue is filled first: at one message a second the rest is a matter of time.
    await trial.said(foe(trial, "junk", FAR, "foe/fill", rate=1500.0, pad=8000, about="fill", seconds=2.0))
    await asyncio.sleep(trial.seconds(16.0))
    end = trial.now
    trial.end_attackers()
    await trial.finish(publisher)
    trial.judge_bystanders(start, end)


async def bomb_conjunctions(trial: Trial) -> None:
    async def attack() -> None:
        cpu_s = trial.world.cpu_s(AT)
        bomb = foe(trial, "conjunctions")
        await trial.said(bomb)
        told(trial, await trial.said(bomb, 25), "accepted")
        trial.outcome.note(f"{trial.world.cpu_s(AT) - cpu_s:.1f} s of CPU at the broker")

    await beside(trial, attack)


async def bomb_attributes(trial: Trial) -> None:
    async def attack() -> None:
        bomb = foe(trial, "attributes", count=3_000 if trial.quick else 10_000, hold_s=3.0)
        await trial.said(bomb)
        said = await trial.said(bomb, 60)
        told(trial, said, "accepted")
        trial.outcome.note(f"{said.get('accepted', 0):,} subscriptions accepted")
        await trial.said(bomb, 10)
        await asyncio.sleep(3.0)

    await beside(trial, attack)


async def bomb_contains(trial: Trial) -> None:
    async def attack() -> None:
        bomb = foe(trial, "contains", count=3_000, strings=5)
        await trial.said(bomb)
        told(trial, await trial.said(bomb, 40), "accepted")
        await asyncio.sleep(0.5)

    await beside(trial, attack)


async def _measured(trial: Trial, attack: Callable[[], Awaitable[None]]) -> None:
    """Like `beside`, with the memory of the attacked broker."""

    async def with_memory() -> None:
        before = trial.world.memory(AT)
        await attack()
        grown = trial.world.memory(AT) - before
        trial.outcome.note(f"memory grew by {grown / 2**20:,.0f} MiB")
        trial.outcome.expect(grown <= MEMORY_BYTES_MAX, f"memory grew by {grown / 2**20:,.0f} MiB")

    await beside(trial, with_memory)


async def memory_replies(trial: Trial) -> None:
    async def attack() -> None:
        flood = foe(trial, "replies", seconds=trial.seconds(10.0))
        await trial.said(flood)
        said = await trial.said(flood, 20)
        told(trial, said, "accepted")
        trial.outcome.note(f"{said.get('requests', 0):,} requests sent, no answer read")

    await _measured(trial, attack)


async def memory_abandoned(trial: Trial) -> None:
    async def attack() -> None:
        gone = foe(trial, "abandon", count=40, about="junk")
        await trial.said(gone)
        junk = foe(trial, "junk", AT, "foe/junk", rate=300.0, pad=8000, about="junk", seconds=trial.seconds(10.0))
        await trial.said(junk)
        await trial.said(junk, 40)

    await _measured(trial, attack)


async def memory_unfinished(trial: Trial) -> None:
    async def attack() -> None:
        said = await trial.said(foe(trial, "unfinished", count=300), 30)
        told(trial, said, "accepted")
        trial.outcome.note(f"{said.get('open', 0)} unfinished frames")
        await asyncio.sleep(1.0)

    await _measured(trial, attack)


SCENARIOS = [
    Scenario("block-crawl", "a block subscriber confirms a frame per 8 s, beside junk", block_crawl, TWO),
    Scenario("slow-among-40", "a block subscriber reads one message a second", slow_among_many, TWO),
    Scenario("bomb-conjunctions", "one SUBSCRIBE of 600 conjunctions", bomb_conjunctions, TWO),
    Scenario("bomb-attributes", "10,000 subscriptions with distinct attributes", bomb_attributes, TWO, limit_s=120.0),
    Scenario("bomb-contains", "3,000 contains subscriptions and five 900 kB strings", bomb_contains, TWO),
    Scenario("memory-replies", "requests from a client that does not read", memory_replies, TWO),
    Scenario("memory-abandoned", "40 abandoned sessions and junk for them", memory_abandoned, TWO),
    Scenario("memory-unfinished", "300 unfinished frames", memory_unfinished, TWO),
]
