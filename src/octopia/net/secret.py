"""Secrets as a broker keeps them: the text itself, or `sha256:` and its digest in hex.

A digest is enough to recognise a token and useless to a reader of the file. It is a plain SHA-256, which is safe for
random tokens but not for guessable ones; hence the minimum length. Comparison takes constant time.
"""

import hashlib
import hmac

# Random letters and digits of this length cannot be guessed.
TOKEN_CHARS_MIN = 16
HASHED = "sha256:"


def is_same(kept: str, given: str) -> bool:
    """Whether a peer's secret equals the stored one. An empty secret never matches."""
    if not kept or not given:
        return False
    return hmac.compare_digest(digest_of(kept).encode(), hashlib.sha256(given.encode()).hexdigest().encode())


def digest_of(kept: str) -> str:
    """The digest of a secret, the same however it is stored."""
    if kept.startswith(HASHED):
        return kept.removeprefix(HASHED).lower()
    return hashlib.sha256(kept.encode()).hexdigest()


def spoken(kept: str) -> str:
    """The secret to send to a peer; empty if only its digest is known."""
    return "" if kept.startswith(HASHED) else kept
