"""The same loads for OctopiA and for other brokers, side by side in one run: nats-server, redis-server, mosquitto.

One kind of client for all: plain sockets, 200-byte payloads made beforehand, joined writes, and
subscribers in a process of their own that count a mark in what comes. At most `WINDOW` messages are on their way at a
time, so that nobody has a reason to drop. What is compared is the server's CPU time per message. The others route by an
equal topic, OctopiA by a predicate on the content; all deliver at most once to a subscriber that keeps up, and OctopiA
alone numbers and confirms. A server that is not installed is named as such, and nothing here needs one. RabbitMQ, which
can route by content as well, has a file of its own (`rabbitmq`).
"""

import multiprocessing as mp
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.brokers import Brokers, cpu_s, free_ports
from benchmarks.live.load import READ_BYTES, dial, read_until
from octopia.language import parse_filter
from octopia.wire import Ack, advertise_frame, check_parcel, message_frame, publish_frame, subscribe_frame

MARK = b"<-mark->"
PAYLOAD_BYTES = 200
PER_WRITE = 100
WINDOW = 2000
CONFIRM_FRAMES = 500
WAIT_S = 60.0


@dataclass(frozen=True)
class Speech:
    """How to speak to one kind of server. `server` runs it and gives its port and a way to read its CPU seconds."""

    name: str
    program: str
    server: Callable[[], AbstractContextManager[tuple[int, Callable[[], float]]]]
    subscriber: Callable[[int, int], socket.socket]
    publisher: Callable[[int], socket.socket]
    message: Callable[[int], bytes]
    confirms: bool = False
    # Numbered frames that a subscriber's connection brought before the first delivery.
    answers: Callable[[int], int] = lambda _: 1


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _asked(port: int, *talk: tuple[bytes, bytes]) -> socket.socket:
    """A connection on which these things were said and answered."""
    connection = connect(port)
    for said, answer in talk:
        connection.sendall(said)
        read_until(connection, answer)
    return connection


@contextmanager
def _program(name: str, options: Callable[[int, Path], list[str]]) -> Any:
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(shutil.which(name)), *options(port, Path(folder))]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)  # noqa: S603
        try:
            until = time.monotonic() + WAIT_S
            while True:
                try:
                    connect(port).close()
                    break
                except OSError:
                    if time.monotonic() > until or process.poll() is not None:
                        raise RuntimeError(f"{name} did not come up") from None
                    time.sleep(0.02)
            yield port, lambda: cpu_s(process.pid)
        finally:
            process.terminate()
            process.wait()


# -- NATS

PAYLOAD = (MARK + b"x" * PAYLOAD_BYTES)[:PAYLOAD_BYTES]
_NATS_HELLO = (b'CONNECT {"verbose":false}\r\nPING\r\n', b"PONG")


def _nats_options(port: int, folder: Path) -> list[str]:
    return ["-a", "127.0.0.1", "-p", str(port)]


# -- Redis


def _redis_options(port: int, folder: Path) -> list[str]:
    limits = ["--client-output-buffer-limit", "pubsub 0 0 0"]
    return ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no", *limits]


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


# -- MQTT 3.1.1, QoS 0


def _mosquitto_options(port: int, folder: Path) -> list[str]:
    text = f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n"
    (folder / "m.conf").write_text(text, encoding="ascii")
    return ["-c", str(folder / "m.conf")]


def _mqtt(kind: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | (128 if size else 0)])
        if not size:
            return bytes([kind]) + length + body


def _mqtt_hello(name: bytes) -> tuple[bytes, bytes]:
    return _mqtt(0x10, b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name), b"\x20\x02\x00\x00"


# -- OctopiA


@contextmanager
def octopia() -> Any:
    brokers = Brokers("path:1", 1).start()
    try:
        yield next(iter(brokers.ports.values())), brokers.cpu_s
    finally:
        brokers.close()


def _octopia_subscriber(port: int, number: int) -> socket.socket:
    connection = dial(port, f"s{number}")
    connection.sendall(subscribe_frame("s", parse_filter("class = 'STOCK'"), "block", True))
    read_until(connection, b"\xa9subscribe")
    return connection


def _octopia_publisher(port: int) -> socket.socket:
    connection = dial(port, "P")
    connection.sendall(advertise_frame("a", parse_filter("class is not null and text is not null")))
    read_until(connection, b"\xa9advertise")
    return connection


def _octopia_message(number: int) -> bytes:
    text = (MARK.decode() + "x" * PAYLOAD_BYTES)[: PAYLOAD_BYTES - 30]
    return publish_frame(check_parcel({"class": "STOCK", "text": text}, "P", number + 1)[0])


