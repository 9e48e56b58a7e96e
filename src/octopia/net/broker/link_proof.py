"""How neighbours prove to each other that they know the link token, without showing it.

    dialler    HELLO (nonce) ->
    acceptor                 <- CHALLENGE (nonce, proof that it knows the token)
    dialler    PROOF ->
    acceptor                 <- WELCOME

A proof is an HMAC-SHA256 with the token as its key, over who proves it, both nonces and both names. So whoever listens
at the port of a broker that is down learns nothing it could use, and nothing that was heard can be said again. The
acceptor proves itself first; the dialler answers no one who has not.
"""

import hmac
import secrets

NONCE_BYTES = 16
ACCEPTOR = "acceptor"
DIALLER = "dialler"


def new_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def proof_of(token: str, whose: str, nonces: tuple[bytes, bytes], dialler: str, acceptor: str) -> bytes:
    """The proof that one of the two gives; `nonces` are the dialler's and the acceptor's."""
    made = hmac.new(token.encode(), digestmod="sha256")
    for part in (whose.encode(), *nonces, dialler.encode(), acceptor.encode()):
        # With its length, so that no two lists of parts read the same.
        made.update(len(part).to_bytes(4, "big") + part)
    return made.digest()


def is_proof(given: bytes, token: str, whose: str, nonces: tuple[bytes, bytes], dialler: str, acceptor: str) -> bool:
    return min(map(len, nonces)) >= NONCE_BYTES and hmac.compare_digest(
        given, proof_of(token, whose, nonces, dialler, acceptor)
    )
