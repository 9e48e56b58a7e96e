"""`octopia status [FILE]`: what the brokers of a running overlay say of themselves.

Rules of this file: it asks every broker's `/healthz`, all at once, and shows the answers; a broker that does not answer
is shown as down. Exit code 1 where one is.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import out, print_json, say

if TYPE_CHECKING:
    from octopia.net import ServeConfig

ANSWER_S = 2.0


def status(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Overlay file; without one, that of octopia serve.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Show brokers, clients, links, Q_l and overload of a running overlay."""
    from octopia.net import default_config, load_config

    config = default_config() if file is None else load_config(file)
    answers = ask_all(config)
    if as_json:
        print_json(answers)
    else:
        _show(answers)
    if any(answer["status"] != "ok" for answer in answers):
        raise typer.Exit(1)


def ask_all(config: "ServeConfig") -> list[dict[str, Any]]:
    """The state of every broker, in the overlay's order."""
    return [
        {"broker": str(broker), "status": "down", "reason": answer, "links": []} if isinstance(answer, str) else answer
        for broker, answer in zip(config.scot.brokers, fetch_all(config, "/healthz"), strict=True)
    ]


def fetch_all(config: "ServeConfig", path: str) -> list[Any]:
    """What every broker answers, all asked at once; text, the reason, where one does not."""
    from concurrent.futures import ThreadPoolExecutor

    from octopia.errors import InputError

    if not config.http:
        raise InputError(f"{config.name} has no http_port in [brokers], which this command needs")
    with ThreadPoolExecutor(min(32, len(config.scot.brokers))) as pool:
        urls = [f"http://{config.http[broker]}{path}" for broker in config.scot.brokers]
        return list(pool.map(_fetch, urls, [config.http_token] * len(urls)))


def _fetch(url: str, token: str) -> Any:
    import json
    import urllib.error
    import urllib.request

    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  always http
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def _show(answers: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("broker", "status", "clients", "PRT", "SRT", "links up", "Q_l", "overloaded"):
        table.add_column(column, justify="left" if column in ("broker", "status", "overloaded") else "right")
    for answer in answers:
        links = answer["links"]
        table.add_row(
            answer["broker"],
            answer["status"],
            str(answer.get("clients", "")),
            str(answer.get("subscriptions", "")),
            str(answer.get("advertisements", "")),
            f"{sum(link['up'] for link in links)}/{len(links)}" if links else "",
            str(sum(link["queue"] for link in links)) if links else "",
            " ".join(link["neighbour"] for link in links if link["overloaded"]),
        )
    console = out()
    console.print(table)
    down = [answer["broker"] for answer in answers if answer["status"] == "down"]
    if down:
        say(console, f"No answer from {', '.join(down)}.")