SPEECHES = (
    Speech("OctopiA", "", octopia, _octopia_subscriber, _octopia_publisher, _octopia_message, confirms=True),
    Speech(
        "NATS",
        "nats-server",
        lambda: _program("nats-server", _nats_options),
        lambda port, n: _asked(port, _NATS_HELLO, (b"SUB q 1\r\nPING\r\n", b"PONG")),
        lambda port: _asked(port, _NATS_HELLO),
        lambda n: b"PUB q %d\r\n%s\r\n" % (len(PAYLOAD), PAYLOAD),
    ),
    Speech(
        "Redis pub/sub",
        "redis-server",
        lambda: _program("redis-server", _redis_options),
        lambda port, n: _asked(port, (_resp(b"SUBSCRIBE", b"q"), b"subscribe")),
        connect,
        lambda n: _resp(b"PUBLISH", b"q", PAYLOAD),
    ),
    Speech(
        "mosquitto, QoS 0",
        "mosquitto",
        lambda: _program("mosquitto", _mosquitto_options),
        lambda port, n: _asked(port, _mqtt_hello(b"s%d" % n), (_mqtt(0x82, b"\x00\x01\x00\x01q\x00"), b"\x90\x03")),
        lambda port: _asked(port, _mqtt_hello(b"p")),
        lambda n: _mqtt(0x30, b"\x00\x01q" + PAYLOAD),
    ),
)
LOADS = (("1 → 1", 1, 60_000), ("1 → 40", 40, 6_000))


def _count(spoken: Speech, port: int, connections: int, ready: Any, stop: Any, counted: Any) -> None:
    opened = [spoken.subscriber(port, n) for n in range(connections)]
    sockets = {each.fileno(): each for each in opened}
    rest = dict.fromkeys(sockets, b"")
    frames = {each.fileno(): spoken.answers(n) for n, each in enumerate(opened)}
    confirmed = dict(frames)
    poll = select.poll()
    for number in sockets:
        poll.register(number, select.POLLIN)
    ready.set()
    while not stop.is_set():
        for number, _ in poll.poll(100):
            data = rest[number] + sockets[number].recv(READ_BYTES)
            marks = data.count(MARK)
            # The possible beginning of a mark is examined again.
            rest[number] = data[-len(MARK) + 1 :]
            counted.value += marks
            frames[number] += marks
            if spoken.confirms and frames[number] - confirmed[number] >= CONFIRM_FRAMES:
                confirmed[number] = frames[number] - 1  # the last may not be complete
                sockets[number].sendall(message_frame(Ack(confirmed[number])))


def measure(speech: Speech, fan: int, messages: int, connections: int | None = None) -> dict[str, Any]:
    """CPU of the server for one load, after a tenth of it as a warm-up; `fan` deliveries of each message."""
    with speech.server() as (port, used_s_so_far):
        ready, stop, counted = mp.Event(), mp.Event(), mp.Value("q", 0, lock=False)
        arguments = (speech, port, connections or fan, ready, stop, counted)
        process = mp.Process(target=_count, args=arguments, daemon=True)
        process.start()
        try:
            if not ready.wait(WAIT_S):
                raise RuntimeError(f"the subscribers of {speech.name} did not come up")
            publisher = speech.publisher(port)
            made = [speech.message(number) for number in range(messages)]
            warm = messages // 10
            _send(publisher, made[:warm], counted, 0, fan)
            before, begin = used_s_so_far(), time.perf_counter()
            _send(publisher, made[warm:], counted, warm, fan)
            used_s, wall_s = used_s_so_far() - before, time.perf_counter() - begin
            publisher.close()
        finally:
            stop.set()
            process.join(5)
            process.terminate()
    deliveries = (messages - warm) * fan
    return {
        "peer": speech.name,
        "cpu_us_per_message": 1e6 * used_s / (messages - warm),
        "cpu_us_per_delivery": 1e6 * used_s / deliveries,
        "deliveries_per_s_and_core": deliveries / used_s,
        "seen_deliveries_per_s": deliveries / wall_s,
        "bytes_each": len(made[0]),
    }


def _send(publisher: socket.socket, made: list[bytes], counted: Any, before: int, fan: int) -> None:
    until = time.monotonic() + WAIT_S
    for at in range(0, len(made), PER_WRITE):
        publisher.sendall(b"".join(made[at : at + PER_WRITE]))
        _wait(publisher, counted, (before + at + PER_WRITE - WINDOW) * fan, until)
    _wait(publisher, counted, (before + len(made)) * fan, until)


def _wait(publisher: socket.socket, counted: Any, count: int, until: float) -> None:
    while True:
        while select.select([publisher], [], [], 0)[0]:
            if not publisher.recv(READ_BYTES):
                raise RuntimeError("the server closed the connection")
        if counted.value >= count:
            return
        if time.monotonic() > until:
            raise RuntimeError(f"{counted.value} of {count} deliveries came")
        time.sleep(0.0005)


def run_peers() -> dict[str, Any]:
    """All loads with all servers that are here; `missing` names those that are not."""
    here = [speech for speech in SPEECHES if not speech.program or shutil.which(speech.program)]
    missing = [speech.program for speech in SPEECHES if speech not in here]
    rows = {name: [measure(speech, fan, messages) for speech in here] for name, fan, messages in LOADS}
    return {"loads": rows, "missing": missing}
