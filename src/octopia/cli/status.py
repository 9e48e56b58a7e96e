"""`octopia status [FILE|URL]`: the state of a running overlay, as reported by its brokers.

It asks all brokers at once and shows the answers. A broker that does not answer is shown as down. A port that answers
for another broker or overlay is shown as wrong, with the name it reports. Either one gives exit code 1.
"""

from typing import Annotated, Any

import typer

from octopia.cli.options import JsonOption
from octopia.cli.terminal import out, print_json, say
from octopia.cli.watch_options import HttpTokenOption, HttpUrlOption, OverlayArgument, wide


def status(
    file: OverlayArgument = None,
    url: HttpUrlOption = None,
    links: Annotated[bool, typer.Option("--links", help="Show all links, not only those with problems.")] = False,
    http_token: HttpTokenOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show brokers, clients, links, Q_l and overload of a running overlay."""
    import asyncio

    from octopia.cli.watch_options import watched
    from octopia.errors import OctopiaError
    from octopia.watch import Reader, overlay_view

    async def ask() -> dict[Any, Any]:
        return await Reader(await watched(file, url, http_token)).states()

    answers = asyncio.run(ask())
    view = overlay_view(0.0, answers, {})
    if as_json:
        print_json(
            [
                {"broker": str(id), "status": each.status, "reason": each.reason, "links": []}
                if isinstance(answers[id], OctopiaError)
                else answers[id]
                for id, each in view.brokers.items()
            ]
        )
    else:
        _show(view, links)
    if any(each.status != "ok" for each in view.brokers.values()):
        raise typer.Exit(1)


def _show(view: Any, all_links: bool) -> None:
    from octopia.cli.overlay_tables import broker_table, link_table, shared_line, totals_line, troubled

    console = wide(out())
    say(console, totals_line(view.totals))
    console.print(broker_table(view))
    if (shared := shared_line(view)) is not None:
        say(console, shared)
    shown = list(view.links()) if all_links else troubled(view)
    if shown:
        say(console)
        console.print(link_table(shown))
    down = [each for each in view.brokers.values() if each.status == "down"]
    if down:
        say(console, f"No answer from {', '.join(str(each.broker) for each in down)}: {down[0].reason}")
    for each in view.brokers.values():
        if each.status == "wrong":
            say(console, f"{each.broker}: {each.reason}; is this the overlay's file?")
