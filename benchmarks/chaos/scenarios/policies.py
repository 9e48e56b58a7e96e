"""Policies of clusters under several faults at once: covering, churn, priorities, deadlines, clients that move.

Subscriptions cover one another, at one broker and across brokers, and come and go all the time: whoever leaves uncovers
the others. Meanwhile connections between brokers break, or brokers die. What a subscription with a short deadline does
not get must be counted by its broker as too old, to the last one.
"""

import asyncio
from itertools import count

import octopia
from benchmarks.chaos.actors import Publisher, Subscriber, leave
from benchmarks.chaos.oracle import Wish
from benchmarks.chaos.outcome import Promise
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import POLICY_LOSSLESS
from benchmarks.chaos.world import FOE, Setup
from octopia.net import Client

RATE = 300.0
PUBLISH_AT = ("a,0", "c,1")
READ_AT = ("c,0", "a,1", "b,2")
# Without clients that stay.
MORTAL = (("b,0", "b,1"), ("b,0", "c,2"), ("a,2", "b,1"))
LINKS = (("a,0", "b,0"), ("b,0", "c,0"), ("b,0", "b,1"), ("a,0", "a,1"))
AFTER_S = 1.5
LEAVE_S_MAX = 10.0
BACK_S_MAX = 20.0
NEVER_MS = 600_000
SOON_MS = 250
QOS = "priority_max = 3\n"
LIMITS = (("block_s", 60.0), ("client_queue_frames_max", 100_000))
PLACES, CROWD = 48, 42


def at_least(x: int) -> Wish:
    """These cover one another: each wants all that those with a greater number want."""
    return Wish.of(("class", "=", "quotes"), ("x", ">=", x))


async def _readers(trial: Trial) -> list[Subscriber]:
    """Two that stay at each broker: a narrow one with priority, and a wider one with a deadline that never passes."""
    found = []
    for at in READ_AT:
        name = f"{at[0]}{at[2]}"
        narrow, wide = at_least(7), at_least(4)
        found += [
            await trial.subscriber(f"narrow-{name}", narrow, at, policy=POLICY_LOSSLESS, priority=3),
            await trial.subscriber(f"wide-{name}", wide, at, policy=POLICY_LOSSLESS, deadline_ms=NEVER_MS),
        ]
    return found


