"""Who a broker is, as it says in every handshake."""

import secrets
from dataclasses import dataclass, field

from octopia.topology import BrokerId

SECRET_BYTES = 16


def new_secret() -> bytes:
    """For a session, or for the life of a broker: nobody can guess it, and no two are alike."""
    return secrets.token_bytes(SECRET_BYTES)


@dataclass(frozen=True)
class Identity:
    """The same for all links and sessions of one broker, from its start to its end."""

    broker: BrokerId
    overlay_digest: str
    frame_bytes_max: int
    heartbeat_s: float
    life: bytes = field(default_factory=new_secret, repr=False)
