"""Admission: the first message of a connection at the dialled broker, and certificates.

A peer is accepted here or refused with a reason (`RefusedError`); its data is not used before that. A neighbour must
authenticate with its certificate or the link token (`link_proof.py`). A peer that fails to authenticate gets its answer
late (`failures.py`).

A client that knows the secret of its session gets it back, if its rights are unchanged. A name belongs to its session:
another client that asks for it without the secret is told `busy` and may try again.
- If the session is connected, its connection is asked for a sign of life at once, and closed if it gives none within
  `PROBE_S`. So a vanished client is noticed as soon as its name is needed.
- A disconnected session keeps its name for the agreed time, counted from the last sign of life. Only a client that
  authenticates as the same client of the configuration may replace it earlier. Without configured clients, nobody can
  do that, and nobody can end another client's session.

Places. Connections in the handshake are in a separate pool (`arrivals.py`). Neighbours are always accepted: each has
one connection. A share of the client places is reserved for clients of the configuration and for those that return to
their session. While memory is full (`memory.py`), only the latter are accepted.

A probe asks for this broker's load (`load.py`) and disconnects. Any peer may ask, and it takes no client place.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import is_loopback
from octopia.net.broker.arrivals import Arrivals
from octopia.net.broker.channels import Channels
from octopia.net.broker.failures import Failures
from octopia.net.broker.identity import Identity
from octopia.net.broker.link_proof import ACCEPTOR, DIALLER, is_proof, new_nonce, proof_of
from octopia.net.broker.links import RESTART, SHUTDOWN, Link
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.operations.log import Log
from octopia.net.broker.rights import Authority, Rights, UnknownPeerError
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.net.channel import Channel
from octopia.net.limits import NetLimits
from octopia.topology import BrokerId
from octopia.wire import (
    COUNTS,
    FLUSHES,
    MOVE,
    NAME_CHARS_MAX,
    ROLE_BROKER,
    ROLE_CLIENT,
    ROLE_PROBE,
    VERSION,
    Challenge,
    Hello,
    Load,
    Ping,
    Proof,
    Side,
    Welcome,
)

# How long a connection that blocks a newcomer has to give a sign of life.
PROBE_S = 2.0

CAPABILITIES = ["trace", MOVE, COUNTS, FLUSHES]


@dataclass(eq=False)
class Door:
    """The `End` of accepted connections."""

    identity: Identity
    authority: Authority
    channels: Channels
    sessions: Sessions
    links: Mapping[BrokerId, Link]
    counters: Counters
    log: Log
    limits: NetLimits
    memory_is_full: Callable[[], bool]
    is_overloaded: Callable[[], bool]
    now: Callable[[], float]
    later: Callable[..., Any]  # calls a function with an argument after a delay in seconds

    def __post_init__(self) -> None:
        self.failures = Failures()
        # Brokers that have not authenticated yet, with their Hello and our nonce.
        self.challenged: dict[Channel, tuple[Hello, bytes]] = {}
        self.closed = False  # no more peers are accepted, except for neighbours before a restart
        self.farewell = SHUTDOWN  # the goodbye code for later peers
        self.connections_max = self.limits.connections_max
        handshakes_max = self.limits.handshakes_max
        self.arrivals: Arrivals[Channel] = Arrivals(handshakes_max, max(handshakes_max // 4, 1))
        self.guests: dict[Channel, bool] = {}  # accepted client connections, and whether they can move

    def is_closed_to(self, role: str) -> bool:
        """Before a restart, neighbours are admitted until the end: one whose connection broke has to hear of it."""
        return self.closed and not (role == ROLE_BROKER and self.farewell == RESTART)

    def accept(self) -> Channel:
        """Create the channel of an incoming connection."""
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
        """The reason why there is no place for a new client; empty if there is one."""
        if not resumed and self.memory_is_full():
            return "this broker has no memory left at present; try again"
        percent = 0 if resumed or rights.name else min(self.limits.connections_reserved_percent, 100)
        reserved = self.connections_max * percent // 100
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
    """Handle a peer's Hello: accept it, or raise `RefusedError`."""
    if VERSION not in hello.versions:
        raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
    if door.is_closed_to(hello.role):
        peer.close(door.farewell, "this broker is about to stop")
        return
    try:
        if hello.role == ROLE_CLIENT:
            _greet_client(door, peer, hello)
        elif hello.role == ROLE_BROKER:
            _greet_broker(door, peer, hello)
        elif hello.role == ROLE_PROBE:
            peer.say(Load(str(door.identity.broker), door.is_overloaded()))
            peer.hang_up()
        else:
            raise RefusedError(f"unknown role {hello.role!r}; expected {ROLE_CLIENT} or {ROLE_BROKER}")
    except UnknownPeerError as error:
        _not_authentic(door, peer, error)


