"""The connections of one broker, of whatever kind: how they are made, and what time does to them.

Rules of this file: every connection is in here from the moment it is made to the moment it is gone. A fault ends the
connection that met it, and is counted and logged here. A silent neighbour is given up soon, since its link can be taken
up again without loss; a silent client is given more time, since its program may be busy.
"""

import asyncio
from collections.abc import Iterator

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.channel import SILENT_HEARTBEATS, Channel, End, Life
from octopia.net.limits import NetLimits
from octopia.wire import ROLE_BROKER, Codec, Connection, Side

# How often signs of life are looked for; ticks are more frequent.
LOOK_S = 0.1


class Channels:
    """Who is connected, known or not."""

    def __init__(
        self, codec: Codec, limits: NetLimits, loop: asyncio.AbstractEventLoop, counters: Counters, log: Log
    ) -> None:
        self._codec = codec
        self._limits = limits
        self.connections_max = limits.connections_max
        self._loop = loop
        self._counters = counters
        self._log = log
        self._all: dict[Channel, None] = {}
        self._looked_s = loop.time()
        soon_s, late_s = limits.link_heartbeat_s, limits.heartbeat_s
        self._neighbours = Life(LOOK_S, soon_s, SILENT_HEARTBEATS * soon_s)
        self._clients = Life(LOOK_S, late_s, SILENT_HEARTBEATS * late_s, tell_s=soon_s)

    def __iter__(self) -> Iterator[Channel]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    @property
    def are_too_many(self) -> bool:
        return len(self._all) > self.connections_max

    def make(self, side: Side, end: End, handshake_s: float | None = None) -> Channel:
        """A channel for a connection that is about to be made."""
        connection = Connection(side, self._codec, joins=True)
        return Channel(connection, end, self._loop, handshake_s=handshake_s or self._limits.handshake_s)

    def add(self, channel: Channel) -> None:
        self._all[channel] = None

    def remove(self, channel: Channel) -> None:
        self._all.pop(channel, None)

    def at_fault(self, channel: Channel, error: Exception) -> None:
        """A channel was closed because of this error."""
        if isinstance(error, RefusedError | RemoteProtocolError):
            self._counters.peers_at_fault += 1
            self._log.warning("peer at fault", peer=channel.name, reason=str(error))
        else:
            self._counters.faults += 1
            self._log.fault("fault in the broker", error, peer=channel.name)

    def check_time(self, now: float) -> None:
        """Confirm what has come, and look for signs of life."""
        for channel in self:
            channel.confirm()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            for channel in self:
                channel.check_life(now, self._neighbours if channel.role == ROLE_BROKER else self._clients)

    def part(self, code: str, reason: str) -> None:
        """Say why to everyone, who then closes."""
        for channel in self:
            channel.part(code, reason)

    def abort(self) -> None:
        for channel in self:
            channel.abort()
