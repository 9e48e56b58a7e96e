"""How neighbours prove to each other that they know the link token, without showing it.

    dialler    HELLO (nonce) ->
    acceptor                 <- CHALLENGE (nonce, proof that it knows the token)
    dialler    PROOF ->
    acceptor                 <- WELCOME

A proof is an HMAC-SHA256, keyed with the token, over the role of the prover, both nonces and both names. An impostor at
the port of a broker that is down therefore learns nothing useful, and a recorded proof cannot be replayed. The acceptor
proves itself first; the dialler answers only after that.
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
        # Each part with its length, so that no two lists of parts give the same bytes.
        made.update(len(part).to_bytes(4, "big") + part)
    return made.digest()


def is_proof(given: bytes, token: str, whose: str, nonces: tuple[bytes, bytes], dialler: str, acceptor: str) -> bool:
    return min(map(len, nonces)) >= NONCE_BYTES and hmac.compare_digest(
        given, proof_of(token, whose, nonces, dialler, acceptor)
    )
