"""`octopia adv FILTER`: advertise, and stay until interrupted, so that what subscribers cause can be watched."""

from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import out, say
from octopia.cli.live_options import (
    URL_DEFAULT,
    AuthoritiesOption,
    CertificateOption,
    KeyOption,
    NameOption,
    TokenOption,
    UrlOption,
)

if TYPE_CHECKING:
    from octopia.net import Client


def adv(
    filters: Annotated[list[str], typer.Argument(metavar="FILTER...", help="What could be published.")],
    url: UrlOption = URL_DEFAULT,
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Advertise, print the ids when they are in force, and keep them so until interrupted."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.language import parse_filter

    for filter in filters:
        parse_filter(filter)
    asyncio.run(_advertise(client(url, name, token, ca, cert, key), filters))


async def _advertise(client: "Client", filters: list[str]) -> None:
    import asyncio

    async with client:
        for filter in filters:
            id = await client.advertise(filter)
            say(out(), f"{id} in force at {client.broker}: {filter}")
        await asyncio.Event().wait()
