"""Brokers whose connections are in memory: the CPU time of everything between a read and a write, and of nothing else.

What is measured is the thread's CPU time inside a broker: handling a read, writing queues, handling confirmations, and
a tick for every `TICK_NOTIFICATIONS`. Sockets, the event loop and the peers take no part, so two rounds differ by a few
per cent even on a busy machine, and conditions can be told apart that a live run would blur.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from octopia.language import Filter
from octopia.net import BrokerHost, NetLimits
from octopia.net.broker.rights import Authority, Rights
from octopia.net.frame_queue import Turn
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import FIRST_NUMBERED, Ack, Hello, Side, advertise_frame, message_frame, subscribe_frame

TICK_NOTIFICATIONS = 5_000
CONFIRM_FRAMES = 500
LIMITS = NetLimits(client_queue_frames_max=1_000_000, client_queue_bytes_max=1 << 30, heartbeat_s=1e6, overload_s=1e6)


class Pending:
    """What is to be done at the end of an iteration of the event loop."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def call_soon(self, call: Callable[..., Any], *given: Any) -> None:
        self._calls.append((call, given))

    def run(self) -> None:
        calls, self._calls = self._calls, []
        for call, given in calls:
            call(*given)


class Pipe:
    """A transport that keeps what is written."""

    def __init__(self, bench: "Bench") -> None:
        self._bench = bench
        self.written: list[bytes] = []
        self.channel: Any = None  # that reads what is written at the other end
        self.other: Pipe | None = None  # None: the other end is a client
        self.frames = 0
        self.confirmed = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", id(self)) if name in ("peername", "sockname") else None

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        raise AssertionError(f"the broker closed a connection: {b''.join(self.written)[-300:]!r}")

    abort = close

    def take(self) -> bytes:
        data = b"".join(self.written)
        self.written.clear()
        return data


class Bench:
    """An overlay in memory, and the CPU seconds that its brokers took."""

    def __init__(
        self, tree: str = "path:1", clusters: int = 1, *, rights: Rights | None = None, **options: Any
    ) -> None:
        self.scot = Scot(parse_tree(tree), clusters)
        self.now_s = 1_000.0
        self.used_s = 0.0
        self.pending = Pending()
        self._since_tick = 0
        turn = Turn(cast(asyncio.AbstractEventLoop, self.pending))
        authority = Authority(_anyone=rights or Rights())
        self.hosts = {
            id: BrokerHost(
                id,
                self.scot,
                now=lambda: self.now_s,
                turn=turn,
                authority=authority,
                **{"net_limits": LIMITS, **options},
            )
            for id in self.scot.brokers
        }
        self.clients: dict[str, Pipe] = {}
        self._links: list[Pipe] = []

    async def link_all(self) -> None:
        """Connect all neighbours."""
        for host in self.hosts.values():
            for neighbour, link in host.links.items():
                if link.dials:
                    here, there = Pipe(self), Pipe(self)
                    here.other, there.other = there, here
                    here.channel = host.channels.make(Side.DIALLING_BROKER, host.diallers[neighbour], 1e6)
                    there.channel = self.hosts[neighbour].door.accept()
                    self._links += [here, there]
                    there.channel.connection_made(there)
                    here.channel.connection_made(here)
        await self.settle()

    async def settle(self) -> None:
        """Until nothing moves, whatever it takes."""
        for _ in range(12):
            for _ in range(4):
                await asyncio.sleep(0)
            self.pending.run()
            self._exchange()
            self.tick()

    async def connect(self, name: str, at: BrokerId | None = None) -> Pipe:
        host = self.hosts[at if at is not None else self.scot.brokers[0]]
        pipe = self.clients[name] = Pipe(self)
        pipe.channel = host.door.accept()
        pipe.channel.connection_made(pipe)
        pipe.channel.data_received(message_frame(Hello([1], "client", name)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pipe.take()
        return pipe

    async def subscribe(
        self,
        groups: Sequence[Sequence[Filter]],
        at: BrokerId | None = None,
        qos: Callable[[int], dict[str, Any]] = lambda n: {},
    ) -> None:
        """A client for each group."""
        for number, filters in enumerate(groups):
            pipe = await self.connect(f"s{number}", at)
            for n, filter in enumerate(filters):
                pipe.channel.data_received(subscribe_frame(f"s{n}", filter, "block", True, **qos(n)))
            await self.settle()
        self.count()

    async def advertise(self, filter: Filter, name: str = "P", at: BrokerId | None = None) -> Pipe:
        pipe = await self.connect(name, at)
        pipe.channel.data_received(advertise_frame("a", filter))
        await self.settle()
        return pipe

    # -- the load

    def read(self, pipe: Pipe, data: bytes, notifications: int) -> None:
        """A read of a client arrives, and all that follows from it."""
        begin = time.thread_time_ns()
        pipe.channel.data_received(data)
        self.pending.run()
        self.used_s += (time.thread_time_ns() - begin) / 1e9
        self._exchange()
        self._since_tick += notifications
        if self._since_tick >= TICK_NOTIFICATIONS:
            self._since_tick = 0
            self.tick()

    def tick(self) -> None:
        self.now_s += 0.025
        begin = time.thread_time_ns()
        for host in self.hosts.values():
            host.tick()
        self.pending.run()
        self.used_s += (time.thread_time_ns() - begin) / 1e9
        self._exchange()

    def _exchange(self) -> None:
        """What brokers have written arrives, until all is quiet; clients count and confirm."""
        moved = True
        while moved:
            moved = False
            for pipe in self._links:
                if pipe.written and pipe.other is not None:
                    data = pipe.take()
                    begin = time.thread_time_ns()
                    pipe.other.channel.data_received(data)
                    self.pending.run()
                    self.used_s += (time.thread_time_ns() - begin) / 1e9
                    moved = True
        self.count()

    def count(self) -> int:
        """The numbered frames that clients have got so far."""
        total = 0
        for pipe in self.clients.values():
            if pipe.written:
                data, at = pipe.take(), 0
                while at < len(data):
                    pipe.frames += data[at + 4] >= FIRST_NUMBERED
                    at += 4 + int.from_bytes(data[at : at + 4], "big")
                if pipe.frames - pipe.confirmed >= CONFIRM_FRAMES:
                    pipe.confirmed = pipe.frames
                    ack = message_frame(Ack(pipe.frames))
                    begin = time.thread_time_ns()
                    pipe.channel.data_received(ack)
                    self.pending.run()
                    self.used_s += (time.thread_time_ns() - begin) / 1e9
            total += pipe.frames
        return total


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)
