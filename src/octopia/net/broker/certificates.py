"""Certificates for the brokers and clients of an overlay, signed by its own authority.

`make_certificates` writes the files named in the [tls] table of an overlay file, next to it, and keeps existing ones,
so it can be run again when a broker is added. Keys are readable by their owner and group only. The authority's own key,
authority.key, does not belong on any broker.
"""

import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from octopia.errors import InputError
from octopia.extras import missing
from octopia.net.broker.config import ServeConfig, TlsFiles

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

AUTHORITY_KEY = "authority.key"
AUTHORITY_DAYS = 3650
# Browsers and operating systems refuse longer ones.
DAYS_DEFAULT = 825
# Clocks of machines differ a little.
_EARLIER = timedelta(hours=1)
_KEY_MODE = 0o640
_CLIENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class _Wanted:
    name: str
    host: str
    certificate: Path
    key: Path


def make_certificates(config: ServeConfig, clients: Sequence[str], days: int = DAYS_DEFAULT) -> list[Path]:
    """Create the missing certificates and return their paths."""
    try:
        from cryptography import x509
    except ImportError:
        raise missing("cryptography", "certificates") from None
    files = config.tls
    if files is None:
        raise InputError("the overlay file has no table [tls], which names the certificates")
    for client in clients:
        if not _CLIENT.fullmatch(client):
            raise InputError(f"{client!r} cannot name a client's files: use letters, digits, '.', '_' and '-'")
    authority, key = files.base / files.authorities, files.base / AUTHORITY_KEY
    made = []
    if not authority.exists():
        _make_authority(authority, key)
        made.append(authority)
    wanted = [one for one in _wanted(config, files, clients) if not one.certificate.exists()]
    if wanted and not key.exists():
        raise InputError(f"{key} is missing: without the authority's key nothing can be signed")
    for one in wanted:
        _sign(one, x509.load_pem_x509_certificate(authority.read_bytes()), _load_key(key), days)
        made.append(one.certificate)
    return made


def _wanted(config: ServeConfig, files: TlsFiles, clients: Sequence[str]) -> Iterator[_Wanted]:
    for broker, address in config.addresses.items():
        label = f"{broker.region}-{broker.cluster}"
        certificate, key = (files.base / name.replace("{broker}", label) for name in (files.certificate, files.key))
        yield _Wanted(str(broker), address.host, certificate, key)
    for client in clients:
        yield _Wanted(client, client, files.base / f"{client}.pem", files.base / f"{client}.key")


def _make_authority(certificate: Path, key: Path) -> None:
    from cryptography import x509

    own, name = _new_key(), _named("OctopiA overlay")
    builder = _builder(name, name, own, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    _write(key, _pem_of_key(own), _KEY_MODE)
    _write(certificate, _signed(builder, own))


def _sign(one: _Wanted, authority: "Certificate", authority_key: "EllipticCurvePrivateKey", days: int) -> None:
    from cryptography import x509

    own = _new_key()
    builder = _builder(_named(one.name), authority.subject, own, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(one.host)]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    _write(one.key, _pem_of_key(own), _KEY_MODE)
    _write(one.certificate, _signed(builder, authority_key))


def _builder(subject: "Name", issuer: "Name", key: "EllipticCurvePrivateKey", days: int) -> "CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> "Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> "GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(builder: "CertificateBuilder", key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import hashes, serialization

    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def _load_key(file: Path) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (TypeError, ValueError) as error:
        raise InputError(f"{file}: not a key that can be used: {error}") from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise InputError(f"{file}: not the key of an elliptic curve, as this command makes them")
    return key


def _write(file: Path, content: bytes, mode: int = 0o644) -> None:
    """Create a file with its final permissions from the first byte on."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error}") from None
