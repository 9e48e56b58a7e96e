"""A long-running fuzz target: mutated frames and handshakes against a running broker, over real sockets.

    python -m fuzz.frames [SECONDS] [SEED]

Each round opens a connection (some with a handshake first), sends mutated frames in random cuts and reads what comes
back. Between rounds a well-behaved publisher and subscriber must still be served, and memory must stay bounded. A
failure prints its seed and the bytes, so that it can be brought back.
"""

import asyncio
import random
import sys
import tracemalloc

from octopia.language import parse_filter, parse_notification
from octopia.net import Address, Client, NetLimits, Server
from octopia.routing import Advertise, CibSet, Key, Notify, Subscribe
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    Ack,
    Goodbye,
    Hello,
    Ping,
    advertise_frame,
    encode_parcel,
    link_frames,
    message_frame,
    publish_frame,
    subscribe_frame,
    wire_notification,
)

GROWTH_BYTES_MAX = 32 * 1024 * 1024
FILTER = parse_filter("class = 'STOCK' and (price > 10 or name like 'A%')")
SEEN = parse_notification({"class": "STOCK", "price": 10.5, "long": 2**90})
KEY = Key(BrokerId("b", 0), 1)
SEEDS = [
    message_frame(Hello([1], "client", "fuzz", "token", ["trace"], session=b"x" * 16, received=3, session_s=1.0)),
    message_frame(Hello([1], "broker", "(b,0)", to="(a,0)", overlay="")),
    message_frame(Ack(1)),
    message_frame(Ping(2)),
    message_frame(Goodbye("bye", "reason")),
    advertise_frame("a", FILTER),
    subscribe_frame("s", FILTER, "drop_oldest", True),
    publish_frame(encode_parcel(SEEN, "fuzz", 1)),
    publish_frame(encode_parcel(SEEN, "fuzz", 2), traced=True),
    *link_frames(Advertise(KEY, FILTER)),
    *link_frames(Subscribe(KEY, FILTER)),
    *link_frames(CibSet((KEY, KEY))),
    *link_frames(Notify("p", "1", wire_notification(SEEN, "p", 1), 3)),
]


def mutated(draw: random.Random) -> bytes:
    """Some frames, of which some were changed: bytes flipped, cut, repeated, lengths forged."""
    parts = []
    for _ in range(draw.randrange(1, 6)):
        frame = bytearray(draw.choice(SEEDS))
        for _ in range(draw.choice([0, 0, 1, 2, 8])):
            at = draw.randrange(len(frame))
            what = draw.randrange(4)
            if what == 0:
                frame[at] = draw.randrange(256)
            elif what == 1:
                del frame[at : at + draw.randrange(1, 8)]
            elif what == 2:
                frame[at:at] = draw.randbytes(draw.randrange(1, 16))
            else:
                frame[at:at] = frame[at : at + 32] * draw.randrange(1, 50)
            if not frame:
                frame = bytearray(b"\x00")
        if draw.random() < 0.5 and len(frame) > 4:
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        parts.append(bytes(frame))
    return b"".join(parts)


async def attack(port: int, draw: random.Random) -> bytes:
    """One hostile connection; returns what was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = message_frame(Hello([1], "client", f"fuzz{draw.randrange(5)}")) if draw.random() < 0.7 else b""
    sent += mutated(draw)
    try:
        for at in range(0, len(sent), 997):
            writer.write(sent[at : at + 997])
            await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read(-1)
    except (ConnectionError, OSError):
        pass
    finally:
        writer.close()
    return sent


async def fuzz(seconds: float, seed: int, rounds_max: int = 1_000_000_000) -> int:
    """Attack for so long, or so often; returns the number of rounds."""
    scot = Scot(parse_tree("path:2"), 1)
    server = Server(scot, dict.fromkeys(scot.brokers, Address("127.0.0.1", 0)), net_limits=NetLimits(session_s_max=0.5))
    rounds = 0
    loop = asyncio.get_running_loop()
    failures: list[str] = []
    loop.set_exception_handler(lambda _, context: failures.append(str(context)))
    async with server:
        await server.links_up()
        port = server.addresses[scot.brokers[0]].port
        async with Client(f"octopia://127.0.0.1:{port}") as good, good.subscribe("n >= 0") as numbers:
            await good.advertise("n is not null")
            until, start_bytes = loop.time() + seconds, 0
            while loop.time() < until and rounds < rounds_max:
                draw = random.Random(f"{seed} {rounds}")  # noqa: S311
                sent = await attack(port, draw)
                rounds += 1
                await good.publish({"n": rounds})
                (delivery,) = await numbers.next_batch()
                if delivery.notification["n"] != rounds or failures:
                    raise AssertionError(f"seed {seed}, round {rounds}: {failures[:1]} after {sent.hex()}")
                if rounds == 200:
                    tracemalloc.start()
                    start_bytes = tracemalloc.get_traced_memory()[0]
                if rounds > 200 and rounds % 500 == 0:
                    growth = tracemalloc.get_traced_memory()[0] - start_bytes
                    if growth > GROWTH_BYTES_MAX:
                        raise AssertionError(f"seed {seed}: memory grew by {growth:,} bytes in {rounds} rounds")
    return rounds


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rounds = asyncio.run(fuzz(seconds, seed))
    sys.stdout.write(f"{rounds} rounds, seed {seed}: the broker lives\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
