"""Bounds of the live overlay: queues, connections, times.

Every queue, table and wait of `octopia.net` has its bound here, with the unit at the end of its name and a comment on
the policy at the bound. The bounds of frames are `octopia.wire.WireLimits`, those of tables `octopia.routing.Limits`.
"""

from dataclasses import dataclass, fields

from octopia.errors import InputError

# For thousands of idle clients, signs of life are most of what a broker does: 10 µs each.
CLIENT_HEARTBEATS = 1.5


@dataclass(frozen=True, slots=True)
class NetLimits:
    """The bounds of one broker."""

    # Client connections; one more is told so and closed. The reserved share is for clients of the configuration and for
    # those that return to their session. Neighbours are always accepted, one connection each.
    connections_max: int = 10_000
    connections_reserved_percent: int = 10
    # Connections that have not identified themselves yet, TLS handshakes included; at most a quarter of them from one
    # address other than loopback. One more, and the oldest of them is closed.
    handshakes_max: int = 256
    # Connections to the HTTP port; one more, and the oldest is closed.
    http_connections_max: int = 64
    # Memory for everything that peers make a broker keep: queues, unsent output, incomplete frames, notifications that
    # wait for their order. `octopia.net.broker.memory` decides what is dropped first, and what never is.
    memory_bytes_max: int = 512 * 1024 * 1024
    # Share of it for the queues of absent clients; beyond it, the oldest deliveries of the largest queues are dropped.
    away_bytes_max: int = 64 * 1024 * 1024
    # Share of it for incomplete frames; beyond it, the connection that has waited longest for the rest is closed.
    unfinished_bytes_max: int = 32 * 1024 * 1024
    # A peer that does not complete a frame within this time is closed.
    frame_s: float = 10.0
    # Unconfirmed frames in flight to a peer (and at most 4 MiB of them); more wait in its queue.
    # Peers confirm every 512 frames, so a smaller window slows them down.
    window_frames: int = 4096
    # Frames and bytes waiting for a client; beyond them, the subscription's policy decides. With policy `block`, its
    # publishers pause at half of it; those in flight have room up to twice as much, then the newest are dropped.
    client_queue_frames_max: int = 10_000
    client_queue_bytes_max: int = 16 * 1024 * 1024
    # A subscriber that makes publishers pause must confirm this many frames per second, or 1 KiB for each. It may be
    # slower for `block_s`; then it drops the oldest instead, for `block_again_s` and until its queue has been empty.
    block_frames_per_s_min: int = 1000
    block_s: float = 0.15
    block_again_s: float = 10.0
    # The same towards a neighbour; beyond it, sources of more are not read from until half of it is gone. Long before
    # that, publishers whose notifications go there pause (`broker/marks.py`).
    link_queue_frames_max: int = 50_000
    link_queue_bytes_max: int = 64 * 1024 * 1024
    # A peer that has not identified itself within this time is told so and closed.
    handshake_s: float = 5.0
    # A client is asked for a sign of life this often, and closed after three times as long without one. Its event loop
    # may be busy with the user's own work.
    heartbeat_s: float = 10.0
    # The same for neighbours. Clients get a sign of life every `CLIENT_HEARTBEATS` of these, and take a broker for gone
    # after three times as long without one.
    link_heartbeat_s: float = 0.7
    # The longest time a session outlives its connection. Clients may ask for less.
    session_s_max: float = 300.0
    # A neighbour that returns within this time finds its link as it was; after it the link counts as down.
    link_grace_s: float = 5.0
    # The same for routing that has detours and repeats lost messages (`fdr`): it need not wait long.
    detour_grace_s: float = 0.2
    # The same for a neighbour that announced a restart: nothing is lost meanwhile. Unsent frames wait, and sources of
    # more are held at the bound of the queue. Clients whose queue a restarting broker saved wait for it as long.
    restart_grace_s: float = 30.0
    # How long to wait for a neighbour to connect or reconnect.
    link_give_up_s: float = 15.0
    # A queue that makes publishers pause and does not shrink for this long is given up: the client is disconnected, the
    # link reset.
    stall_s: float = 30.0
    # How long a broker must be overloaded before it says so, and how often it then asks some of its clients to move to
    # another (`broker/load.py`).
    overload_s: float = 5.0
    # Order of a publisher's notifications: the longest wait for one on another path, and how many may wait.
    reorder_hold_s: float = 0.25
    reorder_notifications_max: int = 10_000
    reorder_bytes_max: int = 64 * 1024 * 1024
    # How long a stopping broker writes its queues. The rest is saved if the broker has a state directory, and lost
    # otherwise.
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wants_int = not field.name.endswith(("_s", "_s_max"))
            right = type(value) is int if wants_int else type(value) in (int, float)
            if not right or not value > 0 or value > 2**40:
                what = "a whole number" if wants_int else "a number of seconds"
                raise InputError(f"{field.name} is {value!r}: {what} above 0 is needed")

    @property
    def client_sign_s(self) -> float:
        """How often a client gets a sign of life."""
        return CLIENT_HEARTBEATS * self.link_heartbeat_s

    def files(self, links: int) -> int:
        """The number of files that a broker with `links` links may have open at a time."""
        # A redialled link may briefly have two connections. There are two listening ports.
        return self.connections_max + self.handshakes_max + self.http_connections_max + 2 * links + 2
