"""A TCP proxy that misbehaves on request, as networks do.

    cut         connections are reset, and so is every new one
    stalled     nothing is read or forwarded, and nobody is told; new connections are taken and stay silent
    slow        so many bytes a second in each direction
    half close  the side that was dialled is told that nothing more comes, while the other way stays open

`mend` ends cut, stalled and slow: connections that were stalled go on where they were. Nothing is buffered but what one
read brings, so a stall reaches the sender as back-pressure, as a full network does.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator

READ_BYTES = 64 * 1024
# First bytes of each connection that are kept, for eavesdroppers.
HEAD_BYTES = 4096
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards connections from one address to another."""

    def __init__(self, host: str, port: int, target_host: str, target_port: int) -> None:
        self.host, self.port = host, port
        self.heads: list[bytes] = []
        self._target = (target_host, target_port)
        self._server: asyncio.Server | None = None
        self._pairs: dict[asyncio.StreamWriter, asyncio.StreamWriter | None] = {}
        self._flows = asyncio.Event()
        self._flows.set()
        self._cut = False
        self._bytes_per_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=READ_BYTES)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._reset_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- faults

    def cut(self) -> None:
        self._cut = True
        self._reset_all()

    def reset(self) -> None:
        """Reset the present connections only."""
        self._reset_all()

    def stall(self) -> None:
        self._flows.clear()

    def slow(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s

    def half_close(self) -> None:
        for far in self._pairs.values():
            if far is not None and far.can_write_eof():
                far.write_eof()

    def mend(self) -> None:
        self._cut = False
        self._bytes_per_s = 0.0
        self._flows.set()

    # -- forwarding

    def _reset_all(self) -> None:
        for near, far in list(self._pairs.items()):
            for writer in (near, far):
                if writer is not None:
                    _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._pairs[writer] = None
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target, limit=READ_BYTES)
            self._pairs[writer] = far_writer
            await asyncio.gather(
                self._pump(reader, far_writer, keep=True), self._pump(far_reader, writer), return_exceptions=True
            )
        except OSError:
            # The other side is not listening: the dialler sees it as with a dead broker.
            _reset(writer)
        except asyncio.CancelledError:
            pass
        finally:
            far = self._pairs.pop(writer, None)
            for end in (writer, far):
                if end is not None:
                    end.close()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, keep: bool = False) -> None:
        head = b""
        with _broken_breaks(writer):
            while True:
                await self._flows.wait()
                data = await reader.read(READ_BYTES)
                if not data:
                    break
                await self._flows.wait()
                if keep and len(head) < HEAD_BYTES:
                    if head:
                        self.heads.pop()
                    head += data
                    self.heads.append(head[:HEAD_BYTES])
                if self._bytes_per_s:
                    await asyncio.sleep(len(data) / self._bytes_per_s)
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()


@contextlib.contextmanager
def _broken_breaks(other: asyncio.StreamWriter) -> Iterator[None]:
    """A side that is reset resets the other."""
    try:
        yield
    except (OSError, RuntimeError):
        _reset(other)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, dropping queued data."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()
