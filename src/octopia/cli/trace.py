"""`octopia trace NOTIFICATION`: publish a probe and show its way, hop by hop.

Rules of this file: the probe is published like any other notification, with a header that asks brokers to note what
they do with it; then every broker of the overlay is asked. Times are since the first broker had it, by the brokers'
own clocks.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import out, print_json, say
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
    from octopia.net import Client, ServeConfig

# Copies that are still under way are waited for until nothing new has come for so long.
QUIET_S = 0.3


def trace(
    notification: Annotated[
        str, typer.Argument(metavar="NOTIFICATION", help='JSON like {"price": 120}, or PADRES text.')
    ],
    file: Annotated[
        Path | None, typer.Option("--overlay", metavar="FILE", help="Overlay file; default: that of octopia serve.")
    ] = None,
    url: UrlOption = URL_DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Publish a probe and show the path of every copy, with times and CIVs."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.net import default_config, load_config

    config = default_config() if file is None else load_config(file, secrets=False)
    records = asyncio.run(_probe(client(url, name, token, ca, cert, key), notification, config))
    if as_json:
        print_json(records)
    else:
        _show(records, config.scot.clusters)


async def _probe(client: "Client", text: str, config: "ServeConfig") -> list[dict[str, Any]]:
    import asyncio

    from octopia.cli.pub import given_object
    from octopia.language import Filter, Operator, Predicate, parse_notification

    given = parse_notification(given_object(text) if text.lstrip().startswith("{") else text)
    async with client:
        await client.advertise(Filter.of(*(Predicate(name, Operator.PRESENT) for name in sorted(given))))
        sequence = int(await client.publish(given, traced=True))
        await client.flush()
        records: list[dict[str, Any]] = []
        while True:
            await asyncio.sleep(QUIET_S)
            found = [
                record
                for record in await asyncio.to_thread(_ask_all, config)
                if record["publisher"] == client.name and record["sequence"] == sequence
            ]
            if len(found) == len(records):
                return sorted(found, key=lambda record: int(record["time_ns"]))
            records = found


def _ask_all(config: "ServeConfig") -> list[dict[str, Any]]:
    from octopia.cli.status import fetch_all

    return [record for answer in fetch_all(config, "/traces") if isinstance(answer, list) for record in answer]


def _show(records: list[dict[str, Any]], clusters: int) -> None:
    from octopia.topology import civ

    console = out()
    if not records:
        say(console, "No broker has seen it: is this the overlay that the url belongs to?")
        return
    start = records[0]["time_ns"]
    for record in records:
        say(console, f"{(record['time_ns'] - start) / 1000:8.0f} µs  {record['broker']} from {record['came_from']}")
        for neighbour, mask in record["sent"]:
            carrying = f" carrying {civ.to_string(mask, clusters)}" if mask else ""
            say(console, f"             → {neighbour}{carrying}")
        for client in record["delivered"]:
            say(console, f"             ● {client}")
    hops = sum(len(record["sent"]) for record in records)
    delivered = sum(len(record["delivered"]) for record in records)
    say(console, f"{hops} messages between brokers, {delivered} deliveries.")
