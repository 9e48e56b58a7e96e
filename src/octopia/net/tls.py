"""TLS contexts: version 1.3 and nothing older, certificates checked on both sides; and readable TLS errors.

A request for TLS succeeds or raises; there is no fallback. A broker's certificate has the broker as its common name,
e.g. `(b,2)`, and the names or addresses it listens on; a client's has the client's name. The system reports a failed
handshake with the text of another error ("Operation not permitted"): it is replaced here, with the fix.
"""

import os
import ssl
from os import PathLike

from octopia.errors import InputError
from octopia.net.addresses import SCHEME_PLAIN, SCHEME_TLS, Url

File = str | PathLike[str]


def server_context(certificate: File, key: File, authorities: File) -> ssl.SSLContext:
    """The context for a listening broker. A peer without a certificate needs a token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    _load(context, certificate, key, authorities)
    return context


def client_context(
    authorities: File | None = None, certificate: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """The context for dialling. Without `authorities`, the system's are trusted."""
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
        raise InputError(f"tls: one of these files is missing: {files}") from None
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"tls: {certificate or authorities} cannot be used: {error}") from None


# -- errors

# What OpenSSL says when the other side does not speak TLS at all.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
_OLD_TLS = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"})
_UNTRUSTED_CODES = frozenset({18, 19, 20, 21})  # X509_V_ERR: self-signed, or no way to a trusted authority
_NAME_CODES = frozenset({62, 64})  # X509_V_ERR: another host name, another address


def explain_dial_error(error: OSError, url: Url) -> str:
    """Why a broker could not be dialled, in one line with the fix."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, url)
    if isinstance(error, ssl.SSLError):
        return _explain_tls(error, url)
    if url.tls and isinstance(error, ConnectionResetError):
        return f"the broker ended the TLS handshake; if it does not speak TLS, {_plainly(url)}; TLS must be 1.3"
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused; is a broker running there? Start one with: octopia serve"
    # asyncio replaces the system's message with its own, which repeats the address.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def explain_closed(url: Url) -> str:
    """Why a broker may have closed a connection before it answered."""
    if url.tls:
        return "the connection was closed before an answer; the broker may not trust this client's certificate"
    return f"the connection was closed before an answer; if the broker speaks TLS, use {SCHEME_TLS}://{url.address}"


def _explain_certificate(error: ssl.SSLCertVerificationError, url: Url) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _UNTRUSTED_CODES:
        return f"its certificate is not trusted ({said}); name the authority that signed it: --ca FILE, or tls="
    if error.verify_code in _NAME_CODES:
        return f"its certificate is not for {url.address.host}; use a host or address that it names"
    return f"its certificate is not accepted: {said}"


def _explain_tls(error: ssl.SSLError, url: Url) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason in _NO_TLS or isinstance(error, ssl.SSLEOFError):
        return f"it does not speak TLS; {_plainly(url)}"
    if reason in _OLD_TLS:
        return "it speaks a version of TLS that this side does not; TLS 1.3 is needed on both"
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return (
            f"it does not accept this client's certificate ({reason.lower().replace('_', ' ')}); see --cert and --key"
        )
    return f"the TLS handshake failed: {reason.lower().replace('_', ' ') or error}"


def _plainly(url: Url) -> str:
    return f"use {SCHEME_PLAIN}://{url.address}"
