"""Brokers under test: one process per broker, as in production, with their CPU time."""

import asyncio
import multiprocessing as mp
import socket
from typing import Any

import psutil  # type: ignore[import-untyped]

from octopia.net import Address, NetLimits, Server
from octopia.topology import BrokerId, Scot, parse_tree

LIMITS = NetLimits(client_queue_frames_max=100_000, client_queue_bytes_max=256 * 1024 * 1024)


def _serve(scot: Scot, addresses: dict[BrokerId, Address], broker: BrokerId, ready: Any, stop: Any) -> None:
    async def main() -> None:
        async with Server(scot, addresses, brokers=[broker], net_limits=LIMITS) as server:
            host = server.hosts[broker]
            while not all(link.is_up for link in host.links.values()):
                await asyncio.sleep(0.01)
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.1)

    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


class Brokers:
    """An overlay of processes on loopback."""

    def __init__(self, tree: str, clusters: int) -> None:
        self.scot = Scot(parse_tree(tree), clusters)
        self.ports = dict(zip(self.scot.brokers, _free_ports(len(self.scot.brokers)), strict=True))
        addresses = {broker: Address("127.0.0.1", port) for broker, port in self.ports.items()}
        self._stop = mp.Event()
        self._ready = [mp.Event() for _ in self.scot.brokers]
        self._processes = [
            mp.Process(target=_serve, args=(self.scot, addresses, broker, ready, self._stop), daemon=True)
            for broker, ready in zip(self.scot.brokers, self._ready, strict=True)
        ]
        for process in self._processes:
            process.start()
        for ready in self._ready:
            if not ready.wait(60):
                raise RuntimeError("the brokers did not come up")

    def cpu_s(self) -> float:
        """CPU seconds of all brokers so far."""
        times = [psutil.Process(process.pid).cpu_times() for process in self._processes]
        return float(sum(t.user + t.system for t in times))

    def close(self) -> None:
        self._stop.set()
        for process in self._processes:
            process.join(5)
            process.terminate()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
