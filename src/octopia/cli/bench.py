"""`octopia bench`: load for a running overlay; rates and latency percentiles.

Rules of this file: it reads options and prints; `octopia.net.bench` does the work. Exit code 1 where a notification is
missing that was neither delivered nor dropped.
"""

from typing import Annotated

import typer

from octopia.cli.console import out, print_json, say
from octopia.cli.live_options import (
    URL_DEFAULT,
    AuthoritiesOption,
    CertificateOption,
    KeyOption,
    TokenOption,
)


def bench(
    urls: Annotated[
        list[str] | None,
        typer.Option(
            "--url", "-u", metavar="URL", envvar="OCTOPIA_URL", help="Brokers; repeat to spread clients over several."
        ),
    ] = None,
    publishers: Annotated[int, typer.Option("--publishers", "-p", metavar="N", help="Clients that publish.")] = 1,
    subscribers: Annotated[int, typer.Option("--subscribers", "-s", metavar="N", help="Clients that get it all.")] = 1,
    rate: Annotated[
        float,
        typer.Option("--rate", "-r", metavar="PER_S", help="Notifications a second in all; 0: as fast as it goes."),
    ] = 0.0,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="Size of a notification.")] = 200,
    seconds: Annotated[float, typer.Option("--seconds", "-t", metavar="S", help="How long to publish.")] = 5.0,
    policy: Annotated[str, typer.Option("--policy", metavar="POLICY", help="Of the subscriptions.")] = "block",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Publish and subscribe under load, and show rates and latencies. A constant rate shows stalls as they are."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.net import BenchPlan
    from octopia.net import bench as run

    plan = BenchPlan(publishers, subscribers, seconds, rate, size, policy)
    result = asyncio.run(run(urls or [URL_DEFAULT], plan, lambda url: client(url, "", token, ca, cert, key)))
    if as_json:
        print_json(result.to_jsonable())
    else:
        console = out()
        figures = result.to_jsonable()
        say(console, f"published  {result.published:,} ({figures['published_per_s']:,.0f}/s)")
        say(console, f"delivered  {result.delivered:,} ({figures['delivered_per_s']:,.0f}/s)")
        say(console, f"dropped    {result.dropped:,}, missing {result.missing:,}")
        shown = "  ".join(f"{name} {value:,.0f} µs" for name, value in result.latency_us.items())
        say(console, f"latency    {shown or 'nobody subscribed'}")
    if result.missing:
        raise typer.Exit(1)
