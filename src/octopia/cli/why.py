"""`octopia why CLIENT NOTIFICATION`: why a client of a running overlay does or does not get a notification.

`octopia explain` answers the same question about a scenario file.
"""

from typing import Annotated

import typer

from octopia.cli.explain import show_answers
from octopia.cli.live_options import AuthoritiesOption, CertificateOption, KeyOption, TokenOption
from octopia.cli.options import JsonOption
from octopia.cli.terminal import out, print_json
from octopia.cli.watch_options import HttpTokenOption, HttpUrlOption, OverlayOption


def why(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Name of the client.")],
    notification: Annotated[
        str | None, typer.Argument(metavar="[NOTIFICATION]", help='JSON like {"price": 120}, or PADRES text.')
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="PUBLISHER:NUMBER", help="A traced notification, instead of its content."),
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option(
            "--publisher", "-p", metavar="CLIENT", help="Publisher; default: any client allowed to publish it."
        ),
    ] = None,
    file: OverlayOption = None,
    url: HttpUrlOption = None,
    probes: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Find the path with a probe, which is not delivered.")
    ] = True,
    as_json: JsonOption = False,
    token: TokenOption = "",
    http_token: HttpTokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Explain why a client gets a notification, or name the predicate, right, advertisement, link or queue in the way.

    The probe is sent in the publisher's name: if the overlay file has clients tables, give a token with probe = true.
    """
    import asyncio
    from dataclasses import asdict

    from octopia.cli.live_options import client as make_client
    from octopia.cli.trace import given_notification
    from octopia.cli.watch_options import watched
    from octopia.errors import InputError
    from octopia.net import Client
    from octopia.watch import LiveAnswer, Reader, why_traced
    from octopia.watch import why as ask_why

    if (notification is None) == (id is None):
        raise InputError("give a notification, or --id of one that was traced")
    seen = None if notification is None else given_notification(notification)

    def prober(at: str) -> Client:
        return make_client(at, "", token, ca, cert, key)

    async def ask() -> LiveAnswer:
        reader = Reader(await watched(file, url, http_token))
        if seen is None:
            source, _, number = (id or "").rpartition(":")
            if not source or not number.isdecimal():
                raise InputError(f"--id {id!r}: write the publisher's name, a colon and the number, for example feed:7")
            return await why_traced(reader, client, source, int(number))
        return await ask_why(reader, client, seen, publisher=publisher, make_client=prober if probes else None)

    answer = asyncio.run(ask())
    if as_json:
        print_json({**answer.to_jsonable(), "path": None if answer.path is None else asdict(answer.path)})
    else:
        show_answers(out(), [answer], ("gets", "does not get"))
    if not answer.delivered:
        raise typer.Exit(1)
