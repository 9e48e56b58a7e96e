"""The tools of a scenario: the world, the ledger, actors that are closed at the end, and an outcome to fill in."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.chaos.actors import Publisher, Subscriber
from benchmarks.chaos.oracle import Ledger, Wish
from benchmarks.chaos.outcome import Outcome, Promise
from benchmarks.chaos.world import MAIN, Setup, World, end, prepare_child

SETTLE_QUIET_S = 1.5
SETTLE_S_MAX = 25.0


class Trial:
    """One run of one scenario."""

    def __init__(self, world: World, rng: Random, quick: bool) -> None:
        self.world = world
        self.rng = rng
        self.quick = quick
        self.ledger = Ledger()
        self.outcome = Outcome()
        self._actors: list[Publisher | Subscriber] = []
        self._attackers: list[subprocess.Popen[str]] = []
        self._calm: tuple[float, float] | None = None

    @property
    def now(self) -> float:
        return self.ledger.clock()

    def seconds(self, full_s: float) -> float:
        """How long a phase lasts; shorter in a quick run."""
        return full_s / 2 if self.quick else full_s

    # -- actors

    async def publisher(self, name: str, about: str, *brokers: str, url: str = "", **options: Any) -> Publisher:
        full, token = self._named(name)
        actor = Publisher(self.ledger, full, about, url or self.world.url(*brokers), token=token, **options)
        self._actors.append(actor)
        return await actor.open()

    async def subscriber(self, name: str, wish: Wish, *brokers: str, url: str = "", **options: Any) -> Subscriber:
        full, token = self._named(name)
        actor = Subscriber(self.ledger, full, wish, url or self.world.url(*brokers), token=token, **options)
        self._actors.append(actor)
        return await actor.open()

    def _named(self, name: str) -> tuple[str, str]:
        return (f"main/{name}", MAIN.token) if self.world.setup.clients else (name, "")

    def attacker(self, attack: str, **what: Any) -> subprocess.Popen[str]:
        """A hostile process: its work is not ours, and it gives way where cores are few."""
        process = subprocess.Popen(  # noqa: S603 - this package
            [sys.executable, "-m", "benchmarks.chaos.attack", attack, json.dumps({"host": self.world.host, **what})],
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=lambda: prepare_child(nice=10),
            cwd=Path(__file__).parents[2],
        )
        self._attackers.append(process)
        return process

    async def said(self, process: subprocess.Popen[str], limit_s: float = 30.0) -> dict[str, Any]:
        """The next line of an attacker's output; empty at its end."""
        assert process.stdout is not None
        if process.stdout.closed:
            return {}
        try:
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), limit_s)
        except TimeoutError:
            end(process)
            return {}
        told: dict[str, Any] = json.loads(line) if line else {}
        return told

    # -- phases

    async def calm(self, full_s: float) -> None:
        """The bystanders' rate and delay while nothing happens."""
        await asyncio.sleep(0.5)
        start = self.now
        await asyncio.sleep(self.seconds(full_s))
        self._calm = (start, self.now)

    def judge_bystanders(self, start: float, end_at: float) -> None:
        """The effect of the attack, between these times, on bystanders."""
        assert self._calm is not None
        rate = self.ledger.rate(*self._calm)
        self.outcome.rate_ratio = self.ledger.rate(start, end_at) / rate if rate else 0.0
        self.outcome.delay_s = self.ledger.worst_delay(start, end_at)
        self.outcome.calm_delay_s = self.ledger.worst_delay(*self._calm)

    async def settle(self, limit_s: float = SETTLE_S_MAX) -> None:
        """Wait until all that is promised has come, or nothing comes any more."""
        deadline = self.now + limit_s
        seen, quiet_since = -1, self.now
        while self.now < deadline:
            if self.ledger.delivered != seen:
                seen, quiet_since = self.ledger.delivered, self.now
            elif self.now - quiet_since > SETTLE_QUIET_S and (
                self.now - quiet_since > 2 * SETTLE_QUIET_S or not self.ledger.missing()
            ):
                return
            await asyncio.sleep(0.1)

    def recovered(self, fault: float, readers: list[Subscriber], publishers: list[Publisher]) -> None:
        """Note how long it took until all readers heard all publishers again; the longest of several faults counts."""
        took_s = self.ledger.recovery(fault, [r.name for r in readers], [p.name for p in publishers])
        if took_s is None:
            self.outcome.never_recovered = True
        else:
            self.outcome.recovery_s = max(took_s, self.outcome.recovery_s or 0.0)

    async def finish(self, *publishers: Publisher) -> None:
        """Stop the publishers, wait for deliveries in flight, close the books."""
        confirmed = await asyncio.gather(*(publisher.stop() for publisher in publishers))
        for publisher, done in zip(publishers, confirmed, strict=True):
            if not done:
                self.outcome.fault(f"{publisher.name} was not confirmed: {publisher.failure or 'flush did not return'}")
        await self.settle()
        self.outcome.tally = self.ledger.tally()
        for actor in self._actors:
            if actor.failure is not None and isinstance(actor, Subscriber):
                self.outcome.note(f"{actor.name} ended: {actor.failure}")

    def end_attackers(self) -> None:
        for process in self._attackers:
            end(process)

    async def close(self) -> None:
        self.end_attackers()
        await asyncio.gather(*(actor.close() for actor in self._actors), return_exceptions=True)


@dataclass(frozen=True)
class Scenario:
    """A fault or an attack, as a function of a trial."""

    name: str
    about: str
    run: Callable[[Trial], Awaitable[None]]
    setup: Setup | None = field(default_factory=Setup)  # None: the scenario starts its own brokers
    promise: Promise = field(default_factory=Promise)
    limit_s: float = 90.0