class Churn:
    """Subscribers that come, read for a while, and leave; and publishers that do the same."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._numbers = count(1)
        self._running = True
        self._tasks = [asyncio.create_task(self._read_now_and_then(at)) for at in READ_AT]
        self._tasks.append(asyncio.create_task(self._publish_now_and_then()))
        self.came = 0

    async def stop(self) -> None:
        self._running = False
        await asyncio.gather(*self._tasks)

    async def _read_now_and_then(self, at: str) -> None:
        trial, rng = self._trial, self._trial.rng
        while self._running:
            name, wish = f"guest-{next(self._numbers)}", at_least(rng.randrange(10))
            guest = await trial.subscriber(name, wish, at, policy=POLICY_LOSSLESS, priority=rng.randrange(4))
            self.came += 1
            await asyncio.sleep(rng.uniform(0.1, 0.6))
            # Earlier publications are still for it, and must arrive before it leaves.
            trial.ledger.ended(guest.name)
            asked = trial.now
            while not trial.ledger.is_served(guest.name) and trial.now < asked + LEAVE_S_MAX:
                await asyncio.sleep(0.1)
            await guest.close()

    async def _publish_now_and_then(self) -> None:
        trial = self._trial
        while self._running:
            guest = await trial.publisher(f"visitor-{next(self._numbers)}", "quotes", trial.rng.choice(PUBLISH_AT))
            await guest.burst(40)
            if not await guest.flush():
                trial.outcome.fault(f"{guest.name} was not confirmed: {guest.failure or 'flush did not return'}")
            self.came += 1
            await guest.close()


async def _begin(trial: Trial) -> tuple[list[Publisher], list[Subscriber], Churn]:
    readers = await _readers(trial)
    publishers = [await trial.publisher(f"feed-{at[0]}{at[2]}", "quotes", at) for at in PUBLISH_AT]
    for publisher in publishers:
        publisher.start(RATE)
    churn = Churn(trial)
    await asyncio.sleep(1.0)
    return publishers, readers, churn


async def _end(trial: Trial, publishers: list[Publisher], churn: Churn) -> None:
    await churn.stop()
    await trial.finish(*publishers)
    trial.outcome.note(f"{churn.came:,} clients came and left")


async def covered_killed(trial: Trial) -> None:
    """Any two brokers die while subscriptions that cover one another come and go; a deadline passes now and then."""
    hasty = await _hasty(trial)
    publishers, _, churn = await _begin(trial)
    for dead in MORTAL[:1] if trial.quick else MORTAL:
        await asyncio.gather(*(trial.world.kill(broker) for broker in dead))
        await asyncio.sleep(AFTER_S)
        await asyncio.gather(*(trial.world.start_broker(broker) for broker in dead))
        await trial.world.links_up()
        await asyncio.sleep(AFTER_S)
    await _end(trial, publishers, churn)
    await _judge_hasty(trial, hasty)


async def _hasty(trial: Trial) -> Subscriber:
    """The only client at its broker, so that all that is too old there was for it."""
    return await trial.subscriber("hasty", at_least(2), "c,1", policy=POLICY_LOSSLESS, deadline_ms=SOON_MS)


async def _judge_hasty(trial: Trial, hasty: Subscriber) -> None:
    """Exactly the missing notifications were too old; the others were judged without it."""
    too_old = await trial.world.metric("c,1", "octopia_too_old_total")
    lost = trial.ledger.tally([hasty.name]).lost
    trial.outcome.note(f"with a deadline of {SOON_MS} ms: {lost:,} did not come, {too_old:,.0f} were too old")
    trial.outcome.expect(lost == too_old, f"{lost:,} did not come and {too_old:,.0f} were too old")
    others = [name for name in trial.ledger.readers if name != hasty.name]
    trial.outcome.tally = trial.ledger.tally(others)


async def covered_cut(trial: Trial) -> None:
    """Connections break again and again, which must cost nothing; then a broker dies, and comes back."""
    publishers, readers, churn = await _begin(trial)
    for _ in range(4 if trial.quick else 12):
        for proxy in trial.world.link(*trial.rng.choice(LINKS)):
            proxy.reset()
        await asyncio.sleep(trial.rng.uniform(0.05, 0.8))
    # idr loses what passes through a dead broker. What is published after that must come again.
    fault = trial.now
    await trial.world.kill("b,0")
    await asyncio.sleep(AFTER_S)
    await trial.world.start_broker("b,0")
    await trial.world.links_up()
    await asyncio.sleep(AFTER_S)
    for name in trial.ledger.readers:
        trial.ledger.excuse(name, fault - 0.5, trial.now)
    await asyncio.sleep(trial.seconds(4.0))
    trial.recovered(fault, readers, publishers)
    await _end(trial, publishers, churn)


async def moved_killed(trial: Trial) -> None:
    """Clients leave a crowded broker for the nearest other; then that one is killed, while they still come and go."""
    near = [f"a,{cluster}" for cluster in range(3)]
    readers = [await trial.subscriber(f"near-{n}", at_least(n % 3), *near, nearest=True) for n in range(12)]
    publisher = await trial.publisher("feed", "quotes", "c,0")
    publisher.start(RATE)
    crowded = max(near, key=lambda broker: sum(_is_at(reader, broker) for reader in readers))
    before = sum(_is_at(reader, crowded) for reader in readers)
    # Clients choose among equally near brokers, so how many are there differs; four fifths of the places are a crowd.
    crowd = await _crowd(trial, crowded, CROWD - before)
    async with asyncio.timeout(60):
        while sum(reader.client.moves for reader in readers) < 2:
            await asyncio.sleep(0.1)
    dead = next(broker for broker in near if broker != crowded)
    orphans = [reader for reader in readers if _is_at(reader, dead)]
    fault = trial.now
    await trial.world.kill(dead)
    async with asyncio.timeout(BACK_S_MAX):
        while any(_is_at(reader, dead) or not reader.client.is_connected for reader in orphans):
            await asyncio.sleep(0.05)
    for reader in orphans:
        trial.ledger.excuse(reader.name, fault - 0.5, trial.now + AFTER_S)
    await asyncio.sleep(trial.seconds(6.0))
    trial.recovered(fault, readers, [publisher])
    await trial.finish(publisher)
    moves = sum(reader.client.moves for reader in readers)
    trial.outcome.note(f"{before} of 12 at the crowded broker, {moves} moves, {len(orphans)} lost theirs")
    await asyncio.gather(*map(leave, crowd))


def _is_at(reader: Subscriber, broker: str) -> bool:
    return reader.client.broker.strip("()") == broker


async def _crowd(trial: Trial, broker: str, size: int) -> list[Client]:
    """Clients that do nothing but be there."""
    crowd = [octopia.connect(trial.world.url(broker), name=f"foe/{n}", token=FOE.token) for n in range(size)]
    for client in crowd:
        await client.open()
    return crowd


SCENARIOS = [
    Scenario(
        "covered-killed",
        "fdr, covering per host, priorities and deadlines: churn while k-1 brokers are killed",
        covered_killed,
        Setup(routing="fdr", covering="host", qos=QOS, limits=LIMITS),
        Promise(),
        limit_s=240,
    ),
    Scenario(
        "covered-cut",
        "idr, covering per link, priorities: churn while connections between brokers break and one broker is killed",
        covered_cut,
        Setup(routing="idr", covering="link", qos=QOS, limits=LIMITS, proxied=LINKS),
        # A link that is down changes ways.
        Promise(order=False),
        limit_s=240,
    ),
    Scenario(
        "moved-killed",
        "nearest clients leave a crowded broker, and the one they went to is killed",
        moved_killed,
        Setup(routing="idr", limits=(("connections_max", PLACES), ("overload_s", 1.0), *LIMITS)),
        Promise(),
        limit_s=240,
    ),
]
