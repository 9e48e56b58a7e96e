"""TLS contexts: version 1.3 and nothing older, certificates checked on both sides.

Rules of this file: whoever asks for TLS gets it or an error; there is no way to go on without. A broker's certificate
has the broker as its common name, e.g. `(b,2)`, and the names or addresses it listens on; a client's has the client's.
"""

import ssl
from os import PathLike

from octopia.errors import InputError

File = str | PathLike[str]


def server_context(certificate: File, key: File, authorities: File) -> ssl.SSLContext:
    """For a broker that listens. A peer may come without a certificate, and then needs a token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    _load(context, certificate, key, authorities)
    return context


def client_context(
    authorities: File | None = None, certificate: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """For whoever dials. Without `authorities` those of the system are trusted."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if authorities is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, certificate, key, authorities)
    return context


def _load(context: ssl.SSLContext, certificate: File | None, key: File | None, authorities: File | None) -> None:
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except FileNotFoundError:
        files = ", ".join(str(file) for file in (authorities, certificate, key) if file is not None)
        raise InputError(f"tls: one of these files is not there: {files}") from None
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"tls: {certificate or authorities} cannot be used: {error}") from None
