"""What a simulator needs to know of the live brokers, measured: the figures of `src/octopia/sim/models/live.toml`.

    python -m benchmarks.live.model        prints them in the form of that file

- A notification hop: CPU time of the middle broker of a path of three, all of which pass everything on, per
  notification; with one subscription in the tables, and with 1,000 and 10,000 more that mostly do not match.
- A link write: CPU time of queueing, joining and writing frames of two sizes to a loopback socket; a straight line
  through both gives the cost of a message and of a byte.
- Delays: one notification at a time, from `publish` to the subscriber, through one broker and through three; half of
  the difference is what a hop adds, of which the hop's CPU time is not delay. Wall time, so only the median counts.

CPU time of the process measured and nothing else, so that others on the machine matter little.
"""

import asyncio
import multiprocessing as mp
import socket
import sys
import time

from benchmarks.live.brokers import Brokers
from benchmarks.live.client import latency_us
from benchmarks.live.load import READ_BYTES, Publisher, Subscribers
from benchmarks.live.workload import advertisement, frames, subscriptions
from octopia.language import parse_filter
from octopia.net.frame_queue import FrameQueue, Turn

HOP_NOTIFICATIONS = 10_000
ROUNDS = 6
WRITE_FRAMES = 100_000
PER_WRITE = 200


def hop_us(others: int) -> float:
    """CPU µs per notification of the middle of three brokers, with this many other subscriptions in its tables."""
    brokers = Brokers("path:3", 1).start()
    ports = [brokers.ports[broker] for broker in brokers.scot.brokers]
    groups = [[parse_filter("class = 'STOCK'"), *subscriptions(others)]]
    subscribers = Subscribers(ports[-1], groups)
    publisher = Publisher(ports[0], advertisement())
    try:
        sent = frames("P", ROUNDS * HOP_NOTIFICATIONS)
        used_s = []
        for start in range(0, len(sent), HOP_NOTIFICATIONS):
            before = brokers.cpu_s_each()[1]
            publisher.send(sent[start : start + HOP_NOTIFICATIONS], PER_WRITE)
            subscribers.wait_for(start + HOP_NOTIFICATIONS)
            used_s.append(brokers.cpu_s_each()[1] - before)
        # The least of some rounds: others on the machine only ever add, by way of its caches.
        return 1e6 * min(used_s) / HOP_NOTIFICATIONS
    finally:
        publisher.close()
        subscribers.close()
        brokers.close()


def _drain(connection: socket.socket) -> None:
    while connection.recv(READ_BYTES):
        pass


def write_us(frame_bytes: int) -> float:
    """CPU µs per frame of this process, from the queue to the socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    reader = mp.Process(target=_drain, args=(far,), daemon=True)
    reader.start()
    far.close()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
        queue = FrameQueue(Turn(loop), WRITE_FRAMES, 1 << 40, window=1 << 40)
        queue.attach(transport, 0)
        frame = b"x" * frame_bytes
        begin = time.process_time()
        for _ in range(WRITE_FRAMES // PER_WRITE):
            for _ in range(PER_WRITE):
                queue.put(frame)
            queue.flush()
            queue.confirm(queue.sent)
            while transport.get_write_buffer_size():
                await asyncio.sleep(0)
        used_s = time.process_time() - begin
        transport.close()
        return used_s

    try:
        return 1e6 * asyncio.run(main()) / WRITE_FRAMES
    finally:
        near.close()
        reader.join(5)
        reader.terminate()


def measure_model() -> dict[str, float]:
    """All figures, in ns as the model file has them."""
    base, thousand, ten_thousand = hop_us(0), hop_us(1_000), hop_us(10_000)
    small, large = (min(write_us(size) for _ in range(3)) for size in (200, 2_000))
    per_byte = max(large - small, 0) / 1800
    one, three = latency_us("path:1")["us"]["p50"], latency_us("path:3")["us"]["p50"]
    figures = {
        "base_ns": base - small,
        "matching_1000_ns": max(thousand - base, 0),
        "matching_10000_ns": max(ten_thousand - base, 0),
        "per_message_ns": max(small - 200 * per_byte, 0),
        "per_byte_ns": per_byte,
        "delay_ns": max((three - one) / 2 - base, 0),
        "client_delay_ns": max((one - base) / 2, 0),
    }
    return {name: 1000 * us for name, us in figures.items()}


def main() -> int:
    for name, value in measure_model().items():
        sys.stdout.write(f"{name} = {value:,.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
