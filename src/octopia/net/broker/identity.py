"""A broker's identity, sent in every handshake, and that of its overlay, which neighbours must share."""

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from octopia.routing import POLICIES
from octopia.topology import BrokerId, Scot
from octopia.wire import NAME_CHARS_MAX, Hello

SECRET_BYTES = 16
_DIGEST_CHARS = 32
# Routings whose brokers do not understand those of the version before, since their messages have changed.
_DIALECTS = {"fdr": "fdr 2"}


def new_secret() -> bytes:
    """A secret for a session or a broker's life: unguessable and unique."""
    return secrets.token_bytes(SECRET_BYTES)


@dataclass(frozen=True)
class OverlayIdentity:
    """An overlay's name, shape and routing. Brokers that differ in one of these are not neighbours.

    Earlier versions knew only the digest of shape and routing. HELLO still has it, with the name as text beside it, so
    that brokers of both versions understand each other while an overlay is upgraded.
    """

    name: str  # empty: unknown
    scot: Scot
    routing: str

    @cached_property
    def digest(self) -> str:
        """A digest of all of it."""
        return _digest(f"{self.name!r} {self._shape} {self.routing}")

    @cached_property
    def place_digest(self) -> str:
        """A digest of name and shape: the sessions of clients are the same under every routing."""
        return _digest(f"{self.name!r} {self._shape}")

    @cached_property
    def nameless_digest(self) -> str:
        """The digest of earlier versions, unless their messages are not understood."""
        return self.nameless_digest_with(_dialect(self.routing))

    def nameless_digest_with(self, routing: str) -> str:
        """The digest of earlier versions, with another routing."""
        return _digest(f"{self._shape} {routing}")

    @property
    def spoken_name(self) -> str:
        """The name as HELLO has it."""
        return self.name[:NAME_CHARS_MAX]

    @property
    def _shape(self) -> str:
        tree = self.scot.tree
        return f"{tree.edges} {tree.nodes} {self.scot.clusters}"

    def why_not(self, hello: Hello) -> str:
        """Why this broker is not a neighbour although the overlay has one of that name; empty if it is."""
        if hello.overlay == self.nameless_digest:
            if not hello.overlay_name or not self.name or hello.overlay_name == self.spoken_name:
                return ""
            return (
                f"{hello.name} belongs to the overlay {hello.overlay_name!r}, this broker to {self.name!r}; "
                "if this is one overlay, set the same name under [overlay] everywhere"
            )
        if hello.overlay == self.nameless_digest_with(self.routing):
            return (
                f"{hello.name} speaks an earlier version of {self.routing}; "
                "stop all brokers, and start them again with the same version"
            )
        for routing in POLICIES:
            if hello.overlay in (self.nameless_digest_with(routing), self.nameless_digest_with(_dialect(routing))):
                return (
                    f"{hello.name} uses the routing {routing}, this broker {self.routing}; "
                    "set the same name under [routing] everywhere, or restart all brokers with the same version"
                )
        return f"{hello.name} was started with another overlay; use the same file everywhere"


def _dialect(routing: str) -> str:
    return _DIALECTS.get(routing, routing)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


@dataclass(frozen=True)
class Identity:
    """The same for all links and sessions of one broker, from its start to its end."""

    broker: BrokerId
    overlay: OverlayIdentity
    frame_bytes_max: int
    heartbeat_s: float
    life: bytes = field(default_factory=new_secret, repr=False)
