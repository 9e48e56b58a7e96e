"""Hide publishers from subscribers: deliveries carry aliases instead of publishers' names.

    [brokers]
    alias_token = "…"                   # or alias_token_file, alias_token_env, alias_token_sha256

An alias is made from the name and a secret that the brokers share, so it is the same at every broker and after a
restart: clients can use it instead of the name to order notifications and to recognise duplicates after a move. Without
the secret, nobody can find the name behind an alias or try names out. An alias does show which notifications come from
the same publisher.

Nothing changes inside the overlay. Brokers route, order, confirm and hold back by name; only the bytes written to a
client's socket are replaced, each time they are sent. The code is pure except for a bounded cache.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Final

from octopia.net.secret import digest_of
from octopia.wire import Kind, with_publisher

# Cached aliases: one takes some microseconds to make. At the bound, all are forgotten.
REMEMBERED_MAX: Final = 65_536
# 12 bytes of SHA-256: two of a million publishers share an alias with a probability of 1 in 10^17.
_ALIAS_BYTES: Final = 12
_DELIVER: Final = int(Kind.DELIVER)


class Aliases:
    """The aliases of one secret."""

    def __init__(self, token: str) -> None:
        """`token` as `secret.py` keeps it: the text, or its digest."""
        self._key = bytes.fromhex(digest_of(token))
        self._known: dict[str, str] = {}

    def of(self, publisher: str) -> str:
        """The alias of a name: `~` and 16 letters and digits."""
        alias = self._known.get(publisher)
        if alias is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            made = hmac.digest(self._key, publisher.encode(), hashlib.sha256)[:_ALIAS_BYTES]
            alias = self._known[publisher] = f"~{urlsafe_b64encode(made).decode()}"
        return alias

    def disguise(self, frames: list[bytes]) -> list[bytes]:
        """Frames for a client, with aliases in deliveries; other frames are unchanged."""
        return [with_publisher(frame, self.of) if frame[4] == _DELIVER else frame for frame in frames]
