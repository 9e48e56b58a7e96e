"""`octopia serve` as processes, for tests: started, killed, asked how they are.

Brokers of several processes must know each other's ports before they start, so the system cannot choose them. They
listen on a loopback address of this test process's own (all of 127/8 is loopback), below the ports that the system
gives out: nobody else can be there.
"""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from typing import Any

from tests.commands import Command, run
from tests.patience import HANG_S

PORT, HTTP_PORT = 7400, 9400


def own_host() -> str:
    """A loopback address for this process: its number, written as an address."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536 % 250}.{pid // 256 % 256}.{pid % 256}"


class Processes:
    """An overlay of which each broker is a process, or all are one (`together`)."""

    def __init__(
        self,
        folder: Path,
        tree: str = "path:2",
        clusters: int = 2,
        *,
        together: bool = False,
        saves: bool = True,
        grace_s: float = 0.3,
        routing: str = "idr",
        more: str = "",
    ) -> None:
        self.host = own_host()
        self.routing = routing
        self.brokers = [f"{'abcdefgh'[n]},{c}" for c in range(clusters) for n in range(int(tree.partition(":")[2]))]
        self.file = folder / "overlay.toml"
        self.file.write_text(
            f'[overlay]\ntree = "{tree}"\nclusters = {clusters}\n[routing]\nname = "{routing}"\n'
            f'[brokers]\nhost = "{self.host}"\nport = {PORT}\nhttp_port = {HTTP_PORT}\n'
            # On a busy machine every subscriber is slow for a while; here it may hold up its publishers that long.
            f"[limits]\nlink_grace_s = {grace_s}\nblock_s = {HANG_S}\n{more}",
            encoding="utf-8",
        )
        self._parts: dict[str, Sequence[str]] = (
            {"all": self.brokers} if together else {broker: [broker] for broker in self.brokers}
        )
        self._state = ["--state", str(folder / "state")] if saves else ["--no-state"]
        self._log = (folder / "log.txt").open("a")
        self.running: dict[str, Command] = {}

    def start(self, *parts: str) -> None:
        """Start the named processes, or all that are not running, and wait until they listen."""
        wanted = parts or tuple(part for part in self._parts if part not in self.running)
        for part in wanted:
            only = [] if part == "all" else ["--broker", part]
            command = ("serve", self.file, *self._state, *only)
            self.running[part] = Command(*command, stdout=PIPE, stderr=self._log)
        for part in wanted:
            stdout = self.running[part].stdout
            assert stdout is not None
            for broker in self._parts[part]:
                assert stdout.readline().startswith(f"({broker}) {self.url(broker)} ")

    def stop(self, part: str, number: signal.Signals) -> int:
        process = self.running.pop(part)
        process.send_signal(number)
        process.communicate()
        return process.wait()

    def close(self) -> None:
        for part in list(self.running):
            self.stop(part, signal.SIGKILL)
        self._log.close()

    def state(self, broker: str) -> dict[str, Any]:
        return state_of(f"{self.host}:{HTTP_PORT + self.brokers.index(broker)}")

    def wait_for_links(self) -> None:
        while not all(link["up"] for broker in self.brokers for link in self.state(broker)["links"]):
            time.sleep(0.02)

    def url(self, broker: str) -> str:
        return f"octopia://{self.host}:{PORT + self.brokers.index(broker)}"

    def http(self, broker: str) -> str:
        return f"http://{self.host}:{HTTP_PORT + self.brokers.index(broker)}"


def state_of(address: object) -> dict[str, Any]:
    """The report of the broker that answers HTTP at this address."""
    with urllib.request.urlopen(f"http://{address}/healthz", timeout=60) as answer:
        state: dict[str, Any] = json.load(answer)
        return state


def octopia(*arguments: object, stdin: str = "", code: int = 0) -> CompletedProcess[str]:
    """Run a command to its end, which must be with this exit code."""
    done = run(*arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    return done
