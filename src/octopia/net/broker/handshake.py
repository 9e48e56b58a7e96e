"""Who is let in: the first message of a connection, at the broker that was dialled; and certificates.

A peer is let in here or refused with a reason (`RefusedError`), and nothing of what it says is used before. A neighbour
must prove that it is the one it says, by its certificate or the link token (`link_proof.py`). Whoever fails to prove
who it is gets its answer late (`failures.py`).

A client that knows the secret of its session gets it back, if its rights are still the same. A name belongs to its
session: another client that wants it, without the secret, is told `busy` and may try again.
- A session whose connection is there: the connection is asked for a sign of life at once, and closed if it gives none
  within `PROBE_S`. A client that vanished is so noticed as soon as it is missed.
- A session that is away keeps its name for the time agreed, counted from the last sign of life. Only a client that
  proves to be the same client of the configuration may take its place before. Where no clients are named nobody can
  prove that, and nobody can end another's session.

Places. Connections that have not got through the handshake are in a pool of their own (`arrivals.py`). Neighbours are
always let in: each has one connection. Of the places for clients a share is reserved for those that the configuration
names and for those that come back to their session. While memory is full (`memory.py`) only the latter are let in.
"""

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import is_loopback
from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.channels import Channels
from octopia.net.broker.failures import Failures
from octopia.net.broker.identity import Identity
from octopia.net.broker.link_proof import ACCEPTOR, DIALLER, is_proof, new_nonce, proof_of
from octopia.net.broker.links import Link
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.rights import Authority, Rights, UnknownPeerError
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.net.channel import Channel
from octopia.net.limits import NetLimits
from octopia.topology import BrokerId
from octopia.wire import (
    NAME_CHARS_MAX,
    ROLE_BROKER,
    ROLE_CLIENT,
    VERSION,
    Challenge,
    Hello,
    Ping,
    Proof,
    Side,
    Welcome,
)

# A connection that is in a newcomer's way is given this long for a sign of life.
PROBE_S = 2.0

CAPABILITIES = ["trace"]


