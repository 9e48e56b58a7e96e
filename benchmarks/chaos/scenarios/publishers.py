"""Publishers whose broker dies, stops or goes out of reach."""

import asyncio
import signal

from benchmarks.chaos.actors import Publisher, topic
from benchmarks.chaos.outcome import Promise
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import POLICY_LOSSLESS, RECOVERY_S_MAX
from octopia.errors import OctopiaError

CLOSE_S_MAX = 30.0


async def full_queue(publisher: Publisher, limit_s: float = 10.0) -> None:
    """Wait until a publisher that publishes without pause is stopped by its own full queue."""
    count, since, start = -1, publisher.ledger.clock(), publisher.ledger.clock()
    while publisher.ledger.clock() < min(since + 0.5, start + limit_s):
        if publisher.ledger.count(publisher.name) != count:
            count, since = publisher.ledger.count(publisher.name), publisher.ledger.clock()
        await asyncio.sleep(0.05)


async def full_queue_kill(trial: Trial) -> None:
    """The host is stopped first, so that it confirms nothing: all that is published must reach all who listen."""
    world = trial.world
    readers = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker, policy=POLICY_LOSSLESS)
        for broker in ("c,1", "b,2")
    ]
    publisher = await trial.publisher("feed", "quotes", "a,0", "a,1")
    world.signal("a,0", signal.SIGSTOP)
    burst = asyncio.create_task(publisher.burst(30_000 if trial.quick else 60_000))
    await full_queue(publisher)
    trial.outcome.note(f"{trial.ledger.count(publisher.name):,} published when the host died")
    await world.kill("a,0")
    fault = trial.now
    await asyncio.wait_for(burst, 60)
    await trial.finish(publisher)
    trial.recovered(fault, readers, [publisher])
    repeats = await world.metric("a,1", "octopia_duplicates_total")
    trial.outcome.note(f"dropped as repeats by (a,1): {repeats:,.0f}")


async def failover_reach(trial: Trial) -> None:
    """Subscribers in all clusters must hear a publisher that moved from a dead broker to its neighbour."""
    readers = [
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker)
        for broker in ("c,0", "b,0", "c,1", "c,2")
    ]
    publisher = await trial.publisher("feed", "quotes", "a,0", "a,1")
    await publisher.burst(100)
    await publisher.flush()
    await trial.settle()
    await trial.world.kill("a,0")
    fault = trial.now
    while publisher.client.broker != "(a,1)" and trial.now < fault + 10:
        await asyncio.sleep(0.05)
    # What is published now is confirmed by a broker that lives, and wanted by subscribers whose brokers live.
    await publisher.burst(100)
    await trial.finish(publisher)
    trial.recovered(fault, readers, [publisher])


async def flush_restart(trial: Trial) -> None:
    """A flush is pending when the broker dies, and returns after it is back; then the client is gone for good."""
    world = trial.world
    door = await world.door("a,0")
    for broker in ("b,0", "c,1"):
        await trial.subscriber(f"at-{broker[0]}{broker[2]}", topic("quotes"), broker)
    publisher = await trial.publisher("feed", "quotes", url=f"octopia://{door.host}:{door.port}")
    world.signal("a,0", signal.SIGSTOP)
    await publisher.burst(100)
    flush = asyncio.create_task(publisher.flush(30))
    await asyncio.sleep(0.2)
    await world.kill("a,0")
    fault = trial.now
    await world.start_broker("a,0")
    done = await flush
    door.cut()
    trial.outcome.recovery_s = trial.now - fault
    trial.outcome.expect(done, "flush did not return within 30 s")
    await trial.settle()
    trial.outcome.tally = trial.ledger.tally()


async def close_offline(trial: Trial) -> None:
    """`close` without a connection must deliver everything published, or report that it did not."""
    door = await trial.world.door("a,0")
    await trial.subscriber("reader", topic("quotes"), "c,0")
    publisher = await trial.publisher("feed", "quotes", url=f"octopia://{door.host}:{door.port}")
    await publisher.burst(1)
    await publisher.flush()
    door.cut()
    await asyncio.sleep(0.1)
    await publisher.burst(100)
    closing = asyncio.create_task(publisher.client.close())
    await asyncio.sleep(1.0)
    door.mend()
    try:
        await asyncio.wait_for(closing, CLOSE_S_MAX)
        # It returned as if all were well, so all must be.
        trial.ledger.confirm(publisher.name, trial.ledger.count(publisher.name))
    except OctopiaError as error:
        trial.outcome.note(f"close said: {error}")
    except TimeoutError:
        trial.outcome.fault(f"close did not return within {CLOSE_S_MAX:.0f} s")
    await trial.settle()
    trial.outcome.tally = trial.ledger.tally()


REPEATS = Promise(repeats=True)
OVERLOADED = Promise(repeats=True, order=False)
FAILOVER = Promise(repeats=True, recovery_s_max=RECOVERY_S_MAX)
SCENARIOS = [
    Scenario(
        "full-queue-kill", "kill -9 of a publisher's host while its queue is full", full_queue_kill, promise=OVERLOADED
    ),
    Scenario(
        "failover-reach", "a publisher moves from a dead broker to its neighbour", failover_reach, promise=FAILOVER
    ),
    Scenario("flush-restart", "a flush is pending across a broker's restart", flush_restart, promise=REPEATS),
    Scenario("close-offline", "close while disconnected", close_offline),
]
