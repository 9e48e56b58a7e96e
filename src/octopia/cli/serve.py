"""`octopia serve [FILE]`: run brokers.

Rules of this file: standard output has one line per broker, when all of them listen; logs go to standard error, one
JSON object per line.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.console import out, say

if TYPE_CHECKING:
    from octopia.net import Server


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Overlay file (TOML); without one, path:3 × 3 on loopback.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option("--broker", "-b", metavar="BROKER", help="Only this broker, e.g. b,2.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", metavar="NAME", help="Only the brokers placed on this machine.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Where a restart (SIGTERM) saves the sessions of clients."),
    ] = None,
    no_state: Annotated[bool, typer.Option("--no-state", help="Save nothing: SIGTERM stops for good.")] = False,
    log_level: Annotated[
        str, typer.Option("--log", metavar="LEVEL", help="debug, info, warning or error.")
    ] = "warning",
) -> None:
    """Run the brokers of an overlay, all in this process or some of them.

    SIGTERM drains and saves the sessions of clients, so that the next start loses nothing; Ctrl-C stops for good.
    The form of the file is in docs/reference/serving.md. Try: octopia serve, and in other terminals octopia sub
    "price > 100" and octopia pub.
    """
    from octopia.errors import InputError
    from octopia.net import default_config, load_config, log_to_stderr, run, state_directory

    if log_level not in ("debug", "info", "warning", "error"):
        raise InputError(f"unknown log level {log_level!r}; there are debug, info, warning and error")
    if broker is not None and machine is not None:
        raise InputError("give --broker or --machine, not both")
    config = default_config() if file is None else load_config(file)
    brokers = config.brokers_of(broker=broker, machine=machine)
    if state is not None and no_state:
        raise InputError("give --state or --no-state, not both")
    saves = not no_state and (state is not None or config.saves)
    log_to_stderr(log_level)
    run(
        config,
        brokers,
        lambda server: _show(server, config.tls is not None),
        state=(state or config.state or state_directory()) if saves else None,
    )


def _show(server: "Server", tls: bool) -> None:
    console = out()
    for id, address in server.addresses.items():
        if id in server.hosts:
            http = f" http://{server.http[id]}" if id in server.http else ""
            say(console, f"{id} octopia{'s' if tls else ''}://{address}{http}")
    console.file.flush()
