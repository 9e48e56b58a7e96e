"""An overlay whose connections are pipes in memory: a test decides when how many bytes of which one arrive.

Brokers are the real ones, hosts with sessions, links and queues. Time is a number that the test moves.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from octopia.net import BrokerHost, NetLimits
from octopia.topology import BrokerId, Scot
from octopia.wire import Ack, Codec, Connection, Hello, Kind, Ping, Pong, Side, Welcome, WireLimits, message_frame

CODEC = Codec(WireLimits())
# Frames about a connection alone, which go on while nothing happens.
IDLE = frozenset({Kind.PING, Kind.PONG, Kind.ACK, Kind.WAITS})


class StoppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still unless it is moved."""

    now_s = 1_000.0

    def time(self) -> float:
        return self.now_s


class End:
    """One end of a pipe, as a transport."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.other: End = self
        self.owner: Any = None
        self.reading = True
        self.closed = False
        self.under_way = bytearray()  # written here, not yet read at the other end
        self.written = bytearray()  # since it was last compared
        self.said = bytearray()  # all that was ever written here, also to a connection that is gone
        self.heard = bytearray()  # all that was ever read here

    def write(self, data: bytes) -> None:
        self.said += data
        if not self.closed:
            self.under_way += data
            self.written += data

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self.under_way)

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.owner.connection_lost, None)

    abort = close

    def take(self, size: int) -> bool:
        """Read at most this many of the bytes in flight to this end; returns whether anything happened."""
        other = self.other
        if self.closed or not self.reading:
            return False
        data = bytes(other.under_way[:size])
        del other.under_way[:size]
        if data:
            self.heard += data
            self.owner.data_received(data)
        elif other.closed:
            self.close()
        return bool(data)


class PipedClient:
    """A client that stores what it receives, and confirms when asked to."""

    def __init__(self, name: str, at: BrokerId, end: End) -> None:
        self.name = name
        self.at = at
        self.end = end
        self.connection = Connection(Side.CLIENT, CODEC)
        self.got: list[Any] = []
        self.told: list[Any] = []

    def data_received(self, data: bytes) -> None:
        for message in self.connection.receive(data):
            if type(message) is Welcome:
                self.connection.open("broker", 0)
                self.data_received(b"")
            elif type(message) is Ping:
                self.end.write(message_frame(Pong(message.number)))
            elif type(message).__name__ == "Delivery":
                self.got.append(message)
            else:
                self.told.append(message)

    def connection_lost(self, exc: Exception | None) -> None:
        raise AssertionError(f"the broker closed the connection of {self.name}: {self.told[-1:]}")

    def confirm(self) -> None:
        self.end.write(message_frame(Ack(self.connection.received)))


class PipedOverlay:
    """All brokers of an overlay, in one process. `compiled`: they use the compiled engine.

    `made` has both ends of every connection that there ever was, that of a broker last if the other is a client.
    """

    def __init__(
        self,
        scot: Scot,
        compiled: bool,
        clock: Callable[[], float],
        limits: NetLimits,
        recorders: Mapping[BrokerId, Any] | None = None,
        **options: Any,
    ) -> None:
        self.scot = scot
        known = recorders or {}
        self.hosts = {
            id: BrokerHost(id, scot, now=clock, net_limits=limits, compiled=compiled, recorder=known.get(id), **options)
            for id in scot.brokers
        }
        self.made: list[tuple[End, End]] = []
        self.clients: dict[str, PipedClient] = {}
        self.links: dict[tuple[BrokerId, BrokerId], tuple[End, End]] = {}

    @property
    def pairs(self) -> list[tuple[BrokerId, BrokerId]]:
        """All links, the end that dials first."""
        return [(id, link.neighbour) for id, host in self.hosts.items() for link in host.links.values() if link.dials]

    def ends(self) -> Iterator[End]:
        for client in self.clients.values():
            yield client.end
            yield client.end.other
        for pair in self.links.values():
            yield from pair

    def connect(self, name: str, at: BrokerId, token: str = "") -> None:
        here, there = piped(name, str(at))
        self.made.append((here, there))
        client = here.owner = PipedClient(name, at, here)
        there.owner = self.hosts[at].door.accept()
        self.clients[name] = client
        there.owner.connection_made(there)
        here.write(message_frame(Hello([1], "client", name, token)))

    def leave(self, name: str) -> None:
        """A client is gone without a word, with everything in flight."""
        end = self.clients.pop(name).end
        end.closed = True
        end.other.close()

    def link(self, dialling: BrokerId, accepting: BrokerId) -> None:
        """Connect two neighbours, unless they are."""
        known = self.links.get((dialling, accepting))
        if known is not None and not any(end.closed for end in known):
            return
        here, there = self.links[dialling, accepting] = piped(str(dialling), str(accepting))
        self.made.append((here, there))
        host = self.hosts[dialling]
        here.owner = host.channels.make(Side.DIALLING_BROKER, host.diallers[accepting], 1e6)
        there.owner = self.hosts[accepting].door.accept()
        there.owner.connection_made(there)
        here.owner.connection_made(here)

    def lose(self, pair: tuple[BrokerId, BrokerId]) -> None:
        """Break a link, with everything in flight."""
        for end in self.links[pair]:
            end.under_way.clear()
            end.close()

    def take(self, at: int, size: int) -> None:
        """Some bytes arrive at one of all ends."""
        list(self.ends())[at].take(size)

    def confirm_all(self) -> None:
        for client in self.clients.values():
            client.confirm()

    def take_all(self) -> bool:
        """Everything that is under way arrives; whether any of it was more than signs of life."""
        moved = False
        for end in list(self.ends()):
            moved |= any(kind not in IDLE for kind in kinds_in(end.other.under_way))
            end.take(1 << 30)
        return moved

    def tick(self) -> None:
        for host in self.hosts.values():
            host.tick()

    def written(self) -> dict[str, bytes]:
        """Bytes written at each end since the last call."""
        said = {end.name: bytes(end.written) for end in self.ends() if end.written}
        for end in self.ends():
            end.written.clear()
        return said

    def end(self) -> None:
        for host in self.hosts.values():
            for channel in host.channels:
                if channel._handshake_timer is not None:
                    channel._handshake_timer.cancel()


def piped(here: str, there: str) -> tuple[End, End]:
    one, other = End(f"{here} > {there}"), End(f"{there} > {here}")
    one.other, other.other = other, one
    return one, other


def kinds_in(data: bytes | bytearray) -> list[int]:
    """The kinds of the frames that begin here; what was read of the first of them already counts as one."""
    found, at = [], 0
    while at + 5 <= len(data):
        found.append(data[at + 4])
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return found


async def settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)
