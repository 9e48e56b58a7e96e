"""Clients against a network that breaks wherever it can, judged by what brokers wrote down.

The oracle knows what the program was told: each publication that a `flush`, or `close`, reported as delivered was
routed by some broker; brokers, read one session after the other, routed every publication in order, and each session
without a repeat or a gap; nothing was published again that the client knew to be routed; nothing was refused; and in
the end the broker has registered what the program believes to be registered.
"""

import asyncio
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from octopia.net import Client
from octopia.wire import Goodbye
from tests.net.fake_broker import FakeBroker, FakeNetwork, FakeSession, virtual

WORKERS = 3


class Program:
    """Tasks that use one client, and the answers they got."""

    def __init__(self, client: Client, draw: random.Random) -> None:
        self.client = client
        self.draw = draw
        self.flushed = 0
        self.advertised: set[str] = set()
        self.subscribed: set[str] = set()
        self._ids = count(1)

    async def work(self, steps: int) -> None:
        own: list[str] = []
        for _ in range(steps):
            await self._step(own)
            if self.draw.random() < 0.3:
                await asyncio.sleep(self.draw.random() * 0.05)
        await self._flush()

    async def _step(self, own: list[str]) -> None:
        draw, client = self.draw, self.client
        what = draw.choice(
            ["publish"] * 5 + ["many"] * 3 + ["rows"] * 2 + ["flush", "advertise", "withdraw", "subscribe"]
        )
        if what == "advertise" or not own:
            await self._advertise(own)
        elif what == "publish":
            await client.publish({draw.choice(own): 1})
        elif what == "many":
            await client.publish_many(self._lazily(own, draw.randrange(1, 60)))
        elif what == "rows":
            await client.publish_batch(self._table(own, draw.randrange(1, 60)))
        elif what == "flush":
            await self._flush()
        elif what == "withdraw":
            # Published under it just before: it must be in force for that, wherever that is published in the end.
            id = own.pop(0)
            await client.publish({id: 1})
            await client.unadvertise(id)
            self.advertised.remove(id)
        else:
            await self._subscribe()

    def _lazily(self, own: list[str], many: int) -> Iterator[dict[str, Any]]:
        for _ in range(many):
            yield {self.draw.choice(own): 1}

    def _table(self, own: list[str], many: int) -> pa.Table:
        rows = list(self._lazily(own, many))
        return pa.table({id: [row.get(id) for row in rows] for id in own})

    async def _advertise(self, own: list[str]) -> None:
        """An advertisement that allows what no other allows."""
        id = f"a{next(self._ids)}"
        await self.client.advertise(f"{id} is not null", id=id)
        own.append(id)
        self.advertised.add(id)

    async def _subscribe(self) -> None:
        id = f"s{next(self._ids)}"
        subscription = self.client.subscribe("never = 1", id=id)
        async with subscription:
            if self.draw.random() < 0.5:
                self.subscribed.add(id)
                # Leaving the block would withdraw it.
                subscription._ended = True

    async def _flush(self) -> None:
        last = self.client.last_id
        await self.client.flush()
        self.flushed = max(self.flushed, last)


async def trouble(network: FakeNetwork, brokers: list[FakeBroker], rounds: int) -> None:
    """Cut, forget, restart and refuse, again and again; then leave everything in order."""
    draw = network.draw
    for _ in range(rounds):
        await asyncio.sleep(draw.choice([0.003, 0.02, 0.1, 0.4]) * draw.random() * 2)
        broker = draw.choice(brokers)
        kind = draw.choice(["cut", "cut", "forget", "restart", "away", "busy", "stops", "mute", "budget"])
        if kind == "budget":
            network.budgets.append(
                (draw.choice([None, draw.randrange(3000)]), draw.choice([None, draw.randrange(400)]))
            )
            network.cut_all()
        elif kind == "cut":
            network.cut_all()
        elif kind == "forget":
            broker.forget()
            network.cut_all()
        elif kind == "restart":
            for one in brokers:
                one.forget()
            network.cut_all()
        elif kind == "away":
            broker.up = False
            broker.forget()
            network.cut_all()
        elif kind == "busy":
            broker.goodbye = lambda hello: Goodbye("busy", "try again")
            network.cut_all()
        elif kind == "mute":
            broker.confirms = False
        else:
            for line in list(network.lines):
                line.say(b"\x00\x00\x00\x0b\x03\x92\xa8shutdown\xa0")
        await asyncio.sleep(draw.random() * 0.1)
        in_order(brokers)
    network.budgets.clear()


def in_order(brokers: list[FakeBroker]) -> None:
    for broker in brokers:
        broker.up = broker.confirms = True
        broker.goodbye = lambda hello: None


def sessions_in_time(network: FakeNetwork) -> list[FakeSession]:
    return list(dict.fromkeys(session for session, _ in network.routed))


def judge(network: FakeNetwork, brokers: list[FakeBroker], last: int) -> None:
    """All publications up to `last` were routed, in order, and none twice without need."""
    everyone = [session for broker in brokers for session in (*broker.past, *broker.sessions.values())]
    assert [session.refused for session in everyone if session.refused] == []
    assert [session.repeats for session in everyone if session.repeats] == []
    reached = known = 0
    for session in sessions_in_time(network):
        first = session.routed[0]
        assert session.routed == list(range(first, first + len(session.routed)))
        assert known < first <= reached + 1
        reached = max(reached, session.routed[-1])
        if session.told:
            known = max(known, session.routed[session.told - 1])
    assert reached >= last


@pytest.mark.parametrize("seed", range(60))
@virtual
async def test_whatever_breaks_what_was_flushed_was_routed_once_and_in_order(network: FakeNetwork, seed: int) -> None:
    draw = network.draw
    brokers = [network.add(), network.add()]
    for broker in brokers:
        broker.answer_s = lambda: draw.choice([0.0, 0.0, 0.005, 0.05])
    client = Client([broker.url for broker in brokers], name="me")
    # Small, so that it is full more often than not.
    box = client._journal.queue
    box.frames_max, box.window = draw.choice([(20, 8), (100, 1000), (5, 300)])
    await client.open()
    program = Program(client, draw)
    breaking = asyncio.create_task(trouble(network, brokers, 12))
    await asyncio.gather(*(program.work(25) for _ in range(WORKERS)))
    await breaking
    judge(network, brokers, program.flushed)
    assert program.flushed == client.last_id
    (session,) = await settled(client, brokers)
    assert set(session.advertised) == program.advertised
    assert set(session.subscribed) == program.subscribed
    breaking = asyncio.create_task(trouble(network, brokers, 3))
    await client.advertise("last is not null")
    await client.publish_many({"last": 1} for _ in range(50))
    await client.close(1000)
    judge(network, brokers, client.last_id)
    await breaking


async def settled(client: Client, brokers: list[FakeBroker]) -> list[FakeSession]:
    """The session, once the client has it again and everything is registered there."""
    while client._connecting.channel is None or client._registry.is_registering:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    return [s for b in brokers for s in b.sessions.values() if s.talk is not None]
