"""Bounds of the live overlay: queues, connections, times.

Rules of this file: every queue, table and wait of `octopia.net` has its bound here, the unit last in the name, and says
what happens there. The bounds of frames are `octopia.wire.WireLimits`, those of tables `octopia.routing.Limits`.
"""

from dataclasses import dataclass, fields

from octopia.errors import InputError


@dataclass(frozen=True, slots=True)
class NetLimits:
    """What one broker allows."""

    # Connections of clients; one more is told so and closed. The share that is reserved is for clients of the
    # configuration and for those that come back to their session. Neighbours are always let in, one connection each.
    connections_max: int = 10_000
    connections_reserved_percent: int = 10
    # Connections that have not said who they are yet, TLS handshakes included; from one address, unless it is loopback,
    # at most a quarter. One more, and the oldest of them is closed.
    handshakes_max: int = 256
    # Connections to the HTTP port; one more, and the oldest is closed.
    http_connections_max: int = 64
    # Memory for everything that peers make a broker keep: queues, what the sockets have not taken, unfinished frames,
    # what waits for its order. What goes first, and what never does: `octopia.net.broker.memory`.
    memory_bytes_max: int = 512 * 1024 * 1024
    # Of that, queues of all clients that are away; then the oldest deliveries of the largest queues are dropped.
    away_bytes_max: int = 64 * 1024 * 1024
    # Of that, frames that are not complete; then the connection that has waited longest for the rest is closed.
    unfinished_bytes_max: int = 32 * 1024 * 1024
    # A peer whose frame is not complete within this time is closed.
    frame_s: float = 10.0
    # Frames that may be sent to a peer and not be confirmed by it (and at most 4 MiB of them); more wait in its queue.
    # Peers confirm every 512 frames, so a smaller window slows them down.
    window_frames: int = 4096
    # Frames, and bytes, that wait for a client; then the subscription's policy decides. With policy `block` its
    # publishers pause at half of it; what is under way has room up to twice as much, then the newest are dropped.
    client_queue_frames_max: int = 10_000
    client_queue_bytes_max: int = 16 * 1024 * 1024
    # A subscriber that makes publishers pause must confirm so many frames a second, or 1 KiB for each. It may be slower
    # for `block_s`; then it drops the oldest instead, for `block_again_s`, and until its queue was empty.
    block_frames_per_s_min: int = 1000
    block_s: float = 0.15
    block_again_s: float = 10.0
    # The same towards a neighbour; then whoever brings more is not read from until half of it is gone. Long before, the
    # publishers of what goes there pause (`broker/marks.py`).
    link_queue_frames_max: int = 50_000
    link_queue_bytes_max: int = 64 * 1024 * 1024
    # A peer that has not said who it is within this time is told so and closed.
    handshake_s: float = 5.0
    # A client is asked for a sign of life this often, and closed after three times as long without one. Its event loop
    # may be busy with the user's own work.
    heartbeat_s: float = 10.0
    # The same for neighbours; and a client to which nothing was written for so long gets a sign of life, so that it
    # notices as soon when we are gone.
    link_heartbeat_s: float = 0.7
    # The longest time that a session outlives its connection. Clients may ask for less.
    session_s_max: float = 300.0
    # A neighbour that returns within this time finds its link as it was; after it the link counts as down.
    link_grace_s: float = 5.0
    # The same where the routing has ways around and repeats what was lost (`fdr`): it need not wait for long.
    detour_grace_s: float = 0.2
    # The same for a neighbour that said that it restarts: nothing is lost meanwhile. What it was not sent waits, and
    # sources of more are held at the bound of the queue.
    restart_grace_s: float = 30.0
    # A neighbour that has not come, or not come back, within this time is not waited for any longer.
    link_give_up_s: float = 15.0
    # A queue that makes publishers pause, and of which nothing leaves for so long, is given up: the client is
    # disconnected, the link reset.
    stall_s: float = 30.0
    # Order of a publisher's notifications: the longest wait for one that went another way, and how many wait.
    reorder_hold_s: float = 0.25
    reorder_notifications_max: int = 10_000
    reorder_bytes_max: int = 64 * 1024 * 1024
    # Time to write what is queued before a broker that was told to stop does stop. What is left then is saved, where
    # the broker has a place for it, and lost where it has none.
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wants_int = not field.name.endswith(("_s", "_s_max"))
            right = type(value) is int if wants_int else type(value) in (int, float)
            if not right or not value > 0 or value > 2**40:
                what = "a whole number" if wants_int else "a number of seconds"
                raise InputError(f"{field.name} is {value!r}: {what} above 0 is needed")

    def files(self, links: int) -> int:
        """How many files a broker with so many links may have open at a time."""
        # A link that is dialled anew may have two connections for a moment. There are two ports to listen at.
        return self.connections_max + self.handshakes_max + self.http_connections_max + 2 * links + 2
