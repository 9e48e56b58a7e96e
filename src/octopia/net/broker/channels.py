"""All connections of one broker: how they are created, and their timeouts.

Every connection is in this table from start to end. A fault ends only its own connection, and is counted and logged
here. A silent neighbour is given up soon, since its link can be resumed without loss; a silent client gets more time,
since its program may be busy. The memory of connections is added up at each tick, in the loop that visits all of them
anyway.
"""

import asyncio
from collections.abc import Iterator, Sequence

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.channel import SILENT_HEARTBEATS, Channel, End, Life
from octopia.net.limits import NetLimits
from octopia.wire import ROLE_BROKER, Codec, Connection, Side

# Requests of one read handled per loop iteration: some 5 ms of work with tables of usual size.
SLICE_MAX = 32
# How often signs of life are checked; ticks are more frequent.
LOOK_S = 0.1
# With detours, a neighbour that is silent for this many heartbeats is gone: a false alarm costs only a detour, and
# everything waits for the decision.
DETOUR_HEARTBEATS = 2.5
# The longest time that counts between two ticks.
TICK_S_MAX = 0.1


class Channels:
    """All connections, identified or not."""

    def __init__(
        self,
        codec: Codec,
        limits: NetLimits,
        loop: asyncio.AbstractEventLoop,
        counters: Counters,
        log: Log,
        *,
        detours: bool = False,
    ) -> None:
        self._codec = codec
        self._limits = limits
        self._loop = loop
        self._counters = counters
        self._log = log
        self._all: dict[Channel, None] = {}
        self._looked_s = loop.time()
        soon_s, late_s = limits.link_heartbeat_s, limits.heartbeat_s
        self._neighbours = Life(LOOK_S, soon_s, (DETOUR_HEARTBEATS if detours else SILENT_HEARTBEATS) * soon_s)
        self._clients = Life(LOOK_S, late_s, SILENT_HEARTBEATS * late_s, tell_s=soon_s)
        self._checked_s = loop.time()
        # At the last tick: bytes not taken by sockets, bytes of incomplete frames, and the owners of these frames
        # except neighbours.
        self.kept_bytes = 0
        self.unfinished: Sequence[Channel] = ()

    def __iter__(self) -> Iterator[Channel]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def make(self, side: Side, end: End, handshake_s: float | None = None) -> Channel:
        """Create a channel for a new connection."""
        connection = Connection(side, self._codec, joins=True)
        limits = self._limits
        handshake_s = handshake_s or limits.handshake_s
        return Channel(
            connection, end, self._loop, handshake_s=handshake_s, stall_s=limits.stall_s, slice_max=SLICE_MAX
        )

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
        """Confirm received frames, check signs of life, and add up memory."""
        # If this tick is late, the rest of a frame may have arrived without being read yet.
        passed_s, self._checked_s = min(now - self._checked_s, TICK_S_MAX), now
        self.kept_bytes = 0
        unfinished: list[Channel] = []
        self.unfinished = unfinished
        for channel in self:
            channel.confirm()
            self.kept_bytes += channel.unsent_bytes
            if channel.unfinished_bytes:
                channel.check_frame(passed_s, self._limits.frame_s)
                self.kept_bytes += channel.unfinished_bytes
                if channel.role != ROLE_BROKER:
                    unfinished.append(channel)
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            for channel in self:
                channel.check_life(now, self._neighbours if channel.role == ROLE_BROKER else self._clients)

    def part(self, code: str, reason: str) -> None:
        """Send a goodbye with the reason to all peers, which then close."""
        for channel in self:
            channel.part(code, reason)

    def abort(self) -> None:
        for channel in self:
            channel.abort()
