"""Strangers in waves that make a broker keep much for them, in a process of its own: what it counts, and what it holds.

After every wave the process prints the memory that its broker counts, and by how much the most that it ever held has
grown since it did the same work for nobody.
"""

import asyncio
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any, Final

from octopia.language import parse_filter
from octopia.net import Client, NetLimits
from octopia.topology import BrokerId
from octopia.wire import Hello, message_frame, subscribe_frame
from tests.net.live import Live, until

MIB: Final = 1024 * 1024
AWAY_BYTES_MAX, MEMORY_BYTES_MAX = 8 * MIB, 16 * MIB
LIMITS: Final = NetLimits(
    away_bytes_max=AWAY_BYTES_MAX,
    memory_bytes_max=MEMORY_BYTES_MAX,
    link_queue_bytes_max=8 * MIB,
    # a connected client's window is never dropped
    window_frames=256,
    link_grace_s=0.05,
    link_give_up_s=1000.0,
    session_s_max=1000.0,
)
WAVES, SESSIONS, NOTIFICATIONS = 3, 30, 6_000
READ: Final[list[dict[str, int | str]]] = [{"n": n, "text": "x" * 200} for n in range(NOTIFICATIONS // 6)]


def most_bytes() -> int:
    """The most memory that this process ever had."""
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return 1024 * int(kib)


async def stranger(live: Live, name: str) -> socket.socket:
    """A client with a session that stays, which subscribes to everything and never reads again."""
    loop = asyncio.get_running_loop()
    host, port = live.url("a,0").removeprefix("octopia://").rsplit(":", 1)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    await loop.sock_connect(peer, (host, int(port)))
    await loop.sock_sendall(peer, message_frame(Hello([1], "client", name, session_s=1000.0)))
    # Ids differ, so that no two queues share their bytes.
    await loop.sock_sendall(peer, subscribe_frame(f"all of {name}", parse_filter("n >= 0"), "drop_oldest", True))
    sessions = live.host("a,0").sessions
    await until(lambda: name in sessions and bool(sessions[name].deliveries.policies.distinct))
    return peer


async def publish(publisher: Client) -> None:
    for _ in range(6):
        await publisher.publish_many(READ)
    await publisher.flush()


async def main(routing: str, engine: str, kind: str) -> None:
    tree = "path:2" if kind == "down" else "path:1"
    async with Live(tree, 1, routing=routing, compiled=engine == "compiled", net_limits=LIMITS) as live:
        host = live.host("a,0")
        publisher = await live.publisher("a,0", "n is not null and text is not null")
        if kind == "down":
            await live.subscriber("b,0", "n >= 0")
            live.crash("b,0")
            await until(lambda: not host.links[BrokerId("b", 0)].is_up)
        await publish(publisher)
        before = most_bytes()
        peers: list[Any] = []
        for wave in range(WAVES):
            for number in range(0 if kind == "down" else SESSIONS):
                peers.append(await stranger(live, f"{wave}-{number}"))
            if kind == "away":
                for peer in peers:
                    peer.close()
                await until(lambda: len(host.sessions.away) == len(peers))
            await publish(publisher)
            host.memory.grew(host.now())
            sys.stdout.write(json.dumps((host.memory.used_bytes, most_bytes() - before)) + "\n")
        for peer in peers:
            peer.close()
