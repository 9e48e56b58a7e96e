"""A long-running fuzz target: mutated frames and handshakes against running brokers, over real sockets.

    python -m fuzz.frames [SECONDS] [SEED] [ROUTING]

Each round opens a connection, as a stranger, as a client, or as the authenticated neighbour of a broker, sends mutated
frames in random cuts and reads what comes back. Rules that must hold after every round: the brokers live and have met
no fault of their own; whoever was disconnected got a reason, unless it was the first to leave; and a well-behaved
publisher and subscriber are still served. Memory must stay bounded. A failure prints its seed and the bytes, so that it
can be brought back.
"""

import asyncio
import random
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

from octopia.language import parse_filter, parse_notification
from octopia.net import Address, Client, NetLimits, Server
from octopia.protocol import (
    Advertise,
    AdvertisementsComplete,
    AskConfirm,
    Asked,
    CibClear,
    CibSet,
    Civ,
    Confirm,
    Confirmation,
    Confirmed,
    Dests,
    Key,
    Lent,
    LinkNews,
    LinkReport,
    Notify,
    Route,
    Routes,
    Stamp,
    Subscribe,
    SubscriptionsComplete,
    SubscriptionsIncomplete,
    TreeHeader,
    Unadvertise,
    Unsubscribe,
)
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    Ack,
    Barrier,
    BarrierDone,
    CopyHeader,
    FlushRequest,
    Hello,
    Kind,
    Ping,
    Pong,
    advertise_frame,
    encode_parcel,
    link_frames,
    message_frame,
    publish_frame,
    subscribe_frame,
    timed,
    unadvertise_frame,
    unsubscribe_frame,
    wire_notification,
)

GROWTH_BYTES_MAX = 32 * 1024 * 1024
CUT_BYTES = 997
FILTER = parse_filter("class = 'STOCK' and (price > 10 or name like 'A%')")
WIDE = parse_filter("n is not null")
SEEN = parse_notification({"class": "STOCK", "price": 10.5, "long": 2**90})
NUMBER = parse_notification({"n": 5})
# Of two regions and three clusters (b,1) and (b,2) run; who attacks plays a neighbour of the first, on an aLink or an
# iLink, which dials because it is the smaller of the two.
SCOT = Scot(parse_tree("path:2"), 3)
ATTACKED, OTHER = BrokerId("b", 1), BrokerId("b", 2)
PLAYED = (BrokerId("a", 1), BrokerId("b", 0))
KEYS = [Key(broker, serial) for broker in SCOT.brokers for serial in (1, 2)]

# Without GOODBYE: who leaves is told no reason.
CLIENT_FRAMES = [
    message_frame(Ack(1)),
    message_frame(Ping(2)),
    advertise_frame("a", FILTER),
    advertise_frame("w", WIDE),
    unadvertise_frame("a"),
    subscribe_frame("s", FILTER, "drop_oldest", True),
    subscribe_frame("u", FILTER, None, False, 3, 50),
    publish_frame(timed(encode_parcel(parse_notification({"x": 1}), "fuzz0", 3), 1)),
    unsubscribe_frame("s"),
    message_frame(FlushRequest("f", 10)),
    publish_frame(encode_parcel(SEEN, "fuzz", 1)),
    publish_frame(encode_parcel(SEEN, "fuzz", 2), traced=True),
    *(publish_frame(encode_parcel(NUMBER, f"fuzz{n}", 3)) for n in range(3)),
]