def _not_authentic(door: Door, peer: Channel, error: UnknownPeerError) -> None:
    """Answer late, or not at all if too many connections wait for their answer."""
    door.counters.peers_at_fault += 1
    door.log.warning("peer not authenticated", peer=peer.name, reason=str(error))
    address = peer.name.rpartition(":")[0]
    delay_s = door.failures.failed(address, door.now())
    if delay_s is None:
        peer.abort()
    else:
        peer.close_later(min(delay_s, door.limits.handshake_s), "refused", str(error))
        # Even if it is gone by then: leaving early does not make room for another try.
        door.later(delay_s, door.failures.answered, address)


def _greet_broker(door: Door, peer: Channel, hello: Hello) -> None:
    link = next((link for n, link in door.links.items() if str(n) == hello.name), None)
    if link is None:
        raise RefusedError(f"{hello.name!r} is not a neighbour of {door.identity.broker}")
    if hello.to != str(door.identity.broker):
        raise RefusedError(f"this is broker {door.identity.broker}, not {hello.to}; an address is wrong")
    if reason := door.identity.overlay.why_not(hello):
        raise RefusedError(reason)
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
    """Handle a broker's answer to the challenge: accept or refuse it."""
    if peer not in door.challenged:
        raise RemoteProtocolError("an unexpected proof")
    hello, nonce = door.challenged.pop(peer)
    nonces = (hello.nonce, nonce)
    if is_proof(proof.proof, door.authority.link_token, DIALLER, nonces, hello.name, hello.to):
        next(link for n, link in door.links.items() if str(n) == hello.name).accept(peer, hello)
    else:
        _not_authentic(door, peer, UnknownPeerError("the link token is wrong"))


def _greet_client(door: Door, peer: Channel, hello: Hello) -> None:
    rights = door.authority.client(hello, certificate_name(peer), door.identity.broker)
    session = door.sessions.of_secret(hello.session)
    # A client that reports fewer frames than it confirmed has lost some, and with them its session.
    known = session is not None and session.queue.confirmed <= hello.received <= session.queue.sent
    resumed = session is not None and known and session.rights == rights
    has_place = session is not None and resumed and session.channel is not None
    if not has_place and (reason := door.why_not(rights, resumed)):
        door.counters.newcomers_refused += 1
        door.log.event("client refused", client=hello.name, peer=peer.name, reason=reason)
        peer.close("full", reason)
        return
    if session is None or not resumed:
        try:
            name = _free_name(door, hello, rights, session)
        except BusyError as error:
            door.log.event("client refused", client=hello.name, peer=peer.name, reason=str(error))
            peer.close("busy", str(error))
            return
        if door.sessions.put_off(name, partial(_greet_late, door, peer, hello)):
            return
        session = door.sessions.begin(name, hello.session_s, rights)
    elif session.channel is not None:
        # The old connection is dead, and we had not noticed.
        session.drop_channel("replaced", "the session continues on another connection")
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
            door.limits.restart_grace_s,
        )
    )
    door.counters.sessions_resumed += resumed
    door.guests[peer] = MOVE in hello.capabilities
    session.attach(peer, hello.received if resumed else 0)
    door.log.event("client connected", client=session.name, peer=peer.name, resumed=resumed)
    peer.carry(session, ROLE_CLIENT, received)


class BusyError(RefusedError):
    """Refused for now; a later attempt may succeed."""


def _greet_late(door: Door, peer: Channel, hello: Hello) -> None:
    """Greet a client again after the previous owner of its name has left."""
    if peer.closing or peer.owner is not None:
        return
    try:
        door.greet(peer, hello)
    except RefusedError as error:
        peer.close("refused", str(error))
        door.at_fault(peer, error)


def _free_name(door: Door, hello: Hello, rights: Rights, proved: Session | None) -> str:
    """The name of a new client, possibly that of one that is leaving; raises `BusyError`.

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
    # The client came back without its session: nobody will return to the old one.
    door.sessions.forget(known)


def _probe(door: Door, session: Session, old: Channel) -> None:
    """Ask a connection for a sign of life, and close it if it gives none."""
    if session.probed is old or old.is_held:
        # Asked already, or we are not reading.
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
            # It has been away since then; this was just not noticed.
            session.left_s = heard_s


def check_certificate(authority: Authority, peer: Channel, neighbour: BrokerId) -> None:
    """Check the certificate of a dialled neighbour."""
    if authority.tls and certificate_name(peer) != str(neighbour):
        raise RemoteProtocolError(f"the certificate at the address of {neighbour} is for {certificate_name(peer)!r}")


def certificate_name(peer: Channel) -> str:
    """The common name of the peer's certificate; empty without one."""
    certificate = peer.transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
