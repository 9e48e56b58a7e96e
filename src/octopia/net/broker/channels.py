"""All connections of one broker: how they are created, and their timeouts.

Every connection is in this table from start to end. A fault ends only its own connection, and is counted and logged
here. A silent neighbour is given up soon, since its link can be resumed without loss; a silent client gets more time,
since its program may be busy. A tick looks only at connections that have something to confirm, an incomplete frame, or
output that the socket does not take; it adds up their memory. Signs of life are checked for each in turn.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.channel import SILENT_HEARTBEATS, Channel, End, Heartbeats
from octopia.net.limits import NetLimits
from octopia.wire import ROLE_BROKER, Codec, Connection, Side

# Requests of one read handled per loop iteration: some 5 ms of work with tables of usual size.
SLICE_MAX = 32
# How often signs of life of neighbours are checked; ticks are more frequent.
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
        # those that a tick has something to do for: a tick costs nothing for idle connections
        self._busy: dict[Channel, None] = {}
        soon_s, late_s = limits.link_heartbeat_s, limits.heartbeat_s
        self._of_neighbours = Heartbeats(LOOK_S, soon_s, (DETOUR_HEARTBEATS if detours else SILENT_HEARTBEATS) * soon_s)
        # Ours are given at each check, as often as clients expect.
        self._of_clients = Heartbeats(limits.client_sign_s, late_s, SILENT_HEARTBEATS * late_s, tells=True)
        # when to look at each for signs of life, in order: neighbours, and all others
        self._neighbours: deque[tuple[float, Channel]] = deque()
        self._clients: deque[tuple[float, Channel]] = deque()
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
        connection = Connection(side, self._codec)
        limits = self._limits
        handshake_s = handshake_s or limits.handshake_s
        channel = Channel(
            connection, end, self._loop, handshake_s=handshake_s, stall_s=limits.stall_s, slice_max=SLICE_MAX
        )
        channel.ledger = self._busy
        return channel

    def add(self, channel: Channel) -> None:
        self._all[channel] = None
        self._clients.append((self._checked_s, channel))

    def remove(self, channel: Channel) -> None:
        self._all.pop(channel, None)
        self._busy.pop(channel, None)

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
        busy = list(self._busy)
        self._busy.clear()
        for channel in busy:
            if channel.check(passed_s, self._limits.frame_s):
                self._busy[channel] = None
            self.kept_bytes += channel.unsent_bytes + channel.unfinished_bytes
            if channel.unfinished_bytes and channel.role != ROLE_BROKER:
                unfinished.append(channel)
        self._look(now, self._neighbours, self._of_neighbours)
        self._look(now, self._clients, self._of_clients)

    def _look(self, now: float, due: deque[tuple[float, Channel]], life: Heartbeats) -> None:
        """Check the signs of life of connections that are due."""
        while due and due[0][0] <= now:
            _, channel = due.popleft()
            if channel not in self._all:
                continue
            if channel.role == ROLE_BROKER and due is self._clients:
                self._neighbours.appendleft((now, channel))
                continue
            channel.check_life(now, life)
            due.append((now + life.every_s, channel))

    def part(self, code: str, reason: str) -> None:
        """Send a goodbye with the reason to all peers, which then close."""
        for channel in self:
            channel.part(code, reason)

    def abort(self) -> None:
        for channel in self:
            channel.abort()
