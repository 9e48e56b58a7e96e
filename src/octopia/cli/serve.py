"""`octopia serve [FILE]`: run brokers.

Once all brokers listen, standard output has one line per broker and, with `--console`, the address of the page. Logs go
to standard error, one JSON object per line.
"""

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.cli.terminal import out, say

# How long a console may take to stop before it is killed.
CONSOLE_END_S = 5.0

if TYPE_CHECKING:
    from collections.abc import Iterator

    from octopia.net import Server


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Overlay file (TOML); default: path:3 × 3 on loopback.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option("--broker", "-b", metavar="BROKER", help="Run only this broker, e.g. b,2.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", metavar="NAME", help="Run only the brokers placed on this machine.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Folder where a restart (SIGTERM) saves client sessions."),
    ] = None,
    no_state: Annotated[bool, typer.Option("--no-state", help="Save nothing: SIGTERM stops for good.")] = False,
    console: Annotated[
        bool, typer.Option("--console", help="Also start the web console and print its address.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="Record events in this folder, for octopia watch and plan."),
    ] = None,
    record_share: Annotated[
        float, typer.Option("--record-share", metavar="SHARE", help="Share of notifications to record.")
    ] = 1.0,
    record_max: Annotated[
        float,
        typer.Option(
            "--record-max", metavar="MIB", help="Maximum size of the recording; the oldest part is deleted first."
        ),
    ] = 1024,
    log_level: Annotated[
        str, typer.Option("--log", metavar="LEVEL", help="debug, info, warning or error.")
    ] = "warning",
) -> None:
    """Run the brokers of an overlay in this process, all of them or some.

    SIGTERM drains the brokers and saves client sessions, so the next start loses nothing; Ctrl-C stops for good.
    The file format is described in docs/reference/serving.md. Try octopia serve, and in other terminals octopia sub
    "price > 100" and octopia pub.
    """
    from octopia.errors import InputError
    from octopia.net import RecordOptions, default_config, load_config, log_to_stderr, run, state_directory

    if log_level not in ("debug", "info", "warning", "error"):
        raise InputError(f"unknown log level {log_level!r}; choose from debug, info, warning, error")
    if broker is not None and machine is not None:
        raise InputError("give --broker or --machine, not both")
    config = default_config() if file is None else load_config(file)
    brokers = config.brokers_of(broker=broker, machine=machine)
    if state is not None and no_state:
        raise InputError("give --state or --no-state, not both")
    saves = not no_state and (state is not None or config.saves)
    if console and not config.http:
        raise InputError(f"{config.name} has no http_port in [brokers], which the console needs")
    recorded = None if record is None else RecordOptions(record, record_share, round(record_max * 1024 * 1024))
    log_to_stderr(log_level)
    with ExitStack() as beside:

        def ready(server: "Server") -> None:
            _show(server, config.tls is not None)
            if console:
                beside.enter_context(_console_of(server, config.http_bearer))

        run(
            config,
            brokers,
            ready,
            state=(state or config.state or state_directory()) if saves else None,
            record=recorded,
        )


@contextmanager
def _console_of(server: "Server", http_token: str) -> "Iterator[None]":
    """The console as a separate process, which prints its address here and ends when this one does."""
    import os
    import subprocess
    import sys

    asked = next(server.http[id] for id in server.hosts if id in server.http)
    command = [sys.executable, "-m", "octopia", "console", f"http://{asked}"]
    child = subprocess.Popen(command, env={**os.environ, "OCTOPIA_HTTP_TOKEN": http_token})  # noqa: S603  ourselves
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(CONSOLE_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _show(server: "Server", tls: bool) -> None:
    console = out()
    for id, address in server.addresses.items():
        if id in server.hosts:
            http = f" http://{server.http[id]}" if id in server.http else ""
            say(console, f"{id} octopia{'s' if tls else ''}://{address}{http}")
    console.file.flush()
