"""`octopia sub FILTER`: print what matches, one JSON object per line.

Rules of this file: a line is printed as soon as its notification has come; drops are told on standard error.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import err, say
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


def sub(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="A where-clause, or PADRES text.")],
    url: UrlOption = URL_DEFAULT,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="End after so many; 0: never.")] = 0,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="POLICY", help="drop_oldest, drop_newest, disconnect or block, when slow."),
    ] = "drop_oldest",
    meta: Annotated[
        bool, typer.Option("--meta", help="Print publisher and id, too: {publisher, id, notification}.")
    ] = False,
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Subscribe, and print every notification that comes as a line of JSON."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.language import parse_filter

    parse_filter(filter)
    asyncio.run(_print_all(client(url, name, token, ca, cert, key), filter, count, policy, meta))


async def _print_all(client: "Client", filter: str, count: int, policy: str, meta: bool) -> None:
    import json

    printed = dropped = 0
    async with client, client.subscribe(filter, policy=policy) as subscription:
        async for batch in subscription.batches():
            lines = []
            for delivery in batch[: count - printed] if count else batch:
                line: dict[str, Any] = delivery.notification.to_dict()
                if meta:
                    line = {"publisher": delivery.publisher, "id": delivery.id, "notification": line}
                lines.append(json.dumps(line, ensure_ascii=False))
            printed += len(lines)
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
            if subscription.dropped > dropped:
                say(
                    err(),
                    f"octopia: {subscription.dropped - dropped} notifications were dropped: the reader is too slow",
                )
                dropped = subscription.dropped
            if count and printed >= count:
                return
