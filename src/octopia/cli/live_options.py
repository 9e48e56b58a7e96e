"""Options shared by the commands that connect as a client."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.terminal import err, say

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
        help="Broker to connect to. Of several, separated by commas, the first that answers, or the --nearest.",
    ),
]
NearestOption = Annotated[
    bool,
    typer.Option("--nearest", help="Of several brokers, use the nearest by measured delay; move when overloaded."),
]
NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Client name; default: chosen by the broker.")]
TokenOption = Annotated[str, typer.Option("--token", metavar="TOKEN", envvar="OCTOPIA_TOKEN", help="Client token.")]
AuthoritiesOption = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE.pem", help="Certificate authorities to trust for the broker.")
]
CertificateOption = Annotated[Path | None, typer.Option("--cert", metavar="FILE.pem", help="Client certificate.")]
KeyOption = Annotated[Path | None, typer.Option("--key", metavar="FILE.key", help="Private key for --cert.")]


def client(
    url: str, name: str, token: str, ca: Path | None, cert: Path | None, key: Path | None, **options: Any
) -> "Client":
    """A client with these options, not yet connected; it reports connection changes on standard error."""
    from octopia.net import Client, client_context, parse_urls

    options.setdefault("on_connection", lambda connected, what: say(err(), f"octopia: {what}"))
    tls = client_context(ca, cert, key) if any(each.tls for each in parse_urls(url)) else None
    return Client(url, name=name, token=token, tls=tls, **options)
