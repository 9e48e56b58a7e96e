"""Who is let in: the first message of a connection, at the broker that was dialled; and certificates.

Rules of this file: a peer is let in here or refused with a reason (`RefusedError`), and nothing of what it says is used
before. A client that names its session gets it back, if its rights are still the same; a neighbour must prove that it
is the one it says.
"""

import secrets
from typing import TYPE_CHECKING

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import is_loopback
from octopia.net.broker.rights import Rights
from octopia.net.broker.sessions import Session
from octopia.net.peer import Peer
from octopia.topology import BrokerId
from octopia.wire import NAME_CHARS_MAX, ROLE_BROKER, ROLE_CLIENT, VERSION, Hello, Welcome, message_frame

if TYPE_CHECKING:
    from octopia.net.broker.host import BrokerHost

SECRET_BYTES = 16
CAPABILITIES = ["trace"]


def greet(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    """A peer said who it is: let it in, or raise `RefusedError`."""
    if VERSION not in hello.versions:
        raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
    if host.draining:
        peer.close("shutdown", "this broker is about to stop")
    elif hello.role == ROLE_CLIENT:
        _greet_client(host, peer, hello)
    elif hello.role == ROLE_BROKER:
        _greet_broker(host, peer, hello)
    else:
        raise RefusedError(f"unknown role {hello.role!r}; there are {ROLE_CLIENT} and {ROLE_BROKER}")


def _greet_broker(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    link = next((link for n, link in host.links.items() if str(n) == hello.name), None)
    if link is None:
        raise RefusedError(f"{hello.name!r} is no neighbour of {host.id}")
    if hello.to != str(host.id):
        raise RefusedError(f"this is broker {host.id}, not {hello.to}; an address is wrong")
    if hello.overlay != host.overlay_digest:
        raise RefusedError(f"{hello.name} was started with another overlay; use the same file everywhere")
    address = peer.transport.get_extra_info("peername")
    loopback = isinstance(address, tuple) and is_loopback(address[0])
    host.authority.check_broker(hello, link.neighbour, certificate_name(peer), loopback)
    link.accept(peer, hello)


def _greet_client(host: "BrokerHost", peer: Peer, hello: Hello) -> None:
    rights = host.authority.client(hello, certificate_name(peer), host.id)
    session = host.session_of(hello.session)
    # A client that says it has fewer frames than it confirmed has lost some, and its session with them.
    known = session is not None and session.box.confirmed <= hello.received <= session.box.sent
    resumed = session is not None and known and session.rights == rights
    if session is None or not resumed:
        session = _new_session(host, hello, rights)
    elif session.peer is not None:
        # The old connection is dead, and we had not noticed.
        old = session.peer
        session.lost(old, False)
        old.owner = None
        old.close("replaced", "the session goes on with another connection")
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


def _new_session(host: "BrokerHost", hello: Hello, rights: Rights) -> Session:
    name = hello.name or (f"{rights.name}/" if rights.name else "") + f"c-{secrets.token_hex(6)}"
    if not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise RefusedError(f"a client's name is printable and has at most {NAME_CHARS_MAX} characters")
    rights.check_name(name)
    known = host.sessions.get(name)
    if known is not None:
        if known.peer is not None or known.rights != rights:
            raise RefusedError(f"a client named {name!r} is connected already; choose another name")
        # It came back without its session, having forgotten it: the old one has nobody to wait for.
        host.forget(known)
    session_s = min(hello.session_s, host.net_limits.session_s_max)
    session = Session(host, name, secrets.token_bytes(SECRET_BYTES), session_s, rights)
    host.add_session(session)
    return session


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
