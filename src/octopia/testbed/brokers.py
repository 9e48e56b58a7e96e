"""Brokers of one process that can be killed, and links between them that can be slow or down.

Each broker has a recording, which also gives its links their weather. A broker that may be killed has its own server.
It is killed like a process: its sockets are aborted and all its state is lost, except for its recording. It starts
again at the same address, and the weather decides the state of its links.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from octopia.net import Address, BrokerHost, Recording, Server, Weather
from octopia.topology import BrokerId, Scot

# How often a restarting broker tries to get its port, and the pause in between.
_ATTEMPTS_MAX: Final = 100
_ATTEMPT_S: Final = 0.05


class Brokers:
    """The brokers of this process."""

    def __init__(
        self,
        scot: Scot,
        addresses: Mapping[BrokerId, Address],
        recordings: Mapping[BrokerId, Recording],
        *,
        http: Mapping[BrokerId, Address] | None = None,
        **options: Any,
    ) -> None:
        """`options` apply to every server."""
        self._scot = scot
        self.addresses = dict(addresses)
        self.http = dict(http or {})
        self.recordings = dict(recordings)
        self._options = options
        self._servers: dict[BrokerId, Server] = {}  # by broker; a server may run several brokers

    @property
    def hosts(self) -> dict[BrokerId, BrokerHost]:
        """The brokers that are alive."""
        return {id: host for server in self._each() for id, host in server.hosts.items()}

    def _each(self) -> Iterable[Server]:
        return dict.fromkeys(self._servers.values())

    async def listen(self, brokers: Sequence[BrokerId], *, again: bool = False) -> Server:
        """Start some of them in one server; if they were there a moment ago, as soon as their ports are free."""
        for attempts_left in reversed(range(_ATTEMPTS_MAX if again else 1)):
            server = Server(
                self._scot, self.addresses, brokers=brokers, recordings=self.recordings, http=self.http, **self._options
            )
            try:
                await server.listen()
                break
            except OSError:
                if not attempts_left:
                    raise
                # What it listens at already must be free for the next attempt.
                server.abort()
                await asyncio.sleep(_ATTEMPT_S)
        self._servers |= dict.fromkeys(brokers, server)
        self.addresses |= {id: server.addresses[id] for id in brokers}
        self.http |= {id: address for id, address in server.http.items() if id in server.hosts}
        return server

    def meet(self, addresses: Mapping[BrokerId, Address] | None = None) -> None:
        """Dial neighbours whose addresses were not known before."""
        self.addresses |= addresses or {}
        for server in self._each():
            server.meet(self.addresses)

    def kill(self, id: BrokerId, keep: Callable[[BrokerId, Recording], None] = lambda id, recording: None) -> None:
        """End a broker at once; `keep` gets its recording."""
        server = self._servers.pop(id)
        server.abort()
        dead = self.recordings[id]
        dead.end_life()
        keep(id, dead)
        self.recordings[id] = dead.next_life()

    async def revive(self, id: BrokerId) -> None:
        """Restart a broker that was killed."""
        server = await self.listen([id], again=True)
        server.meet(self.addresses)
        for neighbour in server.hosts[id].links:
            self._obey(id, neighbour)

    def set_weather(self, sender: BrokerId, receiver: BrokerId, weather: Weather) -> None:
        """Set the weather of a link in this direction: slow, delayed, down or normal."""
        recording = self.recordings[sender]
        recording.weather[recording.link(receiver)] = weather
        if sender in self._servers:
            self._obey(sender, receiver)

    def _obey(self, id: BrokerId, neighbour: BrokerId) -> None:
        """Apply the weather to a link. A link that is down has no address to dial."""
        recording, host = self.recordings[id], self._servers[id].hosts[id]
        link, dialler = host.links[neighbour], host.diallers.get(neighbour)
        is_up = recording.weather[recording.link(neighbour)].is_up
        if dialler is not None:
            dialler.address = self.addresses[neighbour] if is_up else None
            if is_up:
                dialler.dial()
        if not is_up and link.channel is not None:
            link.channel.abort()

    def abort(self) -> None:
        """End all of them, without goodbyes."""
        for server in self._each():
            server.abort()
        self._servers.clear()
