"""A bare relay: the floor for any broker written for this event loop.

It passes on what a read brings to every connection that said it listens, and does nothing else: no frames, no filters,
no queues, no confirmations. It runs in the event loop that brokers use, in a process of its own.
"""

import asyncio
import multiprocessing as mp
import socket
from contextlib import contextmanager
from typing import Any

from benchmarks.live.brokers import cpu_s, free_ports
from octopia.net import run_loop

_LISTENS = b"I listen"
_WELCOME = b"welcome."


class _Relay(asyncio.Protocol):
    def __init__(self, listeners: list[Any]) -> None:
        self._listeners = listeners
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data == _LISTENS:
            self._listeners.append(self._transport)
            self._transport.write(_WELCOME)
            return
        for listener in self._listeners:
            listener.write(data)


def _serve(port: int, ready: Any) -> None:
    async def main() -> None:
        listeners: list[Any] = []
        server = await asyncio.get_running_loop().create_server(lambda: _Relay(listeners), "127.0.0.1", port)
        ready.set()
        await server.serve_forever()

    run_loop(main())


@contextmanager
def relay() -> Any:
    """A relay that runs: its port, and a way to read its CPU seconds."""
    (port,) = free_ports(1)
    ready = mp.Event()
    process = mp.Process(target=_serve, args=(port, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the relay did not come up")
        yield port, lambda: cpu_s(process.pid or 0)
    finally:
        process.terminate()
        process.join()


def connect(port: int, *, listens: bool = False) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if listens:
        connection.sendall(_LISTENS)
        assert connection.recv(64) == _WELCOME
    return connection
