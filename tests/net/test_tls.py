"""The message of a failed dial: one line, with the fix, whatever the system calls it."""

import errno
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from octopia.net import Client, UnreachableError, Url, client_context
from octopia.net.tls import explain_dial_error
from tests.net.live import Live, in_overlay, overlay
from tests.net.test_security import Certificates, secure_url, with_tls


async def failure(url: str, **options: Any) -> str:
    with pytest.raises(UnreachableError) as caught:
        await Client(url, **options).open()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@overlay(tree="path:1", clusters=1)
async def test_tls_to_a_port_without(live: Live, tmp_path: Path) -> None:
    url = secure_url(live, "a,0")
    said = await failure(url, tls=Certificates(tmp_path).of_client())
    assert said == f"{url} cannot be reached: it does not speak TLS; use {live.url('a,0')}"


def test_a_port_with_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.sign("stranger", "reader", by=trustme.CA())
    old = certificates.of_client()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2

    async def scene(live: Live) -> None:
        plain, secure = live.url("a,0"), secure_url(live, "a,0")
        closed = f"{plain}: the connection was closed before an answer; if the broker speaks TLS, use {secure}"
        assert await failure(plain) == closed
        untrusted = (
            f"{secure} cannot be reached: its certificate is not trusted (self-signed certificate in certificate"
        )
        for context in (None, client_context(), ssl.create_default_context()):
            said = await failure(secure, tls=context)
            assert said.startswith(untrusted)
            assert said.endswith("; name the authority that signed it: --ca FILE, or tls=")
        named = secure.replace("127.0.0.1", "localhost")
        assert await failure(named, tls=certificates.of_client()) == (
            f"{named} cannot be reached: its certificate is not for localhost; use a host or address that it names"
        )
        assert "TLS must be 1.3" in await failure(secure, tls=old)
        assert "may not trust this client's certificate" in await failure(
            secure, tls=certificates.of_client("stranger")
        )

    in_overlay(scene, host="127.0.0.1", **with_tls(certificates))


SECURE, PLAIN = Url.parse("octopias://h:1"), Url.parse("octopia://h:1")


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "url", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('h', 1)"), PLAIN, "Connection refused"),
        (OSError("no address"), PLAIN, "no address"),
        (ConnectionResetError(errno.ECONNRESET, "x"), PLAIN, "Connection reset by peer"),
        (
            ConnectionResetError(),
            SECURE,
            "the broker ended the TLS handshake; if it does not speak TLS, use octopia://h:1",
        ),
        (ssl.SSLEOFError(8, "EOF"), SECURE, "it does not speak TLS; use octopia://h:1"),
        (tls_error("HTTP_REQUEST"), SECURE, "it does not speak TLS; use octopia://h:1"),
        (tls_error("TLSV1_ALERT_PROTOCOL_VERSION"), SECURE, "TLS 1.3 is needed on both"),
        (tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), SECURE, "it does not accept this client's certificate"),
        (tls_error("TLSV1_ALERT_UNKNOWN_CA"), SECURE, "it does not accept this client's certificate"),
        (tls_error("BAD_THING"), SECURE, "the TLS handshake failed: bad thing"),
    ],
)
def test_what_the_system_says_is_translated(error: OSError, url: Url, said: str) -> None:
    explained = explain_dial_error(error, url)
    assert said in explained
    assert "Operation not permitted" not in explained
