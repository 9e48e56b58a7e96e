"""Secrets as a broker keeps them: the text itself, or `sha256:` and its digest in hex.

A digest is enough to recognise a token and of no use to whoever reads the file. It is a plain SHA-256, which holds for
tokens that were made at random and not for ones that can be guessed; hence the least length. Comparing takes the same
time whatever is given.
"""

import hashlib
import hmac

# Random letters and digits of this length cannot be guessed.
TOKEN_CHARS_MIN = 16
HASHED = "sha256:"


def is_same(kept: str, given: str) -> bool:
    """Whether what a peer gave is the secret that was kept. An empty one is nobody's."""
    if not kept or not given:
        return False
    return hmac.compare_digest(digest_of(kept).encode(), hashlib.sha256(given.encode()).hexdigest().encode())


def digest_of(kept: str) -> str:
    """What equal secrets have in common, however they are kept."""
    if kept.startswith(HASHED):
        return kept.removeprefix(HASHED).lower()
    return hashlib.sha256(kept.encode()).hexdigest()


def spoken(kept: str) -> str:
    """The secret as it is shown to a peer; empty where only its digest is known."""
    return "" if kept.startswith(HASHED) else kept
