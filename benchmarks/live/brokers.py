"""Brokers under test: one process per broker, as in production, with their CPU time."""

import asyncio
import logging
import multiprocessing as mp
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from octopia.net import Address, NetLimits, Server, collect_garbage_rarely, run_loop
from octopia.topology import BrokerId, Scot, parse_tree

LIMITS = NetLimits(client_queue_frames_max=100_000, client_queue_bytes_max=256 * 1024 * 1024)


def _serve(
    scot: Scot,
    addresses: dict[BrokerId, Address],
    http: dict[BrokerId, Address],
    limits: NetLimits,
    broker: BrokerId,
    ready: Any,
    stop: Any,
) -> None:
    async def main() -> None:
        async with Server(scot, addresses, http=http, brokers=[broker], net_limits=limits, compiled=True) as server:
            host = server.hosts[broker]
            while not all(link.is_up for link in host.links.values()):
                await asyncio.sleep(0.01)
            # as `octopia serve` does
            collect_garbage_rarely()
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.1)

    logging.getLogger("octopia").setLevel(logging.ERROR)
    run_loop(main())


def cpu_s(pid: int) -> float:
    """CPU seconds of a process: to the nanosecond where the kernel tells, otherwise to its hundredth of a second."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)


class Brokers:
    """An overlay of processes on loopback. A detour is a port at which one broker finds another, if not its own."""

    def __init__(
        self,
        tree: str,
        clusters: int,
        detours: Mapping[tuple[BrokerId, BrokerId], int] | None = None,
        limits: NetLimits = LIMITS,
    ) -> None:
        self.scot = Scot(parse_tree(tree), clusters)
        brokers = self.scot.brokers
        ports = free_ports(2 * len(brokers))
        self.ports = dict(zip(brokers, ports, strict=False))
        self.http_ports = dict(zip(brokers, ports[len(brokers) :], strict=True))
        self._detours = dict(detours or {})
        self._stop = mp.Event()
        self._ready = [mp.Event() for _ in brokers]
        self._processes = [
            mp.Process(
                target=_serve,
                args=(self.scot, *self._addresses(broker), limits, broker, ready, self._stop),
                daemon=True,
            )
            for broker, ready in zip(brokers, self._ready, strict=True)
        ]

    def _addresses(self, broker: BrokerId) -> tuple[dict[BrokerId, Address], dict[BrokerId, Address]]:
        """The addresses of the other brokers, and of its HTTP port."""
        found = {other: self._detours.get((broker, other), port) for other, port in self.ports.items()}
        http = {broker: Address("127.0.0.1", self.http_ports[broker])}
        return {other: Address("127.0.0.1", port) for other, port in found.items()}, http

    def start(self) -> "Brokers":
        for process in self._processes:
            process.start()
        for ready in self._ready:
            if not ready.wait(60):
                raise RuntimeError("the brokers did not come up")
        return self

    def cpu_s(self) -> float:
        """CPU seconds of all brokers so far."""
        return sum(self.cpu_s_each())

    def cpu_s_each(self) -> list[float]:
        """CPU seconds of each broker so far, in the overlay's order."""
        return [cpu_s(process.pid) for process in self._processes if process.pid is not None]

    def memory_bytes(self) -> int:
        """Memory of the brokers that no other process shares."""
        return sum(psutil.Process(process.pid).memory_full_info().uss for process in self._processes)

    def close(self) -> None:
        self._stop.set()
        for process in self._processes:
            process.join(5)
            process.terminate()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
