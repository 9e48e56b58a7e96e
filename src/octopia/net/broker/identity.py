"""A broker's identity, sent in every handshake."""

import secrets
from dataclasses import dataclass, field

from octopia.topology import BrokerId

SECRET_BYTES = 16


def new_secret() -> bytes:
    """A secret for a session or a broker's life: unguessable and unique."""
    return secrets.token_bytes(SECRET_BYTES)


@dataclass(frozen=True)
class Identity:
    """The same for all links and sessions of one broker, from its start to its end."""

    broker: BrokerId
    overlay_digest: str
    frame_bytes_max: int
    heartbeat_s: float
    life: bytes = field(default_factory=new_secret, repr=False)
