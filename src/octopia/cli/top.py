"""`octopia top [FILE|URL]`: a live view of a running overlay, refreshed every second.

It shows the figures of `octopia status` with rates, history and the latest events. It ends when interrupted, or after
`--count` updates.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.terminal import out
from octopia.cli.watch_options import HttpTokenOption, HttpUrlOption, OverlayArgument, wide

if TYPE_CHECKING:
    from rich.console import Group

    from octopia.watch import Watcher

SPARK_WIDTH = 30
SPARK_WIDTH_MIN = 8
# Width of a table without its history.
TABLE_WIDTH = 95
EVENTS_SHOWN = 6
# Idle brokers of a taller overlay are hidden.
ROWS_MAX = 40


def top(
    file: OverlayArgument = None,
    url: HttpUrlOption = None,
    every_s: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Seconds between updates.")
    ] = 1.0,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="Stop after N updates; 0: never.")] = 0,
    http_token: HttpTokenOption = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per update.")] = False,
) -> None:
    """Watch brokers, rates, queues and overload of a running overlay."""
    import asyncio

    from octopia.cli.watch_options import watched
    from octopia.watch import Watcher

    async def watch() -> None:
        watcher = Watcher(await watched(file, url, http_token), every_s)
        looks = 0
        show = _print_json if as_json else _Screen().show
        async for _ in watcher.views():
            show(watcher)
            looks += 1
            if count and looks >= count:
                return

    asyncio.run(watch())


def _print_json(watcher: "Watcher") -> None:
    import json
    import sys
    from dataclasses import asdict

    view = watcher.view
    assert view is not None  # noqa: S101  after a look
    brokers = [{**asdict(each), "broker": str(each.broker), "links": _links(each)} for each in view.brokers.values()]
    line = {"time_s": view.time_s, "totals": asdict(view.totals), "brokers": brokers}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _links(broker: Any) -> list[dict[str, Any]]:
    from dataclasses import asdict

    return [{**asdict(link), "sender": str(link.sender), "receiver": str(link.receiver)} for link in broker.links]


class _Screen:
    """The view: refreshed in place on a terminal, printed one after the other in a pipe."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = wide(out())
        self._live = Live(console=self._console, auto_refresh=False, screen=False)

    def show(self, watcher: "Watcher") -> None:
        if not self._console.is_terminal:
            self._console.print(self._drawn(watcher))
            return
        if not self._live.is_started:
            self._live.start()
        self._live.update(self._drawn(watcher), refresh=True)

    def _drawn(self, watcher: "Watcher") -> "Group":
        from dataclasses import replace

        from rich.console import Group
        from rich.text import Text

        from octopia.cli.overlay_tables import broker_table, event_lines, link_table, totals_line, troubled
        from octopia.cli.watch_options import FAINT, sparkline

        view, history = watcher.view, watcher.history
        assert view is not None  # noqa: S101  after a look

        width = max(SPARK_WIDTH_MIN, min(SPARK_WIDTH, self._console.width - TABLE_WIDTH))

        def bars(name: str) -> str:
            return sparkline(history.values(name, width), width)

        totals = totals_line(view.totals)
        for label, series in (("\nin ", "published"), ("  deliveries ", "delivered"), ("  Q_l ", "queue")):
            totals.append(label, FAINT).append(bars(series))
        brokers = view
        if len(view.brokers) > ROWS_MAX:
            worst = sorted(view.brokers.values(), key=lambda b: (b.status == "ok", -b.queue, -(b.published_rate or 0)))
            brokers = replace(view, brokers={each.broker: each for each in worst[:ROWS_MAX]})
        parts: list[Any] = [totals, broker_table(brokers, bars)]
        links = troubled(view)
        if links:
            parts += [Text(), link_table(links, bars)]
        events = event_lines(watcher.events, EVENTS_SHOWN)
        return Group(*parts, *([Text(), *events] if events else []))
