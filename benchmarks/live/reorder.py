"""What order costs when IDR goes around a slow link: CPU of the subscriber's broker, delay, and what is still late.

    python -m benchmarks.live.reorder

One region, three brokers, each a process. (a,2) publishes at a constant rate what (a,0) and (a,1) want; the link from
(a,2) to (a,0) passes a relay that carries only a part of that. So (a,2) sends copies for (a,0) by way of (a,1) whenever
the direct link is overloaded, and directly when it is not: ways change all the time. Once with `ordered=False`, which
never waits, and with `ordered=True`, the default, with the usual `reorder_hold_s` and with a longer one.
"""

import asyncio
import contextlib
import socket
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from itertools import pairwise
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.live.brokers import LIMITS, Brokers
from octopia.net import Client, Subscription
from octopia.topology import BrokerId

RATE_PER_S = 2_000
SECONDS = 5.0
LINK_BYTES_PER_S = 150_000
PIECE_BYTES = 3_000
BUFFER_BYTES = 8_192
CASES = ((False, 0.25), (True, 0.25), (True, 3.0))
A0, A1, A2 = (BrokerId("a", cluster) for cluster in range(3))


class SlowRelay:
    """A port that leads to another, slow on the way back: (a,0) dials, so what (a,2) sends it comes back."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.target = 0
        self.slow = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.socket()
            # Small, so that excess data waits at the broker and not in the system.
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            try:
                far.connect(("127.0.0.1", self.target))
            except OSError:
                # Not up yet; who dialled will try again.
                near.close()
                continue
            threading.Thread(target=self._copy, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(far, near, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, throttled: bool) -> None:
        with contextlib.suppress(OSError):  # the run is over
            while data := source.recv(PIECE_BYTES):
                sink.sendall(data)
                if throttled and self.slow.is_set():
                    time.sleep(len(data) / LINK_BYTES_PER_S)


def measure(ordered: bool, hold_s: float) -> dict[str, Any]:
    """One run of a few seconds."""
    relay = SlowRelay()
    limits = replace(LIMITS, reorder_hold_s=hold_s)
    brokers = Brokers("path:1", 3, {(A0, A2): relay.port}, limits)
    relay.target = brokers.ports[A2]
    brokers.start()
    try:
        return {"hold_s": hold_s, **asyncio.run(_run(brokers, relay, ordered))}
    finally:
        brokers.close()


async def _run(brokers: Brokers, relay: SlowRelay, ordered: bool) -> dict[str, Any]:
    def client(broker: BrokerId) -> Client:
        return Client(f"octopia://127.0.0.1:{brokers.ports[broker]}")

    total = int(RATE_PER_S * SECONDS)
    async with client(A2) as publisher, client(A0) as reader, client(A1) as other:
        await publisher.advertise("n >= 0 and t >= 0 and text is not null")
        async with reader.subscribe("n >= 0", ordered=ordered) as wanted, other.subscribe("n >= 0") as rest:
            relay.slow.set()
            at = brokers.scot.brokers.index(A0)
            before = brokers.cpu_s_each()[at]
            reading = asyncio.gather(_read(wanted, total), _read(rest, total))
            await _publish(publisher, total)
            numbers, delays = (await reading)[0]
            used_s = brokers.cpu_s_each()[at] - before
            relay.slow.clear()
            metrics = await asyncio.to_thread(_metrics, brokers.http_ports[A0])
            detoured = await asyncio.to_thread(_sent, brokers.http_ports[A1], A0)
    delays.sort()
    falls = sum(later < earlier for earlier, later in pairwise(numbers))
    return {
        "ordered": ordered,
        "detoured_share": detoured / total,
        "cpu_us_each": 1e6 * used_s / total,
        "held_share": metrics["octopia_held_back_total"] / total,
        "late_share": metrics["octopia_out_of_order_total"] / total,
        "order_broken_times": falls,
        "delay_ms": {name: 1e3 * delays[int(share * (total - 1))] for name, share in _SHARES},
    }


_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


async def _publish(publisher: Client, total: int) -> None:
    begin = time.perf_counter()
    for n in range(total):
        due = begin + n / RATE_PER_S
        if due > time.perf_counter():
            await asyncio.sleep(due - time.perf_counter())
        await publisher.publish({"n": n, "t": due, "text": "x" * 150})


async def _read(subscription: Subscription, total: int) -> tuple[list[int], list[float]]:
    numbers: list[int] = []
    delays: list[float] = []
    while len(numbers) < total:
        batch = await subscription.next_batch()
        now = time.perf_counter()
        for delivery in batch:
            numbers.append(int(delivery.notification["n"]))
            delays.append(now - float(delivery.notification["t"]))
    return numbers, delays


def _samples(port: int) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            yield from family.samples


def _metrics(port: int) -> dict[str, float]:
    return {sample.name: sample.value for sample in _samples(port)}


def _sent(port: int, neighbour: BrokerId) -> float:
    name = "octopia_link_messages_sent_total"
    return sum(float(s.value) for s in _samples(port) if s.name == name and s.labels["neighbour"] == str(neighbour))


def run_reorder() -> list[dict[str, Any]]:
    """Unordered, and ordered with the usual wait and with a longer one."""
    return [measure(*case) for case in CASES]


def main() -> int:
    for case in CASES:
        row = measure(*case)
        delays = ", ".join(f"{name} {value:.1f}" for name, value in row["delay_ms"].items())
        sys.stdout.write(
            f"ordered={row['ordered']!s:5} hold {row['hold_s']} s: {row['cpu_us_each']:.1f} CPU µs each,"
            f" {row['detoured_share']:.0%} detoured,"
            f" {row['held_share']:.1%} held, {row['late_share']:.2%} late,"
            f" order broken {row['order_broken_times']} times, delay ms: {delays}\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
