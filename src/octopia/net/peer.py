"""One connection at a broker: bytes between the socket and the session or link that owns it.

Rules of this file: no queue between reading and routing; what one read brings is decoded and handed on as one batch.
Reading stops while any full queue asks for it. A peer that breaks the protocol is told why and closed; nobody else
notices. Until the handshake is done the only thing a peer can do is wait for its time to run out.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Protocol, cast

from octopia.errors import OctopiaError, RefusedError, RemoteProtocolError
from octopia.net.outbox import Outbox
from octopia.wire import (
    Ack,
    Challenge,
    Connection,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Proof,
    Side,
    Welcome,
    message_frame,
    reason_text,
)

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost

# Frames that may arrive before they are confirmed, or 25 ms, whichever comes first.
CONFIRM_FRAMES = 512
WRITE_BUFFER_BYTES = 32 * 1024
# Of what the system was given, this much may not have left yet. It would take megabytes, and a queue that hides there
# is one that neither Eq. 10 nor a subscription's policy sees.
UNSENT_BYTES = 32 * 1024


class Owner(Protocol):
    """The session or link that a connection carries."""

    box: Outbox

    def take_in(self, messages: list[Any]) -> None:
        """Deal with what one read brought."""

    def lost(self, peer: "Peer", said_goodbye: bool) -> None:
        """The connection is gone."""


class Peer(asyncio.Protocol):
    """A connection that was accepted, or dialled to a neighbour."""

    def __init__(self, host: "BrokerHost", side: Side, dialling: Any = None) -> None:
        self.host = host
        self.connection = Connection(side, host.codec, joins=True)
        self.owner: Owner | None = None
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.heard_s = 0.0
        self.pinged_s = 0.0
        self.read_bytes = 0
        self._dialling = dialling
        self._holding: dict[Outbox, None] = {}
        self._confirmed = 0
        self._said_goodbye = False
        self.challenged: tuple[Hello, bytes] | None = None  # a broker that still has to prove itself, and our nonce
        self._handshake_timer: asyncio.TimerHandle | None = None
        self.closing = False
        self._frozen = False

    # -- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        carrier = transport.get_extra_info("socket")
        if carrier is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self.heard_s = self.host.now()
        self.host.peers[self] = None
        self._handshake_timer = self.host.loop.call_later(self.host.net_limits.handshake_s, self._too_slow)
        if self._dialling is not None:
            self.transport.write(message_frame(self._dialling.hello()))
        elif len(self.host.peers) > self.host.net_limits.connections_max:
            self.close("full", f"this broker has its maximum of {self.host.net_limits.connections_max} connections")

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        self.read_bytes += len(data)
        self.heard_s = self.host.now()
        fault: OctopiaError | None = None
        try:
            messages = self.connection.receive(data)
        except RemoteProtocolError as error:
            fault, messages = error, self.connection.messages
        try:
            if self.owner is None:
                self._shake_hands(messages)
            elif messages:
                self._hand_on(messages)
        except (RemoteProtocolError, RefusedError) as error:
            fault = fault or error
        except Exception as error:  # noqa: BLE001  a fault of ours ends the connection that met it, and no other
            self.host.counters.faults += 1
            self.host.log.fault("fault in the broker", error, peer=self.name)
            self.close("internal", f"the broker failed at this: {type(error).__name__}")
        if fault is not None:
            code = "refused" if isinstance(fault, RefusedError) else "protocol"
            self.host.counters.peers_at_fault += 1
            self.host.log.warning("peer at fault", peer=self.name, reason=str(fault))
            self.close(code, str(fault))

    def pause_writing(self) -> None:
        if self.owner is not None:
            self.owner.box.writable = False

    def resume_writing(self) -> None:
        if self.owner is not None and self.owner.box.transport is self.transport:
            self.owner.box.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self.closing = True
        self.host.peers.pop(self, None)
        for box in self._holding:
            box.forget(self)
        self._holding.clear()
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.lost(self, self._said_goodbye)
        elif self._dialling is not None:
            self._dialling.lost(self, self._said_goodbye)

    # -- handshake

    def _shake_hands(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, Hello):
                self.host.greet(self, message)
            elif isinstance(message, Challenge):
                self._dialling.challenged(self, message)
            elif isinstance(message, Proof):
                self.host.prove(self, message)
            elif isinstance(message, Welcome):
                self._dialling.welcomed(self, message)
            elif isinstance(message, Goodbye):
                self.host.log.warning("link refused", peer=self.name, code=message.code, reason=message.reason)
                self._said_goodbye = True
                self.transport.close()

    def carry(self, owner: Owner, role: str, received: int) -> None:
        """The handshake is done: this connection carries that session or link."""
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
            self._handshake_timer = None
        self.owner = owner
        self._confirmed = received
        self.connection.open(role, received)
        # What came in the same read as the handshake.
        self.host.loop.call_soon(self.data_received, b"")

    def _too_slow(self) -> None:
        self.close("handshake", f"no handshake within {self.host.net_limits.handshake_s:g} s")

    # -- messages

    def _hand_on(self, messages: list[Any]) -> None:
        owner = self.owner
        if owner is None:
            return
        if type(messages[-1]) is Goodbye:
            self._said_goodbye = True
        if self._frozen:
            messages = [message for message in messages if type(message) in (Ack, Pong, Goodbye)]
        self.host.source = self
        try:
            owner.take_in(messages)
        finally:
            self.host.source = None
        if self._said_goodbye:
            self.transport.close()
        elif self.connection.received - self._confirmed >= CONFIRM_FRAMES:
            self.confirm()

    def manage(self, message: Any) -> None:
        """A frame about the connection itself."""
        kind = type(message)
        if kind is Ack and self.owner is not None:
            self.owner.box.confirm(message.received)
        elif kind is Ping:
            self.confirm()
            self.transport.write(message_frame(Pong(message.number)))
        elif kind is not Pong and kind is not Goodbye:
            raise RemoteProtocolError(f"{kind.__name__} is not expected here")

    def confirm(self) -> None:
        """Tell the peer how many of its frames were dealt with."""
        if self._frozen:
            return
        if self._confirmed != self.connection.received and not self.closing and self.owner is not None:
            self._confirmed = self.connection.received
            self.transport.write(message_frame(Ack(self._confirmed)))

    def freeze(self) -> None:
        """Confirm what has come, and from now on take nothing more: what is not confirmed stays with the peer."""
        self.confirm()
        self._frozen = True

    # -- reading stops and goes on

    def hold(self, box: Outbox) -> None:
        if not self._holding and not self.closing:
            self.transport.pause_reading()
            self.host.counters.sources_held += 1
        self._holding[box] = None

    def release(self, box: Outbox) -> None:
        self._holding.pop(box, None)
        if not self._holding and not self.closing:
            # A peer that was not read from could not give a sign of life.
            self.heard_s = self.host.now()
            self.transport.resume_reading()

    @property
    def is_held(self) -> bool:
        return bool(self._holding)

    # -- the end

    def close(self, code: str, reason: str) -> None:
        """Say why, and close."""
        if self.closing:
            return
        self.closing = True
        self.transport.write(message_frame(Goodbye(code, reason_text(reason))))
        self.transport.close()

    def close_later(self, delay_s: float, code: str, reason: str) -> None:
        """Listen to it no more; say why, and close, after this time."""
        self.connection.closed = True
        self.transport.pause_reading()
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._handshake_timer = self.host.loop.call_later(delay_s, self.close, code, reason)

    def abort(self) -> None:
        """Close without waiting for what is still to be written: for peers that do not read."""
        self.closing = True
        self.transport.abort()

    @property
    def name(self) -> str:
        address = self.transport.get_extra_info("peername") if self.transport is not None else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")
