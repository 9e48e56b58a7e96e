"""Dials a neighbour until its link is up, and again whenever the connection is lost.

There is at most one attempt at a time, and none while the link has a connection. Pauses grow from attempt to attempt
(`pauses.py`) and start over after a success. While the neighbour is awaited, and something would be lost unless it
answers in time, pauses stay short and attempts have a short timeout: if packets vanish, an attempt would hang until it
is too late. Later attempts may take `handshake_s`. The peer must first prove that it is the neighbour, by its
certificate or by the link token (`link_proof.py`).
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from octopia.errors import RemoteProtocolError
from octopia.net.addresses import Address
from octopia.net.broker.channels import Channels
from octopia.net.broker.link_proof import ACCEPTOR, DIALLER, is_proof, new_nonce, proof_of
from octopia.net.broker.links import Link
from octopia.net.broker.operations.log import Log
from octopia.net.broker.rights import Authority
from octopia.net.channel import Channel
from octopia.net.pauses import Pauses
from octopia.topology import BrokerId
from octopia.wire import Challenge, Goodbye, Proof, Side

# While the neighbour is awaited: the longest pause is a twentieth of the available time, within these bounds, and an
# attempt has this timeout, once for connecting and once for the handshake.
AWAITED_PARTS = 20
AWAITED_PAUSE_S = (0.05, 0.25)
AWAITED_ATTEMPT_S = 1.0
# The longest pause otherwise.
PAUSE_S = 2.0

# Raises `RemoteProtocolError` unless the peer is the dialled neighbour.
CheckCertificate = Callable[[Channel, BrokerId], None]


class Dialler:
    """Keeps one link connected. It is the `End` of the connections that it dials."""

    def __init__(
        self,
        own: BrokerId,
        link: Link,
        authority: Authority,
        channels: Channels,
        check_certificate: CheckCertificate,
        tls: ssl.SSLContext | None,
        attempt_s: float,
        loop: asyncio.AbstractEventLoop,
        log: Log,
    ) -> None:
        self.address: Address | None = None
        # As both ends write them into their proofs.
        self._names = (str(own), str(link.neighbour))
        self._link = link
        self._authority = authority
        self._channels = channels
        self._check_certificate = check_certificate
        self._tls = tls
        self._attempt_s = attempt_s
        self._loop = loop
        self._log = log
        self._pauses = Pauses()
        self._nonce = b""  # of our last hello
        self._refused: Goodbye | None = None  # the last answer, if it was a refusal
        self._proved: Channel | None = None  # whose peer has proved that it knows the link token
        self._attempt: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    # -- attempts

    def dial(self) -> None:
        if not self._stopped and self._attempt is None and self._link.channel is None:
            self._attempt = self._loop.create_task(self._dial())

    def dial_later(self) -> None:
        if not self._stopped and self._timer is None:
            self._timer = self._loop.call_later(self._pauses.next_s(self._longest_pause_s()), self._dial_now)

    def _longest_pause_s(self) -> float:
        awaited_s = self._link.awaited_s
        if not awaited_s:
            return PAUSE_S
        shortest_s, longest_s = AWAITED_PAUSE_S
        return min(max(shortest_s, awaited_s / AWAITED_PARTS), longest_s)

    def _longest_attempt_s(self) -> float:
        return min(AWAITED_ATTEMPT_S, self._attempt_s) if self._link.awaited_s else self._attempt_s

    def _dial_now(self) -> None:
        self._timer = None
        self.dial()

    async def _dial(self) -> None:
        try:
            if self.address is not None:
                # Left alone, the system tries for two minutes where nothing answers, in pauses that grow with the
                # outage.
                attempt_s = self._longest_attempt_s()
                async with asyncio.timeout(attempt_s):
                    await self._connect(self.address, attempt_s)
        except OSError as error:
            # ssl.SSLError and TimeoutError are such
            self._log.debug("cannot dial", neighbour=str(self._link.neighbour), reason=str(error))
            self.dial_later()
        finally:
            self._attempt = None

    async def _connect(self, address: Address, handshake_s: float) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {"ssl": self._tls, "server_hostname": address.host}
        await self._loop.create_connection(
            lambda: self._channels.make(Side.DIALLING_BROKER, self, handshake_s), address.host, address.port, **tls
        )

    def stop(self) -> None:
        """Make no more attempts."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._attempt is not None:
            self._attempt.cancel()

    # -- the end of a channel

    def made(self, channel: Channel) -> None:
        self._channels.add(channel)
        self._nonce = new_nonce()
        channel.say(self._link.hello(self._nonce))

    def greet(self, channel: Channel, message: Any) -> None:
        if isinstance(message, Goodbye):
            # The next attempts will be refused, too, and the reason is worth one line.
            tell = self._log.debug if message == self._refused else self._log.warning
            tell("link refused", peer=channel.name, code=message.code, reason=message.reason)
            self._refused = message
            return
        if isinstance(message, Challenge):
            self._prove(channel, message)
            return
        self._check_certificate(channel, self._link.neighbour)
        if self._authority.wants_proof and self._proved is not channel:
            raise RemoteProtocolError(f"what answers at {self.address} did not prove that it knows the link token")
        self._link.welcomed(channel, message)
        self._refused = None
        self._pauses.reset()

    def _prove(self, channel: Channel, challenge: Challenge) -> None:
        """Check the peer's proof that it knows the link token, and send ours."""
        token, nonces = self._authority.link_token, (self._nonce, challenge.nonce)
        wanted = self._authority.wants_proof
        if not wanted or not is_proof(challenge.proof, token, ACCEPTOR, nonces, *self._names):
            raise RemoteProtocolError(f"what answers at {self.address} does not know the link token of this overlay")
        self._proved = channel
        channel.say(Proof(proof_of(token, DIALLER, nonces, *self._names)))

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self._channels.at_fault(channel, error)

    def gone(self, channel: Channel, reason: str) -> None:
        self._channels.remove(channel)
        if self._link.channel is None:
            self.dial_later()
