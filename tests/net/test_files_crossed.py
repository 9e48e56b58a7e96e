"""The files that a notification crosses in a broker, from a publisher to a subscriber of the same broker.

`ARCHITECTURE.md` lists those of the compiled engine. A newcomer who follows a notification has to open them.
"""

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

import octopia
from octopia.language import parse_filter, parse_notification
from octopia.net import NetLimits
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import advertise_frame, encode_parcel, publish_frame, subscribe_frame
from tests.net.piped import PipedOverlay, StoppedLoop, settled

SOURCE = octopia.__file__.removesuffix("__init__.py")
HOST = BrokerId("a", 0)
ADVERTISED = "symbol is not null and price > 0"  # that of README.md
COMPILED = {
    "matching/matcher.py",
    "matching/mirror.py",
    "net/broker/client_queue.py",
    "net/broker/engine/compiled.py",
    "net/broker/engine/read_numba.py",
    "net/broker/intake.py",
    "net/broker/router.py",
    "net/broker/sessions.py",
    "net/channel.py",
    "net/frame_queue.py",
    "routing/by_ways.py",
    "wire/connection.py",
}
# Where the tree is chosen, and whether a notification is for other brokers.
STREAMS = {f"routing/fdr/{name}.py" for name in ("beyond", "notify", "streams/sending", "trees", "waits")}
REFERENCE_MAX = 28


async def files_crossed(routing: str, compiled: bool) -> set[str]:
    """By a notification like those before it, while a thousand other subscriptions are known."""
    overlay = PipedOverlay(
        Scot(parse_tree("path:1"), 1), compiled, lambda: 1_000.0, NetLimits(heartbeat_s=1e6), routing=routing
    )
    for name in ("p", "s"):
        overlay.connect(name, HOST)
    while overlay.take_all():
        await settled()
    publisher, subscriber = (overlay.clients[name].end for name in ("p", "s"))
    publisher.write(advertise_frame("a", parse_filter(ADVERTISED)))
    for number in range(1_000):
        subscriber.write(subscribe_frame(f"{number}", parse_filter(f"symbol = 'S{number}'"), None, True))
    while overlay.take_all():
        await settled()
    for sequence in range(400):
        publisher.write(published(sequence))
        while overlay.take_all():
            await settled()
        overlay.confirm_all()
    overlay.take_all()
    publisher.write(published(400))
    crossed: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            crossed.add(frame.f_code.co_filename.removeprefix(SOURCE))

    sys.setprofile(note)
    try:
        publisher.other.take(1 << 30)
        await settled()
    finally:
        sys.setprofile(None)
    overlay.take_all()
    assert [each.subscriptions for each in overlay.clients["s"].got] == [("7",)] * 401
    overlay.end()
    return crossed


def published(sequence: int) -> bytes:
    seen = parse_notification({"symbol": "S7", "price": 10 + sequence})
    return publish_frame(encode_parcel(seen, "p", 1 + sequence))


def run(routing: str, *, compiled: bool) -> set[str]:
    with asyncio.Runner(loop_factory=StoppedLoop) as runner:
        return runner.run(files_crossed(routing, compiled))


def test_the_compiled_engine_needs_twelve_files() -> None:
    pytest.importorskip("numba")
    assert run("snr", compiled=True) == COMPILED


def test_streams_need_five_more() -> None:
    pytest.importorskip("numba")
    assert run("fdr", compiled=True) == COMPILED | STREAMS


def test_the_reference_engine_needs_not_many_more() -> None:
    assert len(run("snr", compiled=False)) <= REFERENCE_MAX
