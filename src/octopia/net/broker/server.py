"""Listening brokers: sockets, ticks, start and stop, for one or many brokers in one process.

All brokers of a process share one event loop and one turn, so that their writes are joined; each has its own tick. A
start is complete when every broker listens; links come up by themselves.

A stop drains, for at most `drain_s`. No new peers are admitted, publishers get confirmations for everything accepted
and nothing more is accepted, neighbours are asked to send nothing more, and everything in flight is routed and written
until all connected peers have confirmed it. Then all peers are told, and closed. With a `state` directory, a stop is
one half of a restart: sessions and their queues are saved there, and the next start resumes them before it admits any
peer.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from octopia.errors import InputError
from octopia.net.addresses import Address
from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.compiling import Compiling, is_compiled, load, load_what_was_compiled
from octopia.net.broker.config import ServeConfig
from octopia.net.broker.descriptors import places_that_fit, raise_files_limit
from octopia.net.broker.host import BrokerHost
from octopia.net.broker.links import RESTART, SHUTDOWN
from octopia.net.broker.listener import Listener
from octopia.net.broker.live_recording import FLUSH_S, FactFiles, LiveRecording, RecordOptions
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.http import Exhibits, HttpPeer
from octopia.net.broker.operations.overlay_report import overlay_report
from octopia.net.broker.recorder import Recorder
from octopia.net.broker.saved import BYTES_MAX, Place, Room, take
from octopia.net.frame_queue import Turn
from octopia.net.limits import NetLimits
from octopia.routing import DEFAULT_ROUTING, CongestionParameters
from octopia.topology import BrokerId, Scot, Sites

# Code that is loaded and not compiled takes less, even on a busy machine.
COMPILING_AFTER_S = 5.0
# Disk space reserved for a restart beyond what a broker would save now, to which a quarter is added.
ROOM_BYTES = 1024 * 1024


class Server:
    """Some brokers of an overlay, running in this process. `async with Server(...)` starts and stops them."""

    def __init__(
        self,
        overlay: Scot,
        addresses: Mapping[BrokerId, Address],
        *,
        brokers: Iterable[BrokerId] | None = None,
        http: Mapping[BrokerId, Address] | None = None,
        http_token: str = "",
        name: str = "",
        tls: Callable[[BrokerId], tuple[ssl.SSLContext, ssl.SSLContext]] | None = None,
        state: Path | None = None,
        recordings: Mapping[BrokerId, Recorder] | None = None,
        record: RecordOptions | None = None,
        sites: Sites | None = None,
        compiled: bool | None = None,
        **options: Any,
    ) -> None:
        """`recordings` are those of an experiment; `record` says where to write facts for watching.

        `compiled`: whether to wait for compiled code before listening, or to do without; None: use it when it is ready.
        """
        self.overlay = overlay
        self.addresses = dict(addresses)
        self.brokers = tuple(overlay.brokers if brokers is None else brokers)
        self.http = dict(http or {})
        self._http_token = http_token
        self._name = name
        self._tls = tls
        self._state = state
        self._recordings: dict[BrokerId, Recorder] = dict(recordings or {})
        self._facts = None if record is None else FactFiles(record)
        if record is not None and self._facts is not None:
            for id in self.brokers:
                neighbours = overlay.a_links(id) + overlay.i_links(id)
                self._recordings[id] = LiveRecording(id, neighbours, self._facts, record.share)
            self._write_overlay(record.folder, sites, options)
            # this clock gives the times of facts
            options["now"] = time.monotonic
        self._options = options
        self.hosts: dict[BrokerId, BrokerHost] = {}
        self._servers: list[Listener] = []
        self._tickers: dict[BrokerId, asyncio.TimerHandle] = {}
        self._flusher: asyncio.TimerHandle | None = None
        self._stopped = False
        self._rooms: dict[BrokerId, Room] = {}  # disk space for a restart that has begun
        self._compiled = compiled
        self._compiling = Compiling(self._use_compiled)

    @classmethod
    def of(
        cls,
        config: ServeConfig,
        brokers: Iterable[BrokerId] | None = None,
        state: Path | None = None,
        record: RecordOptions | None = None,
    ) -> Self:
        """The brokers of a configuration, all or some."""
        return cls(
            config.scot,
            config.addresses,
            brokers=brokers,
            http=config.http,
            http_token=config.http_token,
            name=config.name,
            tls=None if config.tls is None else config.tls.contexts,
            state=state,
            record=record,
            sites=config.sites,
            routing=config.routing,
            congestion=config.congestion,
            limits=config.limits,
            covering=config.covering,
            wire_limits=config.wire_limits,
            net_limits=config.net_limits,
            authority=config.authority,
            qos=config.qos,
            alias_token=config.alias_token,
        )

    def _write_overlay(self, folder: Path, sites: Sites | None, options: Mapping[str, Any]) -> None:
        """Describe the overlay next to its facts."""
        # brokers that record nothing need no Arrow
        from octopia.trace import RecordedOverlay, write_overlay

        tree, congestion = self.overlay.tree, options.get("congestion") or CongestionParameters()
        routing, covering = options.get("routing", DEFAULT_ROUTING), options.get("covering", "none")
        shape = (self._name, tree.nodes, tree.edges, self.overlay.clusters)
        write_overlay(folder, RecordedOverlay(*shape, routing, covering, congestion.tau, congestion.window_s, sites))

    async def start(self) -> None:
        """Resume the saved state, listen, then dial neighbours."""
        await self.listen()
        self.meet()

    async def listen(self) -> None:
        """Resume the saved state, and listen. A port 0 is replaced by the one that the system chose."""
        if self._compiled and (failed := await asyncio.to_thread(load)):
            raise InputError(f"compiled code cannot be used: {failed}")
        loop = asyncio.get_running_loop()
        turn = Turn(loop)
        files = raise_files_limit()
        for id in self.brokers:
            listen, dial = self._tls(id) if self._tls is not None else (None, None)
            host = BrokerHost(
                id,
                self.overlay,
                name=self._name,
                turn=turn,
                tls_dial=dial,
                recorder=self._recordings.get(id),
                compiled=is_compiled() and self._compiled is not False,
                **self._options,
            )
            self.hosts[id] = host
            address = self.addresses[id]
            server = await Listener.bind(
                address.host,
                address.port,
                host.door.accept,
                host.door.arrivals,
                partial(_count, host.counters, "handshakes_crowded_out"),
                host.log,
                tls=listen,
                handshake_s=host.net_limits.handshake_s,
            )
            self._servers.append(server)
            self.addresses[id] = Address(address.host, server.port)
            self._fit(host, files)
            if await self._restore(host) and self._compiled is None and not is_compiled():
                await asyncio.to_thread(load_what_was_compiled)
                if is_compiled():
                    self._use_compiled()
            server.start()
            await self._start_http(host, files)
        if self._compiled is None and not is_compiled():
            self._compiling.start()

    def _use_compiled(self) -> None:
        for host in self.hosts.values():
            host.use_compiled()

    def meet(self, addresses: Mapping[BrokerId, Address] | None = None) -> None:
        """Dial neighbours; `addresses` are those whose ports were not known before."""
        self.addresses |= addresses or {}
        for host in self.hosts.values():
            host.start(self.addresses)
            self._tick(host)
        if self._facts is not None:
            self._flush_facts()

    def _place(self, host: BrokerHost) -> Place | None:
        if self._state is None or not host.can_restart:
            return None
        return Place(self._state, host.overlay_identity, host.id, self.addresses[host.id])

    async def _restore(self, host: BrokerHost) -> bool:
        """Resume the saved state; returns whether there was any."""
        place = self._place(host)
        if place is None:
            return False
        try:
            saved = await asyncio.to_thread(take, place, time.time(), host.net_limits.session_s_max)
        except InputError as error:
            host.log.warning("saved state not used", reason=str(error))
            return False
        if saved is not None:
            host.restore(saved)
            host.log.info("sessions restored", sessions=len(saved.sessions))
        return saved is not None

    async def _start_http(self, host: BrokerHost, files: int) -> None:
        address = self.http.get(host.id)
        if address is None:
            return
        places = places_that_fit(files, len(self.brokers), host.net_limits, len(host.links)).http
        arrivals: Arrivals[HttpPeer] = Arrivals(places, places)
        shown = Exhibits(host.report, host.traces, host.log.events, host.pages, self._overlay, len(self.brokers))
        server = await Listener.bind(
            address.host,
            address.port,
            lambda: HttpPeer(shown, self._http_token, host.door.failures, arrivals.remove),
            arrivals,
            partial(_count, host.counters, "http_crowded_out"),
            host.log,
        )
        self._servers.append(server)
        self.http[host.id] = Address(address.host, server.port)
        server.start()

    def _overlay(self) -> bytes:
        """The description of the overlay that every broker gives, so that one address is enough to find all of them."""
        identity = next(iter(self.hosts.values())).overlay_identity
        return overlay_report(
            self._name,
            self.overlay,
            routing=identity.routing,
            digest=identity.digest,
            tls=self._tls is not None,
            addresses={broker: str(at) for broker, at in self.addresses.items()},
            http={broker: str(at) for broker, at in self.http.items() if at.port},
        )

    def _fit(self, host: BrokerHost, files: int) -> None:
        """Accept no more connections than there are file descriptors for, without those of neighbours."""
        wanted = host.door.connections_max
        places = places_that_fit(files, len(self.brokers), host.net_limits, len(host.links))
        host.door.arrivals.limit(places.handshakes)
        fit = places.clients
        if fit < wanted:
            host.door.connections_max = fit
            # The default is more than most need; if it was set explicitly, the message is louder.
            tell = host.log.info if wanted == NetLimits().connections_max else host.log.warning
            tell(
                "connections_max lowered",
                to=fit,
                reason=f"{files} open files are allowed for {len(self.brokers)} brokers in this process",
                fix=f"allow more (ulimit -n, LimitNOFILE), or set connections_max to {fit} or less",
            )

    def _tick(self, host: BrokerHost) -> None:
        # Schedule the next one first: a broker whose tick fails once must still get later ticks.
        self._tickers[host.id] = asyncio.get_running_loop().call_later(host.congestion.window_s / 2, self._tick, host)
        host.tick()

    def _flush_facts(self) -> None:
        """Hand over recorded facts, every few seconds."""
        self._flusher = asyncio.get_running_loop().call_later(FLUSH_S, self._flush_facts)
        self.flush_facts()

    def flush_facts(self) -> None:
        """Write the facts recorded so far, soon."""
        live = [recording for recording in self._recordings.values() if isinstance(recording, LiveRecording)]
        if self._facts is not None:
            self._facts.write_facts([recording.take_part() for recording in live])
        for recording in live:
            recording.flush_registered()

    async def links_up(self) -> None:
        """Wait until every link between brokers of this process is up."""
        while not all(link.is_up for host in self.hosts.values() for n, link in host.links.items() if n in self.hosts):
            await asyncio.sleep(0.005)

    async def can_restart(self) -> bool:
        """Reserve the disk space for a restart, and say whether there is enough. Without it, nothing has changed.

        Without a state directory no space is needed.
        """
        for id, host in self.hosts.items():
            place = self._place(host)
            if place is None or id in self._rooms:
                continue
            # Until everything is drained, some more may come.
            size = host.state_bytes() * 5 // 4 + ROOM_BYTES
            try:
                self._rooms[id] = await asyncio.to_thread(Room, place, min(size, 2 * BYTES_MAX))
            except OSError as error:
                self._release_rooms()
                host.log.warning(
                    "no restart",
                    reason=f"the state, about {size} bytes, cannot be saved in {place.folder}: {error.strerror}",
                    fix="make room there and send SIGTERM again; SIGINT stops for good, and sessions end",
                )
                return False
        return True

    def _release_rooms(self) -> None:
        for room in self._rooms.values():
            room.release()
        self._rooms.clear()

    async def stop(self, *, for_good: bool = False) -> bool:
        """Drain, save the state for the next start, and close; returns whether everything was saved.

        `for_good`, or without a state directory: nothing is to be saved, and sessions end. Calling it again does
        nothing.
        """
        if self._stopped:
            return True
        self._stopped = True
        self._compiling.stop()
        wanted = [id for id, host in self.hosts.items() if not for_good and self._place(host) is not None]
        restarting = wanted if not wanted or await self.can_restart() else []
        await self._drain(restarting)
        for ticker in self._tickers.values():
            ticker.cancel()
        # Until now, peers whose connection broke were told, and neighbours admitted.
        for server in self._servers:
            server.close()
        for host in self.hosts.values():
            host.freeze()
        saved = {id: await self._save(self.hosts[id]) for id in restarting}
        self._release_rooms()
        for id, host in self.hosts.items():
            if saved.get(id) is not None:
                host.channels.part(RESTART, "the broker restarts")
            else:
                host.channels.part(SHUTDOWN, "the broker stops")
        await self._closed()
        self._stop_flushing()
        if self._facts is not None:
            self.flush_facts()
            await asyncio.to_thread(self._facts.close)
        self._servers.clear()
        return all(saved.get(id) == [] for id in wanted)

    def _stop_flushing(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None

    def abort(self) -> None:
        """End at once without notice, as if the process were killed."""
        self._stopped = True
        self._compiling.stop()
        self._stop_flushing()
        for server in self._servers:
            server.close()
        self._servers.clear()
        for ticker in self._tickers.values():
            ticker.cancel()
        for host in self.hosts.values():
            host.freeze()
            host.channels.abort()

    async def _drain(self, restarting: Collection[BrokerId]) -> None:
        hosts = self.hosts.values()
        for host in hosts:
            host.drain(together=self.hosts.keys(), saves=host.id in restarting)
        loop = asyncio.get_running_loop()
        until = loop.time() + max((host.net_limits.drain_s for host in hosts), default=0)
        while loop.time() < until and not all(host.is_drained for host in hosts):
            await asyncio.sleep(0.01)

    async def _save(self, host: BrokerHost) -> list[str] | None:
        """Save the sessions for the next start; returns the names of those that did not fit, or None if it failed."""
        state = host.save()
        try:
            left_out = await asyncio.to_thread(self._rooms.pop(host.id).save, state, time.time())
        except OSError as error:
            host.log.fault("state not saved", error, folder=str(self._state), sessions=len(state.sessions))
            return None
        if left_out:
            host.log.warning("sessions not saved", clients=left_out, reason="there is too much to save")
        return left_out

    async def _closed(self) -> None:
        """Wait for a second until all peers have closed; then close the rest."""
        loop = asyncio.get_running_loop()
        until = loop.time() + 1
        while loop.time() < until and any(len(host.channels) for host in self.hosts.values()):
            await asyncio.sleep(0.005)
        for host in self.hosts.values():
            host.channels.abort()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _count(counters: Counters, name: str) -> None:
    setattr(counters, name, getattr(counters, name) + 1)
