"""Shared by the commands that show a running overlay: options to select it, and number formats."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from octopia.watch import Watched

OverlayArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE|URL]",
        help="Overlay file, or http://host:port of one broker; default: the overlay of octopia serve.",
    ),
]
HttpUrlOption = Annotated[
    str | None, typer.Option("--url", "-u", metavar="URL", help="HTTP address of one broker: http://host:port.")
]
OverlayOption = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="FILE|URL",
        help="Overlay file, or http://host:port of one broker; default: the overlay of octopia serve.",
    ),
]
HttpTokenOption = Annotated[
    str,
    typer.Option(
        "--http-token",
        metavar="TOKEN",
        envvar="OCTOPIA_HTTP_TOKEN",
        help="The brokers' http_token, unless the overlay file has it.",
    ),
]

# Colours that people with any colour vision can tell apart; the text says the same.
GOOD, BUSY, BAD, FAINT = "green", "yellow", "bold red", "dim"
_BARS = "▁▂▃▄▅▆▇█"
PIPE_COLUMNS = 200


async def watched(given: str | None, url: str | None, token: str) -> "Watched":
    """The overlay given by the argument or by --url, but not by both."""
    from octopia.errors import InputError
    from octopia.watch import find

    if given is not None and url is not None:
        raise InputError("give an overlay file or --url, not both")
    return await find(given or url, token)


def wide(console: Console) -> Console:
    """Widen the console in a pipe or a file, where there is room for whole tables."""
    if not console.is_terminal:
        console.width = max(console.width, PIPE_COLUMNS)
    return console


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest values as bars, scaled to the largest; a gap for an unknown value."""
    shown = list(values)[-width:]
    top = max((value for value in shown if value is not None), default=0.0)
    bars = (" " if v is None else _BARS[round(v / top * (len(_BARS) - 1))] if top else _BARS[0] for v in shown)
    return "".join(bars).rjust(width)


def rate(value: float | None) -> str:
    """A rate per second as text; empty if not known yet."""
    return "" if value is None else f"{value:,.0f}"


def size(count: float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def status_text(status: str, overloaded: str = "") -> Text:
    """A broker's state, coloured."""
    if status == "ok":
        return Text("overloaded", BUSY) if overloaded else Text("ok", GOOD)
    return Text(status, BUSY if status == "stopping" else BAD)
