"""Who is let in: the first message of a connection, at the broker that was dialled; and certificates.

Rules of this file: a peer is let in here or refused with a reason (`RefusedError`), and nothing of what it says is used
before. A client that names its session gets it back, if its rights are still the same; a neighbour must prove that it
is the one it says.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from octopia.errors import RefusedError, RemoteProtocolError
from octopia.net.addresses import is_loopback
from octopia.net.broker.channels import Channels
from octopia.net.broker.identity import Identity
from octopia.net.broker.links import Link
from octopia.net.broker.operations.counters import Counters
from octopia.net.broker.rights import Authority, Rights
from octopia.net.broker.session_table import Sessions
from octopia.net.broker.sessions import Session
from octopia.net.channel import Channel
from octopia.topology import BrokerId
from octopia.wire import NAME_CHARS_MAX, ROLE_BROKER, ROLE_CLIENT, VERSION, Hello, Side, Welcome, message_frame

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
    ) -> None:
        self.identity = identity
        self.authority = authority
        self.channels = channels
        self.sessions = sessions
        self.links = links
        self.counters = counters
        self.closed = False  # nobody is let in any more

    def accept(self) -> Channel:
        """For a connection that is coming in."""
        return self.channels.make(Side.ACCEPTING_BROKER, self)

    def made(self, channel: Channel) -> None:
        self.channels.add(channel)
        if self.channels.are_too_many:
            channel.close("full", f"this broker has its maximum of {self.channels.connections_max} connections")

    def greet(self, channel: Channel, message: Any) -> None:
        greet(self, channel, message)

    def at_fault(self, channel: Channel, error: Exception) -> None:
        self.channels.at_fault(channel, error)

    def gone(self, channel: Channel, reason: str) -> None:
        self.channels.remove(channel)


def greet(door: Door, peer: Channel, hello: Hello) -> None:
    """A peer said who it is: let it in, or raise `RefusedError`."""
    if VERSION not in hello.versions:
        raise RefusedError(f"this broker speaks version {VERSION} only, the peer {hello.versions}")
    if door.closed:
        peer.close("shutdown", "this broker is about to stop")
    elif hello.role == ROLE_CLIENT:
        _greet_client(door, peer, hello)
    elif hello.role == ROLE_BROKER:
        _greet_broker(door, peer, hello)
    else:
        raise RefusedError(f"unknown role {hello.role!r}; there are {ROLE_CLIENT} and {ROLE_BROKER}")


def _greet_broker(door: Door, peer: Channel, hello: Hello) -> None:
    link = next((link for n, link in door.links.items() if str(n) == hello.name), None)
    if link is None:
        raise RefusedError(f"{hello.name!r} is no neighbour of {door.identity.broker}")
    if hello.to != str(door.identity.broker):
        raise RefusedError(f"this is broker {door.identity.broker}, not {hello.to}; an address is wrong")
    if hello.overlay != door.identity.overlay_digest:
        raise RefusedError(f"{hello.name} was started with another overlay; use the same file everywhere")
    address = peer.transport.get_extra_info("peername")
    loopback = isinstance(address, tuple) and is_loopback(address[0])
    door.authority.check_broker(hello, link.neighbour, certificate_name(peer), loopback)
    link.accept(peer, hello)


def _greet_client(door: Door, peer: Channel, hello: Hello) -> None:
    rights = door.authority.client(hello, certificate_name(peer), door.identity.broker)
    session = door.sessions.of_secret(hello.session)
    # A client that says it has fewer frames than it confirmed has lost some, and its session with them.
    known = session is not None and session.box.confirmed <= hello.received <= session.box.sent
    resumed = session is not None and known and session.rights == rights
    if session is None or not resumed:
        session = _new_session(door, hello, rights)
    elif session.channel is not None:
        # The old connection is dead, and we had not noticed.
        session.drop_channel("replaced", "the session goes on with another connection")
    received = session.received if resumed else 0
    peer.transport.write(
        message_frame(
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
    )
    door.counters.sessions_resumed += resumed
    session.attach(peer, hello.received if resumed else 0)
    peer.carry(session, ROLE_CLIENT, received)


def _new_session(door: Door, hello: Hello, rights: Rights) -> Session:
    name = hello.name or (f"{rights.name}/" if rights.name else "") + f"c-{secrets.token_hex(6)}"
    if not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise RefusedError(f"a client's name is printable and has at most {NAME_CHARS_MAX} characters")
    rights.check_name(name)
    known = door.sessions.get(name)
    if known is not None:
        if known.channel is not None or known.rights != rights:
            raise RefusedError(f"a client named {name!r} is connected already; choose another name")
        # It came back without its session, having forgotten it: the old one has nobody to wait for.
        door.sessions.forget(known)
    return door.sessions.begin(name, hello.session_s, rights)


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
