"""Strangers at the console: wrong tokens are answered late, and text that is no text is their fault, not ours."""

import asyncio
import base64
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.requests import HTTPConnection

from octopia.console.guard import Access
from octopia.console.service import Service
from octopia.console.serving import Console, bind
from octopia.console.settings import ConsoleSettings
from octopia.net import Address, OverlayIdentity, Server
from octopia.net.broker.failures import ADDRESSES_MAX, FIRST_S, LONGEST_S, WAITING_PER_ADDRESS_MAX
from octopia.topology import Scot, parse_tree
from octopia.watch import Place, Watched
from tests.net.live import asynchronous
from tests.net.processes import own_host

TOKEN = "a-token-of-32-characters-or-more"  # noqa: S105
PORT = 8470


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


def visitor(address: str) -> HTTPConnection:
    return HTTPConnection({"type": "http", "headers": [], "client": (address, 1)})


@asynchronous
async def test_the_answer_to_a_wrong_token_takes_longer_each_time() -> None:
    clock = Clock()
    access = Access(TOKEN, now=lambda: clock.now_s, sleep=clock.sleep)
    for _ in range(8):
        assert await access.delay(visitor("10.0.0.1"))
    assert clock.slept == [min(FIRST_S * 2**count, LONGEST_S) for count in range(8)]
    clock.slept.clear()
    assert await access.delay(visitor("10.0.0.2"))
    assert clock.slept == [FIRST_S], "others do not pay for it"
    assert access.cookie_for(TOKEN) is not None, "nor does the right token"


@asynchronous
async def test_only_some_wrong_tokens_wait_and_their_addresses_are_bounded() -> None:
    going = asyncio.Event()

    async def wait(seconds: float) -> None:
        await going.wait()

    access = Access(TOKEN, sleep=wait)
    waiting = [asyncio.create_task(access.delay(visitor("10.0.0.1"))) for _ in range(WAITING_PER_ADDRESS_MAX)]
    await asyncio.sleep(0)
    assert not await access.delay(visitor("10.0.0.1"))
    going.set()
    assert await asyncio.gather(*waiting) == [True] * WAITING_PER_ADDRESS_MAX
    assert await access.delay(visitor("10.0.0.1"))
    for number in range(2 * ADDRESSES_MAX):
        assert await access.delay(visitor(f"10.1.{number // 256}.{number % 256}"))
    assert len(access._failures._seen) <= ADDRESSES_MAX


@asynccontextmanager
async def console(**settings: object) -> AsyncIterator[str]:
    """A console in front of one broker, and its host."""
    scot, host = Scot(parse_tree("path:1"), 1), own_host()
    anywhere = dict.fromkeys(scot.brokers, Address(host, 0))
    async with Server(scot, anywhere, http=anywhere, name="t") as server:
        (broker,) = scot.brokers
        places = {broker: Place(f"octopia://{server.addresses[broker]}", f"http://{server.http[broker]}")}
        watched = Watched("t", scot, "idr", OverlayIdentity("t", scot, "idr").digest, places)
        given = ConsoleSettings(host=host, port=PORT, allow_publish=True, measure_delays=False, **settings)  # type: ignore[arg-type]
        ready = asyncio.Event()
        served = Console(Service(given, watched), bind(given), lambda link: ready.set())
        serving = asyncio.create_task(served.serve())
        await ready.wait()
        try:
            yield host
        finally:
            served.stop()
            await serving


async def asked(host: str, path: str, body: bytes = b"", *headers: str) -> tuple[int, str]:
    """The status and the body of the answer to a request; one with a body is a POST of JSON."""
    reader, writer = await asyncio.open_connection(host, PORT)
    lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"host: {host}:{PORT}", "connection: close", *headers]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    head, _, rest = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), rest.decode()


HALF = b'"\\ud800"'
BODIES = {
    "not UTF-8": ("/api/parse", b'{"filter": "\xff\xfe"}'),
    "half a filter": ("/api/parse", b'{"filter": ' + HALF + b"}"),
    "half a publisher": ("/api/probe", b'{"notification": {"x": 1}, "publisher": ' + HALF + b"}"),
    "half a client": ("/api/why", b'{"notification": {"x": 1}, "client": ' + HALF + b"}"),
    "half a name": ("/api/parse", b'{"notification": {' + HALF + b": 1}}"),
    "half a token": ("/login", b'{"token": ' + HALF + b"}"),
}


@pytest.fixture
def faults(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Errors in the log since the start of the test."""
    caplog.set_level(logging.ERROR)
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@asynchronous
async def test_text_that_is_not_text_is_refused_and_logged_by_nobody(faults: Callable[[], list[str]]) -> None:
    async with console() as host:
        for name, (path, body) in BODIES.items():
            status, answer = await asked(host, path, body)
            assert (status, json.loads(answer)["message"].startswith("this is not JSON: ")) == (400, True), name
    assert faults() == []


@asynchronous
async def test_wrong_tokens_are_refused_and_the_right_one_gets_in(faults: Callable[[], list[str]]) -> None:
    async with console(access_token=TOKEN) as host:
        assert (await asked(host, "/login", b'{"token": "wrong"}'))[0] == 403
        assert (await asked(host, *BODIES["half a token"]))[0] == 400
        assert (await asked(host, "/api/events", b"", "authorization: Bearer \xff\xfe"))[0] == 401
        assert (await asked(host, "/api/events", b"", f"authorization: Bearer {TOKEN}"))[0] == 200
        assert (await asked(host, "/login", json.dumps({"token": TOKEN}).encode()))[0] == 200
    assert faults() == []


def frame(first: int, data: bytes) -> bytes:
    """A frame of a WebSocket, with this first byte."""
    mask = os.urandom(4)
    return bytes([first, 0x80 | len(data)]) + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


CLOSE = b"\x88"
HELLO = frame(0x81, b'{"type": "hello", "name": "n"}')
FRAMES = {
    "first": frame(0x81, b"\xff\xfe"),
    "later": HELLO + frame(0x81, b"\xff\xfe"),
    "in parts": HELLO + frame(0x01, b"\xe2\x82") + frame(0x80, b"\xff"),
    "bytes": HELLO + frame(0x82, b"\xff\xfe"),
    "goodbye": HELLO + frame(0x88, b"\x03\xe8\xff\xfe"),
    "half a name": frame(0x81, b'{"type": "hello", "name": "\\ud800"}'),
    "gone at once": HELLO + frame(0x88, b"\x03\xe8"),
}


@pytest.mark.parametrize("name", list(FRAMES))
@asynchronous
async def test_a_websocket_that_brings_no_text_is_closed(name: str, faults: Callable[[], list[str]]) -> None:
    async with console() as host:
        reader, writer = await asyncio.open_connection(host, PORT)
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13"
        request = f"GET /ws HTTP/1.1\r\nhost: {host}:{PORT}\r\n{upgrade}\r\nsec-websocket-key: {key}\r\n\r\n"
        writer.write(request.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")
        writer.write(FRAMES[name])
        # Whatever it is told before, the last frame is the goodbye.
        told = b""
        while CLOSE not in told:
            told += await reader.read(1000)
        writer.close()
    assert faults() == []
