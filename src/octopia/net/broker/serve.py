"""Running brokers as a process: event loop, signals, draining.

SIGTERM and SIGINT drain, a second one ends at once. systemd is told what happens, where it asks. uvloop is used where
it is installed.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable
from importlib.util import find_spec

from octopia.errors import InputError
from octopia.net.broker.config import ServeConfig
from octopia.net.broker.server import Server
from octopia.net.broker.systemd import Systemd
from octopia.topology import BrokerId


async def serve(
    config: ServeConfig, brokers: Iterable[BrokerId] | None = None, on_ready: Callable[[Server], None] | None = None
) -> None:
    """Run these brokers until a signal comes, then drain."""
    server = Server.of(config, brokers)
    try:
        await server.start()
    except OSError as error:
        await server.stop()
        raise InputError(f"cannot listen: {error.strerror or error}; is a broker running there already?") from None
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # The next one is for the impatient.
            loop.remove_signal_handler(number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if on_ready is not None:
        on_ready(server)
    manager = Systemd()
    manager.ready()
    await stopping.wait()
    manager.stopping()
    await server.stop()
    manager.stopped()


def run(
    config: ServeConfig, brokers: Iterable[BrokerId] | None = None, on_ready: Callable[[Server], None] | None = None
) -> None:
    """As `serve`, for a program without an event loop."""
    factory = None
    if find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(config, brokers, on_ready))
