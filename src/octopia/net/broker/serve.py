"""Running brokers as a process: event loop, signals, draining.

SIGTERM is for a restart, if there is a state directory: brokers drain and save their sessions. If there is no room for
that on disk, they say so and continue to serve. SIGINT stops for good: brokers drain, sessions end. A second signal
ends the process at once. If something could not be saved after all, the process ends with an error. systemd is
informed, if it asks. uvloop is used if it is installed.
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from octopia.errors import InputError, StateError
from octopia.net.broker.config import ServeConfig
from octopia.net.broker.server import Server
from octopia.net.broker.systemd import Systemd
from octopia.topology import BrokerId


def state_directory() -> Path | None:
    """The default directory for the state of a restart: systemd's for this service, or the user's."""
    if given := os.environ.get("STATE_DIRECTORY", ""):
        # There may be several, separated by colons.
        return Path(given.partition(":")[0])
    if home := os.environ.get("XDG_STATE_HOME", ""):
        return Path(home) / "octopia"
    try:
        return Path.home() / ".local" / "state" / "octopia"
    except RuntimeError:
        return None


T = TypeVar("T")
# Python collects the youngest generation after this many new containers, the next after 20 such rounds, and all after
# 100 of those. Its defaults are 700, 10 and 10: a broker would collect several times in every read.
GARBAGE_THRESHOLDS = (50_000, 20, 100)


async def serve(
    config: ServeConfig,
    brokers: Iterable[BrokerId] | None = None,
    on_ready: Callable[[Server], None] | None = None,
    *,
    state: Path | None = None,
    record: Any | None = None,
) -> None:
    """Run these brokers until a signal arrives, then drain; save sessions in `state`, for a restart.

    `StateError` if that failed.
    """
    server = Server.of(config, brokers, state, record)
    try:
        await server.start()
    except OSError as error:
        await server.stop(for_good=True)
        raise InputError(f"cannot listen: {error.strerror or error}; is a broker running there already?") from None
    # From the first moment, so that no signal is missed.
    coming = _signal()
    if on_ready is not None:
        on_ready(server)
    manager = Systemd()
    manager.ready()
    while (came := await coming) is signal.SIGTERM and not await server.can_restart():
        coming = _signal()
    manager.stopping()
    saved = await server.stop(for_good=came is signal.SIGINT)
    manager.stopped()
    if not saved:
        raise StateError("not all sessions could be saved; the log says which and why")


def _signal() -> "asyncio.Future[signal.Signals]":
    """The next SIGTERM or SIGINT; the one after it ends the process at once."""
    loop = asyncio.get_running_loop()
    coming: asyncio.Future[signal.Signals] = loop.create_future()

    def came(number: signal.Signals) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        coming.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, came, number)
    return coming


def collect_garbage_rarely() -> None:
    """Collect now, exclude all existing objects from later collections, and collect rarely from now on.

    For a process that only runs brokers, once they listen; a program that uses this package as a library keeps its own
    settings. Modules, configuration and compiled code live as long as the process, so they need not be examined
    (`gc.freeze`). Nearly all objects that a broker makes per notification are freed by reference counting, so
    collecting less often misses little. It saves 10 to 15 % of a broker's CPU time, and full collections beside large
    tables, which stop everything for some 200 ms, become rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def run(
    config: ServeConfig,
    brokers: Iterable[BrokerId] | None = None,
    on_ready: Callable[[Server], None] | None = None,
    *,
    state: Path | None = None,
    record: Any | None = None,
) -> None:
    """Like `serve`, for a program that does nothing else: own event loop, our garbage collection settings."""

    def ready(server: Server) -> None:
        collect_garbage_rarely()
        if on_ready is not None:
            on_ready(server)

    run_loop(serve(config, brokers, ready, state=state, record=record))


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run this in the event loop of brokers: uvloop if it is installed."""
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
