"""`octopia adv FILTER`: advertise until interrupted, to watch the effect of subscriptions."""

from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.live_options import (
    URL_DEFAULT,
    AuthoritiesOption,
    CertificateOption,
    KeyOption,
    NameOption,
    NearestOption,
    TokenOption,
    UrlOption,
)
from octopia.cli.terminal import out, say

if TYPE_CHECKING:
    from octopia.net import Client


def adv(
    filters: Annotated[list[str], typer.Argument(metavar="FILTER...", help="Notifications that may be published.")],
    url: UrlOption = URL_DEFAULT,
    nearest: NearestOption = False,
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Advertise, print each id once it is in force, and stay connected until interrupted."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.language import parse_filter

    for filter in filters:
        parse_filter(filter)
    asyncio.run(_advertise(client(url, name, token, ca, cert, key, nearest=nearest), filters))


async def _advertise(client: "Client", filters: list[str]) -> None:
    import asyncio

    async with client:
        for filter in filters:
            id = await client.advertise(filter)
            say(out(), f"{id} in force at {client.broker}: {filter}")
        await asyncio.Event().wait()
