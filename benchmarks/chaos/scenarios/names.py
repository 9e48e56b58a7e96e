"""Names and sessions of clients: who may come back, and who may not take whose place."""

import asyncio
from typing import Any

import octopia
from benchmarks.chaos import hostile
from benchmarks.chaos.actors import leave, topic
from benchmarks.chaos.hostile import Peer
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.versions import NOTICE_S_MAX
from benchmarks.chaos.world import MAIN, Entry, Setup
from octopia.errors import OctopiaError, RefusedError
from octopia.wire import Accepted, Dropped, Goodbye, Pong, Refused, Welcome

RETURN_S_MAX = 10.0
REFUSED_IDS = 20_000
REFUSED_IDS_BYTES_MAX = 4 * 1024 * 1024
ONE = Setup(regions=1, clusters=1)
LIMITED = Entry("limited", "0c6b5a49382716f5e4d3c2b1a0f9e8d7", subscribe="class = 'quotes' or class = 'other'")


async def name_returns(trial: Trial) -> None:
    """A client vanishes without a word and comes back at once under its name, as after a crash."""
    door = await trial.world.door("a,0")
    await trial.subscriber("worker", topic("quotes"), url=f"octopia://{door.host}:{door.port}")
    trial.ledger.excuse("main/worker", trial.now)
    door.stall()
    start, refusals = trial.now, 0
    while trial.now < start + RETURN_S_MAX:
        client = octopia.connect(trial.world.url("a,0"), name="main/worker", token=MAIN.token)
        try:
            await client.open()
            trial.outcome.recovery_s = trial.now - start
            await leave(client)
            break
        except RefusedError as error:
            refusals += 1
            trial.outcome.answer = f"refused: {error}"
            await asyncio.sleep(0.2)
    else:
        trial.outcome.never_recovered = True
    trial.outcome.note(f"refused {refusals} times")
    if trial.outcome.recovery_s is not None:
        trial.outcome.answer = "let in"
        trial.outcome.expect(trial.outcome.recovery_s <= NOTICE_S_MAX, f"let in after {trial.outcome.recovery_s:.1f} s")
    door.mend()


async def name_stolen(trial: Trial) -> None:
    """A stranger takes the name of a client whose connection is broken for a moment."""
    door = await trial.world.door("a,0")
    worker = await trial.subscriber("worker", topic("quotes"), url=f"octopia://{door.host}:{door.port}")
    publisher = await trial.publisher("feed", "quotes", "a,0")
    publisher.start(100)
    await asyncio.sleep(0.5)
    fault = trial.now
    door.cut()
    await asyncio.sleep(0.3)
    stranger, answer = await asyncio.to_thread(_take, trial.world.host, trial.world.ports["a,0"], "worker")
    if isinstance(answer, Welcome) and answer.name == "worker":
        trial.outcome.accepted("a stranger got the name")
    else:
        trial.outcome.refused(answer.reason if isinstance(answer, Goodbye) else "another name was given")
    await asyncio.sleep(0.7)
    door.mend()
    await asyncio.sleep(3.0)
    await trial.finish(publisher)
    trial.recovered(fault, [worker], [publisher])
    stranger.close()


def _take(host: str, port: int, name: str) -> tuple[Peer, Welcome | Goodbye | None]:
    peer = Peer(host, port)
    return peer, peer.hello(name=name, session_s=30.0)


async def refused_subscribe(trial: Trial) -> None:
    """A refused subscribe with the id of a live subscription changes nothing; refused ids are not kept."""
    host, port = trial.world.host, trial.world.ports["a,0"]
    peer = await asyncio.to_thread(Peer, host, port)
    trial.outcome.answer = await asyncio.to_thread(_subscribe_twice, peer)
    trial.outcome.expect(trial.outcome.answer.startswith("refused"), "the second filter was accepted under the same id")
    publisher = await trial.publisher("feed", "quotes", "a,0")
    for _ in range(20):
        await publisher.burst(250)
        await publisher.flush()
    ended, dropped = await asyncio.to_thread(_how_it_ended, peer)
    trial.outcome.note(f"live subscription {'ended: ' + ended if ended else 'goes on'}, {dropped:,} dropped")
    trial.outcome.expect(not ended, "the refused request changed the live subscription's policy")
    peer.close()
    other = await asyncio.to_thread(Peer, host, port)
    before = trial.world.memory("a,0")
    refused = await asyncio.to_thread(_refused_ids, other)
    grown = trial.world.memory("a,0") - before
    trial.outcome.note(f"{refused:,} refused ids: memory grew by {grown / 2**20:.1f} MiB")
    trial.outcome.expect(grown <= REFUSED_IDS_BYTES_MAX, "refused ids are kept")
    other.close()


