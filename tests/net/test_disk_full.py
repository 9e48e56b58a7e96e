"""A disk that is full when a broker should restart: it goes on serving, and nothing is lost without a word."""

import asyncio
import errno
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopia.errors import StateError
from octopia.net import Address, OverlayIdentity, Server
from octopia.net.broker import saved
from octopia.net.broker.config import load_config
from octopia.net.broker.saved import Place, Room, SavedLink, SavedSession, take
from octopia.net.broker.serve import serve
from octopia.topology import BrokerId, Scot, parse_tree
from tests.net.live import Live, asynchronous, until
from tests.net.live import take as take_deliveries
from tests.net.processes import Processes, own_host

NOW_S = time.time()
SESSION = SavedSession("c", "", b"secret", 30.0, 7, -1, 5, 0, [], [b"x" * 1000] * 100, 0, 0, [], [])
LINK = SavedLink("(a,2)", [b"one", b"two"])
STEPS = ("open", "posix_fallocate", "write", "ftruncate", "fsync", "close", "rename")


def place(folder: Path) -> Place:
    overlay = OverlayIdentity("mine", Scot(parse_tree("path:3"), 3), "idr")
    return Place(folder, overlay, BrokerId("b", 2), Address("127.0.0.1", 7400))


class Disk:
    """Counts the calls that can meet a full disk, and lets one of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int = -1) -> None:
        self.calls: list[str] = []
        self._fails_at = fails_at
        for name in STEPS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) - 1 == self._fails_at:
                if name == "close":
                    # The file is closed even so.
                    real(*given)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*given, **named)

        return called


def save(folder: Path) -> None:
    Room(place(folder), 200_000).save(saved.SavedState([SESSION], [LINK], [], []), NOW_S)


def test_each_step_of_saving_may_fail_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patches:
        disk = Disk(patches)
        save(tmp_path)
    calls = disk.calls
    assert [name for name in STEPS if name not in calls] == []
    found = take(place(tmp_path), NOW_S, 300.0)
    assert found is not None
    assert (found.sessions, found.links) == ([SESSION], [LINK])
    descriptors = len(os.listdir("/proc/self/fd"))
    for at, name in enumerate(calls[:-1]):
        with pytest.MonkeyPatch.context() as patches:
            disk = Disk(patches, at)
            with pytest.raises(OSError, match="No space left"):
                save(tmp_path)
            assert disk.calls[at] == name
        assert list(tmp_path.iterdir()) == [], (at, name)
        assert len(os.listdir("/proc/self/fd")) == descriptors, (at, name)


def test_what_is_written_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    save(tmp_path)
    found = take(place(tmp_path), NOW_S, 300.0)
    assert found is not None
    assert found.sessions == [SESSION]


def full(*given: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@asynchronous
async def test_without_room_for_its_state_a_broker_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Live("path:1", 1, state=tmp_path) as live:
        server = live.servers[live.scot.brokers[0]]
        subscription = await live.subscriber("a,0", "n >= 0")
        publisher = await live.publisher("a,0", "n is not null")
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(os, "posix_fallocate", full)
            assert not await server.can_restart()
        assert list(tmp_path.iterdir()) == []
        event = live.host("a,0").log.events.latest(1)[0]
        assert event["text"] == "no restart"
        assert "No space left on device" in str(event)
        await publisher.publish({"n": 1})
        await publisher.flush()
        assert [delivery.notification["n"] for delivery in await take_deliveries(subscription, 1)] == [1]
        assert await server.can_restart()
        assert [file.suffix for file in tmp_path.iterdir()] == [".new"]
        assert await server.stop()
        assert [file.suffix for file in tmp_path.iterdir()] == [".saved"]


@asynchronous
async def test_the_room_is_enough_for_what_is_saved(tmp_path: Path) -> None:
    """Sessions with many registrations, and queues of clients that are away."""
    async with Live("path:1", 1, state=tmp_path) as live:
        server, host = live.servers[live.scot.brokers[0]], live.host("a,0")
        reader = await live.client("a,0", session_s=100.0)
        for number in range(200):
            await reader.subscribe(f"n >= {number} and name <> 'ünï{number}'").__aenter__()
        assert reader._connecting.channel is not None
        reader._connecting.channel.abort()
        publisher = await live.publisher("a,0", "n is not null and name is not null")
        await publisher.publish_many({"n": n, "name": "x" * (n % 90)} for n in range(2000))
        await publisher.flush()
        size = host.state_bytes()
        assert await server.stop()
        (file,) = tmp_path.iterdir()
        assert file.stat().st_size <= size


def overlay_file(folder: Path) -> Path:
    file = folder / "overlay.toml"
    brokers = f'[brokers]\nhost = "{own_host()}"\nport = 7470\n'
    file.write_text(f'[overlay]\ntree = "path:1"\nclusters = 1\n{brokers}', encoding="utf-8")
    return file


@asynchronous
async def test_a_process_that_could_not_save_after_all_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    servers: list[Server] = []
    serving = asyncio.create_task(serve(load_config(overlay_file(tmp_path)), None, servers.append, state=state))
    await until(lambda: bool(servers))
    monkeypatch.setattr(saved, "_write", full)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(StateError, match="not all sessions could be saved"):
        await serving
    assert list(state.iterdir()) == []


@asynchronous
async def test_octopia_serve_goes_on_until_there_is_room(tmp_path: Path) -> None:
    """The system refuses files that are larger than a limit, as a full disk would."""
    processes = Processes(tmp_path, "path:1", 1)
    processes.start()
    try:
        log = tmp_path / "log.txt"
        process = processes.running["a,0"]
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
        process.send_signal(signal.SIGTERM)
        while '"no restart"' not in log.read_text():
            await asyncio.sleep(0.01)
        assert processes.state("a,0")["status"] == "ok"
        assert process.poll() is None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert processes.stop("a,0", signal.SIGTERM) == 0
    finally:
        processes.close()
