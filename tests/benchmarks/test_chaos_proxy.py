"""The proxy of the trial: forwarding, and the effect of each fault at both ends."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from benchmarks.chaos.proxy import Proxy
from benchmarks.chaos.scenarios import SCENARIOS
from benchmarks.chaos.world import Setup

HANGS_S = 60.0


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), HANGS_S))


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Far:
    """The server behind the proxy: echoes its input, and reports when its reader ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        self.ended.set()


@contextlib.asynccontextmanager
async def proxied() -> AsyncIterator[tuple[Proxy, Far]]:
    far = Far()
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    proxy = Proxy("127.0.0.1", unused_port(), *server.sockets[0].getsockname()[:2])
    await proxy.start()
    try:
        yield proxy, far
    finally:
        await proxy.close()
        server.close()
        for writer in far.writers:
            writer.close()


async def dial(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(proxy.host, proxy.port)


async def says(end: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes) -> bytes:
    end[1].write(data)
    return await end[0].readexactly(len(data))


async def is_reset(end: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    with pytest.raises(ConnectionResetError):
        await end[0].read()
    end[1].close()


def test_it_forwards_both_ways_and_remembers_how_each_connection_began() -> None:
    async def main() -> None:
        async with proxied() as (proxy, _):
            end = await dial(proxy)
            assert await says(end, b"hello") == b"hello"
            assert await says(end, b" again") == b" again"
            assert proxy.heads == [b"hello again"]
            end[1].close()

    run(main)


def test_a_cut_resets_what_is_there_and_what_comes_until_it_is_mended() -> None:
    async def main() -> None:
        async with proxied() as (proxy, far):
            end = await dial(proxy)
            await says(end, b"hello")
            proxy.cut()
            await is_reset(end)
            await far.ended.wait()
            await is_reset(await dial(proxy))
            proxy.mend()
            again = await dial(proxy)
            assert await says(again, b"back") == b"back"
            again[1].close()

    run(main)


def test_a_stall_forwards_nothing_and_loses_nothing() -> None:
    async def main() -> None:
        async with proxied() as (proxy, _):
            end = await dial(proxy)
            await says(end, b"hello")
            proxy.stall()
            end[1].write(b"held")
            other = await dial(proxy)  # is taken, and stays silent
            other[1].write(b"other")
            for _ in range(50):
                await asyncio.sleep(0)
            assert proxy.heads == [b"hello"]
            proxy.mend()
            assert await end[0].readexactly(4) == b"held"
            assert await other[0].readexactly(5) == b"other"
            end[1].close()
            other[1].close()

    run(main)


def test_a_half_close_ends_one_way_only() -> None:
    async def main() -> None:
        async with proxied() as (proxy, far):
            end = await dial(proxy)
            await says(end, b"hello")
            proxy.half_close()
            await far.ended.wait()
            far.writers[0].write(b"still here")
            assert await end[0].readexactly(10) == b"still here"
            end[1].close()

    run(main)


def test_a_slow_proxy_forwards_all() -> None:
    async def main() -> None:
        async with proxied() as (proxy, _):
            end = await dial(proxy)
            proxy.slow(1e6)
            data = bytes(range(256)) * 100
            assert await says(end, data) == data
            end[1].close()

    run(main)


def test_a_reset_of_the_far_side_reaches_the_near_side() -> None:
    async def main() -> None:
        async with proxied() as (proxy, far):
            end = await dial(proxy)
            await says(end, b"hello")
            connection = far.writers[0].get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            far.writers[0].transport.abort()
            await is_reset(end)

    run(main)


def test_nobody_behind_the_proxy_looks_like_a_reset() -> None:
    async def main() -> None:
        proxy = Proxy("127.0.0.1", unused_port(), "127.0.0.1", unused_port())
        await proxy.start()
        await is_reset(await dial(proxy))
        await proxy.close()

    run(main)


def test_every_scenario_says_what_it_is_about_and_is_bounded() -> None:
    assert all(scenario.about and 0 < scenario.limit_s <= 300 for scenario in SCENARIOS.values())
    assert len({scenario.run for scenario in SCENARIOS.values()}) == len(SCENARIOS)


def test_the_default_overlay_is_three_regions_by_three_clusters() -> None:
    assert Setup().brokers == [f"{region},{cluster}" for cluster in range(3) for region in "abc"]
