"""`python -m benchmarks.chaos.attack NAME JSON`: one hostile process.

It says on standard output, one JSON object a line, when it has begun and what it was told; then it goes on until it is
killed, or until its work is done. Hostile processes share no event loop with bystanders, so that every delay that is
measured is the product's.
"""

import contextlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.chaos import hostile
from benchmarks.chaos.hostile import Peer
from octopia.wire import Accepted, Goodbye, Ping, Pong, Refused, Welcome, message_frame

READ_BYTES = 1 << 20
BOMB_CONJUNCTIONS = 600
ATTRIBUTES_CHUNK = 1000


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def client(host: str, port: int, token: str, name: str = "", session_s: float = 0.0, **_: Any) -> Peer:
    peer = Peer(host, port)
    answer = peer.hello(name=name, token=token, session_s=session_s)
    if not isinstance(answer, Welcome):
        say(refused=answer.reason if isinstance(answer, Goodbye) else "closed without a word")
        raise SystemExit(0)
    return peer


def asked(peer: Peer, frame: bytes, limit_s: float = 30.0) -> str:
    """Send a request; returns the reason if it was refused."""
    peer.socket.settimeout(limit_s)
    peer.send(frame)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        messages = peer.receive()
        if not messages:
            return "no answer"
        for message in messages:
            if isinstance(message, Accepted):
                return ""
            if isinstance(message, Refused | Goodbye):
                return message.reason
    return "no answer"


def swallow(peer: Peer, *, confirm: bool) -> None:
    """Read available input, without waiting."""
    while select.select([peer.socket], [], [], 0)[0]:
        if not peer.receive():
            say(ended=True)
            raise SystemExit(0)
        if confirm:
            peer.confirm()


def crawl(every_s: float, policy: str, about: str, **where: Any) -> None:
    """A subscriber of some topics (`one+other`) that reads, and confirms one frame every few seconds."""
    peer = client(**where)
    wanted = [[["class", hostile.EQ, one]] for one in about.split("+")]
    reason = asked(peer, hostile.subscribe("s1", wanted, policy))
    if reason:
        say(refused=reason)
        return
    say(subscribed=True)
    confirmed, last = 1, time.monotonic()
    while True:
        select.select([peer.socket], [], [], 0.1)
        swallow(peer, confirm=False)
        if time.monotonic() - last >= every_s:
            confirmed, last = confirmed + 1, time.monotonic()
            peer.confirm(confirmed)


def junk(rate: float, pad: int, about: str, seconds: float = 1e9, **where: Any) -> None:
    """A publisher of junk."""
    peer = client(**where)
    reason = asked(peer, hostile.advertise("a1", [[["class", hostile.EQ, about], ["pad", hostile.PRESENT, None]]]))
    say(**({"refused": reason} if reason else {"began": True}))
    content = {"class": about, "pad": "x" * pad}
    start, count = time.monotonic(), 0
    peer.socket.settimeout(600.0)
    while time.monotonic() < start + seconds:
        while count < (time.monotonic() - start) * rate:
            peer.publish(**content)
            count += 1
            swallow(peer, confirm=True)
        time.sleep(0.005)
    say(published=count)


def conjunctions(**where: Any) -> None:
    """One advertisement and one subscription whose every two conjunctions must be compared, letter by letter."""
    peer = client(**where)
    n = BOMB_CONJUNCTIONS
    wide = [[["s", hostile.CONTAINS, f"a{i}"], ["s", hostile.PREFIX, "qb"]] for i in range(n)]
    bomb = [
        [["s", hostile.CONTAINS, f"b{i}"], ["s", hostile.PREFIX, "q"], ["s", hostile.NOT_PREFIX, "qb"]]
        for i in range(n)
    ]
    say(began=True)
    reason = asked(peer, hostile.advertise("a1", wide)) or asked(peer, hostile.subscribe("s1", bomb))
    say(**({"refused": reason} if reason else {"accepted": True}))


def attributes(count: int, hold_s: float, **where: Any) -> None:
    """Subscriptions that each use a separate attribute; after a while the client is gone."""
    peer = client(**where)
    say(began=True)
    peer.socket.settimeout(60.0)
    done = 0
    reason = ""
    for start in range(0, count, ATTRIBUTES_CHUNK):
        chunk = range(start, min(start + ATTRIBUTES_CHUNK, count))
        peer.send(b"".join(hostile.subscribe(f"s{i}", [[[f"name{i}", hostile.GT, 0]]]) for i in chunk))
        answers = 0
        while answers < len(chunk) and not reason:
            messages = peer.receive()
            if not messages:
                reason = "the connection was closed"
            answers += sum(isinstance(message, Accepted | Refused) for message in messages)
            done += sum(isinstance(message, Accepted) for message in messages)
            refusals = [m.reason for m in messages if isinstance(m, Refused | Goodbye)]
            reason = refusals[0] if refusals else reason
        peer.confirm()
        if reason:
            break
    say(accepted=done, refused=reason)
    time.sleep(hold_s)
    # Gone for good: registrations are withdrawn now.
    with contextlib.suppress(OSError):
        peer.send(message_frame(Goodbye("bye")))
    peer.close()
    say(left=True)