class Door:
    """Where connections come in: the `End` of those that were accepted."""

    def __init__(
        self,
        identity: Identity,
        authority: Authority,
        channels: Channels,
        sessions: Sessions,
        links: Mapping[BrokerId, Link],
        counters: Counters,
        log: Log,
        limits: NetLimits,
        memory_is_full: Callable[[], bool],
        now: Callable[[], float],
        later: Callable[..., Any],
    ) -> None:
        self.identity = identity
        self.authority = authority
        self.channels = channels
        self.sessions = sessions
        self.links = links
        self.counters = counters
        self.log = log
        self.handshake_s = limits.handshake_s
        self.connections_max = limits.connections_max
        self.reserved_percent = limits.connections_reserved_percent
        self.memory_is_full = memory_is_full
        self.now = now
        self.later = later  # calls this with that, after so many seconds
        self.failures = Failures()
        # Brokers that still have to prove themselves, with what they said and our nonce.
        self.challenged: dict[Channel, tuple[Hello, bytes]] = {}
        self.closed = False  # nobody is let in any more
        self.farewell = "shutdown"  # what those who come then are told
        self.arrivals: Arrivals[Channel] = Arrivals(limits.handshakes_max, max(limits.handshakes_max // 4, 1))
        self.guests: dict[Channel, None] = {}  # connections of clients that were let in

    def accept(self) -> Channel:
        """For a connection that is coming in."""
        return self.channels.make(Side.ACCEPTING_BROKER, self)

    def made(self, channel: Channel) -> None:
        self.channels.add(channel)

    def greet(self, channel: Channel, message: Any) -> None:
        if isinstance(message, Proof):
            prove(self, channel, message)
        else:
            greet(self, channel, message)
        if channel.owner is not None:
            self.arrivals.remove(channel)

    def why_not(self, rights: Rights, resumed: bool) -> str:
        """Why there is no place for a client that has none yet; empty where there is."""
        if not resumed and self.memory_is_full():
            return "this broker has no memory left at present; try again"
        reserved = 0 if resumed or rights.name else self.connections_max * min(self.reserved_percent, 100) // 100
        if len(self.guests) < self.connections_max - reserved:
            return ""
        kept = f", {reserved} of them reserved" if reserved else ""
        return f"this broker has its maximum of {self.connections_max} connections{kept}"

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self.channels.at_fault(channel, error)

    def gone(self, channel: Channel, reason: str) -> None:
        self.challenged.pop(channel, None)
        self.arrivals.remove(channel)
        self.guests.pop(channel, None)
        self.channels.remove(channel)


def greet(door: Door, peer: Channel, hello: Hello) -> None:
    """A peer said who it is: let it in, or raise `RefusedError`."""
    if VERSION not in hello.versions:
        raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
    if door.closed:
        peer.close(door.farewell, "this broker is about to stop")
        return
    try:
        _greet(door, peer, hello)
    except UnknownPeerError as error:
        _not_authentic(door, peer, error)


def _greet(door: Door, peer: Channel, hello: Hello) -> None:
    if hello.role == ROLE_CLIENT:
        _greet_client(door, peer, hello)
    elif hello.role == ROLE_BROKER:
        _greet_broker(door, peer, hello)
    else:
        raise RefusedError(f"unknown role {hello.role!r}; there are {ROLE_CLIENT} and {ROLE_BROKER}")


def _not_authentic(door: Door, peer: Channel, error: UnknownPeerError) -> None:
    """The answer comes late, or not at all where too many wait for theirs."""
    door.counters.peers_at_fault += 1
    door.log.warning("peer not authenticated", peer=peer.name, reason=str(error))
    address = peer.name.rpartition(":")[0]
    delay_s = door.failures.failed(address, door.now())
    if delay_s is None:
        peer.abort()
    else:
        peer.close_later(min(delay_s, door.handshake_s), "refused", str(error))
        # Whether or not it is still there then: who goes does not make room for its next try.
        door.later(delay_s, door.failures.answered, address)


def _greet_broker(door: Door, peer: Channel, hello: Hello) -> None:
    link = next((link for n, link in door.links.items() if str(n) == hello.name), None)
    if link is None:
        raise RefusedError(f"{hello.name!r} is no neighbour of {door.identity.broker}")
    if hello.to != str(door.identity.broker):
        raise RefusedError(f"this is broker {door.identity.broker}, not {hello.to}; an address is wrong")
    if hello.overlay != door.identity.overlay_digest:
        raise RefusedError(f"{hello.name} was started with another overlay; use the same file everywhere")
    loopback = is_loopback(peer.name.rpartition(":")[0])
    door.authority.check_broker(link.neighbour, certificate_name(peer), loopback)
    if not door.authority.wants_proof:
        link.accept(peer, hello)
        return
    nonce = new_nonce()
    proof = proof_of(door.authority.link_token, ACCEPTOR, (hello.nonce, nonce), hello.name, hello.to)
    door.challenged[peer] = (hello, nonce)
    peer.connection.expect_proof()
    peer.say(Challenge(nonce, proof))


def prove(door: Door, peer: Channel, proof: Proof) -> None:
    """A broker answered the challenge: let it in, or refuse it."""
    if peer not in door.challenged:
        raise RemoteProtocolError("a proof that nobody asked for")
    hello, nonce = door.challenged.pop(peer)
    nonces = (hello.nonce, nonce)
    if is_proof(proof.proof, door.authority.link_token, DIALLER, nonces, hello.name, hello.to):
        next(link for n, link in door.links.items() if str(n) == hello.name).accept(peer, hello)
    else:
        _not_authentic(door, peer, UnknownPeerError("the link token is wrong"))


def _greet_client(door: Door, peer: Channel, hello: Hello) -> None:
    rights = door.authority.client(hello, certificate_name(peer), door.identity.broker)
    session = door.sessions.of_secret(hello.session)
    # A client that says it has fewer frames than it confirmed has lost some, and its session with them.
    known = session is not None and session.box.confirmed <= hello.received <= session.box.sent
    resumed = session is not None and known and session.rights == rights
    has_place = session is not None and resumed and session.channel is not None
    if not has_place and (reason := door.why_not(rights, resumed)):
        door.counters.newcomers_refused += 1
        peer.close("full", reason)
        return
    if session is None or not resumed:
        try:
            name = _free_name(door, hello, rights, session)
        except BusyError as error:
            peer.close("busy", str(error))
            return
        if door.sessions.put_off(name, partial(_greet_late, door, peer, hello)):
            return
        session = door.sessions.begin(name, hello.session_s, rights)
    elif session.channel is not None:
        # The old connection is dead, and we had not noticed.
        session.drop_channel("replaced", "the session goes on with another connection")
    received = session.received if resumed else 0
    peer.say(
        Welcome(
            VERSION,
            str(door.identity.broker),
            session.name,
            [name for name in hello.capabilities if name in CAPABILITIES],
            session.secret,
            resumed,
            received,
            session.session_s,
            door.identity.frame_bytes_max,
            door.identity.heartbeat_s,
        )
    )
    door.counters.sessions_resumed += resumed
    door.guests[peer] = None
    session.attach(peer, hello.received if resumed else 0)
    peer.carry(session, ROLE_CLIENT, received)


class BusyError(RefusedError):
    """Not now; later perhaps."""


def _greet_late(door: Door, peer: Channel, hello: Hello) -> None:
    """The client that had the name has left by now."""
    if peer.closing or peer.owner is not None:
        return
    try:
        door.greet(peer, hello)
    except RefusedError as error:
        peer.close("refused", str(error))
        door.at_fault(peer, error)


def _free_name(door: Door, hello: Hello, rights: Rights, proved: Session | None) -> str:
    """The name that a new client gets, which may still be that of one that is leaving; or `BusyError`.

    `proved` is the earlier session whose secret it knows.
    """
    name = hello.name or (f"{rights.name}/" if rights.name else "") + f"c-{secrets.token_hex(6)}"
    if not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise RefusedError(f"a client's name is printable and has at most {NAME_CHARS_MAX} characters")
    door.authority.check_name(rights, name)
    known = door.sessions.get(name)
    if known is not None:
        _make_room(door, known, rights, known is proved)
    return name


def _make_room(door: Door, known: Session, rights: Rights, has_secret: bool) -> None:
    """Forget a session that a newcomer of the same name may replace, or raise `BusyError`."""
    same = known.rights == rights
    if known.channel is not None and not (same and has_secret):
        _probe(door, known, known.channel)
        raise BusyError(f"a client named {known.name!r} is connected already; choose another name, or try again")
    if not (same and (has_secret or rights.name)):
        left_s = max(0.0, known.session_s - (door.now() - (known.left_s or door.now())))
        raise BusyError(
            f"a client named {known.name!r} is away and has {left_s:.1f} s to come back; "
            "choose another name, or try again then"
        )
    known.drop_channel("replaced", "the client came back without its session")
    # It came back without its session, having forgotten it: the old one has nobody to wait for.
    door.sessions.forget(known)


def _probe(door: Door, session: Session, old: Channel) -> None:
    """Ask a connection for a sign of life, and close it if it gives none."""
    if session.probed is old or old.is_held:
        # Asked already; or it is we who do not listen.
        return
    session.probed = old
    old.say(Ping())
    door.later(PROBE_S, _end_probe, session, old, old.heard_s)


def _end_probe(session: Session, old: Channel, heard_s: float) -> None:
    session.probed = None
    if session.channel is old and old.heard_s == heard_s and not old.is_held:
        old.disown()
        session.lost(old, "no sign of life")
        old.abort()
        if session.left_s is not None:
            # It has been away since then, though nobody had noticed.
            session.left_s = heard_s


def check_certificate(authority: Authority, peer: Channel, neighbour: BrokerId) -> None:
    """The neighbour that we dialled must prove who it is, too."""
    if authority.tls and certificate_name(peer) != str(neighbour):
        raise RemoteProtocolError(f"the certificate at the address of {neighbour} is for {certificate_name(peer)!r}")


def certificate_name(peer: Channel) -> str:
    """The common name of the peer's certificate; empty where it has none."""
    certificate = peer.transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