def _subscribe_twice(peer: Peer) -> str:
    peer.hello(name="limited/a", token=LIMITED.token)
    peer.send(hostile.subscribe("s1", [[["class", hostile.EQ, "quotes"]]], "drop_oldest"))
    peer.wait_for(Accepted)
    peer.send(hostile.subscribe("s1", [[["class", hostile.EQ, "other"]]], "disconnect"))
    answer: Any = peer.wait_for(Accepted | Refused)  # type: ignore[arg-type]
    return f"refused: {answer.reason}" if isinstance(answer, Refused) else "accepted"


def _how_it_ended(peer: Peer) -> tuple[str, int]:
    """The code and reason of a goodbye, if there was one, and how many were dropped."""
    peer.socket.settimeout(1.0)
    dropped = 0
    while messages := peer.receive():
        if all(isinstance(message, Pong) for message in messages):
            # A sign of life, and nothing else: it goes on.
            break
        for message in messages:
            if isinstance(message, Goodbye):
                return f"{message.code}: {message.reason}", dropped
            dropped += message.count if isinstance(message, Dropped) else 0
        try:
            peer.confirm()
        except OSError:
            return "closed", dropped
    return "", dropped


def _refused_ids(peer: Peer) -> int:
    """Subscriptions beyond the limit of one, each with a separate id."""
    peer.hello(name="limited/b", token=LIMITED.token)
    peer.send(hostile.subscribe("first", [[["class", hostile.EQ, "quotes"]]]))
    peer.wait_for(Accepted)
    refused = 0
    for start in range(0, REFUSED_IDS, 100):
        ids = [f"{i} {'x' * 240}" for i in range(start, start + 100)]
        peer.send(b"".join(hostile.subscribe(id, [[["class", hostile.EQ, "other"]]]) for id in ids))
        answers = 0
        while answers < 100:
            messages = peer.receive()
            if not messages:
                return refused
            answers += sum(isinstance(message, Accepted | Refused) for message in messages)
            refused += sum(isinstance(message, Refused) for message in messages)
        peer.confirm()
    return refused


async def name_below(trial: Trial) -> None:
    """Client `desk` calls itself `desk/admin`, which is another configured client."""
    client = octopia.connect(trial.world.url("a,0"), name="desk/admin", token=DESK[0].token)
    try:
        await client.open()
        trial.outcome.accepted("desk is let in as desk/admin")
    except OctopiaError as error:
        trial.outcome.refused(str(error))
    await leave(client)


DESK = (Entry("desk", "1f2e3d4c5b6a79880716253443526170"), Entry("desk/admin", "89abcdef0123456789abcdef01234567"))
TIGHT = (("client_queue_frames_max", 100), ("window_frames", 1024), ("subscriptions_per_client_max", 1))
SCENARIOS = [
    Scenario("name-returns", "a named client vanishes and returns at once", name_returns, ONE),
    Scenario(
        "name-stolen",
        "a stranger takes the name of a client that is away",
        name_stolen,
        Setup(1, 1, clients=(), link_token=""),
    ),
    Scenario(
        "refused-subscribe",
        "a refused subscribe with the id of a live subscription",
        refused_subscribe,
        Setup(1, 1, clients=(MAIN, LIMITED), limits=TIGHT),
    ),
    Scenario(
        "name-below", "client desk calls itself desk/admin, another client", name_below, Setup(1, 1, clients=DESK)
    ),
]
