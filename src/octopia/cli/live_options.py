"""Options that the commands of a live client share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from octopia.net import Client

URL_DEFAULT = "octopia://127.0.0.1:7400"

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        envvar="OCTOPIA_URL",
        help="The broker to connect to; several with commas: the first that answers.",
    ),
]
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="The client's name; default: the broker's choice.")
]
TokenOption = Annotated[
    str, typer.Option("--token", metavar="TOKEN", envvar="OCTOPIA_TOKEN", help="The client's token.")
]
AuthoritiesOption = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE.pem", help="Authorities that may have signed the broker.")
]
CertificateOption = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE.pem", help="The client's own certificate.")
]
KeyOption = Annotated[Path | None, typer.Option("--key", metavar="FILE.key", help="The key of --cert.")]


def client(
    url: str, name: str, token: str, ca: Path | None, cert: Path | None, key: Path | None, **options: Any
) -> "Client":
    """A client with these options, not yet connected."""
    from octopia.net import Client, client_context, parse_urls

    tls = client_context(ca, cert, key) if any(each.tls for each in parse_urls(url)) else None
    return Client(url, name=name, token=token, tls=tls, **options)
