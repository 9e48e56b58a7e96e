"""A link to a neighbour: it is dialled by one end, taken up again when it breaks, and counted.

    down ──fresh handshake──▶ up ──connection lost──▶ broken ──resumed in time──▶ up
                                                        └──grace over, or the neighbour restarted──▶ down

Rules of this file: the smaller broker of the two dials, again and again, with growing pauses; so brokers may start in
any order. Each process of a broker has a life, a random number; when both ends still know each other's life and what
they had sent, the link goes on as if nothing had happened: nothing is lost or doubled, and the core is told nothing.
Otherwise the link is fresh: the core is told that it went down and came up, and brings the tables in line. What waits
for a link that is down are notifications that were never sent, up to the bound; more are dropped and counted.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import Address
from octopia.net.link_proof import ACCEPTOR, DIALLER, is_proof, new_nonce, proof_of
from octopia.net.outbox import Outbox
from octopia.net.pauses import Pauses
from octopia.net.peer import Peer
from octopia.routing import NOTIFICATION_MESSAGES, Message, Received, ReceivedMany
from octopia.topology import BrokerId
from octopia.wire import (
    ROLE_BROKER,
    VERSION,
    Barrier,
    BarrierDone,
    Challenge,
    CopyHeader,
    Hello,
    Kind,
    Parcels,
    Proof,
    Side,
    Welcome,
    link_frames,
    message_frame,
)

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost


class Link:
    """One end of the connection between two neighbours."""

    def __init__(self, host: "BrokerHost", neighbour: BrokerId, address: Address | None) -> None:
        self.host = host
        self.neighbour = neighbour
        self.address = address
        limits = host.net_limits
        self.box = Outbox(host.turn, limits.link_queue_frames_max, limits.link_queue_bytes_max, limits.window_frames)
        self.peer: Peer | None = None
        self.broken_since: float | None = None
        self.is_up = False  # as far as the core knows
        self.down_since: float | None = host.now()  # None also when it was given up
        self.their_life = b""
        self.received = 0
        self.notified_s = float("-inf")  # when it last brought notifications
        self.dropped = 0
        self.sampled = (0, 0, 0)
        self.gathered: list[bytes] = []  # of the batch that is being carried out
        self.stalled_since: tuple[float, int] | None = None
        self._nonce = b""  # of our last hello
        self._proved: Peer | None = None  # the connection whose other end has shown that it knows the link token
        self._pauses = Pauses()
        self._dialling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def dials(self) -> bool:
        return self.host.id < self.neighbour

    # -- sending

    def send(self, message: Message, frames: list[bytes]) -> None:
        """Queue a core message, which was encoded already."""
        box = self.box
        for frame in frames:
            box.put(frame)
        if box.is_full:
            self._overflow()
        if not isinstance(message, NOTIFICATION_MESSAGES):
            self.host.barriers.control_sent(self.neighbour)

    def put_all(self, frames: list[bytes]) -> None:
        """Queue notifications, which were encoded already."""
        if not self.box.put_if_room(frames):
            for frame in frames:
                self.box.put(frame)
                if self.box.is_full:
                    self._overflow()

    def _overflow(self) -> None:
        if self.peer is not None:
            if self.host.source is not None:
                self.box.block(self.host.source)
        elif self.is_up:
            # Broken, and no room to wait for it: everything that follows would have a gap.
            self.host.loop.call_soon(self.go_down)
        else:
            self.box.discard_newest()
            self.dropped += 1

    def send_barrier(self, message: Barrier | BarrierDone) -> None:
        self.box.put(message_frame(message))

    # -- receiving

    def take_in(self, messages: list[Any]) -> None:
        host, sender = self.host, self.neighbour
        now = host.now()
        handle, carry_out = host.broker.handle, host.carry_out
        core = host.core_messages
        for message in messages:
            kind = type(message)
            if kind is Parcels:
                self.notified_s = now
                orders = host.broker.handle_batch(ReceivedMany(sender, message.values), now)
                host.dispatch.carry_out_batch(message, orders)
            elif kind in core:
                actions = handle(Received(sender, message), now)
                if kind in NOTIFICATION_MESSAGES:
                    self.notified_s = now
                    if message.notification.header is not None:
                        host.note_trace(str(sender), message.notification, actions)
                carry_out(actions)
            elif kind is Barrier:
                host.barriers.received(sender, message)
            elif kind is BarrierDone:
                host.barriers.answered(sender, message)
            elif self.peer is not None:
                self.peer.manage(message)

    # -- handshake

    def hello(self) -> Hello:
        """What we say when we dial."""
        host = self.host
        self._nonce = new_nonce()
        return Hello(
            [VERSION],
            ROLE_BROKER,
            str(host.id),
            session=host.life,
            peer=self.their_life,
            received=self.received,
            overlay=host.overlay_digest,
            to=str(self.neighbour),
            nonce=self._nonce,
        )

    def challenged(self, peer: Peer, challenge: Challenge) -> None:
        """Whoever answered knows the link token, or does not hear from us again."""
        token, names = self.host.authority.link_token, (str(self.host.id), str(self.neighbour))
        nonces = (self._nonce, challenge.nonce)
        if not self.host.authority.wants_proof or not is_proof(challenge.proof, token, ACCEPTOR, nonces, *names):
            raise RemoteProtocolError(f"what answers at {self.address} does not know the link token of this overlay")
        self._proved = peer
        peer.transport.write(message_frame(Proof(proof_of(token, DIALLER, nonces, *names))))

    def welcomed(self, peer: Peer, welcome: Welcome) -> None:
        """Our call was answered."""
        if welcome.version != VERSION or welcome.broker != str(self.neighbour):
            raise RemoteProtocolError(f"{welcome.broker} answered (version {welcome.version}), not {self.neighbour}")
        self.host.check_certificate(peer, self.neighbour)
        if self.host.authority.wants_proof and self._proved is not peer:
            raise RemoteProtocolError(f"what answers at {self.address} did not prove that it knows the link token")
        resumed = welcome.resumed and welcome.session == self.their_life
        self._take_up(peer, welcome.session, resumed, welcome.received)

    def accept(self, peer: Peer, hello: Hello) -> None:
        """The neighbour dialled, and is who it says."""
        if self.dials:
            raise RefusedError(f"{self.host.id} dials {self.neighbour}, not the other way round")
        resumed = hello.peer == self.host.life and hello.session == self.their_life and self.their_life != b""
        received = self.peer.connection.received if self.peer is not None else self.received
        answer = Welcome(
            VERSION,
            str(self.host.id),
            hello.name,
            session=self.host.life,
            resumed=resumed,
            received=received if resumed else 0,
            frame_bytes_max=self.host.codec.limits.frame_bytes_max,
            heartbeat_s=self.host.net_limits.heartbeat_s,
        )
        if self.peer is not None:
            # The old connection is dead, and we had not noticed.
            old, self.received = self.peer, received
            self.peer = None
            old.owner = None
            old.abort()
        peer.transport.write(message_frame(answer))
        self._take_up(peer, hello.session, resumed, hello.received)

    def _take_up(self, peer: Peer, life: bytes, resumed: bool, confirmed: int) -> None:
        if not resumed:
            self.go_down()
            confirmed = self.received = 0
        self.their_life = life
        self.peer = peer
        self.broken_since = None
        self._pauses.reset()
        self.box.attach(peer.transport, confirmed)
        peer.carry(self, ROLE_BROKER, self.received)
        self.down_since = None
        if not self.is_up:
            self.is_up = True
            self.host.link_up(self.neighbour)
        self.host.log.info("link up", neighbour=str(self.neighbour), resumed=resumed)

    # -- losing and finding

    def lost(self, peer: Peer, said_goodbye: bool) -> None:
        if self.peer is peer:
            self.received = peer.connection.received
            self.peer = None
            self.box.detach()
            self.broken_since = self.host.now()
            if not self._closed:
                self.host.log.warning("link broken", neighbour=str(self.neighbour))
        if self.peer is None:
            self.dial_later()

    def check_time(self, now: float) -> None:
        """Broken for too long is down; down for too long is given up."""
        limits = self.host.net_limits
        if self.broken_since is not None and now - self.broken_since > limits.link_grace_s:
            self.go_down()
        if self.down_since is not None and now - self.down_since > limits.link_give_up_s:
            self.down_since = None
            self.dropped += self.box.clear()
            self.host.link_given_up(self.neighbour)

    def go_down(self) -> None:
        """The link cannot be resumed: only what was never sent, and is no change of tables, may still go."""
        self.broken_since = None
        self.their_life = b""
        if self.is_up:
            self.is_up = False
            self.down_since = self.host.now()
            self.dropped += self.box.keep_unsent(_is_notification)
            self.host.link_down(self.neighbour)

    # -- dialling

    def start(self) -> None:
        if self.dials and not self._closed and self._dialling is None:
            self._dialling = self.host.loop.create_task(self._dial())

    def dial_later(self) -> None:
        if self.dials and not self._closed and self._timer is None:
            self._timer = self.host.loop.call_later(self._pauses.next_s(), self._dial_now)

    def _dial_now(self) -> None:
        self._timer = None
        self.start()

    async def _dial(self) -> None:
        try:
            address = self.address
            if address is None:
                return
            # Left alone, the system tries for two minutes where nothing answers, in pauses that grow with the outage.
            async with asyncio.timeout(self.host.net_limits.handshake_s):
                await self.host.loop.create_connection(
                    lambda: Peer(self.host, Side.DIALLING_BROKER, self),
                    address.host,
                    address.port,
                    **self.host.dial_options(address),
                )
        except OSError as error:
            # ssl.SSLError and TimeoutError are such
            self.host.log.debug("cannot dial", neighbour=str(self.neighbour), reason=str(error))
            self._dialling = None
            self.dial_later()
        finally:
            self._dialling = None

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self.peer is not None:
            self.peer.close("shutdown", "the broker stops")


def _is_notification(frame: bytes) -> bool:
    return frame[4] in (Kind.NOTIFY, Kind.NOTIFY_TREE, Kind.NOTIFY_ROUTES)


def frames_of(message: Message) -> list[bytes]:
    """A core message as frames; a copy of a notification keeps what its header said of it."""
    if not isinstance(message, NOTIFICATION_MESSAGES):
        return link_frames(message)
    header: Any = getattr(message.notification, "header", None)
    if header is None:
        return link_frames(message)
    if header is True:
        header = CopyHeader(traced=True)
    return link_frames(message, CopyHeader(b"", header.traced, header.earlier, header.hold_ms))
