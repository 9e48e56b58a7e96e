"""`octopia sub FILTER`: print matching notifications, one JSON object per line.

A line is printed as soon as its notification arrives. Everything else goes to standard error: the subscription coming
into force, lost and restored connections, and drops.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli import live_options
from octopia.cli.terminal import err, say

if TYPE_CHECKING:
    from octopia.net import Client, Subscription

# While no advertisement overlaps the filter, ask again after this long, then less and less often.
ASK_AGAIN_S = 1.0
ASK_AGAIN_S_MAX = 30.0
# How long to wait for an answer.
ANSWER_S = 5.0


def sub(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="A where-clause, or PADRES text.")],
    url: live_options.UrlOption = live_options.URL_DEFAULT,
    nearest: live_options.NearestOption = False,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="Stop after N notifications; 0: never.")] = 0,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="When slow: drop_oldest, drop_newest, disconnect or block. Default: the cluster's setting.",
        ),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="N", help="0 to 3; higher goes first. Default: the cluster's setting."),
    ] = None,
    deadline_ms: Annotated[
        int | None,
        typer.Option(
            "--deadline-ms",
            metavar="MS",
            help="Drop notifications older than this at their turn; 0: never. Default: the cluster's setting.",
        ),
    ] = None,
    meta: Annotated[
        bool, typer.Option("--meta", help="Also print publisher and id: {publisher, id, notification}.")
    ] = False,
    name: live_options.NameOption = "",
    token: live_options.TokenOption = "",
    ca: live_options.AuthoritiesOption = None,
    cert: live_options.CertificateOption = None,
    key: live_options.KeyOption = None,
) -> None:
    """Subscribe, and print each matching notification as a line of JSON."""
    import asyncio

    subscriber = live_options.client(url, name, token, ca, cert, key, nearest=nearest)
    subscription = subscriber.subscribe(filter, policy=policy, priority=priority, deadline_ms=deadline_ms)
    asyncio.run(_print_all(subscriber, subscription, count, meta))


async def _overlapping(client: "Client", subscription: "Subscription") -> int | None:
    """The number of advertisements that overlap the subscription; None: unknown, or no answer in time."""
    import asyncio

    try:
        async with asyncio.timeout(ANSWER_S):
            return await client.overlapping(subscription.filter)
    except TimeoutError:
        return None


async def _tell_of_publisher(client: "Client", subscription: "Subscription") -> None:
    """Say when the first advertisement overlaps."""
    import asyncio
    from contextlib import suppress

    from octopia.errors import OctopiaError

    pause_s = ASK_AGAIN_S
    with suppress(OctopiaError):  # a reader of the subscription gets it, too
        while not await _overlapping(client, subscription):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, ASK_AGAIN_S_MAX)
        say(err(), "octopia: a publisher now advertises notifications that may match")


async def _print_all(client: "Client", subscription: "Subscription", count: int, meta: bool) -> None:
    import asyncio
    import json

    printed = dropped = too_old = 0
    async with client, subscription:
        tells: asyncio.Task[None] | None = None
        state = "waiting for notifications that match"
        if await _overlapping(client, subscription) == 0:
            state = "no publisher advertises anything that matches yet"
            tells = asyncio.create_task(_tell_of_publisher(client, subscription))
        say(err(), f"octopia: in force at {client.broker}; {state} (Ctrl-C ends)")
        async for batch in subscription.lists():
            if tells is not None:
                tells.cancel()
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
            if client.too_old > too_old:
                say(err(), f"octopia: {client.too_old - too_old} notifications were dropped: their deadline had passed")
                too_old = client.too_old
            if count and printed >= count:
                return
