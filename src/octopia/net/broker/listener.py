"""Listening sockets for brokers and their HTTP ports, and the path of a connection from there to its protocol.

A connection counts from the moment it is accepted, so connections in their TLS handshake count, too. At the bound, the
pool (`arrivals.py`) decides which connection is closed for the newcomer. At most `ACCEPTS_PER_TURN` are accepted per
iteration of the event loop; the others wait in the system's queue. So a peer that sends its Hello at once, as ours do,
is identified before many others arrive and would push it out.

If accepting fails, usually for lack of file descriptors, the oldest connection that has not identified itself makes
room. Without one, the listener pauses for `RETRY_S` and tries again.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol, Self

from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.operations.log import Log

ACCEPTS_PER_TURN = 8
RETRY_S = 1.0
# By then a connection that had to make room is closed.
ROOM_S = 0.01
# Connections that wait to be accepted, as far as the system allows.
BACKLOG = 1024


class Peer(Protocol):
    """A protocol that can be told to close."""

    def abort(self) -> None: ...


class Listener:
    """The sockets of one port."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make: Callable[[], Any],
        arrivals: Arrivals[Any],
        crowded_out: Callable[[], None],
        log: Log,
        tls: ssl.SSLContext | None = None,
        handshake_s: float = 0.0,
    ) -> None:
        """`make` creates the protocol of a connection; `crowded_out` is called for each one that had to make room."""
        self.sockets = sockets
        self._make = make
        self._arrivals = arrivals
        self._crowded_out = crowded_out
        self._log = log
        self._tls: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": handshake_s}
        self._loop = asyncio.get_running_loop()
        self._coming: dict[Peer, asyncio.Task[None]] = {}
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}

    @classmethod
    async def bind(cls, host: str, port: int, *args: Any, **options: Any) -> Self:
        """A listener at this address, which may resolve to several; nothing is accepted before `start`."""
        sockets: list[socket.socket] = []
        try:
            for family, kind, number, _, address in await _addresses(host, port):
                sockets.append(socket.socket(family, kind, number))
                _prepare(sockets[-1])
                sockets[-1].bind(address)
        except OSError as error:
            for each in sockets:
                each.close()
            raise OSError(error.errno, f"{host}:{port}: {error.strerror or error}") from None
        return cls(sockets, *args, **options)

    @property
    def port(self) -> int:
        return int(self.sockets[0].getsockname()[1])

    def start(self) -> None:
        for each in self.sockets:
            each.listen(BACKLOG)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more. Accepted connections stay, unless they are still in their TLS handshake."""
        for timer in self._resting.values():
            timer.cancel()
        for task in self._coming.values():
            task.cancel()
        sockets, self.sockets = self.sockets, []
        for each in sockets:
            self._loop.remove_reader(each)
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                carrier, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._rest(listening, error)
                return
            carrier.setblocking(False)
            self._begin(carrier, str(address[0]))

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        oldest = self._arrivals.pop_oldest()
        if oldest is not None:
            self._push_out(oldest)
        self._log.warning(
            "cannot accept", reason=error.strerror or str(error), fix="allow more open files, or fewer connections_max"
        )
        self._loop.remove_reader(listening)
        pause_s = RETRY_S if oldest is None else ROOM_S
        self._resting[listening] = self._loop.call_later(pause_s, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        del self._resting[listening]
        self._loop.add_reader(listening, self._accept, listening)

    def _begin(self, carrier: socket.socket, address: str) -> None:
        peer = self._make()
        out = self._arrivals.add(peer, address)
        if out is not None:
            self._push_out(out)
        given: list[socket.socket] = []  # whether the loop has the socket
        self._coming[peer] = task = self._loop.create_task(self._connect(peer, carrier, given))
        task.add_done_callback(lambda _: self._came(peer, carrier, given))

    def _push_out(self, peer: Any) -> None:
        self._crowded_out()
        peer.abort()
        if peer in self._coming:
            self._coming[peer].cancel()

    async def _connect(self, peer: Any, carrier: socket.socket, given: list[socket.socket]) -> None:
        given.append(carrier)
        # A TLS failure is an OSError, too. The peer does not speak our protocol; other peers are not affected.
        try:
            await self._loop.connect_accepted_socket(lambda: peer, carrier, **self._tls)
        except OSError as error:
            self._arrivals.remove(peer)
            self._log.debug("no connection", reason=str(error))

    def _came(self, peer: Any, carrier: socket.socket, given: list[socket.socket]) -> None:
        if self._coming.pop(peer).cancelled():
            self._arrivals.remove(peer)
            if not given:
                carrier.close()


async def _addresses(host: str, port: int) -> list[Any]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys(found))


def _prepare(each: socket.socket) -> None:
    each.setblocking(False)
    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if each.family == socket.AF_INET6:
        # The same port may also listen on IPv4.
        each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
