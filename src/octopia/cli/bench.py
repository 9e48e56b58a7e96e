"""`octopia bench`: load a running overlay and measure rates and latency percentiles.

Options and output only; `octopia.net.bench` does the work. The exit code is 1 if a notification was neither
delivered nor dropped.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli import live_options
from octopia.cli.options import JsonOption
from octopia.cli.terminal import out, print_json, say, status_line

if TYPE_CHECKING:
    from octopia.net import BenchResult

# Below this share of the requested rate, the result says so.
REACHED = 0.95


def bench(
    urls: Annotated[
        list[str] | None,
        typer.Option(
            "--url", "-u", metavar="URL", envvar="OCTOPIA_URL", help="Brokers; repeat to spread clients over several."
        ),
    ] = None,
    publishers: Annotated[
        int, typer.Option("--publishers", "-p", metavar="N", help="Number of publishing clients.")
    ] = 1,
    subscribers: Annotated[
        int, typer.Option("--subscribers", "-s", metavar="N", help="Number of clients that receive everything.")
    ] = 1,
    rate: Annotated[
        float,
        typer.Option("--rate", "-r", metavar="PER_S", help="Total notifications per second; 0: as fast as possible."),
    ] = 0.0,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="Size of a notification.")] = 200,
    seconds: Annotated[float, typer.Option("--seconds", "-t", metavar="S", help="How long to publish.")] = 5.0,
    policy: Annotated[
        str, typer.Option("--policy", metavar="POLICY", help="Overflow policy of the subscriptions.")
    ] = "block",
    as_json: JsonOption = False,
    token: live_options.TokenOption = "",
    ca: live_options.AuthoritiesOption = None,
    cert: live_options.CertificateOption = None,
    key: live_options.KeyOption = None,
) -> None:
    """Measure rates and latencies under load. A constant rate shows stalls at their true length."""
    import asyncio

    from octopia.net import BenchPlan
    from octopia.net import bench as run

    plan = BenchPlan(publishers, subscribers, seconds, rate, size, policy)
    with status_line() as show:

        def progress(elapsed_s: float, published: int, delivered: int) -> None:
            show(f"{elapsed_s:.0f} of {seconds:g} s: {published:,} published, {delivered:,} delivered")

        make = partial(live_options.client, name="", token=token, ca=ca, cert=cert, key=key)
        result = asyncio.run(run(urls or [live_options.URL_DEFAULT], plan, make, progress))
    if as_json:
        print_json(result.to_jsonable())
    else:
        _show(result)
    if result.missing:
        raise typer.Exit(1)


def _show(result: "BenchResult") -> None:
    console = out()
    say(console, f"published  {result.published:,} ({result.published_per_s:,.0f}/s)")
    say(console, f"delivered  {result.delivered:,} ({result.delivered / result.seconds:,.0f}/s)")
    say(console, f"dropped    {result.dropped:,}, missing {result.missing:,}")
    shown = "  ".join(f"{name} {_duration(value)}" for name, value in result.latency_us.items())
    say(console, f"latency    {shown or 'no subscribers'}")
    if result.published_per_s < REACHED * result.asked_per_s:
        say(
            console,
            f"The overlay and this client reached {result.published_per_s / result.asked_per_s:.0%} of the"
            f" {result.asked_per_s:,.0f}/s asked for; the latencies are mostly time spent waiting to be published."
            " Ask for a lower --rate, or use more brokers and bench processes.",
        )


def _duration(us: float) -> str:
    if us < 10_000:
        return f"{us:,.0f} µs"
    return f"{us / 1e3:,.1f} ms" if us < 1e6 else f"{us / 1e6:,.2f} s"