def _link_frames() -> list[bytes]:
    """What brokers say to each other: right in form, and from this neighbour often wrong in meaning."""
    notifications = [wire_notification(SEEN, "p", 1), wire_notification(NUMBER, "p", 2)]
    frames = [
        message_frame(Ack(1)),
        message_frame(Ping(2)),
        message_frame(Pong(3)),
        message_frame(Barrier(1, True)),
        message_frame(BarrierDone(1)),
        *link_frames(SubscriptionsComplete()),
        *link_frames(SubscriptionsComplete((*PLAYED, BrokerId("c", 7)))),
        *link_frames(AdvertisementsComplete()),
        *link_frames(CibSet(tuple(KEYS))),
        *link_frames(CibSet(tuple(KEYS), (), tuple(at % 4 for at in range(len(KEYS))))),
        *link_frames(CibClear(tuple(KEYS))),
        *link_frames(CibSet(tuple(KEYS), tuple(Lent(key, WIDE) for key in KEYS))),
        *link_frames(CibSet(tuple(KEYS), tuple(Lent(key, WIDE, 2) for key in KEYS))),
        *link_frames(CibClear((), tuple(KEYS))),
        *link_frames(SubscriptionsIncomplete(PLAYED)),
        *link_frames(SubscriptionsIncomplete(SCOT.brokers)),
    ]
    for one, other in SCOT.links:
        frames += link_frames(LinkNews((LinkReport(one, other, 3, False), LinkReport(other, one, 2**62, True))))
    for place in range(len(SCOT.brokers)):
        said = (Confirmed("p", 1), Confirmed("q", 2**40, True))
        to = SCOT.brokers[place]
        frames += link_frames(Confirm((Confirmation(to, OTHER, said), Confirmation(OTHER, to, said, at_once=True))))
        frames += link_frames(AskConfirm(OTHER, to, (Asked("p", 0), Asked("q", 2**40))))
    for key in KEYS:
        frames += link_frames(Advertise(key, FILTER)) + link_frames(Unadvertise(key))
        frames += link_frames(Subscribe(key, WIDE)) + link_frames(Unsubscribe(key))
        frames += link_frames(Subscribe(key, WIDE, priority=3))
    for seen in notifications:
        for civ in (0, 1, 2, 3, 1 << 200):
            frames += link_frames(Notify("p", str(seen.sequence), seen, Civ(civ)))
            frames += link_frames(Notify("p", str(seen.sequence), seen, Civ(civ, 1 if civ else 0)))
        frames += link_frames(Notify("p", str(seen.sequence), seen), CopyHeader(b"", True, 7, 60_000))
        for dests in range(1, 1 << len(SCOT.brokers)):
            stamp = Stamp(dests % 6, 1 + dests % 3, dests, (1,) * dests.bit_count())
            frames += link_frames(Notify("p", str(seen.sequence), seen, Dests(dests), stamp))
            frames += link_frames(Notify("p", str(seen.sequence), seen, Dests(dests, 3), stamp))
        frames += link_frames(Notify("p", str(seen.sequence), seen, Dests(1), stamp), CopyHeader(traced=True))
        frames += link_frames(Notify("p", str(seen.sequence), seen, TreeHeader(KEYS[0])))
        frames += link_frames(Notify("p", str(seen.sequence), seen, Routes((Route(OTHER, KEYS[0], ()),))))
    return frames


LINK_FRAMES = _link_frames()
HANDSHAKES = [
    message_frame(Hello([1], "client", "fuzz", "token", ["trace"], session=b"x" * 16, received=3, session_s=1.0)),
    *(message_frame(Hello([1], "broker", str(played), to=str(ATTACKED), overlay="")) for played in PLAYED),
    message_frame(Hello([1], "broker", "(c,0)", to=str(ATTACKED), overlay="")),
]


