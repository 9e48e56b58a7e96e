"""Brokers that start where nothing was compiled yet: they serve at once, and change over later without a loss."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octopia.matching import kernels_in_use
from octopia.net import BrokerHost
from octopia.net.broker import compiling
from octopia.net.broker.engine.compiled import CompiledEngine
from octopia.net.broker.engine.reference import ReferenceEngine
from octopia.topology import BrokerId
from tests.net.live import Live, asynchronous, take, until

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In this process nothing is loaded, and another one compiles until a word comes through this pipe."""
    place = tmp_path / "pipe"
    os.mkfifo(place)
    monkeypatch.setenv("COMPILING_PIPE", str(place))
    monkeypatch.setattr(compiling, "_WARM_UP", "tests.net.compiling_on_demand")
    monkeypatch.setattr(compiling, "_loaded", False)
    monkeypatch.setattr(compiling, "_failed", "")
    monkeypatch.setattr("octopia.native.was_compiled", lambda: False)
    yield place
    # whoever still reads is done
    os.close(os.open(place, os.O_RDWR))


async def say(pipe: Path, word: str) -> None:
    await asyncio.to_thread(pipe.write_text, word, encoding="utf-8")


def engines(live: Live) -> set[type]:
    return {type(server.hosts[id]._router.engine) for id, server in live.servers.items()}


@asynchronous
async def test_brokers_serve_while_code_is_compiled_and_change_over_between_two_reads(pipe: Path) -> None:
    async with Live("path:2", 2) as live:
        assert engines(live) == {ReferenceEngine}
        publisher = await live.publisher("a,0", "n >= 0 and text is not null")
        subscriptions = [await live.subscriber(broker, "n >= 0 and text like 'a%'") for broker in ("a,0", "b,1")]
        compiled = asyncio.create_task(say(pipe, "compiled"))
        published = 0
        while CompiledEngine not in engines(live) or published % 1_000:
            await publisher.publish_many({"n": published + n, "text": f"a{n}"} for n in range(100))
            await publisher.flush()
            published += 100
        await compiled
        await publisher.publish_many({"n": published + n, "text": f"a{n}"} for n in range(500))
        for subscription in subscriptions:
            taken = await take(subscription, published + 500)
            assert [each.notification["n"] for each in taken] == list(range(published + 500))
        assert engines(live) == {CompiledEngine}
        assert {server.hosts[id].counters.faults for id, server in live.servers.items()} == {0}
        assert compiling.is_compiled()


@pytest.mark.parametrize("how", ["fails", "is killed"])
@asynchronous
async def test_if_it_cannot_be_compiled_brokers_stay_as_they_are_and_say_why(
    pipe: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Live("path:1", 1) as live:
        beside: Any = next(iter(live.servers.values()))._compiling
        if how == "fails":
            await say(pipe, "no room")
        else:
            await until(lambda: beside._process is not None)
            beside._process.kill()
        await until(lambda: "not in use" in caplog.messages)
        (said,) = [each.octopia for each in caplog.records if each.getMessage() == "not in use"]  # type: ignore[attr-defined]
        reason = {"fails": "RuntimeError: cannot compile: no room", "is killed": "RuntimeError: exit code -9"}[how]
        assert (said["engine"], said["reason"]) == ("reference", reason)
        assert engines(live) == {ReferenceEngine}
        publisher = await live.publisher("a,0", "n >= 0")
        subscription = await live.subscriber("a,0", "n >= 0")
        await publisher.publish({"n": 1})
        assert [each.notification["n"] for each in await take(subscription, 1)] == [1]
    async with Live("path:1", 1) as later:
        # it is not tried again and again
        assert engines(later) == {ReferenceEngine}
        assert next(iter(later.servers.values()))._compiling._process is None


@asynchronous
async def test_brokers_that_stop_meanwhile_end_the_process_and_the_next_try_again(pipe: Path) -> None:
    async with Live("path:1", 1) as live:
        beside: Any = next(iter(live.servers.values()))._compiling
        await until(lambda: beside._process is not None)
    await until(lambda: beside._process.poll() is not None)
    assert beside._process.returncode == -15
    assert not compiling.is_compiled()
    async with Live("path:1", 1) as live:
        await say(pipe, "compiled")
        await until(lambda: engines(live) == {CompiledEngine})


@asynchronous
async def test_brokers_use_what_is_loaded_from_the_start() -> None:
    assert compiling.warm_up() == "numba"
    async with Live("path:1", 1) as live:
        assert engines(live) == {CompiledEngine}


@asynchronous
async def test_brokers_can_be_told_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.warm_up()

    def never(self: BrokerHost) -> None:
        raise AssertionError

    monkeypatch.setattr(BrokerHost, "use_compiled", never)
    async with Live("path:1", 1, compiled=False) as live:
        assert engines(live) == {ReferenceEngine}


@asynchronous
async def test_after_a_restart_code_is_loaded_before_the_broker_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waited for it comes at once. Without saved state it listens first."""
    compiling.warm_up()
    monkeypatch.setattr(compiling, "_loaded", False)
    monkeypatch.setattr(compiling.Compiling, "start", lambda self: None)
    monkeypatch.setattr("octopia.native.was_compiled", lambda: True)
    async with Live("path:1", 1, state=tmp_path) as live:
        assert engines(live) == {ReferenceEngine}
        await live.servers[BrokerId("a", 0)].stop()
        await live.start("a,0")
        assert engines(live) == {CompiledEngine}
