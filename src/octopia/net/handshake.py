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
"""

import secrets
from typing import TYPE_CHECKING

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import is_loopback
from octopia.net.link_proof import ACCEPTOR, DIALLER, is_proof, new_nonce, proof_of
from octopia.net.peer import Peer
from octopia.net.rights import Rights, UnknownPeerError
from octopia.net.sessions import Session
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
    Welcome,
    message_frame,
)

if TYPE_CHECKING:
    from octopia.net.host import BrokerHost

SECRET_BYTES = 16
# A connection that is in a newcomer's way is given this long for a sign of life.
PROBE_S = 2.0
CAPABILITIES = ["trace"]


def greet(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    """A peer said who it is: let it in, or raise `RefusedError`."""
    if VERSION not in hello.versions:
        raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
    if host.draining:
        peer.close("shutdown", "this broker is about to stop")
        return
    try:
        _greet(host, peer, hello)
    except UnknownPeerError as error:
        _not_authentic(host, peer, error)


def _greet(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    if hello.role == ROLE_CLIENT:
        _greet_client(host, peer, hello)
    elif hello.role == ROLE_BROKER:
        _greet_broker(host, peer, hello)
    else:
        raise RefusedError(f"unknown role {hello.role!r}; there are {ROLE_CLIENT} and {ROLE_BROKER}")


def _not_authentic(host: "BrokerHost", peer: Peer, error: UnknownPeerError) -> None:
    """The answer comes late, or not at all where too many wait for theirs."""
    host.counters.peers_at_fault += 1
    host.log.warning("peer not authenticated", peer=peer.name, reason=str(error))
    address = peer.name.rpartition(":")[0]
    delay_s = host.failures.failed(address, host.now())
    if delay_s is None:
        peer.abort()
    else:
        peer.close_later(min(delay_s, host.net_limits.handshake_s), "refused", str(error))
        # Whether or not it is still there then: who goes does not make room for its next try.
        host.loop.call_later(delay_s, host.failures.answered, address)


def _greet_broker(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    link = next((link for n, link in host.links.items() if str(n) == hello.name), None)
    if link is None:
        raise RefusedError(f"{hello.name!r} is no neighbour of {host.id}")
    if hello.to != str(host.id):
        raise RefusedError(f"this is broker {host.id}, not {hello.to}; an address is wrong")
    if hello.overlay != host.overlay_digest:
        raise RefusedError(f"{hello.name} was started with another overlay; use the same file everywhere")
    loopback = is_loopback(peer.name.rpartition(":")[0])
    host.authority.check_broker(link.neighbour, certificate_name(peer), loopback)
    if not host.authority.wants_proof:
        link.accept(peer, hello)
        return
    nonce = new_nonce()
    proof = proof_of(host.authority.link_token, ACCEPTOR, (hello.nonce, nonce), hello.name, hello.to)
    peer.challenged = (hello, nonce)
    peer.connection.expect_proof()
    peer.transport.write(message_frame(Challenge(nonce, proof)))


def prove(host: "BrokerHost", peer: Peer, proof: Proof) -> None:
    """A broker answered the challenge: let it in, or refuse it."""
    if peer.challenged is None:
        raise RemoteProtocolError("a proof that nobody asked for")
    hello, nonce = peer.challenged
    nonces = (hello.nonce, nonce)
    if is_proof(proof.proof, host.authority.link_token, DIALLER, nonces, hello.name, hello.to):
        next(link for n, link in host.links.items() if str(n) == hello.name).accept(peer, hello)
    else:
        _not_authentic(host, peer, UnknownPeerError("the link token is wrong"))


def _greet_client(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    rights = host.authority.client(hello, certificate_name(peer), host.id)
    session = host.session_of(hello.session)
    # A client that says it has fewer frames than it confirmed has lost some, and its session with them.
    known = session is not None and session.box.confirmed <= hello.received <= session.box.sent
    resumed = session is not None and known and session.rights == rights
    if session is None or not resumed:
        try:
            session = _new_session(host, hello, rights, session)
        except BusyError as error:
            peer.close("busy", str(error))
            return
    elif session.peer is not None:
        _replace(session, session.peer)
    received = session.received if resumed else 0
    peer.transport.write(
        message_frame(
            Welcome(
                VERSION,
                str(host.id),
                session.name,
                [name for name in hello.capabilities if name in CAPABILITIES],
                session.secret,
                resumed,
                received,
                session.session_s,
                host.codec.limits.frame_bytes_max,
                host.net_limits.heartbeat_s,
            )
        )
    )
    host.counters.sessions_resumed += resumed
    session.attach(peer, hello.received if resumed else 0)
    peer.carry(session, ROLE_CLIENT, received)


class BusyError(RefusedError):
    """Not now; later perhaps."""


def _replace(session: Session, old: Peer) -> None:
    """The old connection is dead, and we had not noticed."""
    session.lost(old, False)
    old.owner = None
    old.close("replaced", "the session goes on with another connection")


def _new_session(host: "BrokerHost", hello: Hello, rights: Rights, proved: Session | None) -> Session:
    """A session for a client; `proved` is the earlier one whose secret it knows."""
    name = hello.name or (f"{rights.name}/" if rights.name else "") + f"c-{secrets.token_hex(6)}"
    if not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise RefusedError(f"a client's name is printable and has at most {NAME_CHARS_MAX} characters")
    host.authority.check_name(rights, name)
    known = host.sessions.get(name)
    if known is not None:
        _make_room(host, known, rights, known is proved)
    session_s = min(hello.session_s, host.net_limits.session_s_max)
    session = Session(host, name, secrets.token_bytes(SECRET_BYTES), session_s, rights)
    host.add_session(session)
    return session


def _make_room(host: "BrokerHost", known: Session, rights: Rights, has_secret: bool) -> None:
    """Forget a session that a newcomer of the same name may replace, or raise `BusyError`."""
    same = known.rights == rights
    if known.peer is not None and not (same and has_secret):
        _probe(host, known, known.peer)
        raise BusyError(f"a client named {known.name!r} is connected already; choose another name, or try again")
    if not (same and (has_secret or rights.name)):
        left_s = max(0.0, known.session_s - (host.now() - (known.left_s or host.now())))
        raise BusyError(
            f"a client named {known.name!r} is away and has {left_s:.1f} s to come back; "
            "choose another name, or try again then"
        )
    if known.peer is not None:
        _replace(known, known.peer)
    # It came back without its session, having forgotten it: the old one has nobody to wait for.
    host.forget(known)


def _probe(host: "BrokerHost", session: Session, old: Peer) -> None:
    """Ask a connection for a sign of life, and close it if it gives none."""
    if session.probed is old or old.is_held:
        # Asked already; or it is we who do not listen.
        return
    session.probed = old
    old.transport.write(message_frame(Ping()))
    host.loop.call_later(PROBE_S, _end_probe, session, old, old.heard_s)


def _end_probe(session: Session, old: Peer, heard_s: float) -> None:
    session.probed = None
    if session.peer is old and old.heard_s == heard_s and not old.is_held:
        session.lost(old, False)
        old.owner = None
        old.abort()
        if session.left_s is not None:
            # It has been away since then, though nobody had noticed.
            session.left_s = heard_s


def check_certificate(host: "BrokerHost", peer: Peer, neighbour: BrokerId) -> None:
    """The neighbour that we dialled must prove who it is, too."""
    if host.authority.tls and certificate_name(peer) != str(neighbour):
        raise RemoteProtocolError(f"the certificate at the address of {neighbour} is for {certificate_name(peer)!r}")


def certificate_name(peer: Peer) -> str:
    """The common name of the peer's certificate; empty where it has none."""
    certificate = peer.transport.get_extra_info("peercert") or {}
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