def contains(count: int, strings: int, **where: Any) -> None:
    """Subscriptions that look into strings, and the longest strings that fit into a frame."""
    peer = client(**where)
    peer.socket.settimeout(60.0)
    filters = [[[["s", hostile.CONTAINS, f"needle {i}"]]] for i in range(count)]
    say(began=True)
    peer.send(b"".join(hostile.subscribe(f"s{i}", filter) for i, filter in enumerate(filters)))
    answers, reasons = 0, []
    while answers < count:
        messages = peer.receive()
        if not messages:
            reasons.append("the connection was closed")
            break
        answers += sum(isinstance(message, Accepted | Refused) for message in messages)
        reasons += [m.reason for m in messages if isinstance(m, Refused | Goodbye)]
        peer.confirm()
    reason = asked(peer, hostile.advertise("a1", [[["s", hostile.PRESENT, None]]]))
    for _ in range(strings):
        with contextlib.suppress(OSError):
            peer.publish(s="needle " * (900_000 // 7))
    with contextlib.suppress(OSError):
        peer.send(message_frame(Ping(1)))
    answer = peer.wait_for(Pong | Refused | Goodbye, 30.0)  # type: ignore[arg-type]
    if isinstance(answer, Refused | Goodbye):
        reasons.append(answer.reason)
    say(refused=(reasons or [reason])[0])


def replies(seconds: float, **where: Any) -> None:
    """Requests as fast as they go, and not one answer read."""
    peer = client(**where)
    peer.socket.settimeout(1.0)
    chunk = b"".join(hostile.unsubscribe(f"no such subscription {i} {'x' * 150}") for i in range(500))
    say(began=True)
    start, count, reason = time.monotonic(), 0, ""
    while time.monotonic() < start + seconds:
        try:
            peer.send(chunk)
            count += 500
        except TimeoutError:
            reason = "not read any more"
            time.sleep(0.1)
        except OSError:
            reason = "closed"
            break
    say(requests=count, refused=reason)
    time.sleep(600)


def abandon(count: int, about: str, **where: Any) -> None:
    """Sessions that subscribe and go away without a word, for as long as a broker keeps them."""
    name = where.pop("name")
    for number in range(count):
        peer = client(**where, name=f"{name}/{number}", session_s=300.0)
        # Ids differ, so that no two queues can share their frames.
        asked(peer, hostile.subscribe(f"s{number}", [[["class", hostile.EQ, about]]]))
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        peer.close()
    say(abandoned=count)


def unfinished(count: int, **where: Any) -> None:
    """Long frames of which the end never comes."""
    name = where.pop("name")
    peers, reason = [], ""
    start = (950_000).to_bytes(4, "big") + bytes([0x14]) + b"\0" * 900_000
    for number in range(count):
        try:
            peer = client(**where, name=f"{name}/{number}")
            peer.socket.settimeout(2.0)
            peer.send(start)
            peers.append(peer)
        except TimeoutError:
            reason = "not read any more"
        except OSError:
            reason = "closed"
    say(open=len(peers), refused=reason)
    time.sleep(600)


def idle(host: str, port: int, count: int) -> None:
    """Connections that say nothing, opened again when they are closed."""
    connections: list[socket.socket] = []
    told = False
    while True:
        for connection in select.select(connections, [], [], 0.02)[0] if connections else ():
            connections.remove(connection)
            connection.close()
        while len(connections) < count:
            try:
                connections.append(socket.create_connection((host, port), timeout=1.0))
            except OSError:
                time.sleep(0.05)
                break
        if not told and len(connections) >= count:
            told = True
            say(open=count)


def guess(host: str, port: int, count: int, threads: int) -> None:
    """Wrong tokens, as fast as they are answered."""
    answered: list[float] = []
    say(began=True)
    start = time.monotonic()

    def one(tries: int) -> None:
        for number in range(tries):
            with contextlib.suppress(OSError):
                peer = Peer(host, port, timeout_s=60.0)
                if isinstance(peer.hello(name="main", token=f"a wrong token of some length {number}"), Goodbye):
                    answered.append(time.monotonic() - start)
                peer.close()

    workers = [threading.Thread(target=one, args=(count // threads,), daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.25)
        say(answered=len(answered), seconds=time.monotonic() - start)
    say(answered=len(answered), seconds=time.monotonic() - start, done=True)


ATTACKS: dict[str, Callable[..., None]] = {
    attack.__name__: attack
    for attack in (
        crawl, junk, conjunctions, attributes, contains, replies, abandon, unfinished, idle, guess,
    )
}  # fmt: skip

if __name__ == "__main__":
    with contextlib.suppress(OSError):
        ATTACKS[sys.argv[1]](**json.loads(sys.argv[2]))
