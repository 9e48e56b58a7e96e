"""`octopia status [FILE]`: what the brokers of a running overlay say of themselves.

It asks every broker's `/healthz`, all at once, and shows the answers. A broker that does not answer is shown as down. A
port that answers for another broker or overlay is shown as wrong, with what is there instead. Either gives exit code 1.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.console import out, print_json, say

if TYPE_CHECKING:
    from octopia.net import ServeConfig
    from octopia.topology import BrokerId

ANSWER_S = 2.0


def status(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Overlay file; without one, that of octopia serve.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Show brokers, clients, links, Q_l and overload of a running overlay."""
    from octopia.net import default_config, load_config

    config = default_config() if file is None else load_config(file, secrets=False)
    answers = ask_all(config)
    if as_json:
        print_json(answers)
    else:
        _show(answers)
    if any(answer["status"] != "ok" for answer in answers):
        raise typer.Exit(1)


def ask_all(config: "ServeConfig") -> list[dict[str, Any]]:
    """The state of every broker, in the overlay's order."""
    found = zip(config.scot.brokers, fetch_all(config, "/healthz"), strict=True)
    return [_checked(config, broker, answer) for broker, answer in found]


def _checked(config: "ServeConfig", broker: "BrokerId", answer: Any) -> dict[str, Any]:
    """An answer, if it is this broker's; what is wrong otherwise."""
    if isinstance(answer, str):
        return {"broker": str(broker), "status": "down", "reason": answer, "links": []}
    at = config.http[broker]
    if not isinstance(answer, dict) or "broker" not in answer or not isinstance(answer.get("links"), list):
        reason = f"what answers at {at} is not a broker"
    elif answer.get("overlay") != config.digest:
        reason = f"{answer['broker']} of another overlay answers at {at}"
    elif answer["broker"] != str(broker):
        reason = f"{answer['broker']} answers at {at}"
    else:
        return answer
    return {"broker": str(broker), "status": "wrong", "reason": reason, "links": []}


def fetch_all(config: "ServeConfig", path: str) -> list[Any]:
    """What every broker answers, all asked at once; text, the reason, where one does not."""
    from concurrent.futures import ThreadPoolExecutor

    from octopia.errors import InputError

    if not config.http:
        raise InputError(f"{config.name} has no http_port in [brokers], which this command needs")
    with ThreadPoolExecutor(min(32, len(config.scot.brokers))) as pool:
        urls = [f"http://{config.http[broker]}{path}" for broker in config.scot.brokers]
        return list(pool.map(_fetch, urls, [config.http_bearer] * len(urls)))


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
    for answer in answers:
        if answer["status"] == "wrong":
            say(console, f"{answer['broker']}: {answer['reason']}; is this the overlay's file?")
