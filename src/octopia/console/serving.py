"""Running the console: one uvicorn server on its own socket, until a signal arrives.

The socket is bound before anything else, so a port in use is reported at once, and the address is printed as soon as
the page can be opened.
"""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from octopia.console.app import create_app
from octopia.console.frames import FRAME_BYTES_MAX
from octopia.console.service import Service
from octopia.console.settings import PORT_DEFAULT, ConsoleSettings
from octopia.errors import InputError

# Tried if the default port is taken.
_PORTS_TRIED: Final = 50
_CLOSE_S: Final = 1


def bind(settings: ConsoleSettings) -> socket.socket:
    """A socket at the given port; if the default port is taken, at one of the next."""
    ports = range(settings.port, settings.port + _PORTS_TRIED) if settings.port == PORT_DEFAULT else [settings.port]
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in ports:
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((settings.host, port))
        except OSError as error:
            bound.close()
            reason = error.strerror or str(error)
        else:
            return bound
    raise InputError(f"cannot listen at {settings.host}:{settings.port}: {reason}; choose another with --listen")


class _Server(uvicorn.Server):
    """A server that reports when it is ready. A signal ends it and is not raised again: stopping is not a failure."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a log record is about us. Text that is not UTF-8 is the browser's fault, and its socket is closed."""
    return record.exc_info is None or not isinstance(record.exc_info[1], UnicodeDecodeError)


class Console:
    """A console that runs in the event loop of the program."""

    def __init__(self, service: Service, bound: socket.socket, on_ready: Callable[[str], None]) -> None:
        """`on_ready` is called with the address of the page when it can be opened."""
        settings = service.settings
        link = settings.link(bound.getsockname()[1])
        config = uvicorn.Config(
            create_app(service),
            log_level="error",
            access_log=False,
            ws_max_size=FRAME_BYTES_MAX,
            ws="websockets-sansio",
            timeout_graceful_shutdown=_CLOSE_S,
            ssl_certfile=settings.certificate or None,
            ssl_keyfile=settings.key or None,
            server_header=False,
            proxy_headers=False,
        )
        logging.getLogger("uvicorn.error").addFilter(is_our_fault)
        self._server = _Server(config, lambda: on_ready(link))
        self._bound = bound

    async def serve(self) -> None:
        """Serve until a signal arrives or `stop` is called."""
        await self._server.serve([self._bound])

    def stop(self) -> None:
        self._server.should_exit = True


def run_console(service: Callable[[], Service], settings: ConsoleSettings, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal arrives. `service` is called in the event loop."""
    bound = bind(settings)

    async def main() -> None:
        await Console(service(), bound, on_ready).serve()

    asyncio.run(main())
