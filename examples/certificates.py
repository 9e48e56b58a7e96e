"""Certificates for the brokers of an overlay file, by an authority of one's own; needs the openssl command.

python examples/certificates.py overlay.toml [CLIENT ...]

Writes what the file's table [tls] names, beside the file: the authority, and for every broker a certificate with the
broker as its common name and the host it listens on; and CLIENT.pem and CLIENT.key for each client named. What is there
already is kept, so it can be run again when a broker is added. The authority's own key, authority.key, belongs on no
broker.
"""

import ipaddress
import subprocess
import sys
from pathlib import Path

from octopia.errors import InputError
from octopia.net import load_config

DAYS = "825"


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)  # noqa: S603, S607  the user's own


def make_authority(certificate: Path, key: Path) -> None:
    subject = ["-subj", "/CN=OctopiA overlay", "-days", "3650", "-nodes", "-newkey", "ec", "-pkeyopt"]
    openssl("req", "-x509", *subject, "ec_paramgen_curve:P-256", "-keyout", str(key), "-out", str(certificate))


def sign(name: str, host: str, certificate: Path, key: Path, authority: Path, authority_key: Path) -> None:
    request = certificate.with_suffix(".csr")
    options = ["-subj", f"/CN={name}", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    openssl("req", "-new", *options, "-keyout", str(key), "-out", str(request))
    extensions = certificate.with_suffix(".ext")
    extensions.write_text(f"subjectAltName={alternative(host)}\n", encoding="utf-8")
    by = ["-CA", str(authority), "-CAkey", str(authority_key), "-CAcreateserial", "-days", DAYS]
    openssl("x509", "-req", "-in", str(request), *by, "-extfile", str(extensions), "-out", str(certificate))
    request.unlink()
    extensions.unlink()
    key.chmod(0o640)


def alternative(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def main() -> int:
    file, *clients = sys.argv[1:]
    config = load_config(file, secrets=False)
    if config.tls is None:
        raise InputError(f"{file} has no table [tls]")
    folder = Path(file).parent
    authority, authority_key = folder / config.tls.authorities, folder / "authority.key"
    if not authority.exists():
        make_authority(authority, authority_key)
    wanted = [
        (str(broker), address.host, *(name.replace("{broker}", f"{broker.region}-{broker.cluster}") for name in names))
        for names in [(config.tls.certificate, config.tls.key)]
        for broker, address in config.addresses.items()
    ]
    wanted += [(client, client, f"{client}.pem", f"{client}.key") for client in clients]
    for name, host, certificate, key in wanted:
        if not (folder / certificate).exists():
            sign(name, host, folder / certificate, folder / key, authority, authority_key)
            sys.stdout.write(f"{folder / certificate}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
