"""Telling systemd how the process is: ready, alive, stopping (`sd_notify`), where it asked for that.

systemd gives a unit of `Type=notify` a datagram socket in `NOTIFY_SOCKET` and, with `WatchdogSec=`, says how often it
wants a sign of life. The sign comes from the event loop itself, twice as often as wanted: a loop that hangs gives none,
and systemd restarts the process. Without these variables nothing is sent. A message that cannot be sent is dropped:
systemd acts on silence, and the brokers must not fail for it.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class Systemd:
    """The manager of this process, if it is one that wants to be told."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # An @ stands for the zero byte with which names outside the file system begin.
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self._every_s = _watchdog_s(environment) / 2
        self._timer: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """Everything listens; from now on there are signs of life."""
        self._tell("READY=1")
        if self._path and self._every_s > 0:
            self._alive(asyncio.get_running_loop())

    def stopping(self) -> None:
        """The end has begun. It may take a while, and signs of life go on."""
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
    """How often a sign of life is wanted; 0 for never."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    wanted = environment.get("WATCHDOG_USEC", "0")
    return int(wanted) / 1e6 if wanted.isdecimal() else 0.0
