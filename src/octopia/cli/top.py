"""`octopia top [FILE]`: a live view of a running overlay, renewed every second.

Rules of this file: it shows what `octopia status` knows, and rates between two looks. It ends when interrupted, or
after `--count` looks.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import out

if TYPE_CHECKING:
    from rich.table import Table


def top(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Overlay file; without one, that of octopia serve.")
    ] = None,
    every_s: Annotated[float, typer.Option("--every", metavar="SECONDS", help="Time between two looks.")] = 1.0,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="End after so many looks; 0: never.")] = 0,
) -> None:
    """Watch brokers, rates, queues and overload of a running overlay."""
    from rich.live import Live

    from octopia.cli.status import ask_all
    from octopia.net import default_config, load_config

    config = default_config() if file is None else load_config(file, secrets=False)
    before: dict[str, dict[str, Any]] = {}
    looked_s = time.monotonic()
    with Live(console=out(), auto_refresh=False, screen=False) as live:
        looks = 0
        while True:
            answers = ask_all(config)
            now_s = time.monotonic()
            live.update(_table(answers, before, now_s - looked_s), refresh=True)
            before, looked_s = {answer["broker"]: answer for answer in answers}, now_s
            looks += 1
            if count and looks >= count:
                return
            time.sleep(every_s)


def _table(answers: list[dict[str, Any]], before: dict[str, dict[str, Any]], took_s: float) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("broker", "status", "clients", "in/s", "deliveries/s", "links/s", "Q_l", "overloaded"):
        table.add_column(column, justify="left" if column in ("broker", "status", "overloaded") else "right")
    for answer in answers:
        last = before.get(answer["broker"], {})
        links = answer["links"]
        sent = sum(link["sent"] for link in links)
        sent_before = sum(link["sent"] for link in last.get("links", []))
        table.add_row(
            answer["broker"],
            answer["status"],
            str(answer.get("clients", "")),
            _rate(answer, last, "published", took_s),
            _rate(answer, last, "deliveries", took_s),
            f"{max(sent - sent_before, 0) / took_s:,.0f}" if last else "",
            str(sum(link["queue"] for link in links)),
            " ".join(link["neighbour"] for link in links if link["overloaded"]),
        )
    return table


def _rate(answer: dict[str, Any], before: dict[str, Any], key: str, took_s: float) -> str:
    if key not in before or key not in answer:
        return ""
    return f"{max(answer[key] - before[key], 0) / took_s:,.0f}"
