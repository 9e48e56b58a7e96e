"""`octopia watch DIR…`: a minute-by-minute report on a running overlay, from its brokers' recordings."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.options import LateAfterOption, MasterOption
from octopia.cli.terminal import out, say

if TYPE_CHECKING:
    from octopia.pipeline import Window

EXIT_FOUND = 1
_SHOWN = 5


def watch(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Folders with recordings (octopia serve --record).")
    ],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the tables of each window.")] = Path(
        "out/watch"
    ),
    window: Annotated[int, typer.Option(metavar="S", help="Length of a window in seconds.")] = 60,
    wait: Annotated[
        int, typer.Option(metavar="S", help="Count notifications as lost if not delivered within this time.")
    ] = 10,
    late_after: LateAfterOption = None,
    settle: Annotated[float, typer.Option(metavar="S", help="Time until a subscription counts as in force.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Process existing recordings and exit.")] = False,
    master: MasterOption = "local[*]",
) -> None:
    """Watch a running overlay: lost, repeated and late notifications, slow links, busy subscriptions.

    Brokers started with octopia serve --record DIR record their events, and Spark reads them as a stream. At the end of
    each window, a block is printed and its tables are written to the --out folder; see docs/watching.md. After Ctrl-C,
    the next run resumes from there. With --once, the exit code is 1 if a notification was lost, repeated or unwanted.
    """
    from octopia.pipeline import SparkSettings, WatchOptions, open_session, review, stream_errors
    from octopia.pipeline import watch as start

    options = WatchOptions(window_s=window, wait_s=wait, late_after_s=late_after, settle_s=settle)
    places = [str(place) for place in folders]
    found: list[Window] = []

    def show(one: "Window") -> None:
        found.append(one)
        _show(one, late_after)

    with open_session(SparkSettings(master=master), classic="watch") as session:
        if once:
            with session.errors("watch"):
                review(session.spark, places, str(folder), options, on_window=show)
            sys.exit(EXIT_FOUND if any(one.lost or one.repeated or one.unwanted for one in found) else 0)
        query = start(session.spark, places, str(folder), options, on_window=show)
        try:
            with stream_errors("watch"), session.errors("watch"):
                while not query.awaitTermination(1):
                    if session.interrupts.settle():
                        raise KeyboardInterrupt
        finally:
            query.stop()


def _show(window: "Window", late_after_s: float | None) -> None:
    console = out()
    day, time = window.start.strftime("%Y-%m-%d"), window.start.strftime("%H:%M:%S")
    bad = window.lost or window.repeated or window.unwanted
    about = "" if window.share == 1 else f" ({window.share:.1%} recorded)"
    say(console, f"{day} {time} – {window.until:%H:%M:%S} UTC{about}", "bold")
    late = "" if late_after_s is None else f", {window.late:,} late"
    say(
        console,
        f"  {window.published:,} published, {window.delivered:,} delivered: {window.lost:,} lost, {window.repeated:,} "
        f"repeated, {window.unwanted:,} unwanted{late}; {window.dropped:,} dropped, {window.refused:,} refused",
        "red" if bad else "green",
    )
    if window.mean_s is not None and window.p99_s is not None:
        say(console, f"  delay: mean {window.mean_s * 1000:,.1f} ms, p99 {window.p99_s * 1000:,.1f} ms")
    if window.incomplete:
        say(console, f"  something may be missing: {window.incomplete}", "yellow")
    for link in window.links[:_SHOWN]:
        took = "nothing came" if link["mean_s"] is None else f"{link['mean_s'] * 1000:,.1f} ms"
        lost = f", {link['lost']:,} lost" if link["lost"] else ""
        say(console, f"  link {link['sender']} → {link['receiver']}: {took}, {link['messages']:,} copies{lost}", "dim")
    for one in window.subscriptions[:_SHOWN]:
        say(console, f"  subscription {one['subscription']} of {one['client']}: {one['deliveries']:,}", "dim")
