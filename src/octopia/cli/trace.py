"""`octopia trace NOTIFICATION`: send a probe and show its path, hop by hop.

A probe is not delivered: brokers route it like any other notification and note the clients that would receive it. With
`--deliver` it is published and delivered. Times count from its arrival at the first broker, by the brokers' own clocks.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli import live_options
from octopia.cli.options import JsonOption
from octopia.cli.terminal import out, print_json, printable, say
from octopia.cli.watch_options import BAD, HttpTokenOption, OverlayOption

if TYPE_CHECKING:
    from octopia.language import Notification
    from octopia.net import Client
    from octopia.watch import Hop, Path, Reader


def trace(
    notification: Annotated[
        str, typer.Argument(metavar="NOTIFICATION", help='JSON like {"price": 120}, or PADRES text.')
    ],
    file: OverlayOption = None,
    url: live_options.UrlOption = live_options.URL_DEFAULT,
    publisher: Annotated[
        str | None,
        typer.Option("--as", metavar="CLIENT", help="Send the probe as this client of the broker."),
    ] = None,
    deliver: Annotated[bool, typer.Option("--deliver", help="Publish it, so that subscribers receive it.")] = False,
    as_json: JsonOption = False,
    name: live_options.NameOption = "",
    token: live_options.TokenOption = "",
    http_token: HttpTokenOption = "",
    ca: live_options.AuthoritiesOption = None,
    cert: live_options.CertificateOption = None,
    key: live_options.KeyOption = None,
) -> None:
    """Send a probe and show the path of every copy, with times and CIVs. It is delivered only with --deliver."""
    import asyncio
    from dataclasses import asdict

    from octopia.cli.watch_options import watched
    from octopia.errors import InputError
    from octopia.watch import Reader

    if deliver and publisher is not None:
        raise InputError("give --deliver or --as, not both: a client can publish only in its own name")
    seen = given_notification(notification)

    async def run() -> "Path":
        reader = Reader(await watched(file, None, http_token))
        return await _trace(live_options.client(url, name, token, ca, cert, key), reader, seen, publisher, deliver)

    path = asyncio.run(run())
    if as_json:
        print_json(asdict(path))
    else:
        show_path(path)
    if path.refused or not path.broker:
        raise typer.Exit(1)


def given_notification(text: str) -> "Notification":
    """A notification given as JSON or PADRES text."""
    from octopia.cli.pub import given_object
    from octopia.language import parse_notification

    return parse_notification(given_object(text) if text.lstrip().startswith("{") else text)


async def _trace(
    client: "Client", reader: "Reader", seen: "Notification", publisher: str | None, deliver: bool
) -> "Path":
    from octopia.watch import advertise_exactly, follow, probe

    async with client:
        if publisher is None:
            await advertise_exactly(client, seen)
        if not deliver:
            return await probe(client, reader, seen, publisher=publisher)
        sequence = int(await client.publish(seen, traced=True))
        await client.flush()
        return await follow(reader, client.name, sequence)


def show_path(path: "Path") -> None:
    """Print the path of a notification, broker by broker."""
    console = out()
    if path.refused:
        say(console, f"Refused: {printable(path.refused)}", BAD)
        return
    if not path.broker:
        say(console, "No broker has seen it: is this the overlay that the url belongs to?")
        return
    would = "would get it" if path.probe else "gets it"
    for broker, after_ns in path.visited:
        say(console, f"{after_ns / 1000:8.0f} µs  {broker}")
        for hop in path.hops:
            if hop.sender == broker and hop.after_ns == after_ns:
                say(console, f"             → {hop_line(hop)}", "" if hop.up else BAD)
        for each in path.gets:
            if each.broker == broker and each.after_ns == after_ns:
                trouble = f"; {each.trouble}" if each.trouble else ""
                ids = ", ".join(each.subscriptions)
                say(
                    console,
                    f"             ● {printable(f'{each.client} {would} ({ids}){trouble}')}",
                    BAD if trouble else "",
                )
    for hop in path.under_way:
        say(console, f"  not arrived: {hop.sender} → {hop_line(hop)}", BAD)
    deliveries = "would be delivered to" if path.probe else "delivered to"
    clients = len(path.gets)
    say(
        console,
        f"{len(path.hops)} messages between brokers, {deliveries} {clients} client{'' if clients == 1 else 's'}.",
    )
    if not clients and not path.under_way:
        say(
            console,
            "No subscription matches it. To see which condition of a client's subscription fails: octopia why CLIENT"
            " NOTIFICATION",
        )


def hop_line(hop: "Hop") -> str:
    """A copy on a link: its contents, and the link's problems if there are any."""
    said = [hop.receiver]
    if hop.civ:
        said.append(f"carrying {hop.civ}")
    if hop.destinations:
        said.append(f"for {', '.join(hop.destinations)}")
    if hop.priority:
        said.append(f"priority {hop.priority}")
    if not hop.up:
        said.append("the link is down")
    elif hop.queue:
        said.append(f"behind {hop.queue:,} others")
    if hop.arrived_ns is not None:
        said.append(f"{(hop.arrived_ns - hop.after_ns) / 1000:,.0f} µs")
    return ", ".join(said)
