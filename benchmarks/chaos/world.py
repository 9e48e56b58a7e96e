"""The overlay under trial: one `octopia serve` process per broker, with proxies on the links that are to be disturbed.

Every broker has its own copy of the overlay file: its own address is real, a neighbour's is the proxy between the two
where there is one. Everything listens on a loopback address of this process's own, below the ports that the system
gives out, so that a port that a killed broker leaves is taken by nobody else. Brokers die with this process, whatever
ends it.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.chaos import versions
from benchmarks.chaos.proxy import Proxy

FIRST_PORT, LAST_PORT = 20_000, 30_000
START_S_MAX = 60.0
LINK_TOKEN = "e1b7c0f2a4d94c1c8a55d6f0b3a7924e"  # noqa: S105 - of an overlay that lives for seconds
MAIN_TOKEN = "53cfb0d1e97a4f0c9d6b2a8e4f7c1d30"  # noqa: S105
FOE_TOKEN = "9a0e6d4c2b1f4e8d8c7b6a5f4e3d2c1b"  # noqa: S105
_PR_SET_PDEATHSIG = 1


class ServeRefusedError(Exception):
    """`octopia serve` ended instead of listening; the text is its output."""


@dataclass(frozen=True)
class Entry:
    """A client of the overlay file."""

    name: str
    token: str
    advertise: str = "true"
    subscribe: str = "true"
    block: bool = False

    def text(self) -> str:
        return (
            f'[[clients]]\nname = "{self.name}"\ntoken = "{self.token}"\n'
            f'advertise = "{self.advertise}"\nsubscribe = "{self.subscribe}"\n{versions.client_keys(self.block)}'
        )


MAIN = Entry("main", MAIN_TOKEN, block=True)
FOE = Entry("foe", FOE_TOKEN, block=True)


@dataclass(frozen=True)
class Setup:
    """The overlay that a scenario wants."""

    regions: int = 3
    clusters: int = 3
    clients: tuple[Entry, ...] = (MAIN, FOE)
    link_token: str = LINK_TOKEN
    proxied: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    routing: str = ""
    covering: str = ""
    qos: str = ""  # lines of the table [qos]
    tls: str = ""  # lines of the table [tls]
    files_max: int = 0

    @property
    def brokers(self) -> list[str]:
        return [f"{'abcdefgh'[region]},{c}" for c in range(self.clusters) for region in range(self.regions)]


class World:
    """Processes, files, ports and proxies of one scenario."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self.folder = folder
        self.host = own_host()
        self._ports = free_ports(self.host)
        self.brokers = setup.brokers
        self.ports = {broker: next(self._ports) for broker in self.brokers}
        # HTTP ports count up from one number in the overlay's order, which `serve` tells when it has started.
        self.http_port = consecutive(self.host, len(self.brokers), self._ports)
        self.http: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.links: dict[tuple[str, str], list[Proxy]] = {}
        self.doors: dict[str, Proxy] = {}

    # -- starting and ending

    async def start(self) -> None:
        for one, other in self.setup.proxied:
            made = []
            for dialled in (one, other):
                proxy = Proxy(self.host, next(self._ports), self.host, self.ports[dialled])
                await proxy.start()
                made.append(proxy)
            self.links[one, other] = made
        self.file = self._write("overlay", None)
        await asyncio.gather(*(self.start_broker(broker) for broker in self.brokers if broker not in self.setup.absent))
        await self.links_up()
        await self._compiled()

    async def _compiled(self) -> None:
        """Wait until brokers have the engine that they keep: loading it takes a second of a processor each."""
        async with asyncio.timeout(START_S_MAX):
            while not all("in use" in self.log_of(broker) for broker in self.processes):
                await asyncio.sleep(0.1)

    async def start_broker(self, broker: str) -> None:
        file = self._write(broker.replace(",", "-"), broker)
        log = (self.folder / f"{broker.replace(',', '-')}.log").open("a")
        process = subprocess.Popen(  # noqa: S603 - the product's own command
            [*versions.OCTOPIA, "serve", str(file), "--broker", broker, "--log", "info"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,
            preexec_fn=lambda: prepare_child(files_max=self.setup.files_max),
        )
        log.close()
        self.processes[broker] = process
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), START_S_MAX)
        except TimeoutError:
            process.kill()
            raise ServeRefusedError(f"({broker}) did not listen within {START_S_MAX:.0f} s") from None
        if not line.startswith(f"({broker})"):
            await asyncio.to_thread(process.wait, 5)
            said = self.log_of(broker).strip().splitlines() or [line]
            raise ServeRefusedError(said[-1].removeprefix("octopia: ").replace(f"{self.folder}/", ""))
        found = re.search(r"http://([^/\s]+)", line)
        self.http[broker] = found.group(1) if found else ""

    async def close(self) -> None:
        for process in self.processes.values():
            end(process)
        for proxy in [*(p for pair in self.links.values() for p in pair), *self.doors.values()]:
            await proxy.close()

    def log_of(self, broker: str) -> str:
        file = self.folder / f"{broker.replace(',', '-')}.log"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    # -- faults

    def signal(self, broker: str, number: signal.Signals) -> None:
        self.processes[broker].send_signal(number)

    async def kill(self, broker: str) -> None:
        await asyncio.to_thread(end, self.processes[broker])

    async def restart(self, broker: str, *, pause_s: float = 0.0) -> float:
        """SIGTERM, wait for the end, start, wait for the links: as docs/across-machines.md says.

        Before the start it pauses, as a slow machine would. Returns for how long the broker took no clients.
        """
        process, start = self.processes[broker], time.monotonic()
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 15)
        except subprocess.TimeoutExpired:
            await self.kill(broker)
        await asyncio.sleep(pause_s)
        await self.start_broker(broker)
        away_s = time.monotonic() - start
        await self.links_up(broker)
        return away_s

    def link(self, one: str, other: str) -> list[Proxy]:
        return self.links.get((one, other)) or self.links[other, one]

    async def door(self, broker: str) -> Proxy:
        """A proxy between clients and a broker."""
        if broker not in self.doors:
            self.doors[broker] = Proxy(self.host, next(self._ports), self.host, self.ports[broker])
            await self.doors[broker].start()
        return self.doors[broker]

    # -- asking

    def url(self, *brokers: str) -> str:
        return ",".join(f"octopia://{self.host}:{self.ports[broker]}" for broker in brokers)

    async def health(self, broker: str, timeout_s: float = 2.0) -> dict[str, Any] | None:
        return await asyncio.to_thread(_get_json, f"http://{self.http[broker]}/healthz", timeout_s)

    async def metric(self, broker: str, name: str, **labels: str) -> float:
        """A sample of /metrics; 0 if it is missing."""
        url = f"http://{self.http[broker]}/metrics"
        text = (await asyncio.to_thread(_get, url, 5.0)) or b""
        for line in text.decode().splitlines():
            if line.startswith(f"{name}{{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    async def links_up(self, *brokers: str) -> None:
        """Wait until these brokers, or all that run, report their links to running brokers up."""
        async with asyncio.timeout(START_S_MAX):
            while not await self._all_up(brokers):
                await asyncio.sleep(0.1)

    async def _all_up(self, brokers: Sequence[str]) -> bool:
        runs = {b for b, process in self.processes.items() if process.poll() is None}
        states = await asyncio.gather(*(self.health(broker) for broker in brokers or runs))
        return all(
            state is not None and all(link["up"] for link in state["links"] if link["neighbour"].strip("()") in runs)
            for state in states
        )

    def memory(self, broker: str) -> int:
        return int(psutil.Process(self.processes[broker].pid).memory_info().rss)

    def files(self, broker: str) -> int:
        return int(psutil.Process(self.processes[broker].pid).num_fds())

    def cpu_s(self, broker: str) -> float:
        times = psutil.Process(self.processes[broker].pid).cpu_times()
        return float(times.user + times.system)

    # -- files

    def _write(self, name: str, own: str | None) -> Path:
        addresses = {broker: self.ports[broker] for broker in self.brokers}
        for (one, other), (to_one, to_other) in self.links.items():
            if own == one:
                addresses[other] = to_other.port
            elif own == other:
                addresses[one] = to_one.port
        lines = ", ".join(f'"{broker}" = "{self.host}:{port}"' for broker, port in addresses.items())
        limits = "".join(versions.limit_line(key, value) for key, value in self.setup.limits)
        links = f'[links]\ntoken = "{self.setup.link_token}"\n' if self.setup.link_token else ""
        tls = f"[tls]\n{self.setup.tls}" if self.setup.tls else ""
        routing = f'[routing]\nname = "{self.setup.routing}"\n' if self.setup.routing else ""
        if self.setup.covering:
            routing += f'covering = "{self.setup.covering}"\n'
        qos = f"[qos]\n{self.setup.qos}" if self.setup.qos else ""
        file = self.folder / f"{name}.toml"
        file.write_text(
            f'[overlay]\nname = "trial"\ntree = "path:{self.setup.regions}"\nclusters = {self.setup.clusters}\n'
            f'[brokers]\nhost = "{self.host}"\nhttp_port = {self.http_port}\naddresses = {{ {lines} }}\n'
            f"{routing}[limits]\n{limits}{links}{tls}{qos}" + "".join(entry.text() for entry in self.setup.clients),
            encoding="utf-8",
        )
        return file


def own_host() -> str:
    """A loopback address for this process: its number, written as an address."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536 % 250}.{pid // 256 % 256}.{pid % 256 or 1}"


def free_ports(host: str) -> Iterator[int]:
    """Free ports, each once."""
    for port in range(FIRST_PORT, LAST_PORT):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            yield port


def consecutive(host: str, count: int, ports: Iterator[int]) -> int:
    """The first of `count` consecutive free ports."""
    run = [next(ports)]
    while len(run) < count:
        port = next(ports)
        run = [*run, port] if port == run[-1] + 1 else [port]
    return run[0]


def end(process: subprocess.Popen[str]) -> None:
    """Kill and wait; again does nothing."""
    if process.poll() is None:
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def prepare_child(*, files_max: int = 0, nice: int = 0) -> None:
    """In a child: die with the parent, limit open files, lower the priority."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(nice)
    if files_max:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))


def _get(url: str, timeout_s: float) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - our own broker
            body: bytes = answer.read()
            return body
    except (OSError, ValueError, urllib.error.URLError):
        return None


def _get_json(url: str, timeout_s: float) -> dict[str, Any] | None:
    body = _get(url, timeout_s)
    try:
        state: dict[str, Any] | None = json.loads(body) if body else None
    except ValueError:
        return None
    return state
