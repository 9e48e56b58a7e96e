"""One notification per read, and one at a time: OctopiA beside a bare relay, in the same run.

Both are driven alike from one process, with plain sockets: the same frames, the same number of publishers, one
connection that listens. Rounds of the two alternate, so that what else the machine does falls on both.

Everything runs on one processor. Otherwise the scheduler puts the relay next to the process that drives it and the
broker on a processor of its own, which sleeps between two notifications; waking it takes longer than either server.
"""

import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.live.brokers import Brokers
from benchmarks.live.load import Sink, dial, read_until
from benchmarks.live.relay import connect, relay
from benchmarks.live.workload import advertisement, deliveries_each, frames_of, subscriptions
from octopia.wire import Ack, advertise_frame, message_frame, subscribe_frame

PUBLISHERS = 40
SUBSCRIPTIONS = 1000
ROUNDS = 6  # the first warms up
PER_ROUND = 60  # notifications of each publisher
PINGS = 1500


def one_per_read() -> dict[str, Any]:
    """CPU µs of the server for a notification that comes alone and goes to one connection; and of the relay."""
    filters = subscriptions(SUBSCRIPTIONS)
    each = deliveries_each([filters], 40_000)
    wanted = [n for n, count in enumerate(each) if count]
    needed = ROUNDS * PER_ROUND
    sent = [frames_of(f"P{n}", wanted[n::PUBLISHERS][:needed]) for n in range(1, PUBLISHERS)]
    pings = frames_of("P0", [*wanted[::PUBLISHERS][:needed], *wanted[:PINGS]])
    sent.insert(0, pings[:needed])
    with _one_processor():
        return _beside_a_relay(filters, sent, pings)


@contextmanager
def _one_processor() -> Iterator[None]:
    """What is started here stays on one processor; elsewhere than on Linux it goes where it likes."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _beside_a_relay(filters: Sequence[Any], sent: list[list[bytes]], pings: list[bytes]) -> dict[str, Any]:
    needed = ROUNDS * PER_ROUND
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    try:
        with relay() as (relay_port, relay_cpu_s):
            listening = _subscribed(port, filters)
            publishers = [_advertised(port, f"P{n}") for n in range(PUBLISHERS)]
            bare_sink = Sink(connect(relay_port, listens=True))
            bare = [connect(relay_port) for _ in range(PUBLISHERS)]
            used: list[tuple[float, float]] = []
            for start in range(0, needed, PER_ROUND):
                part = [frames[start : start + PER_ROUND] for frames in sent]
                before = brokers.cpu_s(), relay_cpu_s()
                _alternate(publishers, listening, part)
                _alternate(bare, bare_sink, part)
                used.append((brokers.cpu_s() - before[0], relay_cpu_s() - before[1]))
            ours = _ping_pong(publishers[0], listening, pings[needed:])
            theirs = _ping_pong(bare[0], bare_sink, pings[needed:])
    finally:
        brokers.close()
    count = PUBLISHERS * PER_ROUND
    ours_us = statistics.median(1e6 * own / count for own, _ in used[1:])
    bare_us = statistics.median(1e6 * other / count for _, other in used[1:])
    return {
        "one_per_read": {"cpu_us_each": ours_us, "relay_cpu_us_each": bare_us, "ratio": ours_us / bare_us},
        "latency": {"p50_us": ours, "relay_p50_us": theirs, "ratio": ours / theirs},
    }


def _subscribed(port: int, filters: Sequence[Any]) -> Sink:
    connection = dial(port, "S")
    connection.sendall(b"".join(subscribe_frame(f"s{n}", f, "block", True) for n, f in enumerate(filters)))
    read_until(connection, b"\xa9subscribe", len(filters))
    connection.sendall(message_frame(Ack(len(filters))))
    return Sink(connection, frames=len(filters), confirmed=len(filters))


def _advertised(port: int, name: str) -> socket.socket:
    connection = dial(port, name)
    connection.sendall(advertise_frame("a", advertisement()))
    read_until(connection, b"\xa9advertise")
    return connection


def _alternate(senders: list[socket.socket], sink: Sink, sent: list[list[bytes]]) -> None:
    """Each sender writes one, and all write the next when all have arrived: no read of the server brings two."""
    for of_round in zip(*sent, strict=True):
        due = sink.frames + len(senders)
        for sender, frame in zip(senders, of_round, strict=True):
            sender.sendall(frame)
        while sink.frames < due:
            sink.read()


def _ping_pong(sender: socket.socket, sink: Sink, frames: list[bytes]) -> float:
    """Median µs from writing a notification to having read it, one after the other."""
    taken = []
    for frame in frames:
        due = sink.frames + 1
        begin = time.perf_counter()
        sender.sendall(frame)
        while sink.frames < due:
            sink.read()
        taken.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(taken[len(taken) // 10 :])