def mutated(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Some frames, of which some were changed: bytes flipped, cut, repeated, lengths forged."""
    parts = []
    for _ in range(draw.randrange(1, 6)):
        frame = bytearray(draw.choice(seeds))
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


@dataclass(frozen=True)
class Attack:
    """Bytes sent, and bytes received until the broker closed."""

    sent: bytes
    answer: bytes
    left_first: bool


def drawn_attack(draw: random.Random) -> bytes:
    """The bytes of a hostile connection: a stranger's, a client's or, most often, a neighbour's."""
    role = draw.random()
    if role < 0.2:
        return mutated(draw, [*HANDSHAKES, *CLIENT_FRAMES, *LINK_FRAMES])
    if role < 0.5:
        name = f"fuzz{draw.randrange(3)}"
        return message_frame(Hello([1], "client", name)) + mutated(draw, [*CLIENT_FRAMES, *CLIENT_FRAMES, *LINK_FRAMES])
    hello = Hello([1], "broker", str(draw.choice(PLAYED)), session=draw.randbytes(16), overlay="", to=str(ATTACKED))
    return message_frame(hello) + mutated(draw, LINK_FRAMES * 8 + CLIENT_FRAMES)


async def attack(port: int, draw: random.Random) -> Attack:
    """One hostile connection, which sends a ping last: who is still listened to is answered."""
    sent = drawn_attack(draw) + message_frame(Ping(99))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer, left_first = b"", False
    try:
        for at in range(0, len(sent), CUT_BYTES):
            writer.write(sent[at : at + CUT_BYTES])
            await writer.drain()
        # A forged length may leave the broker waiting for the rest: then we are the first to leave.
        async with asyncio.timeout(10):
            while not (answer.endswith(message_frame(Pong(99))) or reader.at_eof()):
                try:
                    async with asyncio.timeout(0.05):
                        answer += await reader.read(65536)
                except TimeoutError:
                    break
            left_first = not reader.at_eof()
            if left_first:
                writer.write_eof()
            answer += await reader.read(-1)
    except OSError:
        # A broker that closes with bytes still unread resets the connection, and its last words may be lost.
        left_first = True
    finally:
        writer.close()
    return Attack(sent, answer, left_first)


def last_words(answer: bytes) -> int | None:
    """The kind of the last frame of an answer; None if there is none."""
    at, kind = 0, None
    while at + 5 <= len(answer):
        kind = answer[at + 4]
        at += 4 + int.from_bytes(answer[at : at + 4], "big")
    return kind


def why_wrong(made: Attack, server: Server, failures: list[str]) -> str | None:
    """The rule that does not hold after an attack, if any."""
    if failures:
        return f"the event loop met {failures[0]}"
    faults = {str(id): host.counters.faults for id, host in server.hosts.items() if host.counters.faults}
    if faults:
        return f"faults in the brokers: {faults}"
    if not made.left_first and last_words(made.answer) != Kind.GOODBYE:
        return f"disconnected without a reason: {made.answer.hex()}"
    return None


async def fuzz(seconds: float, seed: int, rounds_max: int = 1_000_000_000, routing: str = "idr") -> int:
    """Attack for this long, or this often; returns the number of rounds."""
    limits = NetLimits(session_s_max=0.5, link_give_up_s=0.2, link_grace_s=0.2)
    server = Server(
        SCOT,
        dict.fromkeys(SCOT.brokers, Address("127.0.0.1", 0)),
        brokers=[ATTACKED, OTHER],
        net_limits=limits,
        routing=routing,
    )
    rounds = 0
    loop = asyncio.get_running_loop()
    failures: list[str] = []
    loop.set_exception_handler(lambda _, context: failures.append(str(context)))
    async with server:
        await server.links_up()
        port, other_port = server.addresses[ATTACKED].port, server.addresses[OTHER].port
        async with (
            Client(f"octopia://127.0.0.1:{port}") as good,
            Client(f"octopia://127.0.0.1:{other_port}") as far,
            good.subscribe("good >= 0") as numbers,
            far.subscribe("good >= 0") as far_numbers,
        ):
            await good.advertise("good is not null")
            until, start_bytes = loop.time() + seconds, 0
            while loop.time() < until and rounds < rounds_max:
                draw = random.Random(f"{seed} {rounds}")  # noqa: S311
                made = await attack(port, draw)
                rounds += 1
                await good.publish({"good": rounds})
                for reading in (numbers, far_numbers):
                    (delivery,) = await reading.next_batch()
                    wrong = why_wrong(made, server, failures)
                    if wrong or delivery.notification["good"] != rounds:
                        raise AssertionError(f"seed {seed}, round {rounds}: {wrong} after {made.sent.hex()}")
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
    routing = sys.argv[3] if len(sys.argv) > 3 else "idr"
    rounds = asyncio.run(fuzz(seconds, seed, routing=routing))
    sys.stdout.write(f"{rounds} rounds, seed {seed}, {routing}: the brokers live\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
