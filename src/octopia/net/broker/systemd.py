"""Report the state of the process to systemd: ready, alive, stopping (`sd_notify`).

systemd gives a unit of `Type=notify` a datagram socket in `NOTIFY_SOCKET` and, with `WatchdogSec=`, the interval of the
watchdog. The event loop itself sends the sign of life, twice per interval: if the loop hangs, it stops, and systemd
restarts the process. Without these variables nothing is sent. A message that cannot be sent is dropped: systemd reacts
to silence, and the brokers must not fail because of it.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class Systemd:
    """The service manager of this process, if it asked for reports."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of an abstract socket name.
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self._every_s = _watchdog_s(environment) / 2
        self._timer: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Report that all brokers are listening, and start the signs of life."""
        self._tell("READY=1")
        if self._path and self._every_s > 0:
            self._alive(asyncio.get_running_loop())

    def stopping(self) -> None:
        """Report that the process is stopping. This may take a while, and signs of life continue."""
        self._tell("STOPPING=1")

    def stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _alive(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._every_s, self._alive, loop)
        self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if not self._path:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as there:
            there.sendto(message.encode(), self._path)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """The interval of the watchdog; 0 for none."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    wanted = environment.get("WATCHDOG_USEC", "0")
    return int(wanted) / 1e6 if wanted.isdecimal() else 0.0
