"""`octopia console [OVERLAY]`: serve the web console.

Standard output is one line: the address of the page, printed once it can be opened.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.live_options import AuthoritiesOption, CertificateOption, KeyOption, NameOption, TokenOption
from octopia.cli.terminal import out, say

if TYPE_CHECKING:
    from octopia.console import ConsoleSettings

LISTEN_DEFAULT = "127.0.0.1:8400"


def console(
    overlay: Annotated[
        str | None,
        typer.Argument(
            metavar="[OVERLAY]",
            help="Overlay file, or a broker's HTTP address (http://host:9400); default: the overlay of octopia serve.",
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Start an overlay with a quote generator and a tour.")] = False,
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Address of the page.")
    ] = LISTEN_DEFAULT,
    allow_publish: Annotated[
        bool, typer.Option("--allow-publish", help="Let pages and browser clients advertise and publish.")
    ] = False,
    no_delays: Annotated[bool, typer.Option("--no-delays", help="Do not measure delays with test clients.")] = False,
    http_token: Annotated[
        str,
        typer.Option("--http-token", metavar="TOKEN", envvar="OCTOPIA_HTTP_TOKEN", help="Token for the brokers' HTTP."),
    ] = "",
    access_token_file: Annotated[
        Path | None,
        typer.Option("--access-token-file", metavar="FILE", help="Require the token in this file from visitors."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE.pem", help="Serve HTTPS.")] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE.key", help="Private key for --tls-cert.")
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front of the console handles TLS.")
    ] = False,
    host_name: Annotated[
        list[str] | None, typer.Option("--host-name", metavar="NAME", help="Additional host name to accept.")
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="Origin of another page that may use the WebSocket."),
    ] = None,
    url: Annotated[
        str,
        typer.Option("--url", "-u", metavar="URL", help="Broker to connect to; default: any broker of the overlay."),
    ] = "",
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Serve a web page that shows a running overlay: map, tables, filters, probes, explanations, problems.

    It is read-only without --allow-publish, and listens on loopback by default. Try: octopia console --demo.
    """
    from octopia.errors import InputError

    if demo and overlay is not None:
        raise InputError("give an overlay or --demo, not both")
    settings = _settings(
        listen,
        allow_publish=allow_publish or demo,
        measure_delays=not no_delays,
        access_token=_secret(access_token_file),
        certificate=str(tls_cert or ""),
        key=str(tls_key or ""),
        behind_proxy=behind_proxy,
        names=tuple(host_name or ()),
        origins=tuple(origin or ()),
        url=url,
        client_name=name,
        client_token=token,
        client_tls=_client_tls(ca, cert, key),
    )
    if demo:
        _run_demo(settings)
    else:
        _run(settings, overlay, http_token)


def _settings(listen: str, **given: Any) -> "ConsoleSettings":
    from octopia.extras import missing
    from octopia.net import Address

    try:
        from octopia.console import PORT_DEFAULT, ConsoleSettings
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise missing(error.name, "console pages") from None
    address = Address.parse(listen, PORT_DEFAULT)
    return ConsoleSettings(host=address.host, port=address.port, **given)


def _secret(file: Path | None) -> str:
    from octopia.errors import InputError

    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None


def _client_tls(ca: Path | None, cert: Path | None, key: Path | None) -> Any:
    from octopia.net import client_context

    return client_context(ca, cert, key) if ca or cert or key else None


def _show(link: str) -> None:
    console = out()
    say(console, link)
    console.file.flush()


def _run(settings: "ConsoleSettings", overlay: str | None, http_token: str) -> None:
    import asyncio

    from octopia.console import Service, run_console
    from octopia.watch import find

    watched = asyncio.run(find(overlay, http_token))
    run_console(lambda: Service(settings, watched), settings, _show)


def _run_demo(settings: "ConsoleSettings") -> None:
    from octopia.console import DemoPlan, DemoProcess, Service, run_console
    from octopia.watch import Watched

    def service() -> Service:
        demo = DemoProcess(DemoPlan())
        return Service(settings, Watched.of(demo.config), demo)

    run_console(service, settings, _show)
