"""The demo overlay as a child process: orders go in as lines of JSON, answers come out as lines of JSON.

It is a separate process, so that brokers under load and the page do not slow each other down. It ends when its standard
input closes, so it never outlives the console. Its first line says that the brokers are listening.
"""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final

from octopia.console.demo.contents import DemoPlan, demo_config
from octopia.console.demo.overlay import DemoOverlay
from octopia.errors import InputError, OctopiaError
from octopia.net import Address, ServeConfig, run_loop
from octopia.topology import BrokerId

_END_S: Final = 3.0
_LINE_BYTES_MAX: Final = 1024 * 1024
_MODULE: Final = "octopia.console.demo.process"


class DemoProcess:
    """The demo, as seen from the console."""

    def __init__(self, plan: DemoPlan) -> None:
        self._plan = plan
        self.config = demo_config(plan)
        self._child: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()
        self.state: dict[str, Any] = {}

    @property
    def is_running(self) -> bool:
        return bool(self.state) and self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Returns when the brokers listen."""
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_BYTES_MAX,
            # Ctrl-C is for the console, which ends its child
            start_new_session=True,
        )
        config, plan = self.config, self._plan
        begin = {
            **asdict(plan),
            "addresses": {str(broker): str(address) for broker, address in config.addresses.items()},
            "http": {str(broker): str(address) for broker, address in config.http.items()},
        }
        self.state = (await self._ask(begin))["state"]

    async def order(self, order: dict[str, Any]) -> dict[str, Any]:
        """Apply an operation to the overlay and return its new state. Raises `InputError` for an invalid one."""
        if not self.is_running:
            raise InputError("the demo overlay is not running yet")
        answer = await self._ask(order)
        if "error" in answer:
            raise InputError(answer["error"])
        self.state = answer["state"]
        if self.state["routing"] != self.config.routing:
            self.config = replace(self.config, routing=self.state["routing"])
        return self.state

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise OctopiaError("the demo overlay was not started")
        async with self._asking:
            child.stdin.write(json.dumps(question).encode() + b"\n")
            with suppress(ConnectionError):
                await child.stdin.drain()
            line = await child.stdout.readline()
        if not line:
            raise OctopiaError("the demo overlay has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def stop(self) -> None:
        """End it, by force after a while."""
        child, self._child = self._child, None
        if child is None or child.returncode is not None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


async def _serve() -> None:
    """The child: read the plan, run the overlay, follow orders until the input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    first = await reader.readline()
    if not first:
        return
    plan = json.loads(first)
    overlay = DemoOverlay(_config(plan), plan["rate_per_s"], clients=plan["clients"])
    try:
        await overlay.start()
        _tell({"state": overlay.state()})
        while line := await reader.readline():
            try:
                await overlay.obey(json.loads(line))
                _tell({"state": overlay.state()})
            except OctopiaError as error:
                _tell({"error": str(error)})
    finally:
        overlay.stop()


def _config(plan: dict[str, Any]) -> ServeConfig:
    made = demo_config(DemoPlan(plan["tree"], plan["clusters"], plan["routing"]))
    return replace(
        made,
        addresses={BrokerId.parse(broker): Address.parse(at) for broker, at in plan["addresses"].items()},
        http={BrokerId.parse(broker): Address.parse(at) for broker, at in plan["http"].items()},
    )


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run_loop(_serve())
