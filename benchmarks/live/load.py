"""Load from outside: a publisher that only writes frames made before, and subscribers that only count.

Plain sockets and no decoding, so that what is measured is the broker. Subscribers run in a process
of their own and confirm what they get, as the protocol wants.
"""

import multiprocessing as mp
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from octopia.language import Filter
from octopia.wire import (
    FIRST_NUMBERED,
    Ack,
    Hello,
    Ping,
    advertise_frame,
    message_frame,
    subscribe_frame,
)

READ_BYTES = 256 * 1024
CONFIRM_FRAMES = 500
SUBSCRIBE_FRAMES = 1000
WAIT_S = 60.0
PONG = b"\x00\x00\x00\x03\x06"


def dial(port: int, name: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(message_frame(Hello([1], "client", name)))
    read_until(connection, b"heartbeat_s")
    return connection


def read_until(connection: socket.socket, mark: bytes, times: int = 1) -> None:
    data = b""
    while data.count(mark) < times:
        more = connection.recv(READ_BYTES)
        assert more, "the broker closed the connection"
        data += more


@dataclass
class Sink:
    """Counts the numbered frames that come, and confirms them."""

    connection: socket.socket
    rest: bytes = b""
    frames: int = 0
    confirmed: int = 0

    def read(self) -> int:
        """Count the frames that have come; returns how many."""
        came = self.connection.recv(READ_BYTES)
        assert came, "the server closed the connection"
        data = self.rest + came
        at, before = 0, self.frames
        while len(data) - at >= 5:
            stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if stop > len(data):
                break
            self.frames += data[at + 4] >= FIRST_NUMBERED
            at = stop
        self.rest = data[at:]
        if self.frames - self.confirmed >= CONFIRM_FRAMES:
            self.connection.sendall(message_frame(Ack(self.frames)))
            self.confirmed = self.frames
        return self.frames - before


def _subscribe_and_count(port: int, groups: Sequence[Sequence[Filter]], ready: Any, stop: Any, counted: Any) -> None:
    sinks: dict[int, Sink] = {}
    for number, filters in enumerate(groups):
        connection = dial(port, f"s{number}")
        for at in range(0, len(filters), SUBSCRIBE_FRAMES):
            part = filters[at : at + SUBSCRIBE_FRAMES]
            connection.sendall(b"".join(subscribe_frame(f"s{at + n}", f, "block", True) for n, f in enumerate(part)))
            read_until(connection, b"\xa9subscribe", len(part))
            # Answers are numbered frames as well; what is never confirmed fills the window.
            connection.sendall(message_frame(Ack(at + len(part))))
        sink = Sink(connection, frames=len(filters), confirmed=len(filters))
        sinks[connection.fileno()] = sink
    ready.set()
    poll = select.poll()
    for number in sinks:
        poll.register(number, select.POLLIN)
    while not stop.is_set():
        for number, _ in poll.poll(100):
            counted.value += sinks[number].read()


class Subscribers:
    """This many connections with their subscriptions, in a separate process."""

    def __init__(self, port: int, groups: Sequence[Sequence[Filter]], wait_s: float = WAIT_S) -> None:
        self._stop = mp.Event()
        ready = mp.Event()
        self._counted = mp.Value("q", 0, lock=False)
        arguments = (port, groups, ready, self._stop, self._counted)
        self._process = mp.Process(target=_subscribe_and_count, args=arguments, daemon=True)
        self._process.start()
        if not ready.wait(wait_s):
            raise RuntimeError("the subscribers did not come up")

    @property
    def delivered(self) -> int:
        return int(self._counted.value)

    def wait_for(self, count: int) -> None:
        """Wait until this many deliveries have arrived in total, and not one more."""
        until = time.monotonic() + WAIT_S
        while self.delivered < count:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.delivered} of {count} deliveries came in {WAIT_S:g} s")
            time.sleep(0.01)
        if self.delivered > count:
            raise RuntimeError(f"{self.delivered} deliveries came, {count} were expected")

    def spin_until(self, count: int) -> None:
        """As `wait_for`, awake all the time: the next one is sent at once."""
        until = time.monotonic() + WAIT_S
        while self.delivered < count:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.delivered} of {count} deliveries came in {WAIT_S:g} s")

    def close(self) -> None:
        self._stop.set()
        self._process.join(5)
        self._process.terminate()


class Publisher:
    """Writes frames and, at the end, waits until the broker has dealt with all of them."""

    def __init__(self, port: int, advertisement: Filter, name: str = "P") -> None:
        self._connection = dial(port, name)
        self._connection.sendall(advertise_frame("a", advertisement))
        read_until(self._connection, b"\xa9advertise")

    def send(self, frames: Sequence[bytes], per_write: int, pause_s: float = 0.0) -> None:
        """Write this many frames at once, repeatedly; answers are read and dropped."""
        connection = self._connection
        for at in range(0, len(frames), per_write):
            connection.sendall(b"".join(frames[at : at + per_write]))
            if at % 5000 < per_write:
                self._drop_answers()
            if pause_s:
                until = time.perf_counter() + pause_s
                while time.perf_counter() < until:
                    pass
        connection.sendall(message_frame(Ping(1)))
        read_until(connection, PONG)

    def send_one(self, frame: bytes) -> None:
        """Write one frame and wait for nothing."""
        self._connection.sendall(frame)

    def _drop_answers(self) -> None:
        while select.select([self._connection], [], [], 0)[0]:
            assert self._connection.recv(READ_BYTES), "the broker closed the connection"

    def close(self) -> None:
        self._connection.close()
