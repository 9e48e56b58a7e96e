"""`octopia adv FILTER`: advertise until interrupted, to watch the effect of subscriptions."""

from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli import live_options
from octopia.cli.terminal import out, say

if TYPE_CHECKING:
    from octopia.net import Client


def adv(
    filters: Annotated[list[str], typer.Argument(metavar="FILTER...", help="Notifications that may be published.")],
    url: live_options.UrlOption = live_options.URL_DEFAULT,
    nearest: live_options.NearestOption = False,
    name: live_options.NameOption = "",
    token: live_options.TokenOption = "",
    ca: live_options.AuthoritiesOption = None,
    cert: live_options.CertificateOption = None,
    key: live_options.KeyOption = None,
) -> None:
    """Advertise, print each id once it is in force, and stay connected until interrupted."""
    import asyncio

    from octopia.language import parse_filter

    for filter in filters:
        parse_filter(filter)
    asyncio.run(_advertise(live_options.client(url, name, token, ca, cert, key, nearest=nearest), filters))


async def _advertise(client: "Client", filters: list[str]) -> None:
    import asyncio

    async with client:
        for filter in filters:
            id = await client.advertise(filter)
            say(out(), f"{id} in force at {client.broker}: {filter}")
        await asyncio.Event().wait()
