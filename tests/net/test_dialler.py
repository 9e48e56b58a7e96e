"""Links that come back: how soon a neighbour is dialled again, and that nothing is lost when it answers in time."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from octopia.net import Address, NetLimits
from octopia.net.broker.dialler import Dialler
from octopia.topology import BrokerId
from octopia.wire import message_frame
from tests.net.live import Live, overlay, take, until

A, B = BrokerId("a", 0), BrokerId("b", 0)
HANG_S = 1000.0


class Loop:
    """Keeps the pauses that were asked for, and passes them at once."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._calls: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.pauses.append(delay_s)
        self._calls.append(call)

    def create_task(self, attempt: Any) -> None:
        attempt.close()

    def pass_pause(self) -> None:
        self._calls.pop()()


class Lost:
    """A link whose neighbour is away."""

    def __init__(self, awaited_s: float) -> None:
        self.awaited_s = awaited_s
        self.channel = None
        self.neighbour = B


def pauses_of(link: Lost, loop: Loop, dialler: Dialler, count: int) -> list[float]:
    loop.pauses.clear()
    for _ in range(count):
        dialler.dial_later()
        loop.pass_pause()
    return loop.pauses


@pytest.mark.parametrize(("grace_s", "longest_s"), [(0.3, 0.05), (3.0, 0.15), (5.0, 0.25), (30.0, 0.25)])
def test_while_a_neighbour_is_awaited_it_is_dialled_twenty_times_or_more_in_that_time(
    grace_s: float, longest_s: float
) -> None:
    loop, link = Loop(), Lost(grace_s)
    nothing = cast("Any", None)
    parts = (nothing, nothing, nothing, nothing)
    dialler = Dialler(A, cast("Any", link), *parts, HANG_S, cast("Any", loop), nothing)
    drawn = pauses_of(link, loop, dialler, 50)
    assert max(drawn) <= longest_s + 1e-9
    # Later they grow, from there and not from the beginning, up to two seconds.
    link.awaited_s = 0.0
    drawn = pauses_of(link, loop, dialler, 10)
    assert all(drawn[n] <= longest_s * 2 ** (n + 1) for n in range(10))
    assert all(1.0 <= pause_s <= 2.0 for pause_s in drawn[6:])


class Gate:
    """Stands between two brokers: forwards, resets all connections, or accepts them and stays silent."""

    def __init__(self, to: Address) -> None:
        self.to = to
        self.way = "forward"
        self.refused = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def open(self) -> Address:
        self._server = await asyncio.start_server(self._serve, self.to.host, 0)
        return Address(self.to.host, self._server.sockets[0].getsockname()[1])

    def cut(self, way: str) -> None:
        self.way = way
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self.cut("reset")
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self.way == "forward":
            far_reader, far_writer = await asyncio.open_connection(self.to.host, self.to.port)
            self._writers.append(far_writer)
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
            return
        self.refused += 1
        if self.way == "reset":
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()


@pytest.mark.parametrize("way", ["reset", "silent"])
@overlay(
    tree="path:2",
    clusters=1,
    routing="idr",
    net_limits=NetLimits(link_grace_s=HANG_S, handshake_s=HANG_S, link_heartbeat_s=HANG_S),
)
async def test_a_link_that_is_cut_and_back_within_its_grace_loses_nothing(live: Live, way: str) -> None:
    """Where packets vanish an attempt would hang for `handshake_s`: for ever, here."""
    publisher = await live.publisher("a,0", "n is not null")
    subscription = await live.subscriber("b,0", "n >= 0")
    link, dialler = live.host("a,0").links[B], live.host("a,0").diallers[B]
    gate = Gate(live.addresses[B])
    dialler.address = await gate.open()
    direct = link.channel
    direct.abort()
    await until(lambda: link.channel not in (None, direct))
    await publisher.publish_many({"n": n} for n in range(500))
    gate.cut(way)
    await publisher.publish_many({"n": n} for n in range(500, 1000))
    await publisher.flush()
    await until(lambda: gate.refused > 1)
    assert link.channel is None
    gate.cut("forward")
    assert [d.notification["n"] for d in await take(subscription, 1000)] == list(range(1000))
    assert link.outgoing.dropped == live.host("b,0").links[A].outgoing.dropped == 0
    assert link.is_up
    await gate.close()


@overlay(
    tree="path:2",
    clusters=1,
    routing="idr",
    net_limits=NetLimits(link_grace_s=HANG_S, handshake_s=HANG_S, link_heartbeat_s=HANG_S, link_give_up_s=HANG_S),
)
async def test_a_neighbour_that_hears_no_welcome_gets_what_waited_for_it_all_the_same(live: Live) -> None:
    """A fresh link: the answer to its first call is lost, with all that was sent after it."""
    publisher = await live.publisher("b,0", "n is not null")
    subscription = await live.subscriber("a,0", "n >= 0")
    dialling, accepting = live.host("a,0").links[B], live.host("b,0").links[A]
    dialler = live.host("a,0").diallers[B]
    gate = Gate(live.addresses[B])
    dialler.address = await gate.open()
    gate.cut("reset")
    dialling.channel.abort()
    await until(lambda: gate.refused > 1)
    for link in (dialling, accepting):
        link.go_down()
    await publisher.publish_many({"n": n} for n in range(100))
    await publisher.flush()
    assert accepting.queue.waits == 100
    # The call gets through, and nothing comes back.
    _, writer = await asyncio.open_connection(live.addresses[B].host, live.addresses[B].port)
    writer.write(message_frame(dialling.hello(b"")))
    await until(lambda: accepting.channel is not None and accepting.queue.sent > 100)
    writer.transport.abort()
    await until(lambda: accepting.channel is None)
    gate.cut("forward")
    assert [d.notification["n"] for d in await take(subscription, 100)] == list(range(100))
    await gate.close()


@overlay(tree="path:2", clusters=1)
async def test_a_link_that_is_taken_up_while_it_is_about_to_be_given_up_stays_up(live: Live) -> None:
    """Its queue was full while it was broken, and a turn later it is connected again."""
    link = live.host("a,0").links[B]
    later: list[Callable[[], None]] = []
    soon, link._soon = link._soon, later.append
    assert link.channel is not None
    link.channel.abort()
    await until(lambda: link.channel is None)
    link.wait_no_longer()
    link._soon = soon
    await until(lambda: link.channel is not None)
    for call in later:
        call()
    assert link.is_up
    subscription = await live.subscriber("b,0", "x > 0")
    publisher = await live.publisher("a,0", "x > 0")
    await publisher.publish({"x": 1})
    assert len(await take(subscription, 1)) == 1
